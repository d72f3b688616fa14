//! The nouns that cross stages: units, ids, the seed, and the values that one stage hands to the next.
//!
//! Nothing here decides anything, reads a clock or touches the outside: every type is a plain value that can be
//! written to the run directory and read back.

pub mod event;
pub mod ids;
pub mod load;
pub mod observation;
pub mod plan;
pub mod result;
pub mod seed;
pub mod units;
pub mod verdict;

pub use ids::{NodeName, ShardId, Yocto};
pub use seed::Seed;
pub use units::{Bytes, Gas, Millis, Share, Tps, UnitError};
