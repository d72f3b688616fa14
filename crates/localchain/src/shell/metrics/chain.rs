//! What the node's chain did, all shards together.

use std::time::Duration;

use prometheus::{Counter, Histogram, IntCounter, IntGauge};

use super::maker::{Maker, growing};
use crate::core::Stats;

/// neard's number of the stage in which blocks are fetched; 0 is no sync (chain/client-primitives/src/types.rs).
const BLOCK_SYNC: i64 = 7;

#[derive(Debug)]
pub(super) struct ChainMetrics {
    block_height_head: IntGauge,
    final_block_height: IntGauge,
    sync_status: IntGauge,
    blocks_processed: IntCounter,
    chunks_processed: IntCounter,
    gas_used: Counter,
    block_produced: IntCounter,
    chunk_produced: IntCounter,
    processed: IntCounter,
    converted: IntCounter,
    failed: IntCounter,
    received_validator: IntGauge,
    block_processing_time: Histogram,
}

impl ChainMetrics {
    pub(super) fn new(make: &Maker) -> Self {
        Self {
            block_height_head: make
                .gauge(("near_block_height_head", "Height of the current head of the blockchain")),
            final_block_height: make
                .gauge(("near_final_block_height", "Last block that has full BFT finality")),
            sync_status: make.gauge(("near_sync_status", "Node sync status")),
            blocks_processed: make.counter(("near_blocks_processed", "Number of processed blocks")),
            chunks_processed: make.counter(("near_chunks_processed", "Number of processed chunks")),
            gas_used: make
                .float_counter(("near_gas_used", "Gas used by processed blocks, measured in gas")),
            block_produced: make.counter((
                "near_block_produced_total",
                "Total number of blocks produced since starting this node",
            )),
            chunk_produced: make.counter((
                "near_chunk_produced_total",
                "Total number of chunks produced since starting this node",
            )),
            processed: make.counter((
                "near_transaction_processed_total",
                "The number of transactions processed since starting this node",
            )),
            converted: make.counter((
                "near_transaction_processed_successfully_total",
                "The number of transactions processed successfully since starting this node",
            )),
            failed: make.counter((
                "near_transaction_processed_failed_total",
                "The number of transactions processed and failed since starting this node",
            )),
            received_validator: make
                .gauge(("near_transaction_received_validator", "Validator received a transaction")),
            block_processing_time: make.histogram(
                (
                    "near_block_processing_time",
                    "Time taken to process blocks successfully, from when a block is ready to be processed till \
                     when the processing is finished. Measures only the time taken by the successful attempts of \
                     block processing",
                ),
                growing(0.001, 1.6, 20),
            ),
        }
    }

    pub(super) fn block_processed(&self, time: Duration) {
        self.block_processing_time.observe(time.as_secs_f64());
    }

    pub(super) fn follow(&self, stats: &Stats, last: &Stats) {
        self.block_height_head.set(stats.head_height.cast_signed());
        self.final_block_height.set(stats.final_height.cast_signed());
        self.sync_status.set(if stats.is_syncing { BLOCK_SYNC } else { 0 });
        self.blocks_processed.inc_by(stats.blocks - last.blocks);
        self.chunks_processed.inc_by(stats.chunks - last.chunks);
        self.gas_used.inc_by((stats.gas_used - last.gas_used) as f64);
        self.block_produced.inc_by(stats.blocks_made - last.blocks_made);
        self.chunk_produced.inc_by(stats.chunks_made - last.chunks_made);
        self.processed.inc_by(stats.transactions - last.transactions);
        self.converted.inc_by(stats.converted - last.converted);
        let failed = |stats: &Stats| stats.transactions - stats.converted;
        self.failed.inc_by(failed(stats) - failed(last));
        self.received_validator.set(stats.received.cast_signed());
    }
}
