//! What happens in each shard: pools, chunks, queues, how long they take.

use std::{collections::BTreeMap, time::Duration};

use prometheus::{GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec};

use super::maker::{Maker, growing};
use crate::core::{ApplyReason, Genesis, Queue, ShardStats};

/// Gas of waiting receipts at which a shard is fully congested (parameters.snap: max_congestion_incoming_gas).
const CONGESTED_GAS: u64 = 400_000_000_000_000_000;
/// The same where neard lifts its limits.
const CONGESTED_GAS_UNLIMITED: u64 = u64::MAX;

/// A shard's names in labels.
#[derive(Debug)]
pub(super) struct Shard {
    /// `shard_id` of most metrics.
    pub(super) id: String,
    /// `shard_id` of the pools' metrics.
    pub(super) uid: String,
}

impl Shard {
    pub(super) fn all(genesis: &Genesis) -> Vec<Self> {
        let version = genesis.layout.version();
        let shard = |id: &u64| Self { id: id.to_string(), uid: format!("s{id}.v{version}") };
        genesis.layout.shard_ids().iter().map(shard).collect()
    }
}

#[derive(Debug)]
pub(super) struct ShardMetrics {
    chunk_skipped: IntCounterVec,
    chunk_transactions: IntCounterVec,
    limited_by: IntCounterVec,
    rejected: HistogramVec,
    pool_entries: IntGaugeVec,
    pool_size: IntGaugeVec,
    delayed: IntGaugeVec,
    congestion: GaugeVec,
    applying_time: HistogramVec,
    produce_time: HistogramVec,
    congested_gas: u64,
}

impl ShardMetrics {
    pub(super) fn new(make: &Maker, genesis: &Genesis) -> Self {
        Self {
            chunk_skipped: make
                .counters(("near_chunk_skipped_total", "Number of skipped chunks"), &["shard_id"]),
            chunk_transactions: make.counters(
                (
                    "near_chunk_transactions_total",
                    "Total number of transactions included in chunks produced by this node",
                ),
                &["shard_id"],
            ),
            limited_by: make.counters(
                (
                    "near_produce_chunk_transactions_limited_by",
                    "Records what limited the number of transaction included in chunks produced by this node",
                ),
                &["shard_id", "limited_by"],
            ),
            rejected: make.histograms(
                ("near_prepare_tx_rejected", "The number of transactions rejected when producing a chunk."),
                vec![0.99999, 9.9999, 99.999, 999.99, 9999.9, 99999.0],
                &["shard_id", "reason"],
            ),
            pool_entries: make.gauges(
                (
                    "near_transaction_pool_entries",
                    "Total number of transactions currently tracked by the node in a given shard pool",
                ),
                "shard_id",
            ),
            pool_size: make.gauges(
                (
                    "near_transaction_pool_size",
                    "Total size in bytes of transactions currently tracked by the node in a given shard pool",
                ),
                "shard_id",
            ),
            delayed: make.gauges(
                (
                    "near_delayed_receipts_count",
                    "The count of the delayed receipts. Indicator of congestion.",
                ),
                "shard_id",
            ),
            congestion: make.float_gauges(
                ("near_congestion_level", "Summary of congestion per shard, between 0.0 and 1.0."),
                "shard_id",
            ),
            applying_time: make.histograms(
                ("near_applying_chunks_time", "Time taken to apply chunks per shard"),
                growing(0.001, 1.6, 20),
                &["apply_reason", "shard_id"],
            ),
            produce_time: make.histograms(
                ("near_produce_chunk_time", "Time taken to produce a chunk"),
                growing(0.001, 2.0, 16),
                &["shard_id"],
            ),
            congested_gas: if genesis.is_unlimited() { CONGESTED_GAS_UNLIMITED } else { CONGESTED_GAS },
        }
    }

    /// Missed chunks are there from the first scrape on, at zero.
    pub(super) fn show_zeros(&self, shard: &Shard) {
        self.chunk_skipped.with_label_values(&[&shard.id]).inc_by(0);
    }

    pub(super) fn rejected(&self, shard: &Shard, reason: &str, count: u64) {
        self.rejected.with_label_values(&[shard.id.as_str(), reason]).observe(count as f64);
    }

    pub(super) fn produced(&self, shard: &Shard, time: Duration) {
        self.produce_time.with_label_values(&[&shard.id]).observe(time.as_secs_f64());
    }

    pub(super) fn applied(&self, shard: &Shard, reason: ApplyReason, time: Duration) {
        let reason = match reason {
            ApplyReason::UpdateShard => "update_shard",
            ApplyReason::ValidateChunk => "validate_chunk",
        };
        self.applying_time.with_label_values(&[reason, shard.id.as_str()]).observe(time.as_secs_f64());
    }

    pub(super) fn follow(&self, shard: &Shard, own: &ShardStats, last: &ShardStats) {
        let (id, uid) = ([shard.id.as_str()], [shard.uid.as_str()]);
        self.chunk_skipped.with_label_values(&id).inc_by(own.skipped - last.skipped);
        for (limited_by, more) in risen(&own.limited_by, &last.limited_by) {
            self.limited_by.with_label_values(&[shard.id.as_str(), limited_by]).inc_by(more);
        }
        if let Some(entries) = own.pool_entries {
            self.pool_entries.with_label_values(&uid).set(entries.cast_signed());
            self.pool_size.with_label_values(&uid).set(own.pool_bytes.cast_signed());
            let more = own.chunk_transactions - last.chunk_transactions;
            self.chunk_transactions.with_label_values(&id).inc_by(more);
        }
        if let Some(queue) = own.queue {
            self.delayed.with_label_values(&id).set(queue.receipts.cast_signed());
            self.congestion.with_label_values(&id).set(self.congestion_level(queue));
        }
    }

    /// The highest of neard's local indicators. Nothing is buffered for other shards here, and a waiting transfer fills
    /// its share of the gas sooner than its share of the memory.
    pub(super) fn congestion_level(&self, queue: Queue) -> f64 {
        (queue.gas as f64 / self.congested_gas as f64).clamp(0.0, 1.0)
    }
}

/// What was counted more than before.
pub(super) fn risen<'a>(
    own: &'a BTreeMap<&'static str, u64>,
    last: &'a BTreeMap<&'static str, u64>,
) -> impl Iterator<Item = (&'static str, u64)> + 'a {
    own.iter().map(|(name, count)| (*name, count - last.get(name).unwrap_or(&0)))
}
