//! The verdicts so far, rate by rate, and the bounds that they give.

use std::collections::BTreeMap;

use tpsctl_model::verdict::{BrokenCriterion, Verdict};

use crate::Trial;

/// Valid verdicts at one rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passes: u32,
    pub(crate) fails: u32,
    /// Of the fails, those in which a node died by itself.
    pub(crate) crashes: u32,
}

/// Which way a rate leans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lean {
    Pass,
    Fail,
    Split,
}

impl Tally {
    pub(crate) fn lean(self) -> Lean {
        match self.passes.cmp(&self.fails) {
            std::cmp::Ordering::Greater => Lean::Pass,
            std::cmp::Ordering::Less => Lean::Fail,
            std::cmp::Ordering::Equal => Lean::Split,
        }
    }

    /// The verdicts on the side to which the rate leans.
    pub(crate) fn majority(self) -> u32 {
        self.passes.max(self.fails)
    }
}

/// The valid verdicts of a history by rate; invalid ones leave no trace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tallies {
    by_rate: BTreeMap<u64, Tally>,
    confirmations: u32,
}

impl Tallies {
    pub(crate) fn of(history: &[Trial], confirmations: u32) -> Self {
        let mut by_rate: BTreeMap<u64, Tally> = BTreeMap::new();
        for trial in history {
            match &trial.verdict {
                Verdict::Pass => by_rate.entry(trial.rate).or_default().passes += 1,
                Verdict::Fail { criteria } => {
                    let tally = by_rate.entry(trial.rate).or_default();
                    tally.fails += 1;
                    let crashed =
                        criteria.iter().any(|broken| matches!(broken, BrokenCriterion::NodeCrashed { .. }));
                    tally.crashes += u32::from(crashed);
                }
                Verdict::Invalid { .. } => {}
            }
        }
        Self { by_rate, confirmations: confirmations.max(1) }
    }

    pub(crate) fn at(&self, rate: u64) -> Tally {
        self.by_rate.get(&rate).copied().unwrap_or_default()
    }

    /// Verdicts that an end of the interval needs.
    pub(crate) fn confirmations(&self) -> u32 {
        self.confirmations
    }

    pub(crate) fn is_confirmed(&self, rate: u64) -> bool {
        self.at(rate).lean() != Lean::Split && self.at(rate).majority() >= self.confirmations
    }

    /// The lowest rate at which a node died by itself twice.
    pub(crate) fn dies_twice(&self) -> Option<u64> {
        self.by_rate.iter().find(|(_, tally)| tally.crashes >= 2).map(|(rate, _)| *rate)
    }

    fn loaded(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.by_rate.keys().copied().filter(|rate| *rate > 0)
    }

    /// The highest rate that passed for certain, below what failed for certain.
    pub(crate) fn confirmed_pass(&self) -> Option<u64> {
        let below = self.confirmed_fail().unwrap_or(u64::MAX);
        let passed = |rate: &u64| self.at(*rate).lean() == Lean::Pass && self.is_confirmed(*rate);
        self.loaded().rev().filter(|rate| *rate < below).find(passed)
    }

    /// The lowest rate that failed for certain.
    pub(crate) fn confirmed_fail(&self) -> Option<u64> {
        self.loaded().find(|rate| self.at(*rate).lean() == Lean::Fail && self.is_confirmed(*rate))
    }

    /// Rates strictly between what passed and what failed for certain: only they can still say something.
    pub(crate) fn open(&self) -> impl DoubleEndedIterator<Item = u64> {
        let above = self.confirmed_pass().unwrap_or(0);
        let below = self.confirmed_fail().unwrap_or(u64::MAX);
        self.loaded().filter(move |rate| above < *rate && *rate < below)
    }

    /// The lowest open rate with as many passes as fails.
    pub(crate) fn split(&self) -> Option<u64> {
        self.open().find(|rate| self.at(*rate).lean() == Lean::Split)
    }

    /// The upper bound: the lowest rate that leans to fail, confirmed or not.
    pub(crate) fn high(&self) -> Option<u64> {
        self.open().find(|rate| self.at(*rate).lean() == Lean::Fail).or_else(|| self.confirmed_fail())
    }

    /// The lower bound: the highest rate below the upper bound that leans to pass, confirmed or not.
    pub(crate) fn low(&self) -> Option<u64> {
        let below = self.high().unwrap_or(u64::MAX);
        self.open()
            .rev()
            .find(|rate| *rate < below && self.at(*rate).lean() == Lean::Pass)
            .or_else(|| self.confirmed_pass())
    }
}
