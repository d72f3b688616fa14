//! What the injector is asked for and what it reports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Millis, ShardId, Tps};

/// One stretch of load at one rate on every shard. Open loop: transfer k of a shard is due k / rate after the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadOrder {
    /// The trial that this load belongs to.
    pub trial: u32,
    /// Rate on each shard.
    pub rate_per_shard: Tps,
    /// How long.
    pub duration_ms: Millis,
    /// When it starts, nanoseconds since the Unix epoch. An order in the past is refused.
    pub start_unix_ns: u64,
}

/// Why an intended transfer was not sent. "Ours" makes a trial invalid above a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnsentCause {
    /// The injector was late by more than the catch-up bound: its generator, or the writer of a connection that was not
    /// waiting for the node. Ours.
    GeneratorLate,
    /// The node did not read its socket: the bounded queue towards it was full, or did not empty after the load's end,
    /// and writes had waited for the node for more than half of the last catch-up bound. The node's.
    BackPressure,
    /// There was no connection to the producer. Ours: nothing says whose fault that was, and a node that crashed is seen
    /// by its exit.
    NotConnected,
    /// No recent block hash could be had from any producer. Ours.
    NoBlockHash,
    /// The load was stopped before this transfer could be sent (Ctrl-C, a node's end, no nonces left). Ours.
    Stopped,
}

impl UnsentCause {
    /// Whether the cause lies with the tool and not with the network under test.
    pub fn is_ours(self) -> bool {
        !matches!(self, Self::BackPressure)
    }
}

/// Quantiles of a duration in milliseconds, with the number of observations behind them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct QuantilesMs {
    /// Observations.
    pub count: u64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// One shard's part of an [`InjectReport`]. `intended = sent + sum(unsent)` always holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardInject {
    /// The shard of the senders.
    pub shard: ShardId,
    /// Transfers that fell due by the schedule.
    pub intended: u64,
    /// Transfers whose last byte was handed to the operating system.
    pub sent: u64,
    /// Transfers that were not sent, by cause.
    pub unsent: BTreeMap<UnsentCause, u64>,
    /// Transfers that the node said it took; none where the path gives no answer (peer-to-peer).
    pub accepted: Option<u64>,
    /// Of the sent, how many by the receiver's shard.
    pub sent_to: BTreeMap<ShardId, u64>,
    /// Of the sent, how many were on a connection that broke before the node can have read them for certain.
    pub on_broken_connection: u64,
    /// Times the connection had to be made again.
    pub reconnects: u32,
    /// Time from the intended send to when the transfer's batch began to be written to the connection, less the time for
    /// which writes waited for the node meanwhile: our own lag. Of all transfers whose batch began to be written.
    pub send_lag_ms: QuantilesMs,
}

/// What the injector did with a [`LoadOrder`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InjectReport {
    /// The trial of the order.
    pub trial: u32,
    /// When the load began, nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// When the last transfer was handed over.
    pub ended_unix_ns: u64,
    /// By shard, in the plan's order.
    pub shards: Vec<ShardInject>,
    /// Send lag over all shards.
    pub send_lag_ms: QuantilesMs,
    /// Whether wall and monotonic clock moved apart by more than the invalid threshold during the load.
    pub clock_stepped: bool,
    /// SHA-256 (hex) over what was handed over to the connections' writers, by shard and producer: senders, receivers and
    /// nonces, without what only the running chain decides (block hashes, the base of the nonces). Equal for equal
    /// seeds and orders while nothing is unsent; a transfer that could not be handed over is missing from it.
    pub stream_fingerprint: String,
}

/// Live counts while load runs, since its start, over all shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InjectTick {
    /// Fell due so far.
    pub intended: u64,
    /// Sent so far.
    pub sent: u64,
    /// Not sent so far, all causes.
    pub unsent: u64,
}
