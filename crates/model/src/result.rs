//! `run.json`: what a run found. Schema `tpsctl.run/1`; fields are added, never changed in meaning.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    ShardId,
    load::{QuantilesMs, UnsentCause},
    observation::LostCause,
    plan::Goal,
    verdict::Verdict,
};

/// The value of [`RunResult::schema`] that this version writes.
pub const RUN_SCHEMA: &str = "tpsctl.run/1";

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`RUN_SCHEMA`].
    pub schema: String,
    /// The run's id, also its folder below `runs/`.
    pub run_id: String,
    /// When the run began and ended, RFC 3339.
    pub started_at: String,
    /// When the run ended.
    pub ended_at: String,
    /// The resolved scenario.
    pub scenario: serde_json::Value,
    /// The seed.
    pub seed: u64,
    /// The provider's name.
    pub provider: String,
    /// The node software.
    pub node: NodeInfo,
    /// Where the injector ran.
    pub host: HostInfo,
    /// The goal that every verdict is against.
    pub goal: Goal,
    /// How the run ended.
    pub outcome: Outcome,
    /// The limit found; none where no interval was closed.
    pub knee: Option<Knee>,
    /// What the search knows of the limit, also where no interval was closed; none where no rate was judged.
    pub bounds: Option<Bounds>,
    /// What stopped the network.
    pub limited_by: LimitedBy,
    /// Every trial, in order.
    pub trials: Vec<TrialRecord>,
    /// Whether the accounts of all trials add up.
    pub accounting: Accounting,
    /// SHA-256 fingerprints of what the seed determines.
    pub fingerprints: Fingerprints,
    /// Processes that teardown could not end: 0 unless something is wrong.
    pub processes_left: u32,
    /// What one should know before trusting the numbers.
    pub warnings: Vec<String>,
}

/// The node software.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// `embedded` or the path of a `neard`.
    pub binary: String,
    /// What the node says of itself.
    pub version: String,
    /// Whether this is the embedded node, so not a measurement of neard.
    pub embedded: bool,
}

/// Where the injector (and local nodes) ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInfo {
    /// Processors that this process may use.
    pub cores: u32,
    /// Memory in bytes; 0 if unknown.
    pub memory_bytes: u64,
}

/// How the run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Outcome {
    /// The search closed its interval.
    Done,
    /// The idle network missed the goal.
    GoalNotMet {
        /// In one line.
        why: String,
    },
    /// The search ended without an interval.
    Inconclusive {
        /// In one line.
        why: String,
    },
    /// Our side failed, or the accounts do not add up.
    Invalid {
        /// In one line.
        why: String,
    },
    /// The provider or a node failed.
    ProviderFailed {
        /// In one line.
        why: String,
    },
    /// Ctrl-C.
    Interrupted,
}

/// The limit as an interval: the lower end passed, the upper end failed, each as often as the scenario asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Highest rate per shard that passed.
    pub per_shard_low: u64,
    /// Lowest rate per shard that failed; none when the search's own bound passed.
    pub per_shard_high: Option<u64>,
    /// The same over all shards.
    pub total_low: u64,
    /// The same over all shards.
    pub total_high: Option<u64>,
    /// Always `transfers/s`.
    pub unit: String,
}

/// What the search knows of the limit so far: not as sure as a [`Knee`], since one verdict may be all there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Rate per shard that passed, the highest below the upper bound.
    pub per_shard_low: Option<u64>,
    /// Lowest rate per shard that failed and was not overruled.
    pub per_shard_high: Option<u64>,
}

/// What stopped the network: a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// Chunk slots without a chunk.
    MissedChunks,
    /// Slow blocks.
    BlockTime,
    /// Not settled in time.
    Backlog,
    /// A node exited by itself.
    NodeCrashed,
    /// Our own generator.
    Generator,
    /// The search's own upper bound passed.
    BoundReached,
    /// Nothing was found.
    None,
}

/// One trial in `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Its number, from 0 (the idle trial).
    pub trial: u32,
    /// The configured rate on each shard.
    pub rate_per_shard: u64,
    /// Why the search asked for it.
    pub why: String,
    /// `pass`, `fail` or `invalid`, with criteria or causes.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The verdict's causes in one line; empty for a pass.
    pub cause: String,
    /// Counts over all shards.
    #[serde(flatten)]
    pub counts: TrialCounts,
    /// Block times in the window.
    pub block_time_ms: QuantilesMs,
    /// The generator's own lag.
    pub send_lag_ms: QuantilesMs,
    /// By shard.
    pub shards: Vec<ShardRecord>,
    /// Heights skipped in the window.
    pub skipped_heights: u64,
    /// How long the load ran, seconds.
    pub load_seconds: f64,
    /// How long after the load until the network was idle, seconds.
    pub drain_seconds: f64,
}

/// The counts of a trial. `intended = sent + sum(unsent)`, `sent = included + pending + sum(lost) + difference`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TrialCounts {
    /// Fell due by the schedule, warm-up included.
    pub intended: u64,
    /// Handed to the operating system.
    pub sent: u64,
    /// Not sent, by cause.
    pub unsent: BTreeMap<UnsentCause, u64>,
    /// Null where the path gives no answer.
    pub accepted: Option<u64>,
    /// Settled transfers by the end of the drain, from the gas in final blocks.
    pub included: u64,
    /// Settled transfers in the measured window.
    pub settled: u64,
    /// Settled transfers when the drain's deadline came (or the network was idle before it): what the backlog
    /// criterion compares with the sent. `included` goes on to the proof of idleness, however long that took.
    pub settled_by_drain_end: u64,
    /// In pools and queues at the end.
    pub pending: u64,
    /// Sent and never to be included, by cause, from evidence apart from the blocks.
    pub lost: BTreeMap<LostCause, u64>,
    /// What the accounts do not explain; 0 when they close. Where errors of several shards cancel in the sum, or the
    /// injector's own books do not balance, this is the larger, absolute sum over the shards. On a network that was not
    /// proven idle it also holds what was still under way.
    pub difference: i64,
    /// Slots without a chunk in the window, skipped heights included.
    pub missed_chunk_slots: u64,
    /// Heights times shards in the window.
    pub chunk_slots: u64,
}

/// One shard of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// Which.
    pub shard: ShardId,
    /// Fell due.
    pub intended: u64,
    /// Sent.
    pub sent: u64,
    /// Not sent, by cause.
    pub unsent: BTreeMap<UnsentCause, u64>,
    /// Settled by the end of the drain. Null where cross-shard load and losses leave it open which were lost.
    pub included: Option<u64>,
    /// Settled in the window (gas of this shard over the gas of a transfer).
    pub settled: u64,
    /// Slots without a chunk in the window.
    pub missed_chunk_slots: u64,
    /// Slots in the window.
    pub chunk_slots: u64,
}

/// Whether the accounts of all trials add up, as far as they could be judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounting {
    /// No trial has a difference that nothing explains. Says nothing of what is in [`Accounting::not_judged`].
    pub closed: bool,
    /// Sum of the absolute differences that nothing explains.
    pub difference: u64,
    /// The trials whose accounts, or a part of them, cannot be judged.
    #[serde(default)]
    pub not_judged: Vec<NotJudged>,
}

/// Transfers of one trial of which nobody can say what became of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotJudged {
    /// Which trial.
    pub trial: u32,
    /// sent - included - pending - lost, as far as nothing else accounts for it.
    pub transfers: i64,
    /// Why they cannot be judged, in one line.
    pub why: String,
}

/// What the seed determines, as SHA-256 in hex.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fingerprints {
    /// `genesis.json`.
    pub genesis: String,
    /// The public keys of all accounts and nodes.
    pub keys: String,
    /// The first transactions of every shard's stream (senders, receivers, nonces, keys), without the block hash.
    pub stream: String,
}
