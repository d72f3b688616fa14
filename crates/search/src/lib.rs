//! Judging a trial and searching for the knee.
//!
//! Three pure functions and the words between them: [`count`] turns what was sent and what the blocks say into
//! numbers, [`judge`] compares the numbers with the goal, [`next`] decides from the verdicts so far which rate comes
//! next. [`limited_by`] names what stopped the network. Nothing here knows the time or touches the outside, so a run
//! can be judged and searched again from its directory. `docs/measuring.md` says the same in words for users.

mod accounts;
mod count;
mod judge;
mod knee;
mod limit;
mod quantile;
mod tally;
#[cfg(test)]
mod testkit;
mod window;

pub use accounts::accounting;
pub use count::{Counted, count};
pub use judge::judge;
pub use knee::{GiveUp, Step, Trial, next};
pub use limit::limited_by;
pub use quantile::{quantile_ms, quantiles_ms};
pub use window::{Interval, Window};
