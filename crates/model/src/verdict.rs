//! A trial's verdict and the causes behind it. Only the chain can make a trial fail.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{NodeName, observation::ExitKind};

/// What a trial says about its rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// Every criterion of the goal held.
    Pass,
    /// The chain broke at least one criterion.
    Fail {
        /// All that were broken, the first symptom first.
        criteria: Vec<BrokenCriterion>,
    },
    /// Our side failed: the trial says nothing about the rate and moves no bound.
    Invalid {
        /// All causes found.
        causes: Vec<InvalidCause>,
    },
}

/// A criterion of the goal that did not hold, with its figure and its bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "criterion")]
pub enum BrokenCriterion {
    /// Too many chunk slots without a chunk.
    MissedChunks {
        /// Slots missed in the window.
        missed: u64,
        /// Slots in the window.
        slots: u64,
        /// Most that the goal allows, as a share.
        share_max: f64,
    },
    /// Blocks too slow.
    BlockTime {
        /// The goal's quantile, observed.
        quantile_ms: f64,
        /// The bound.
        max_ms: f64,
    },
    /// Not enough settled by the end of the drain.
    Backlog {
        /// Settled of what was sent.
        settled_share: f64,
        /// The bound.
        share_min: f64,
    },
    /// A node exited or panicked by itself.
    NodeCrashed {
        /// Which.
        node: NodeName,
        /// How.
        exit: ExitKind,
    },
}

/// Why a trial says nothing about its rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "cause")]
pub enum InvalidCause {
    /// The generator's own lag was too large.
    SendLag {
        /// 99th percentile observed.
        p99_ms: f64,
        /// The bound.
        max_ms: f64,
    },
    /// Too much unsent for causes of our own.
    Unsent {
        /// Share of the intended.
        share: f64,
        /// The bound.
        share_max: f64,
    },
    /// A node was ended by a signal that the run did not send.
    NodeEnded {
        /// Which.
        node: NodeName,
        /// By what.
        exit: ExitKind,
    },
    /// Blocks or metrics could not be read for too long.
    Gap {
        /// What could not be read.
        source: String,
        /// For how long.
        gap_ms: u64,
        /// The last error.
        error: String,
    },
    /// Wall and monotonic clock moved apart.
    ClockStep,
    /// The load was stopped before its end.
    Interrupted,
    /// No block in the window: nothing to judge.
    NoBlocks,
    /// The accounts do not add up: this many transfers cannot be explained.
    AccountsOpen {
        /// sent - included - pending - lost.
        difference: i64,
    },
}

impl Verdict {
    /// One word for tables: `pass`, `fail` or `invalid`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail { .. } => "fail",
            Self::Invalid { .. } => "invalid",
        }
    }

    /// The causes in one line; empty for a pass.
    pub fn cause(&self) -> String {
        match self {
            Self::Pass => String::new(),
            Self::Fail { criteria } => join(criteria),
            Self::Invalid { causes } => join(causes),
        }
    }
}

fn join<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl fmt::Display for ExitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Code(code) => write!(f, "exit code {code}"),
        }
    }
}

impl fmt::Display for BrokenCriterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissedChunks { missed, slots, share_max } => {
                write!(f, "missed {missed} of {slots} chunk slots (at most {:.2} %)", share_max * 100.0)
            }
            Self::BlockTime { quantile_ms, max_ms } => {
                write!(f, "block time {quantile_ms:.0} ms (at most {max_ms:.0} ms)")
            }
            Self::Backlog { settled_share, share_min } => {
                write!(f, "settled {:.1} % of sent (at least {:.1} %)", settled_share * 100.0, share_min * 100.0)
            }
            Self::NodeCrashed { node, exit } => write!(f, "{node} ended by itself: {exit}"),
        }
    }
}

impl fmt::Display for InvalidCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SendLag { p99_ms, max_ms } => {
                write!(f, "generator late: send lag p99 {p99_ms:.1} ms (bound {max_ms:.0} ms)")
            }
            Self::Unsent { share, share_max } => {
                write!(f, "generator short: {:.2} % unsent (bound {:.2} %)", share * 100.0, share_max * 100.0)
            }
            Self::NodeEnded { node, exit } => write!(f, "{node} was ended from outside: {exit}"),
            Self::Gap { source, gap_ms, error } => write!(f, "{source} not readable for {gap_ms} ms: {error}"),
            Self::ClockStep => write!(f, "the wall clock was stepped"),
            Self::Interrupted => write!(f, "the load was stopped before its end"),
            Self::NoBlocks => write!(f, "no final block in the window"),
            Self::AccountsOpen { difference } => {
                write!(f, "the accounts do not add up: {difference} transfers unexplained")
            }
        }
    }
}
