//! State witnesses, endorsements, and what blocks had of them.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec};

use super::{
    maker::{Maker, even, growing},
    shards::{Shard, risen},
};
use crate::core::ShardStats;

const UNAVAILABLE: &str = "chunk_unavailable";
const UNENDORSED: &str = "insufficient_endorsement";

#[derive(Debug)]
pub(super) struct ValidationMetrics {
    witness_size: HistogramVec,
    validation_time: HistogramVec,
    failed: IntCounterVec,
    endorsements: IntCounterVec,
    stake_ratio: HistogramVec,
    missing: HistogramVec,
    excluded: IntCounterVec,
}

impl ValidationMetrics {
    pub(super) fn new(make: &Maker) -> Self {
        let missing_bounds = [0.0, 1.0, 2.0, 3.0, 4.0].into_iter().chain(growing(5.0, 1.5, 10)).collect();
        Self {
            witness_size: make.histograms(
                (
                    "near_chunk_state_witness_total_size",
                    "Stateless validation compressed state witness size in bytes",
                ),
                growing(100_000.0, 1.2, 32),
                &["shard_id"],
            ),
            validation_time: make.histograms(
                ("near_chunk_state_witness_validation_time", "State witness validation latency in seconds"),
                growing(0.01, 2.0, 12),
                &["shard_id"],
            ),
            failed: make.counters(
                ("near_chunk_witness_validation_failed_total", "Witness validation failure count"),
                &["shard_id", "error"],
            ),
            endorsements: make.counters(
                (
                    "near_chunk_endorsements_accepted",
                    "Number of chunk endorsements which passed all validation checks and were included",
                ),
                &["shard_id"],
            ),
            stake_ratio: make.histograms(
                (
                    "near_block_producer_endorsed_stake_ratio",
                    "Ratio (the value is between 0.0 and 1.0) of the endorsed stake for the produced block",
                ),
                even(0.05, 20),
                &["shard_id"],
            ),
            missing: make.histograms(
                (
                    "near_block_producer_missing_endorsement_count",
                    "Number of validators from which the block producer has not received endorsements",
                ),
                missing_bounds,
                &["shard_id"],
            ),
            excluded: make.counters(
                (
                    "near_block_producer_excluded_chunks_count",
                    "Number of chunks excluded from the block due to insufficient chunk endorsements",
                ),
                &["shard_id", "reason"],
            ),
        }
    }

    /// What is rare is there from the first scrape on, at zero.
    pub(super) fn show_zeros(&self, shard: &Shard) {
        self.endorsements.with_label_values(&[&shard.id]).inc_by(0);
        for reason in [UNAVAILABLE, UNENDORSED] {
            self.excluded.with_label_values(&[shard.id.as_str(), reason]).inc_by(0);
        }
    }

    pub(super) fn witness_made(&self, shard: &Shard, bytes: u64) {
        self.witness_size.with_label_values(&[&shard.id]).observe(bytes as f64);
    }

    pub(super) fn validated(&self, shard: &Shard, time: Duration) {
        self.validation_time.with_label_values(&[&shard.id]).observe(time.as_secs_f64());
    }

    /// A block is made that could include the shard's chunk: stakes of who endorsed it and of all who may.
    pub(super) fn endorsed(&self, shard: &Shard, (endorsed, total): (u128, u128), missing: u64) {
        self.stake_ratio.with_label_values(&[&shard.id]).observe(endorsed as f64 / total as f64);
        self.missing.with_label_values(&[&shard.id]).observe(missing as f64);
    }

    pub(super) fn follow(&self, shard: &Shard, own: &ShardStats, last: &ShardStats) {
        let id = shard.id.as_str();
        self.endorsements.with_label_values(&[id]).inc_by(own.endorsements - last.endorsements);
        let excluded = [
            (UNAVAILABLE, own.excluded_unavailable - last.excluded_unavailable),
            (UNENDORSED, own.excluded_endorsement - last.excluded_endorsement),
        ];
        for (reason, more) in excluded {
            self.excluded.with_label_values(&[id, reason]).inc_by(more);
        }
        for (fault, more) in risen(&own.invalid_witnesses, &last.invalid_witnesses) {
            self.failed.with_label_values(&[id, fault]).inc_by(more);
        }
    }
}
