//! neard's metrics, with its names, types, labels and meanings. A registry of its own for each node.
//!
//! The core counts and the metrics follow it: when somebody scrapes, and in between now and then. Some are brought up
//! to date only every [`SUMMARY_EVERY`], as in neard.

mod chain;
mod host;
mod maker;
mod roles;
mod shards;
mod traffic;
mod validation;

#[cfg(test)]
mod tests;

use std::{sync::Mutex, time::Duration};

use prometheus::{Registry, TextEncoder};

use self::{
    chain::ChainMetrics,
    host::HostMetrics,
    maker::Maker,
    roles::RoleMetrics,
    shards::{Shard, ShardMetrics},
    traffic::TrafficMetrics,
    validation::ValidationMetrics,
};
pub(super) use self::{
    maker::add,
    traffic::{Call, Waiting},
};
use super::{lock::lock, reload::ConfigMetrics};
use crate::core::{Genesis, Node, Observation, Stats};

/// neard's `log_summary_period`, unless its configuration says otherwise.
pub(super) const SUMMARY_EVERY: Duration = Duration::from_secs(10);

/// All metrics of a node.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    shards: Vec<Shard>,
    chain: ChainMetrics,
    per_shard: ShardMetrics,
    validation: ValidationMetrics,
    roles: RoleMetrics,
    host: HostMetrics,
    traffic: TrafficMetrics,
    pub(super) config: ConfigMetrics,
    /// What the counters stand at.
    last: Mutex<Stats>,
}

impl Metrics {
    pub(super) fn new(genesis: &Genesis) -> Self {
        let make = Maker(Registry::new());
        let build = make.counters(
            (
                "near_build_info",
                "Metric whose labels indicate node’s version; see <https://www.robustperception.io/exposing-the-software-version-to-prometheus>.",
            ),
            &["release", "build", "rustc_version"],
        );
        build.with_label_values(&["embedded", env!("CARGO_PKG_VERSION"), ""]).inc();
        let shards = Shard::all(genesis);
        let metrics = Self {
            chain: ChainMetrics::new(&make),
            per_shard: ShardMetrics::new(&make, genesis),
            validation: ValidationMetrics::new(&make),
            roles: RoleMetrics::new(&make),
            host: HostMetrics::new(&make),
            traffic: TrafficMetrics::new(&make),
            config: ConfigMetrics::new(&make.0),
            last: Mutex::new(Stats::new(shards.len())),
            shards,
            registry: make.0,
        };
        for shard in &metrics.shards {
            metrics.per_shard.show_zeros(shard);
            metrics.validation.show_zeros(shard);
        }
        metrics
    }

    /// Takes what happened in the core.
    pub(super) fn observe(&self, observations: &[Observation]) {
        for own in observations {
            match *own {
                Observation::Rejected { shard, reason, count } => {
                    self.per_shard.rejected(&self.shards[shard], reason, count);
                }
                Observation::ChunkProduced { shard, time, witness_bytes } => {
                    self.per_shard.produced(&self.shards[shard], time);
                    self.validation.witness_made(&self.shards[shard], witness_bytes);
                }
                Observation::Applied { shard, reason, time } => {
                    self.per_shard.applied(&self.shards[shard], reason, time);
                }
                Observation::Validated { shard, time } => {
                    self.validation.validated(&self.shards[shard], time);
                }
                Observation::Endorsed { shard, endorsed, total, missing } => {
                    self.validation.endorsed(&self.shards[shard], (endorsed, total), missing);
                }
                Observation::BlockProcessed { time } => self.chain.block_processed(time),
            }
        }
    }

    /// Brings the metrics to what the core counts and to what waits for it.
    pub(super) fn follow(&self, stats: &Stats, waiting: Waiting) {
        self.traffic.waiting(waiting);
        let mut last = lock(&self.last);
        if *last == *stats {
            return;
        }
        self.chain.follow(stats, &last);
        let shards = self.shards.iter().zip(&stats.shards).zip(&last.shards);
        for ((shard, own), last) in shards.filter(|((_, own), last)| own != last) {
            self.per_shard.follow(shard, own, last);
            self.validation.follow(shard, own, last);
        }
        last.clone_from(stats);
    }

    /// Brings up to date what is so only every [`SUMMARY_EVERY`]. `now` is the time since some fixed moment.
    pub(super) fn summarize(&self, node: &Node, now: Duration) {
        self.roles.refresh(node, &self.shards);
        self.host.refresh(now);
    }

    /// Counts one message that came from a peer, by neard's name of its type.
    pub(super) fn message(&self, name: &str) {
        self.traffic.messages.with_label_values(&[name]).inc();
    }

    /// A connection ended by a panic. neard has no such number.
    pub(super) fn connection_panic(&self) {
        self.traffic.panics.inc();
    }

    /// Connections of all kinds.
    pub(super) fn set_connections(&self, connections: usize) {
        self.traffic.connections.set(connections.cast_signed() as i64);
    }

    /// Transactions that came for a shard which the node tracks and does not produce.
    pub(super) fn not_for_pool(&self, is_forwarded: bool) {
        let metric =
            if is_forwarded { &self.traffic.not_validator_forwarded } else { &self.traffic.not_validator };
        metric.inc();
    }

    /// Transactions for other nodes' pools that no node was there for.
    pub(super) fn not_forwarded(&self, count: u64) {
        self.traffic.dropped.with_label_values(&["ForwardTx", "NoRouteFound"]).inc_by(count);
    }

    /// A call of JSON-RPC was answered, perhaps by an error with this code.
    pub(super) fn answered(&self, call: &Call, time: Duration, error: Option<i64>) {
        self.traffic.answered(call, time, error);
    }

    /// The text of `/metrics`.
    pub(super) fn text(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}
