//! neard's metrics, with its names, types and labels. A registry of its own for each node.

use std::{collections::BTreeMap, sync::Mutex};

use prometheus::{
    Counter, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use super::reload::ConfigMetrics;
use crate::core::{Genesis, Observation, Stats};

/// Buckets of neard's histogram of rejected transactions.
const REJECTED_BUCKETS: [f64; 6] = [0.99999, 9.9999, 99.999, 999.99, 9999.9, 99999.0];

/// All metrics of a node.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    shard_ids: Vec<String>,
    shard_uids: Vec<String>,
    block_height_head: IntGauge,
    final_block_height: IntGauge,
    gas_used: Counter,
    block_produced: IntCounter,
    processed: IntCounter,
    converted: IntCounter,
    sync_status: IntGauge,
    invalid_witnesses: IntCounter,
    pub(super) received_validator: IntGauge,
    pub(super) peer_connections: IntGauge,
    pub(super) messages: IntCounterVec,
    pub(super) config: ConfigMetrics,
    shards: PerShard,
    /// What the counters stand at: the core counts, this follows.
    last: Mutex<Stats>,
}

/// Registers a metric. Names are constants that were tested together, so this cannot fail.
pub(super) fn add<T: prometheus::core::Collector + Clone + 'static>(
    registry: &Registry,
    made: prometheus::Result<T>,
) -> T {
    let metric = made.expect("metric names are valid");
    registry.register(Box::new(metric.clone())).expect("metric names differ");
    metric
}

/// Makes metrics and registers them.
struct Maker(Registry);

impl Maker {
    fn gauge(&self, name: &str, help: &str) -> IntGauge {
        add(&self.0, IntGauge::new(name, help))
    }

    fn gauges(&self, name: &str, help: &str) -> IntGaugeVec {
        add(&self.0, IntGaugeVec::new(Opts::new(name, help), &["shard_id"]))
    }

    fn counter(&self, name: &str, help: &str) -> IntCounter {
        add(&self.0, IntCounter::new(name, help))
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        add(&self.0, IntCounterVec::new(Opts::new(name, help), labels))
    }
}

/// What is counted for each shard.
#[derive(Debug)]
struct PerShard {
    chunk_skipped: IntCounterVec,
    chunk_transactions: IntCounterVec,
    excluded: IntCounterVec,
    limited_by: IntCounterVec,
    pool_entries: IntGaugeVec,
    pool_size: IntGaugeVec,
    rejected: HistogramVec,
    delayed: IntGaugeVec,
}

impl PerShard {
    fn new(make: &Maker) -> Self {
        let rejected = HistogramOpts::new(
            "near_prepare_tx_rejected",
            "The number of transactions rejected when producing a chunk.",
        );
        let rejected =
            HistogramVec::new(rejected.buckets(REJECTED_BUCKETS.to_vec()), &["shard_id", "reason"]);
        Self {
            chunk_skipped: make.counters(
                "near_chunk_skipped_total",
                "Number of skipped chunks",
                &["shard_id"],
            ),
            chunk_transactions: make.counters(
                "near_chunk_transactions_total",
                "Total number of transactions included in chunks produced by this node",
                &["shard_id"],
            ),
            excluded: make.counters(
                "near_block_producer_excluded_chunks_count",
                "Number of chunks excluded from the block due to insufficient chunk endorsements",
                &["shard_id", "reason"],
            ),
            limited_by: make.counters(
                "near_produce_chunk_transactions_limited_by",
                "Records what limited the number of transaction included in chunks produced by this node",
                &["shard_id", "limited_by"],
            ),
            pool_entries: make.gauges(
                "near_transaction_pool_entries",
                "Total number of transactions currently tracked by the node in a given shard pool",
            ),
            pool_size: make.gauges(
                "near_transaction_pool_size",
                "Total size in bytes of transactions currently tracked by the node in a given shard pool",
            ),
            rejected: add(&make.0, rejected),
            delayed: make.gauges(
                "near_delayed_receipts_count",
                "The count of the delayed receipts. Indicator of congestion.",
            ),
        }
    }
}

impl Metrics {
    pub(super) fn new(genesis: &Genesis) -> Self {
        let make = Maker(Registry::new());
        let build = make.counters(
            "near_build_info",
            "Metric whose labels indicate node’s version; see <https://www.robustperception.io/exposing-the-software-version-to-prometheus>.",
            &["release", "build", "rustc_version"],
        );
        build.with_label_values(&["embedded", env!("CARGO_PKG_VERSION"), ""]).inc();
        let ids = genesis.layout.shard_ids();
        let version = genesis.layout.version();
        let gas_used = Counter::new("near_gas_used", "Gas used by processed blocks, measured in gas");
        let metrics = Self {
            shard_ids: ids.iter().map(ToString::to_string).collect(),
            shard_uids: ids.iter().map(|id| format!("s{id}.v{version}")).collect(),
            block_height_head: make
                .gauge("near_block_height_head", "Height of the current head of the blockchain"),
            final_block_height: make
                .gauge("near_final_block_height", "Last block that has full BFT finality"),
            gas_used: add(&make.0, gas_used),
            block_produced: make.counter(
                "near_block_produced_total",
                "Total number of blocks produced since starting this node",
            ),
            processed: make.counter(
                "near_transaction_processed_total",
                "The number of transactions processed since starting this node",
            ),
            converted: make.counter(
                "near_transaction_processed_successfully_total",
                "The number of transactions processed successfully since starting this node",
            ),
            sync_status: make.gauge("near_sync_status", "Node sync status"),
            invalid_witnesses: make
                .counter("near_chunk_witness_validation_failed_total", "Witnesses validation failure count"),
            received_validator: make
                .gauge("near_transaction_received_validator", "Validator received a transaction"),
            peer_connections: make.gauge("near_peer_connections_total", "Number of connected peers"),
            messages: make.counters(
                "near_peer_message_received_by_type_total",
                "Number of messages received from peers by message types",
                &["type"],
            ),
            config: ConfigMetrics::new(&make.0),
            shards: PerShard::new(&make),
            last: Mutex::new(Stats::default()),
            registry: make.0,
        };
        metrics.show_zeros();
        metrics
    }

    /// Every shard is there from the first scrape on, at zero.
    fn show_zeros(&self) {
        for id in &self.shard_ids {
            self.shards.chunk_skipped.with_label_values(&[id]).inc_by(0);
        }
    }

    /// Brings the metrics to what the core counts.
    pub(super) fn follow(&self, stats: &Stats, observations: &[Observation]) {
        for own in observations {
            let labels = [self.shard_ids[own.shard].as_str(), own.reason];
            self.shards.rejected.with_label_values(&labels).observe(own.rejected as f64);
        }
        let Ok(mut last) = self.last.lock() else { return };
        if *last == *stats {
            return;
        }
        self.block_height_head.set(stats.head_height.cast_signed());
        self.final_block_height.set(stats.final_height.cast_signed());
        self.gas_used.inc_by((stats.gas_used - last.gas_used) as f64);
        self.block_produced.inc_by(stats.blocks_made - last.blocks_made);
        self.processed.inc_by(stats.transactions - last.transactions);
        self.converted.inc_by(stats.converted - last.converted);
        self.invalid_witnesses.inc_by(stats.invalid_witnesses - last.invalid_witnesses);
        // neard: 0 is no sync, others name its stage.
        self.sync_status.set(i64::from(stats.is_syncing));
        last.shards.resize_with(stats.shards.len(), Default::default);
        for (shard, (own, last)) in stats.shards.iter().zip(&last.shards).enumerate() {
            let (id, uid) = (self.shard_ids[shard].as_str(), self.shard_uids[shard].as_str());
            self.shards.chunk_skipped.with_label_values(&[id]).inc_by(own.skipped - last.skipped);
            let excluded = [
                ("chunk_unavailable", own.excluded_unavailable - last.excluded_unavailable),
                ("insufficient_endorsement", own.excluded_endorsement - last.excluded_endorsement),
            ];
            for (reason, more) in excluded.into_iter().filter(|(_, more)| *more > 0) {
                self.shards.excluded.with_label_values(&[id, reason]).inc_by(more);
            }
            self.follow_limits(id, &own.limited_by, &last.limited_by);
            if let Some(entries) = own.pool_entries {
                self.shards.pool_entries.with_label_values(&[uid]).set(entries.cast_signed());
                self.shards.pool_size.with_label_values(&[uid]).set(own.pool_bytes.cast_signed());
                let more = own.chunk_transactions - last.chunk_transactions;
                self.shards.chunk_transactions.with_label_values(&[id]).inc_by(more);
            }
            if let Some(delayed) = own.delayed {
                self.shards.delayed.with_label_values(&[id]).set(delayed.cast_signed());
            }
        }
        *last = stats.clone();
    }

    fn follow_limits(&self, id: &str, own: &BTreeMap<&'static str, u64>, last: &BTreeMap<&'static str, u64>) {
        for (limited_by, count) in own {
            let more = count - last.get(limited_by).unwrap_or(&0);
            self.shards.limited_by.with_label_values(&[id, limited_by]).inc_by(more);
        }
    }

    /// The text of `/metrics`.
    pub(super) fn text(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}
