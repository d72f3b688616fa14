//! Exit codes: each one constant, documented in docs/exit-codes.md.

use tpsctl_model::result::Outcome;

/// The search closed its interval, or the command did what it was asked.
pub(crate) const DONE: u8 = 0;
/// Bad input: a scenario, a flag, a run that does not exist.
pub(crate) const BAD_INPUT: u8 = 2;
/// The goal, or a baseline, was not met.
pub(crate) const GOAL_NOT_MET: u8 = 3;
/// The search ended without an interval.
pub(crate) const INCONCLUSIVE: u8 = 4;
/// Our side failed, or the accounts do not add up.
pub(crate) const INVALID: u8 = 5;
/// The provider or a node failed.
pub(crate) const PROVIDER_FAILED: u8 = 6;
/// Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// The exit code of a run's outcome.
pub(crate) fn of_outcome(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Done => DONE,
        Outcome::GoalNotMet { .. } => GOAL_NOT_MET,
        Outcome::Inconclusive { .. } => INCONCLUSIVE,
        Outcome::Invalid { .. } => INVALID,
        Outcome::ProviderFailed { .. } => PROVIDER_FAILED,
        Outcome::Interrupted => INTERRUPTED,
    }
}

/// A command that ended badly: its exit code and why.
#[derive(Debug)]
pub(crate) struct Failure {
    /// One of the constants above.
    pub(crate) code: u8,
    /// The chain of causes.
    pub(crate) error: anyhow::Error,
    /// Whether the error's text names an act, so that it reads after "failed to".
    pub(crate) is_act: bool,
}

impl Failure {
    /// A failure with this code.
    pub(crate) fn new(code: u8, error: impl Into<anyhow::Error>) -> Self {
        Self { code, error: error.into(), is_act: false }
    }

    /// Bad input.
    pub(crate) fn input(error: impl Into<anyhow::Error>) -> Self {
        Self::new(BAD_INPUT, error)
    }
}
