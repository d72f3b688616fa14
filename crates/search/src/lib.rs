//! Judging a trial and searching for the knee.
//!
//! Three pure functions and the words between them: [`count`] turns what was sent and what the blocks say into
//! numbers, [`judge`] compares the numbers with the goal, [`next`] decides from the verdicts so far which rate comes
//! next. [`limited_by`] names what stopped the network, [`bounds`] what is known so far. Nothing here knows the time or touches the outside, so a run
//! can be judged and searched again from its directory. `docs/measuring.md` says the same in words for users.

mod accounts;
mod count;
mod judge;
mod knee;
mod limit;
mod load;
mod quantile;
mod tally;
#[cfg(test)]
mod testkit;
mod window;

pub use accounts::{accounting, settled_transfers};
pub use count::{Counted, count};
pub use judge::judge;
pub use knee::{GiveUp, Step, Trial, bounds, next};
pub use limit::limited_by;
pub use load::JudgedLoad;
