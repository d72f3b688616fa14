//! A trial's verdict and the causes behind it. Only the chain can make a trial fail.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{NodeName, ShardId, Share, observation::ExitKind};

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
        /// Settled of what the network was offered: sent, and unsent for the node's causes.
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
    /// A shard's schedule had another number of transfers than fell due, although the load ran to its end.
    ScheduleMissed {
        /// Which shard.
        shard: ShardId,
        /// Fell due, as the injector says.
        intended: u64,
        /// Rate x duration, rounded down.
        scheduled: u64,
    },
    /// A node was ended from outside, by a signal or a request that the run did not send.
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
    /// The injector failed in mid-trial.
    AgentLost {
        /// Its error.
        error: String,
    },
    /// No block in the window: nothing to judge.
    NoBlocks,
    /// The accounts do not add up: this many transfers cannot be explained.
    AccountsOpen {
        /// sent - included - pending - lost, or what the injector's own books leave open.
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

    /// Whether our own side could not keep up, and no end of a node or of the injector explains it: mostly other programs
    /// that use the host.
    pub fn is_short_of_host(&self) -> bool {
        let is_short = |cause: &InvalidCause| {
            matches!(
                cause,
                InvalidCause::SendLag { .. } | InvalidCause::Unsent { .. } | InvalidCause::Gap { .. }
            )
        };
        let is_apart = |cause: &InvalidCause| {
            matches!(cause, InvalidCause::NodeEnded { .. } | InvalidCause::AgentLost { .. })
        };
        let Self::Invalid { causes } = self else { return false };
        causes.iter().any(is_short) && !causes.iter().any(is_apart)
    }

    /// The causes in one line, which names the longest gaps only; empty for a pass.
    pub fn cause(&self) -> String {
        match self {
            Self::Pass => String::new(),
            Self::Fail { criteria } => join(criteria),
            Self::Invalid { causes } => invalid(causes),
        }
    }
}

/// Most digits after the point of a figure in a message.
const DIGITS_MAX: usize = 6;

/// `value` with `digits` after the point, or as many more as it takes to differ from `bound`: a message that says
/// "98.0, at least 98.0" explains nothing.
fn apart(value: f64, bound: f64, digits: usize) -> String {
    let written = |digits: usize| (format!("{value:.digits$}"), format!("{bound:.digits$}"));
    let differs = |digits: &usize| {
        let (value, bound) = written(*digits);
        value != bound
    };
    written((digits..=DIGITS_MAX).find(differs).unwrap_or(digits)).0
}

/// A bound without needless digits: `450` or `382.5`.
fn trimmed(bound: f64) -> String {
    let written = format!("{bound:.3}");
    written.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A bound in per cent as it stands in the scenario: `98 %`.
fn percent(share: f64) -> String {
    format!("{} %", Share(share).to_string().trim_end_matches('%'))
}

fn join<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Sources with gaps that a message names.
const SOURCES_NAMED: usize = 3;

/// The causes, the gaps of each source in one.
fn invalid(causes: &[InvalidCause]) -> String {
    let gap_of = |cause: &InvalidCause| match cause {
        InvalidCause::Gap { source, gap_ms, .. } => Some((source.clone(), *gap_ms)),
        _ => None,
    };
    let mut said: Vec<String> =
        causes.iter().filter(|cause| gap_of(cause).is_none()).map(ToString::to_string).collect();
    let mut sources: BTreeMap<String, Vec<(u64, &InvalidCause)>> = BTreeMap::new();
    for cause in causes {
        if let Some((source, gap_ms)) = gap_of(cause) {
            sources.entry(source).or_default().push((gap_ms, cause));
        }
    }
    let mut gaps: Vec<(u64, String)> = sources.into_values().filter_map(of_source).collect();
    gaps.sort_by_key(|(longest_ms, _)| std::cmp::Reverse(*longest_ms));
    let unnamed = gaps.len().saturating_sub(SOURCES_NAMED);
    said.extend(gaps.into_iter().take(SOURCES_NAMED).map(|(_, text)| text));
    if unnamed > 0 {
        said.push(format!("{unnamed} more not readable for a time"));
    }
    said.join("; ")
}

/// A source's longest gap, and what is said of it and of the others.
fn of_source(gaps: Vec<(u64, &InvalidCause)>) -> Option<(u64, String)> {
    let sum_ms: u64 = gaps.iter().map(|(gap_ms, _)| gap_ms).sum();
    let count = gaps.len();
    let (longest_ms, longest) = gaps.into_iter().max_by_key(|(gap_ms, _)| *gap_ms)?;
    let others = if count > 1 { format!(" ({count} gaps, {sum_ms} ms in all)") } else { String::new() };
    Some((longest_ms, format!("{longest}{others}")))
}

impl fmt::Display for ExitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Unseen => write!(f, "nobody saw how"),
        }
    }
}

impl fmt::Display for BrokenCriterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissedChunks { missed, slots, share_max } => {
                write!(f, "missed {missed} of {slots} chunk slots (at most {})", percent(*share_max))
            }
            Self::BlockTime { quantile_ms, max_ms } => {
                write!(
                    f,
                    "block time {} ms (at most {} ms)",
                    apart(*quantile_ms, *max_ms, 0),
                    trimmed(*max_ms)
                )
            }
            Self::Backlog { settled_share, share_min } => {
                let settled = apart(settled_share * 100.0, share_min * 100.0, 1);
                write!(
                    f,
                    "settled {settled} % of what the network was offered (at least {})",
                    percent(*share_min)
                )
            }
            Self::NodeCrashed { node, exit } => write!(f, "{node} ended by itself: {exit}"),
        }
    }
}

impl fmt::Display for InvalidCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SendLag { p99_ms, max_ms } => {
                write!(
                    f,
                    "generator late: send lag p99 {p99_ms:.1} ms (must be below {} ms)",
                    trimmed(*max_ms)
                )
            }
            Self::Unsent { share, share_max } => {
                let unsent = apart(share * 100.0, share_max * 100.0, 2);
                write!(f, "generator short: {unsent} % unsent (at most {})", percent(*share_max))
            }
            Self::ScheduleMissed { shard, intended, scheduled } => {
                write!(
                    f,
                    "schedule missed: {intended} transfers fell due on shard {shard}, {scheduled} were ordered"
                )
            }
            Self::NodeEnded { node, exit } => write!(f, "{node} was ended from outside: {exit}"),
            Self::Gap { source, gap_ms, error } => {
                write!(f, "{source} not readable for {gap_ms} ms: {error}")
            }
            Self::ClockStep => write!(f, "the wall clock was stepped"),
            Self::Interrupted => write!(f, "the load was stopped before its end"),
            Self::AgentLost { error } => write!(f, "the injector failed in mid-trial: {error}"),
            Self::NoBlocks => write!(f, "no final block in the window"),
            Self::AccountsOpen { difference } => {
                write!(f, "the accounts do not add up: {difference} transfers unexplained")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_differ_from_their_bounds_in_words_too() {
        let backlog = |settled_share| BrokenCriterion::Backlog { settled_share, share_min: 0.98 }.to_string();
        assert_eq!(backlog(0.5), "settled 50.0 % of what the network was offered (at least 98 %)");
        assert_eq!(backlog(0.9796), "settled 97.96 % of what the network was offered (at least 98 %)");
        assert_eq!(backlog(0.979_999), "settled 97.9999 % of what the network was offered (at least 98 %)");
        let slow = |quantile_ms| BrokenCriterion::BlockTime { quantile_ms, max_ms: 450.0 }.to_string();
        assert_eq!(slow(575.3), "block time 575 ms (at most 450 ms)");
        assert_eq!(slow(450.2), "block time 450.2 ms (at most 450 ms)");
        let short = |share| InvalidCause::Unsent { share, share_max: 0.001 }.to_string();
        assert_eq!(short(0.25), "generator short: 25.00 % unsent (at most 0.1 %)");
        assert_eq!(short(0.001_01), "generator short: 0.101 % unsent (at most 0.1 %)");
    }

    #[test]
    fn many_gaps_are_said_in_few_words() {
        let gap = |source: &str, gap_ms| InvalidCause::Gap {
            source: source.to_owned(),
            gap_ms,
            error: "timed out".to_owned(),
        };
        let said = |causes: &[InvalidCause]| Verdict::Invalid { causes: causes.to_vec() }.cause();
        let one = [gap("blocks", 4_000), InvalidCause::ClockStep];
        assert_eq!(said(&one), "the wall clock was stepped; blocks not readable for 4000 ms: timed out");
        let many: Vec<InvalidCause> = (0..20)
            .map(|n| gap(&format!("node{}", n % 5), 3_000 + n))
            .chain([gap("blocks", 9_000)])
            .collect();
        assert_eq!(
            said(&many),
            "blocks not readable for 9000 ms: timed out; \
             node4 not readable for 3019 ms: timed out (4 gaps, 12046 ms in all); \
             node3 not readable for 3018 ms: timed out (4 gaps, 12042 ms in all); 3 more not readable for a time"
        );
    }

    #[test]
    fn a_lost_injector_says_why() {
        let lost = InvalidCause::AgentLost { error: "the generator's thread panicked".to_owned() };
        let verdict = Verdict::Invalid { causes: vec![lost] };
        assert_eq!(verdict.cause(), "the injector failed in mid-trial: the generator's thread panicked");
    }
}
