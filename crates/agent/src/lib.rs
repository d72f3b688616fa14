//! The injector: signed transfers into the chunk producers of every shard, at an exact rate, in an open loop.
//!
//! [`LoadAgent`] is the interface, [`LocalAgent`] the agent in this process. What crosses the interface can be
//! serialised, so that an agent on another host can stand behind it.
//!
//! How a transfer goes: the generator's thread takes from each shard's [`Pacer`](tpsctl_workload::Pacer) what has fallen due,
//! signs it into one batch a producer, and puts the batch into the bounded queue of that producer's link. It never waits
//! for a link. The link's task writes whole frames to the connection, makes the connection again when it breaks, and
//! alone decides what became of what was queued. Every transfer that falls due ends in exactly one count:
//!
//! | count | by | when |
//! |---|---|---|
//! | sent | link | the operating system took its last byte |
//! | unsent `generator_late` | generator | it fell due longer ago than the catch-up bound |
//! | unsent `back_pressure` | generator | the queue was full, and most of the last catch-up bound the link waited for the node |
//! | unsent `back_pressure` | link | it was still in the queue a catch-up bound after the load's end, for the same reason |
//! | unsent `generator_late` | both | the same without that reason: the link itself did not get on |
//! | unsent `no_block_hash` | generator | no valid block hash could be had |
//! | unsent `not_connected` | generator | the link had no connection |
//! | unsent `not_connected` | link | it was in the queue when the connection broke |
//! | unsent `stopped` | generator | it had fallen due and was not handed out when the load was stopped, or its nonce would have been over the chain's bound |

mod clock;
mod contract;
mod error;
mod generator;
mod head;
mod lag;
mod link;
mod local;
mod outlet;
mod peer;
mod session;
mod tally;
mod waiting;

#[cfg(test)]
mod tests;

pub use contract::{CONTRACT, Hello, LoadAgent, LoadTarget, Prepared};
pub use error::AgentError;
pub use link::WIND_UP_MAX;
pub use local::LocalAgent;
