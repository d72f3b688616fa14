//! The search for the knee, as a function from the verdicts so far to the next rate.
//!
//! From below by `growth` until a rate fails, then by bisection, because a network that was driven far over its limit
//! needs long to recover. A rate in the middle needs one verdict; what ends up as an end of the interval must have
//! earned it `confirmations` times. All state is in the history, so a search can be resumed, replayed and tested.
//!
//! Verdicts that contradict each other: at one rate, the rate is repeated until one side has more, and `confirmations`.
//! Across rates, a confirmed verdict overrules unconfirmed ones (a confirmed pass those of fails below it, a confirmed
//! fail those of passes above it); the search never again asks for a rate that is overruled, so that two confirmed
//! verdicts cannot contradict each other.

use std::fmt;

use serde::{Deserialize, Serialize};
use tpsctl_model::{
    plan::SearchPlan,
    result::{Bounds, Outcome},
    verdict::Verdict,
};

use crate::tally::{Lean, Tallies, Tally};

/// A trial that was judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The rate per shard, transfers per second; 0 for the idle trial.
    pub rate: u64,
    /// What it says about the rate.
    pub verdict: Verdict,
}

/// What the search wants next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "step")]
pub enum Step {
    /// A trial at a rate without a valid verdict.
    Probe {
        /// Per shard, transfers per second.
        rate: u64,
        /// In one line.
        why: String,
    },
    /// A trial at a rate that has been tried before.
    Repeat {
        /// Per shard, transfers per second.
        rate: u64,
        /// In one line.
        why: String,
    },
    /// The interval is closed and both ends are confirmed.
    Done {
        /// Highest rate that passed.
        low: u64,
        /// Lowest rate that failed; none when the search's own bound passed.
        high: Option<u64>,
    },
    /// There will be no interval.
    GiveUp {
        /// The reason.
        why: GiveUp,
    },
}

/// Why a search ends without an interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum GiveUp {
    /// The network misses the goal without any load.
    IdleFails {
        /// Which criteria, in one line.
        cause: String,
    },
    /// More trials in a row were invalid at one rate than may be repeated.
    InvalidRetriesExhausted {
        /// Per shard, transfers per second; 0 for the idle trial.
        rate: u64,
        /// How many were invalid in a row.
        invalid: u32,
        /// Why the last one was, in one line.
        cause: String,
    },
    /// The time for new trials is over.
    TimeBudget {
        /// Highest rate that passed, perhaps only once.
        low: Option<u64>,
        /// Lowest rate that failed, perhaps only once.
        high: Option<u64>,
    },
    /// Even one transfer a second on each shard misses the goal.
    NothingPassed,
    /// A node died by itself twice at this rate.
    NodeDiesTwice {
        /// Per shard, transfers per second.
        rate: u64,
        /// Highest rate below it that passed for certain, as often as the ends of an interval must.
        low: Option<u64>,
    },
}

impl fmt::Display for GiveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IdleFails { cause } => write!(f, "the idle network misses the goal: {cause}"),
            Self::InvalidRetriesExhausted { rate, invalid, cause } => write!(
                f,
                "{invalid} trials in a row were invalid at {rate} transfers/s per shard, more than may be repeated; \
                 the last: {cause}"
            ),
            Self::TimeBudget { low, high } => {
                f.write_str("the time budget ended before the interval was closed")?;
                match (low, high) {
                    (None, None) => f.write_str(", nothing known yet"),
                    (Some(low), None) => write!(f, ", {low} transfers/s per shard passed, nothing failed"),
                    (None, Some(high)) => write!(f, ", nothing passed, {high} transfers/s per shard failed"),
                    (Some(low), Some(high)) => {
                        write!(f, ", {low} transfers/s per shard passed, {high} failed")
                    }
                }
            }
            Self::NothingPassed => f.write_str("even 1 transfer/s per shard misses the goal"),
            Self::NodeDiesTwice { rate, low } => {
                write!(f, "node dies at {rate} transfers/s per shard: it ended by itself in two trials")?;
                match low {
                    Some(low) => write!(f, "; {low} transfers/s per shard passed for certain"),
                    None => f.write_str("; no rate had passed for certain"),
                }
            }
        }
    }
}

impl GiveUp {
    /// How a run ends that ends for this reason.
    pub fn outcome(&self) -> Outcome {
        let why = self.to_string();
        match self {
            Self::IdleFails { .. } | Self::NothingPassed => Outcome::GoalNotMet { why },
            Self::InvalidRetriesExhausted { .. } => Outcome::Invalid { why },
            Self::TimeBudget { .. } => Outcome::Inconclusive { why },
            Self::NodeDiesTwice { .. } => Outcome::ProviderFailed { why },
        }
    }
}

/// What is known of the limit after `history`, for certain or so far; none where no rate was judged.
pub fn bounds(history: &[Trial], confirmations: u32) -> Option<Bounds> {
    let tallies = Tallies::of(history, confirmations);
    let bounds = Bounds { per_shard_low: tallies.low(), per_shard_high: tallies.high() };
    (bounds.per_shard_low.is_some() || bounds.per_shard_high.is_some()).then_some(bounds)
}

/// The next step after `history`, `elapsed_ms` after the search began.
///
/// Invalid trials move no bound; more than `invalid_retries` of them in a row at one rate end the search. Hiccups that
/// are spread over a long search do not add up: the time budget bounds them.
pub fn next(plan: &SearchPlan, invalid_retries: u32, history: &[Trial], elapsed_ms: u64) -> Step {
    if let Some(why) = hopeless(plan, invalid_retries, history) {
        return Step::GiveUp { why };
    }
    let tallies = Tallies::of(history, plan.confirmations);
    let wish = match tallies.at(0) {
        Tally { passes: 0, fails: 0, .. } => Wish::new(0, "idle: the network without load"),
        Tally { passes: 0, fails, .. } => {
            let of = tallies.confirmations();
            Wish::new(
                0,
                format!("idle: again without load, since that missed the goal, fail {fails} of {of}"),
            )
        }
        _ => wish(plan, &tallies),
    };
    match wish {
        Wish::Done { low, high } => Step::Done { low, high },
        Wish::GiveUp { why } => Step::GiveUp { why },
        Wish::Trial { .. } if elapsed_ms >= plan.time_budget_ms.0 => {
            Step::GiveUp { why: GiveUp::TimeBudget { low: tallies.low(), high: tallies.high() } }
        }
        Wish::Trial { rate, why } => trial(rate, why, history),
    }
}

/// What the verdicts ask for, before the budget is looked at.
enum Wish {
    Trial { rate: u64, why: String },
    Done { low: u64, high: Option<u64> },
    GiveUp { why: GiveUp },
}

impl Wish {
    fn new(rate: u64, why: impl Into<String>) -> Self {
        Self::Trial { rate, why: why.into() }
    }
}

fn trial(rate: u64, why: String, history: &[Trial]) -> Step {
    match history.last() {
        Some(Trial { rate: last, verdict: Verdict::Invalid { .. } }) if *last == rate => {
            Step::Repeat { rate, why: "again: the last trial was invalid".to_owned() }
        }
        _ if history.iter().any(|trial| trial.rate == rate) => Step::Repeat { rate, why },
        _ => Step::Probe { rate, why },
    }
}

/// Reasons to end that do not depend on what comes next.
fn hopeless(plan: &SearchPlan, invalid_retries: u32, history: &[Trial]) -> Option<GiveUp> {
    let tallies = Tallies::of(history, plan.confirmations);
    if let Some(rate) = tallies.dies_twice() {
        let low = tallies.confirmed_pass().filter(|low| *low < rate);
        return Some(GiveUp::NodeDiesTwice { rate, low });
    }
    let idle = tallies.at(0);
    if idle.passes == 0 && idle.fails >= tallies.confirmations() {
        let failed = |trial: &&Trial| trial.rate == 0 && matches!(trial.verdict, Verdict::Fail { .. });
        let cause = history.iter().rfind(failed).map(|trial| trial.verdict.cause());
        return Some(GiveUp::IdleFails { cause: cause.unwrap_or_default() });
    }
    let last = history.last()?;
    let like_the_last =
        |trial: &&Trial| trial.rate == last.rate && matches!(trial.verdict, Verdict::Invalid { .. });
    let invalid = u32::try_from(history.iter().rev().take_while(like_the_last).count()).unwrap_or(u32::MAX);
    (invalid > invalid_retries).then(|| GiveUp::InvalidRetriesExhausted {
        rate: last.rate,
        invalid,
        cause: last.verdict.cause(),
    })
}

fn wish(plan: &SearchPlan, tallies: &Tallies) -> Wish {
    if let Some(rate) = tallies.split() {
        let tally = tallies.at(rate);
        let why = format!("split: {} passed, {} failed at this rate", tally.passes, tally.fails);
        return Wish::new(rate, why);
    }
    match (tallies.low(), tallies.high()) {
        (None, None) => {
            Wish::new(plan.start.0.clamp(1, plan.max.0.max(1)), "bracket: the scenario's first rate")
        }
        (Some(low), None) => upwards(plan, tallies, low),
        (low, Some(high)) => {
            if tallies.confirmed_fail().is_none() {
                return confirm(tallies, high, "first failure");
            }
            match low {
                None => downwards(tallies, high),
                Some(low) => between(plan, tallies, low, high),
            }
        }
    }
}

fn upwards(plan: &SearchPlan, tallies: &Tallies, low: u64) -> Wish {
    let max = plan.max.0;
    if low < max {
        let grown = (low as f64 * plan.growth).ceil() as u64;
        let rate = grown.max(low + 1).min(max);
        let why = if rate == max {
            "bracket: no failure yet, the search's upper bound".to_owned()
        } else {
            format!("bracket: no failure yet, {} times the last rate", plan.growth)
        };
        return Wish::new(rate, why);
    }
    if tallies.is_confirmed(low) {
        Wish::Done { low, high: None }
    } else {
        confirm(tallies, low, "upper bound")
    }
}

fn downwards(tallies: &Tallies, high: u64) -> Wish {
    if high > 1 {
        return Wish::new(high / 2, "downwards: nothing passed yet, half of the lowest rate that failed");
    }
    if tallies.is_confirmed(high) {
        Wish::GiveUp { why: GiveUp::NothingPassed }
    } else {
        confirm(tallies, high, "lowest rate")
    }
}

fn between(plan: &SearchPlan, tallies: &Tallies, low: u64, high: u64) -> Wish {
    let width = high - low;
    let close_enough = width <= 1 || width as f64 <= plan.resolution.0 * high as f64 + 1e-9;
    if !close_enough {
        return Wish::new(middle(low, high), format!("bisect: between {low} (passed) and {high} (failed)"));
    }
    if !tallies.is_confirmed(low) {
        return confirm(tallies, low, "lower end");
    }
    if !tallies.is_confirmed(high) {
        return confirm(tallies, high, "upper end");
    }
    Wish::Done { low, high: Some(high) }
}

/// A repeat that counts verdicts of the side to which `rate` leans.
fn confirm(tallies: &Tallies, rate: u64, role: &str) -> Wish {
    let tally = tallies.at(rate);
    let word = if tally.lean() == Lean::Pass { "pass" } else { "fail" };
    let why = format!("confirm: {role}, {word} {} of {} so far", tally.majority(), tallies.confirmations());
    Wish::new(rate, why)
}

/// A round rate near the middle of the open interval, at most 1/16 of its width away from it.
fn middle(low: u64, high: u64) -> u64 {
    let width = high - low;
    let mut step = 1;
    for candidate in (0..)
        .map_while(|power| 10_u64.checked_pow(power))
        .flat_map(|ten| [Some(ten), ten.checked_mul(2), ten.checked_mul(5)])
    {
        match candidate {
            Some(candidate) if candidate <= width / 8 => step = candidate,
            _ => break,
        }
    }
    let exact = low + width / 2;
    let rounded = (exact + step / 2) / step * step;
    if low < rounded && rounded < high { rounded } else { exact }
}

#[cfg(test)]
mod tests;
