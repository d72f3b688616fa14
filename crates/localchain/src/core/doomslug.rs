//! When to approve and when a block may be made (chain/chain/src/doomslug.rs): an approval of the next height some time
//! after the tip, approvals that skip heights when no block comes, and the approvals received.

use std::{collections::BTreeMap, time::Duration};

use tpsctl_near::CryptoHash;

use super::{Approval, ApprovalBasis, Timing};

/// Approvals for heights this far above the tip are not kept.
const TARGETS_AHEAD_MAX: u64 = 10_000;

#[derive(Debug)]
pub(crate) struct Doomslug {
    timing: Timing,
    tip: (u64, CryptoHash),
    final_height: u64,
    /// The height that is awaited; each expiry of the timer skips one.
    timer_height: u64,
    timer_started: Duration,
    endorse_at: Option<Duration>,
    /// Heights up to this one were approved: never twice, never back.
    largest_target: u64,
    approvals: BTreeMap<u64, BTreeMap<u32, Approval>>,
}

/// What came due.
#[derive(Debug, Default)]
pub(crate) struct Due {
    pub(crate) approvals: Vec<(ApprovalBasis, u64)>,
    /// The timer ran out: no block came for a height.
    pub(crate) is_skip: bool,
}

impl Doomslug {
    pub(crate) fn new(timing: Timing, height: u64, hash: CryptoHash) -> Self {
        let mut own = Self {
            timing,
            tip: (height, hash),
            final_height: height,
            timer_height: height + 1,
            timer_started: Duration::ZERO,
            endorse_at: None,
            largest_target: height,
            approvals: BTreeMap::new(),
        };
        own.set_tip(Duration::ZERO, (height, hash), height);
        own
    }

    /// Takes other delays over; the approval of the next height that is due already stays as it is.
    pub(crate) fn retime(&mut self, timing: Timing) {
        self.timing = timing;
    }

    pub(crate) fn set_tip(&mut self, now: Duration, tip: (u64, CryptoHash), final_height: u64) {
        self.tip = tip;
        self.final_height = final_height;
        self.timer_height = tip.0 + 1;
        self.timer_started = now;
        self.endorse_at = Some(now + self.timing.min_block_production_delay);
        self.approvals = self.approvals.split_off(&(tip.0 + 1));
    }

    /// Delay of the next skip.
    fn skip_delay(&self) -> Duration {
        self.timing.skip_delay(self.timer_height.saturating_sub(self.final_height))
    }

    /// How long the producer of `target` waits for chunks.
    pub(crate) fn chunk_wait(&self, target: u64) -> Duration {
        self.timing.chunk_wait(target.saturating_sub(self.final_height))
    }

    pub(crate) fn poll(&mut self, now: Duration) -> Due {
        let mut due = Due::default();
        if self.endorse_at.is_some_and(|at| now >= at) {
            self.endorse_at = None;
            self.approve(&mut due, ApprovalBasis::Endorsement(self.tip.1), self.tip.0 + 1);
        }
        // One step a poll: after a long pause the node does not skip many heights at once.
        if now >= self.timer_started + self.skip_delay() {
            self.timer_started = now;
            self.timer_height += 1;
            due.is_skip = true;
            self.approve(&mut due, ApprovalBasis::Skip(self.tip.0), self.timer_height);
        }
        due
    }

    fn approve(&mut self, due: &mut Due, basis: ApprovalBasis, target: u64) {
        if target > self.largest_target {
            self.largest_target = target;
            due.approvals.push((basis, target));
        }
    }

    pub(crate) fn next_deadline(&self) -> Duration {
        let skip_at = self.timer_started + self.skip_delay();
        self.endorse_at.map_or(skip_at, |at| at.min(skip_at))
    }

    /// Keeps an approval whose signature was checked. They may come before the tip that they stand on.
    pub(crate) fn add(&mut self, approval: Approval) {
        let target = approval.target_height;
        if target > self.tip.0 && target <= self.tip.0 + TARGETS_AHEAD_MAX {
            self.approvals.entry(target).or_default().insert(approval.validator, approval);
        }
    }

    /// Heights with approvals, lowest first.
    pub(crate) fn targets(&self) -> impl Iterator<Item = u64> + '_ {
        self.approvals.keys().copied()
    }

    /// Approvals of `target` that stand on the tip.
    pub(crate) fn approvals(&self, target: u64) -> impl Iterator<Item = &Approval> {
        let basis = Approval::basis_for(target, self.tip.0, self.tip.1);
        let all = self.approvals.get(&target).into_iter().flat_map(BTreeMap::values);
        all.filter(move |approval| approval.basis == basis)
    }
}

#[cfg(test)]
impl Doomslug {
    pub(crate) fn kept(&self) -> usize {
        self.approvals.values().map(BTreeMap::len).sum()
    }
}
