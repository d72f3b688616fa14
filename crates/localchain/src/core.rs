//! The chain itself: events and the time in, effects out. No I/O, no clock, no threads.
//!
//! [`Node`] owns the state. What takes long is a [`Job`]: a value that somebody else runs, whose [`JobResult`] comes
//! back as an event. Where to start reading: [`Node::handle`], then `node/blocks.rs` (what happens to a block),
//! `node/chunks.rs` (chunks, witnesses, endorsements) and `node/produce.rs`.

mod account;
mod admission;
mod assignment;
mod chain;
mod doomslug;
mod genesis;
mod job;
mod message;
mod near_form;
mod node;
mod outcomes;
mod pool;
mod prepare;
mod receipts;
mod recheck;
mod relay;
mod runtime;
mod signatures;
mod state;
mod stats;
mod tally;
mod transfer;
mod tree;
mod types;
mod view;
mod witness;

pub use account::{AccessKey, Account};
pub use admission::{Admitted, Received, VerifiedTransaction, admit};
pub use assignment::{Assignment, Seats};
pub use chain::BlockRef;
pub use genesis::{Genesis, Limits, Settings, Timing, Tuning};
pub use job::{Job, JobResult};
pub use message::{Message, MessageError, Routed};
pub use node::{ChunkRef, Effect, Event, FoundChunk, NoChunk, Node, To, kept_shards};
pub use outcomes::{Execution, Found, Place};
pub use pool::Insertion;
pub use receipts::{ReceiptFacts, receipt_id_of_receipt, receipt_id_of_transaction};
pub use state::ShardState;
pub use stats::{ApplyReason, Observation, Queue, ShardStats, Stats};
pub use tally::{Count, EpochTally};
pub use transfer::InvalidTx;
pub(crate) use transfer::gas_of as transfer_gas;
pub use types::{
    Approval, ApprovalBasis, Block, BlockChunk, BlockHeader, BlocksPage, Chunk, ChunkBody, ChunkHeader,
    Endorsement, SignedChunkHeader, Validator,
};
pub use view::{Snapshot, View};

/// Frames of the private fields, for the shell.
pub(crate) mod message_field {
    pub(crate) use super::message::{FIELD_FULL, FIELD_HELLO, FIELD_PEERS, private_field, private_frame};
}

/// The time, as the shell saw it when the event came.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Since the node started; never goes back.
    pub elapsed: std::time::Duration,
    /// Wall clock, nanoseconds since the Unix epoch.
    pub unix_ns: u64,
}

#[cfg(test)]
mod tests;
