//! Transfers from gas, and whether what was sent and what the blocks say add up.

use std::collections::BTreeMap;

use tpsctl_model::{
    ShardId,
    load::ShardInject,
    observation::{BlockFact, Observation},
    result::{Accounting, NotJudged, TrialRecord},
    verdict::{BrokenCriterion, InvalidCause, Verdict},
};
use tpsctl_near::TRANSFER_GAS_UNIT;

use crate::JudgedLoad;

/// Gas by shard. `gas_used` in a chunk header is what the shard's previous chunk burnt, and each chunk's is reported
/// once, in the next *included* header: headers that a block only repeats do not count.
pub(crate) fn gas_by_shard<'a>(blocks: impl Iterator<Item = &'a BlockFact>) -> BTreeMap<ShardId, u128> {
    let mut gas = BTreeMap::new();
    for chunk in blocks.flat_map(|block| &block.chunks).filter(|chunk| chunk.included) {
        *gas.entry(chunk.shard).or_insert(0) += u128::from(chunk.gas_used);
    }
    gas
}

/// What one transfer burns in all its parts.
pub(crate) fn gas_per_transfer(observation: &Observation) -> u128 {
    gas_of_units(observation.units_per_transfer)
}

fn gas_of_units(units_per_transfer: u64) -> u128 {
    u128::from(units_per_transfer.max(1)) * u128::from(TRANSFER_GAS_UNIT)
}

/// Transfers that `blocks` prove to be settled, `units_per_transfer` gas units each
/// ([`tpsctl_near::units_per_transfer`]), rounded down. Holds only where nothing but plain transfers runs.
pub fn settled_transfers<'a>(
    blocks: impl IntoIterator<Item = &'a BlockFact>,
    units_per_transfer: u64,
) -> u64 {
    whole_transfers(gas_by_shard(blocks.into_iter()).values().sum(), gas_of_units(units_per_transfer))
}

/// Whole transfers in `gas`, rounded down: half-settled transfers are not settled.
pub(crate) fn whole_transfers(gas: u128, gas_per_transfer: u128) -> u64 {
    saturate(gas / gas_per_transfer)
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// What is known of a trial's transfers besides the blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claims<'a> {
    pub(crate) load: &'a JudgedLoad<'a>,
    pub(crate) observation: &'a Observation,
    pub(crate) sent: u64,
    pub(crate) lost: u64,
}

impl Claims<'_> {
    /// Whether every sent transfer must have been settled: nothing pending, nothing lost.
    pub(crate) fn all_must_have_settled(&self) -> bool {
        self.observation.idle && self.observation.pending == 0 && self.lost == 0
    }

    /// Transfers that the accounts do not explain: sent - included - pending - lost, and never less than what does not
    /// fit shard by shard or what the injector's own books leave open.
    pub(crate) fn difference(&self, gas: &BTreeMap<ShardId, u128>) -> i64 {
        let per_transfer = gas_per_transfer(self.observation);
        let total: u128 = gas.values().sum();
        let explained = i128::from(self.observation.pending) + i128::from(self.lost);
        let open = |included: u128| {
            i128::from(self.sent) - i128::try_from(included).unwrap_or(i128::MAX / 2) - explained
        };
        // On an idle chain no transfer is half settled. A remainder is then a fault by itself: it is taken as
        // included or not, whichever leaves more unexplained.
        let (low, high) = (open(total.div_ceil(per_transfer)), open(total / per_transfer));
        let sum = if self.observation.idle && low.abs() > high.abs() { low } else { high };
        let on_chain = if self.all_must_have_settled() { self.shard_mismatch(gas, per_transfer) } else { 0 };
        let by_shard = on_chain.max(i128::from(self.load.books_open()));
        let difference = if by_shard > sum.abs() { if sum < 0 { -by_shard } else { by_shard } } else { sum };
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
    }

    /// How far the shards' gas is from what their senders and receivers must have burnt, in transfers, summed without
    /// sign, so that errors of two shards cannot cancel.
    fn shard_mismatch(&self, gas: &BTreeMap<ShardId, u128>, per_transfer: u128) -> i128 {
        let mut expected = BTreeMap::new();
        for shard in &self.load.report.shards {
            *expected.entry(shard.shard).or_insert(0_u128) +=
                u128::from(units_at_the_sender(shard.sent, self.observation)) * u128::from(TRANSFER_GAS_UNIT);
            for (receiver, sent) in &shard.sent_to {
                *expected.entry(*receiver).or_insert(0) += u128::from(*sent) * u128::from(TRANSFER_GAS_UNIT);
            }
        }
        for shard in gas.keys() {
            expected.entry(*shard).or_insert(0);
        }
        let apart: u128 =
            expected.iter().map(|(shard, want)| want.abs_diff(gas.get(shard).copied().unwrap_or(0))).sum();
        i128::try_from(apart.div_ceil(per_transfer)).unwrap_or(i128::MAX)
    }

    /// The transfers of `shard`'s senders that were included, if its blocks tell.
    pub(crate) fn included_of(&self, shard: &ShardInject, gas: &BTreeMap<ShardId, u128>) -> Option<u64> {
        let own = gas.get(&shard.shard).copied().unwrap_or(0);
        if !self.is_cross_shard() {
            return Some(whole_transfers(own, gas_per_transfer(self.observation)));
        }
        // Only when every transfer must have settled is the shard's part as a receiver known.
        let received: u64 =
            self.load.report.shards.iter().filter_map(|other| other.sent_to.get(&shard.shard)).sum();
        let as_sender = own.checked_sub(u128::from(received) * u128::from(TRANSFER_GAS_UNIT))?;
        let units = u128::from(units_at_the_sender(1, self.observation).max(1));
        self.all_must_have_settled().then(|| saturate(as_sender / (u128::from(TRANSFER_GAS_UNIT) * units)))
    }

    fn is_cross_shard(&self) -> bool {
        self.load
            .report
            .shards
            .iter()
            .any(|shard| shard.sent_to.iter().any(|(receiver, sent)| *receiver != shard.shard && *sent > 0))
    }
}

/// Gas units that `transfers` burn at the signer's shard: all but the execution at the receiver's.
fn units_at_the_sender(transfers: u64, observation: &Observation) -> u64 {
    transfers.saturating_mul(observation.units_per_transfer.max(1) - 1)
}

/// Whether the accounts of a run add up: every trial whose verdict lists open accounts counts with that difference.
/// What something else explains (a node that ended, blocks that could not be read, Ctrl-C, a network that was not idle)
/// is not judged, and said so.
pub fn accounting(trials: &[TrialRecord]) -> Accounting {
    let difference = trials.iter().map(open_in).fold(0, u64::saturating_add);
    let not_judged = trials.iter().filter_map(not_judged).collect();
    Accounting { closed: difference == 0, difference, not_judged }
}

fn causes_of(trial: &TrialRecord) -> &[InvalidCause] {
    match &trial.verdict {
        Verdict::Invalid { causes } => causes,
        Verdict::Pass | Verdict::Fail { .. } => &[],
    }
}

/// Transfers of a trial that nothing explains.
fn open_in(trial: &TrialRecord) -> u64 {
    let open = causes_of(trial).iter().map(|cause| match cause {
        InvalidCause::AccountsOpen { difference } => difference.unsigned_abs(),
        _ => 0,
    });
    open.fold(0, u64::saturating_add)
}

/// What of a trial's difference is not among its open accounts.
fn not_judged(trial: &TrialRecord) -> Option<NotJudged> {
    let difference = trial.counts.difference;
    let beyond = difference.unsigned_abs().saturating_sub(open_in(trial));
    let transfers = i64::try_from(beyond).unwrap_or(i64::MAX) * difference.signum();
    (transfers != 0).then(|| NotJudged {
        trial: trial.trial,
        transfers,
        why: why_not_judged(trial).to_owned(),
    })
}

/// What keeps a trial's accounts from being judged. Where no cause does, the network was not seen idle.
fn why_not_judged(trial: &TrialRecord) -> &'static str {
    let has = |wanted: fn(&InvalidCause) -> bool| causes_of(trial).iter().any(wanted);
    let is_crashed = matches!(&trial.verdict, Verdict::Fail { criteria }
        if criteria.iter().any(|own| matches!(own, BrokenCriterion::NodeCrashed { .. })));
    if is_crashed || has(|cause| matches!(cause, InvalidCause::NodeEnded { .. })) {
        "a node ended, so nobody waited for the rest"
    } else if has(|cause| matches!(cause, InvalidCause::Interrupted)) {
        "it was interrupted, so nobody waited for the rest"
    } else if has(|cause| matches!(cause, InvalidCause::Gap { .. } | InvalidCause::NoBlocks)) {
        "blocks or metrics could not be read"
    } else if has(|cause| matches!(cause, InvalidCause::ClockStep)) {
        "the wall clock was stepped"
    } else {
        "the network was not idle within `trial.idle_timeout`"
    }
}

#[cfg(test)]
mod tests {
    use tpsctl_model::{NodeName, load::QuantilesMs, observation::ExitKind, result::TrialCounts};

    use super::*;

    fn record(verdict: Verdict, difference: i64) -> TrialRecord {
        TrialRecord {
            trial: 7,
            rate_per_shard: 100,
            why: String::new(),
            cause: verdict.cause(),
            verdict,
            counts: TrialCounts { difference, ..TrialCounts::default() },
            block_time_ms: QuantilesMs::default(),
            send_lag_ms: QuantilesMs::default(),
            shards: vec![],
            skipped_heights: 0,
            load_seconds: 0.0,
            drain_seconds: 0.0,
        }
    }

    #[test]
    fn a_run_is_closed_when_no_trial_has_unexplained_transfers() {
        let crash = || Verdict::Fail {
            criteria: vec![BrokenCriterion::Backlog { settled_share: 0.5, share_min: 0.98 }],
        };
        let stopped = || Verdict::Invalid { causes: vec![InvalidCause::Interrupted] };
        let open = |difference| Verdict::Invalid { causes: vec![InvalidCause::AccountsOpen { difference }] };
        let is_closed = |trials: &[TrialRecord]| {
            let Accounting { closed, difference, .. } = accounting(trials);
            (closed, difference)
        };
        let explained = [record(Verdict::Pass, 0), record(crash(), 40), record(stopped(), 7)];
        assert_eq!(is_closed(&explained), (true, 0));
        let unexplained = [record(open(3), 3), record(Verdict::Pass, 0), record(open(-2), -2)];
        assert_eq!(is_closed(&unexplained), (false, 5));
        assert_eq!(accounting(&unexplained).not_judged, []);
        // Of 40 that a crash explains, 2 are in the injector's own books.
        assert_eq!(is_closed(&[record(open(2), 40)]), (false, 2));
        assert_eq!(accounting(&[record(open(2), 40)]).not_judged[0].transfers, 38);
    }

    #[test]
    fn what_is_not_judged_is_told_with_its_reason() {
        let invalid = |cause| Verdict::Invalid { causes: vec![cause] };
        let (node, exit) = (NodeName("node1".to_owned()), ExitKind::Signal(6));
        let crashed = BrokenCriterion::NodeCrashed { node: node.clone(), exit };
        let slow = BrokenCriterion::BlockTime { quantile_ms: 500.0, max_ms: 450.0 };
        let gap =
            InvalidCause::Gap { source: "blocks".to_owned(), gap_ms: 4_000, error: "timed out".to_owned() };
        let why = |verdict| accounting(&[record(verdict, -40)]).not_judged;
        let cases = [
            (Verdict::Fail { criteria: vec![slow.clone(), crashed] }, "a node ended"),
            (invalid(InvalidCause::NodeEnded { node, exit }), "a node ended"),
            (invalid(InvalidCause::Interrupted), "it was interrupted"),
            (invalid(gap), "could not be read"),
            (invalid(InvalidCause::NoBlocks), "could not be read"),
            (invalid(InvalidCause::ClockStep), "clock was stepped"),
            (invalid(InvalidCause::SendLag { p99_ms: 90.0, max_ms: 50.0 }), "not idle within"),
            (Verdict::Fail { criteria: vec![slow] }, "not idle within"),
            (Verdict::Pass, "not idle within"),
        ];
        for (verdict, wanted) in cases {
            let told = why(verdict.clone());
            assert_eq!(told.len(), 1, "{verdict:?}");
            assert_eq!((told[0].trial, told[0].transfers), (7, -40), "{verdict:?}");
            assert!(told[0].why.contains(wanted), "{verdict:?}: {}", told[0].why);
        }
        assert_eq!(accounting(&[record(Verdict::Pass, 0)]).not_judged, []);
    }
}
