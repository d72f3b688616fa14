//! What a node counts: numbers since its start, and single observations that a histogram wants.

use std::{collections::BTreeMap, time::Duration};

use super::state::ShardState;

/// Observations that may wait to be taken. The shell takes them after every event, which makes a few a shard.
pub(crate) const OBSERVATIONS_MAX: usize = 4_096;

/// Receipts that wait in a shard's queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queue {
    /// How many.
    pub receipts: u64,
    /// Gas that they will burn.
    pub gas: u128,
}

impl Queue {
    pub(crate) fn of(state: &ShardState) -> Self {
        Self { receipts: state.delayed_count(), gas: state.delayed_gas() }
    }
}

/// What executing a chunk's transactions and receipts came to, the first time or again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Executed {
    pub(crate) transactions: u64,
    pub(crate) converted: u64,
    pub(crate) queue: Queue,
}

/// Numbers of a shard since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardStats {
    /// Accepted blocks without a new chunk.
    pub skipped: u64,
    /// Transactions in chunks that this node produced, included or not.
    pub chunk_transactions: u64,
    /// Chunks that this node left out of its blocks for want of the chunk.
    pub excluded_unavailable: u64,
    /// And for want of endorsements.
    pub excluded_endorsement: u64,
    /// What ended the preparation of chunks, by neard's names.
    pub limited_by: BTreeMap<&'static str, u64>,
    /// Transactions in the pool; none where the node has no pool.
    pub pool_entries: Option<u64>,
    /// Their bytes.
    pub pool_bytes: u64,
    /// The queue after the last chunk that this node applied or re-executed; none before the first.
    pub queue: Option<Queue>,
    /// Endorsements that were good and are kept.
    pub endorsements: u64,
    /// Witnesses that did not hold, by neard's names of the faults.
    pub invalid_witnesses: BTreeMap<&'static str, u64>,
}

/// Numbers of the node since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Head.
    pub head_height: u64,
    /// Last final block.
    pub final_height: u64,
    /// Blocks accepted, on the chain or beside it.
    pub blocks: u64,
    /// New chunks in them.
    pub chunks: u64,
    /// Gas that these report.
    pub gas_used: u64,
    /// Transactions looked at when chunks were applied or re-executed.
    pub transactions: u64,
    /// And converted to receipts.
    pub converted: u64,
    /// Blocks made.
    pub blocks_made: u64,
    /// Chunks produced, included or not.
    pub chunks_made: u64,
    /// Witnesses that did not hold.
    pub invalid_witnesses: u64,
    /// Transactions for pools of this node that were not there yet; those that a full pool dropped count.
    pub received: u64,
    /// Transactions that a full pool dropped. neard has no such number.
    pub pool_dropped: u64,
    /// Whether the node is behind.
    pub is_syncing: bool,
    /// By shard index.
    pub shards: Vec<ShardStats>,
}

impl Stats {
    pub(crate) fn new(shards: usize) -> Self {
        Self { shards: vec![ShardStats::default(); shards], ..Self::default() }
    }

    /// As in neard, applying counts as much as re-executing for an endorsement: a node that does both counts both.
    pub(crate) fn executed(&mut self, shard: usize, executed: &Executed) {
        self.transactions += executed.transactions;
        self.converted += executed.converted;
        self.shards[shard].queue = Some(executed.queue);
    }

    pub(crate) fn invalid_witness(&mut self, shard: usize, fault: &'static str) {
        self.invalid_witnesses += 1;
        *self.shards[shard].invalid_witnesses.entry(fault).or_default() += 1;
    }
}

/// Why a chunk was executed, by neard's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyReason {
    /// Its block was applied.
    UpdateShard,
    /// It was executed again for an endorsement of its successor.
    ValidateChunk,
}

/// Something happened once, whose size a histogram wants. Shards are indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// One preparation threw transactions away.
    Rejected {
        /// The chunk's.
        shard: usize,
        /// neard's name of the reason.
        reason: &'static str,
        /// How many.
        count: u64,
    },
    /// A chunk was produced.
    ChunkProduced {
        /// The chunk's.
        shard: usize,
        /// Choosing transactions and making the chunk took so long.
        time: Duration,
        /// Its state witness has so many bytes.
        witness_bytes: u64,
    },
    /// A chunk's transactions and receipts were executed.
    Applied {
        /// The chunk's.
        shard: usize,
        /// Why.
        reason: ApplyReason,
        /// It took so long.
        time: Duration,
    },
    /// A witness was checked by executing it; not one of a shard whose state is known.
    Validated {
        /// The chunk's.
        shard: usize,
        /// It took so long.
        time: Duration,
    },
    /// This node made a block and had so much of what a chunk needs.
    Endorsed {
        /// The chunk's.
        shard: usize,
        /// Stake that endorsed it, yocto.
        endorsed: u128,
        /// Stake of all its validators; not zero.
        total: u128,
        /// Validators of whom nothing came.
        missing: u64,
    },
    /// A block was accepted so long after all of it was there.
    BlockProcessed {
        /// So long.
        time: Duration,
    },
}
