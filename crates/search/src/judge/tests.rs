use tpsctl_model::{
    Tps,
    load::InjectReport,
    observation::{ExitKind, LostCause},
};
use tpsctl_near::TRANSFER_GAS_UNIT;

use crate::{
    count,
    testkit::{SECOND_NS, START_NS, chain, inject, ordered, plan},
};

use super::*;

const SHARDS: [ShardId; 2] = [ShardId(0), ShardId(1)];

/// 1 000 transfers on each shard, all settled in the window, no fault anywhere.
struct Case {
    report: InjectReport,
    seen: Observation,
    rate: Tps,
    interrupted: bool,
}

impl Case {
    fn good() -> Self {
        let seen = chain(&SHARDS, 12).window(2.0, 8.0).units(5, 0, 2_000).units(5, 1, 2_000).done();
        let report = inject(&[(1_000, [1_000, 0]), (1_000, [0, 1_000])]);
        Self { report, seen, rate: Tps(125), interrupted: false }
    }

    fn but(change: impl FnOnce(&mut Self)) -> Verdict {
        let mut case = Self::good();
        change(&mut case);
        case.judged()
    }

    fn judged(&self) -> Verdict {
        let plan = plan(&SHARDS);
        let load =
            JudgedLoad { rate_per_shard: self.rate, interrupted: self.interrupted, ..ordered(&self.report) };
        let counted = count(&load, &self.seen, &plan);
        judge(&counted, &load, &self.seen, &plan)
    }

    /// Shard 0 sends `number` fewer, for this cause.
    fn unsent(&mut self, cause: UnsentCause, number: u64) {
        let shard = &mut self.report.shards[0];
        shard.unsent.insert(cause, number);
        shard.sent -= number;
        shard.sent_to.insert(ShardId(0), shard.sent);
        self.seen.blocks[5].chunks[0].gas_used -= number * 2 * TRANSFER_GAS_UNIT;
    }

    /// Node cp1 ends at second 4.0; the load stops at 4.1, observation a little later, and the last final block is
    /// of second 2.
    fn ended_in_mid_load(&mut self, exit: ExitKind) {
        self.exit(4, exit);
        self.report.ended_unix_ns = START_NS + 4_100_000_000;
        self.seen.drained_unix_ns = START_NS + 4_200_000_000;
        self.seen.blocks.truncate(3);
        (self.seen.idle, self.seen.pending) = (false, 3);
        for shard in &mut self.report.shards {
            (shard.intended, shard.sent) = (510, 490);
            shard.unsent = [(UnsentCause::NotConnected, 8), (UnsentCause::Stopped, 12)].into();
            shard.sent_to = [(shard.shard, 490)].into();
        }
    }

    fn exit(&mut self, second: u64, exit: ExitKind) {
        let node = NodeName("cp1".to_owned());
        self.seen.exits.push(NodeExit { node, unix_ns: START_NS + second * SECOND_NS, exit });
    }

    fn gap(&mut self, source: &str, from: u64, to: u64) {
        self.seen.gaps.push(Gap {
            source: source.to_owned(),
            from_unix_ns: START_NS + from * SECOND_NS,
            to_unix_ns: START_NS + to * SECOND_NS,
            cause: "connection refused".to_owned(),
        });
    }

    /// From block `from` on, every block comes `seconds` later.
    fn late(&mut self, from: usize, seconds: u64) {
        for block in &mut self.seen.blocks[from..] {
            block.timestamp_unix_ns += seconds * SECOND_NS;
        }
    }
}

fn causes(verdict: &Verdict) -> &[InvalidCause] {
    let Verdict::Invalid { causes } = verdict else { panic!("{verdict:?}") };
    causes
}

fn criteria(verdict: &Verdict) -> &[BrokenCriterion] {
    let Verdict::Fail { criteria } = verdict else { panic!("{verdict:?}") };
    criteria
}

#[test]
fn a_faultless_trial_passes() {
    assert_eq!(Case::good().judged(), Verdict::Pass);
}

#[test]
fn an_idle_trial_has_no_backlog() {
    let seen = chain(&SHARDS, 12).window(2.0, 8.0).done();
    let report = inject(&[(0, [0, 0]), (0, [0, 0])]);
    assert_eq!(Case { report, seen, rate: Tps(0), interrupted: false }.judged(), Verdict::Pass);
}

#[test]
fn each_fault_of_ours_is_invalid() {
    use InvalidCause as C;
    use UnsentCause as U;
    let lag = |p99: f64| Case::but(|case| case.report.shards[1].send_lag_ms.p99 = p99);
    assert_eq!(lag(49.9), Verdict::Pass);
    assert!(matches!(causes(&lag(50.0)), [C::SendLag { .. }]), "50 ms is too much");
    for cause in [U::GeneratorLate, U::NotConnected, U::NoBlockHash, U::Stopped] {
        let short = |number: u64| Case::but(|case| case.unsent(cause, number));
        assert_eq!(short(2), Verdict::Pass, "2 of 2 000 is not over 0.1 %");
        assert!(matches!(causes(&short(3)), [C::Unsent { .. }]), "{cause:?}");
        assert!(matches!(causes(&short(100)), [C::Unsent { .. }]), "{cause:?} never fails a trial");
    }
    assert!(matches!(causes(&Case::but(|case| case.report.clock_stepped = true)), [C::ClockStep]));
    assert!(matches!(causes(&Case::but(|case| case.interrupted = true)), [C::Interrupted]));
    assert_eq!(Case::but(|case| case.gap("cp0", 2, 5)), Verdict::Pass, "3 s is not over 3 s");
    assert!(matches!(causes(&Case::but(|case| case.gap("cp0", 2, 6))), [C::Gap { gap_ms: 4_000, .. }]));
    for exit in [ExitKind::Signal(9), ExitKind::Code(0)] {
        let ended = Case::but(|case| case.exit(5, exit));
        assert!(matches!(causes(&ended), [C::NodeEnded { .. }]), "{exit}");
    }
    let open = Case::but(|case| case.seen.blocks[5].chunks[0].gas_used /= 2);
    assert_eq!(causes(&open), [C::AccountsOpen { difference: 500 }]);
    assert!(matches!(causes(&Case::but(|case| case.seen.blocks.clear())), [C::NoBlocks]));
    assert!(matches!(causes(&Case::but(|case| drop(case.seen.blocks.remove(4)))), [C::Gap { .. }]));
}

#[test]
fn invalid_dominates_and_lists_every_cause() {
    let verdict = Case::but(|case| {
        case.late(3, 30);
        case.report.clock_stepped = true;
        case.gap("cp0", 2, 6);
    });
    assert_eq!(causes(&verdict).len(), 2);
}

#[test]
fn a_node_that_dies_by_itself_fails_the_trial_and_its_consequences_do_not_make_it_invalid() {
    let verdict = Case::but(|case| {
        case.exit(5, ExitKind::Signal(6));
        case.gap("cp1", 5, 12);
        case.gap("blocks", 5, 10);
        case.seen.blocks[5].chunks[1].gas_used = 0;
        case.seen.idle = false;
    });
    // Nobody waited for the rest to settle, so that there is no backlog to judge.
    assert!(matches!(criteria(&verdict), [BrokenCriterion::NodeCrashed { .. }]), "{verdict:?}");
}

#[test]
fn a_crash_in_mid_load_is_all_that_its_trial_says() {
    let verdict = Case::but(|case| case.ended_in_mid_load(ExitKind::Signal(11)));
    assert!(matches!(criteria(&verdict), [BrokenCriterion::NodeCrashed { .. }]), "{verdict:?}");
    let verdict = Case::but(|case| case.ended_in_mid_load(ExitKind::Code(0)));
    assert!(matches!(causes(&verdict), [InvalidCause::NodeEnded { .. }]), "{verdict:?}");
}

#[test]
fn a_crash_that_stops_the_load_comes_before_what_broke_earlier() {
    let verdict = Case::but(|case| {
        case.late(3, 1);
        case.exit(7, ExitKind::Code(101));
    });
    assert!(
        matches!(
            criteria(&verdict),
            [BrokenCriterion::NodeCrashed { .. }, BrokenCriterion::BlockTime { .. }]
        ),
        "{verdict:?}"
    );
}

#[test]
fn an_interrupt_is_the_only_cause_of_what_follows_from_it() {
    let verdict = Case::but(|case| {
        case.interrupted = true;
        case.report.shards[0].intended = 700;
        case.report.shards[0].sent = 600;
        case.report.shards[0].unsent.insert(UnsentCause::Stopped, 100);
        case.report.shards[0].sent_to.insert(ShardId(0), 600);
    });
    assert_eq!(causes(&verdict), [InvalidCause::Interrupted]);
}

#[test]
fn a_load_that_ran_to_its_end_had_what_was_ordered() {
    let verdict = Case::but(|case| case.rate = Tps(126));
    let [
        InvalidCause::ScheduleMissed { shard: ShardId(0), intended: 1_000, scheduled: 1_008 },
        InvalidCause::ScheduleMissed { shard: ShardId(1), .. },
    ] = causes(&verdict)
    else {
        panic!("{verdict:?}")
    };
    let verdict = Case::but(|case| drop(case.report.shards.pop()));
    let missing = InvalidCause::ScheduleMissed { shard: ShardId(1), intended: 0, scheduled: 1_000 };
    assert!(causes(&verdict).contains(&missing), "{verdict:?}");
}

#[test]
fn nothing_explains_books_that_do_not_balance() {
    let unbalanced = |case: &mut Case| {
        case.report.shards[0].unsent.insert(UnsentCause::BackPressure, 5);
        case.report.shards[1].sent_to.insert(ShardId(1), 998);
    };
    let crashed = Case::but(|case| {
        unbalanced(case);
        case.exit(9, ExitKind::Code(101));
    });
    assert_eq!(causes(&crashed), [InvalidCause::AccountsOpen { difference: 7 }]);
    let busy = Case::but(|case| {
        unbalanced(case);
        case.seen.idle = false;
    });
    assert_eq!(causes(&busy), [InvalidCause::AccountsOpen { difference: 7 }]);
}

#[test]
fn a_crash_excuses_nothing_that_it_did_not_cause() {
    let other_node = Case::but(|case| {
        case.exit(5, ExitKind::Code(101));
        case.gap("cp0", 5, 12);
    });
    assert!(matches!(causes(&other_node), [InvalidCause::Gap { .. }]));
    let before = Case::but(|case| {
        case.exit(9, ExitKind::Code(101));
        case.gap("cp1", 2, 6);
    });
    assert!(matches!(causes(&before), [InvalidCause::Gap { .. }]));
    let also_killed = Case::but(|case| {
        case.exit(5, ExitKind::Code(101));
        case.exit(6, ExitKind::Signal(15));
    });
    assert!(matches!(causes(&also_killed), [InvalidCause::NodeEnded { .. }]));
}

#[test]
fn missed_chunks_are_compared_with_the_share_that_is_allowed() {
    let missed = |blocks: std::ops::Range<usize>| {
        Case::but(|case| {
            for block in &mut case.seen.blocks[blocks] {
                // Shard 1 reports its gas in block 5, which therefore is not touched here.
                block.chunks[0].included = block.height == 105;
            }
        })
    };
    assert_eq!(missed(9..12), Verdict::Pass, "outside the window");
    let verdict = missed(3..4);
    let [BrokenCriterion::MissedChunks { missed, slots, .. }] = criteria(&verdict) else {
        panic!("{verdict:?}")
    };
    assert_eq!((*missed, *slots), (1, 12));
}

#[test]
fn late_blocks_fail_by_their_quantile() {
    // Six intervals in the window, p90 by nearest rank is the largest.
    let verdict = Case::but(|case| {
        for block in &mut case.seen.blocks[4..] {
            block.timestamp_unix_ns += SECOND_NS;
        }
    });
    assert_eq!(criteria(&verdict), [BrokenCriterion::BlockTime { quantile_ms: 2_000.0, max_ms: 1_500.0 }]);
}

#[test]
fn a_network_that_stops_is_a_failure_and_not_a_missing_observation() {
    let verdict = Case::but(|case| case.late(2, 20));
    assert!(matches!(criteria(&verdict)[0], BrokenCriterion::BlockTime { .. }), "{verdict:?}");
}

#[test]
fn the_backlog_is_judged_at_the_drains_end() {
    let verdict = Case::but(|case| {
        case.seen.drained_unix_ns = case.seen.blocks[9].timestamp_unix_ns;
        case.seen.blocks[5].chunks[0].gas_used -= 100 * TRANSFER_GAS_UNIT;
        case.seen.blocks[10].chunks[0].gas_used = 100 * TRANSFER_GAS_UNIT;
    });
    assert_eq!(criteria(&verdict), [BrokenCriterion::Backlog { settled_share: 0.975, share_min: 0.98 }]);
}

#[test]
fn load_that_the_network_refuses_counts_as_backlog() {
    let refused = |number| Case::but(|case| case.unsent(UnsentCause::BackPressure, number));
    assert_eq!(refused(40), Verdict::Pass, "1 960 of 2 000 is 98 %");
    assert!(matches!(criteria(&refused(50)), [BrokenCriterion::Backlog { .. }]));
}

#[test]
fn losses_with_evidence_fail_and_do_not_open_the_accounts() {
    let verdict = Case::but(|case| {
        case.seen.blocks[5].chunks[0].gas_used -= 200 * TRANSFER_GAS_UNIT;
        case.seen.dropped.insert(LostCause::PoolFull, 100);
    });
    assert_eq!(criteria(&verdict), [BrokenCriterion::Backlog { settled_share: 0.95, share_min: 0.98 }]);
}

#[test]
fn criteria_come_in_the_order_in_which_they_broke() {
    use BrokenCriterion as B;
    let verdict = Case::but(|case| {
        case.late(3, 1);
        case.seen.blocks[6].chunks[0].included = false;
        case.exit(9, ExitKind::Code(1));
    });
    assert!(
        matches!(criteria(&verdict), [B::BlockTime { .. }, B::MissedChunks { .. }, B::NodeCrashed { .. }]),
        "{verdict:?}"
    );
}

#[test]
fn accounts_of_a_chain_that_is_not_idle_cannot_be_judged() {
    let with_gas_of = |idle, pending, units: u64| {
        Case::but(|case| {
            (case.seen.idle, case.seen.pending) = (idle, pending);
            case.seen.blocks[5].chunks[0].gas_used = units * TRANSFER_GAS_UNIT;
        })
    };
    // 30 converted and not executed, and none or half of the pending counted.
    assert_eq!(with_gas_of(false, 30, 1_970), Verdict::Pass);
    assert_eq!(with_gas_of(false, 0, 1_970), Verdict::Pass);
    assert!(matches!(criteria(&with_gas_of(false, 30, 1_800)), [BrokenCriterion::Backlog { .. }]));
    assert_eq!(causes(&with_gas_of(true, 0, 1_800)), [InvalidCause::AccountsOpen { difference: 100 }]);
}
