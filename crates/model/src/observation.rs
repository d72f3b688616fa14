//! What was seen of the network during a trial. Facts from blocks count; metrics explain.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{NodeName, ShardId};

/// One shard's entry in a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkFact {
    /// The shard.
    pub shard: ShardId,
    /// Whether the block includes a new chunk (`chunk_mask`).
    pub included: bool,
    /// Gas that the shard's *previous* chunk used, as the chunk's header says. Counts only where `included`.
    pub gas_used: u64,
}

/// One block of the canonical chain, final unless said otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockFact {
    /// Height.
    pub height: u64,
    /// Height of the block before; a difference over one is a skipped height.
    pub prev_height: u64,
    /// Hash, base58.
    pub hash: String,
    /// `timestamp_nanosec` of the header.
    pub timestamp_unix_ns: u64,
    /// The block producer.
    pub author: String,
    /// By shard index.
    pub chunks: Vec<ChunkFact>,
}

/// A stretch of time in which a source could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// What could not be read: `blocks`, or a node's name for its metrics.
    pub source: String,
    /// Start, nanoseconds since the Unix epoch.
    pub from_unix_ns: u64,
    /// End.
    pub to_unix_ns: u64,
    /// The last error.
    pub cause: String,
}

/// One scrape of a node's metrics. Keys are `name{label="value"}` as the node writes them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricsSample {
    /// When, nanoseconds since the Unix epoch.
    pub unix_ns: u64,
    /// Which node.
    pub node: NodeName,
    /// The wanted series.
    pub values: BTreeMap<String, f64>,
}

/// How a node's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitKind {
    /// By this signal.
    Signal(i32),
    /// With this exit code.
    Code(i32),
    /// It was not our child, so nobody saw how.
    Unseen,
}

impl ExitKind {
    /// Whether the process brought this about by itself: an exit code but 0, or a signal that a fault raises (SIGILL 4,
    /// SIGTRAP 5, SIGABRT 6, SIGBUS 7, SIGFPE 8, SIGSEGV 11, SIGSYS 31). All other signals come from outside, and so
    /// does code 0: nodes end with it when they are asked to (SIGINT, SIGTERM) and for no other reason.
    pub fn is_self_inflicted(self) -> bool {
        match self {
            Self::Code(code) => code != 0,
            Self::Signal(signal) => matches!(signal, 4..=8 | 11 | 31),
            // Not known, so not the chain's fault.
            Self::Unseen => false,
        }
    }
}

/// A node that ended while the trial ran and that the run did not end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeExit {
    /// Which node.
    pub node: NodeName,
    /// When it was noticed, nanoseconds since the Unix epoch.
    pub unix_ns: u64,
    /// How.
    pub exit: ExitKind,
}

/// Everything seen from the start of a trial's load to the end of its drain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Start of the measured window, nanoseconds since the Unix epoch.
    pub window_from_unix_ns: u64,
    /// End of the measured window.
    pub window_to_unix_ns: u64,
    /// When the drain's deadline came or the network was idle, whichever was first: up to here settled is judged.
    pub drained_unix_ns: u64,
    /// Final blocks in order of height, from the last one before the load (for the first block time) to the idle proof.
    pub blocks: Vec<BlockFact>,
    /// Gas units (`gas_used / U`) that one settled transfer burns on this chain: 2 or 3.
    pub units_per_transfer: u64,
    /// Whether the network was proven idle: empty pools and no gas in consecutive blocks of every shard.
    pub idle: bool,
    /// Transactions in the pools and receipts delayed at the end, summed over the producers; 0 when idle.
    pub pending: u64,
    /// Where blocks or metrics could not be read.
    pub gaps: Vec<Gap>,
    /// Nodes that ended.
    pub exits: Vec<NodeExit>,
    /// Metrics samples of all nodes, in order of time.
    pub samples: Vec<MetricsSample>,
    /// Evidence for transfers that nodes dropped, by cause, counted apart from the blocks.
    pub dropped: BTreeMap<LostCause, u64>,
}

/// Why a sent transfer will never be included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostCause {
    /// The producer received it and its pool was full; neard drops it and says nothing.
    PoolFull,
    /// It was in the pool and chunk preparation rejected it (expired, bad nonce, no balance).
    RejectedInPreparation,
    /// It was written to a connection that broke, or to a node that ended, and never reached a pool.
    ConnectionBroken,
    /// It was in the pool of a node that ended.
    NodeEnded,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graceful_end_was_asked_for_and_a_fault_was_not() {
        use ExitKind::{Code, Signal};
        let by_itself = [Code(1), Code(101), Code(-1), Signal(4), Signal(6), Signal(11), Signal(31)];
        assert!(by_itself.into_iter().all(ExitKind::is_self_inflicted));
        let from_outside = [Code(0), Signal(1), Signal(2), Signal(9), Signal(15), ExitKind::Unseen];
        assert!(!from_outside.into_iter().any(ExitKind::is_self_inflicted));
    }
}
