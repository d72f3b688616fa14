//! The verdict on a trial. A fault on our side never moves the search: it makes the trial invalid, whatever the chain
//! did. Only the chain can make a trial fail.

use tpsctl_model::{
    NodeName,
    load::InjectReport,
    observation::{Gap, NodeExit, Observation},
    plan::RunPlan,
    verdict::{BrokenCriterion, InvalidCause, Verdict},
};

use crate::{
    count::Counted,
    quantile::{quantile_ms, rank},
};

/// Guards comparisons of shares against the last bit of a product.
const ROUNDING: f64 = 1e-9;

/// Judges a counted trial against the goal and the invalid thresholds of `plan`. `interrupted` says that the load was
/// stopped before its end.
///
/// Invalid dominates, with one exception: when a node exits or crashes by itself, that is the chain's failure, and what
/// follows from it (that node's metrics or blocks that cannot be read, open accounts) does not make it invalid.
/// All causes, or all criteria, are listed; criteria in the order of the moment from which they could not hold any more.
pub fn judge(
    counted: &Counted,
    report: &InjectReport,
    observation: &Observation,
    plan: &RunPlan,
    interrupted: bool,
) -> Verdict {
    let trial = JudgedTrial { counted, report, observation, plan };
    let causes = trial.invalid_causes(interrupted);
    if !causes.is_empty() {
        return Verdict::Invalid { causes };
    }
    let mut broken = trial.broken_criteria();
    if broken.is_empty() {
        return Verdict::Pass;
    }
    broken.sort_by_key(|(since_unix_ns, _)| *since_unix_ns);
    Verdict::Fail { criteria: broken.into_iter().map(|(_, criterion)| criterion).collect() }
}

struct JudgedTrial<'a> {
    counted: &'a Counted,
    report: &'a InjectReport,
    observation: &'a Observation,
    plan: &'a RunPlan,
}

/// A criterion with the moment from which it could not hold any more, nanoseconds since the Unix epoch.
type Since = (u64, BrokenCriterion);

impl JudgedTrial<'_> {
    fn invalid_causes(&self, interrupted: bool) -> Vec<InvalidCause> {
        let mut causes = Vec::new();
        if interrupted {
            causes.push(InvalidCause::Interrupted);
        }
        causes.extend(self.node_ended_from_outside());
        causes.extend(self.send_lag());
        causes.extend(self.unsent());
        if self.report.clock_stepped {
            causes.push(InvalidCause::ClockStep);
        }
        causes.extend(self.unreadable());
        if self.counted.window.intervals.is_empty() && self.crashes().next().is_none() {
            causes.push(InvalidCause::NoBlocks);
        }
        let explained = causes.iter().any(can_open_accounts) || self.crashes().next().is_some();
        if !explained {
            causes.extend(self.accounts_open());
        }
        causes
    }

    /// Nodes that ended by themselves. The chain's failure.
    fn crashes(&self) -> impl Iterator<Item = &NodeExit> {
        self.observation.exits.iter().filter(|exit| exit.exit.is_self_inflicted())
    }

    fn node_ended_from_outside(&self) -> impl Iterator<Item = InvalidCause> {
        self.observation
            .exits
            .iter()
            .filter(|exit| !exit.exit.is_self_inflicted())
            .map(|exit| InvalidCause::NodeEnded { node: exit.node.clone(), exit: exit.exit })
    }

    /// The worst of the whole and of each shard: one late shard must not hide behind punctual ones.
    fn send_lag(&self) -> Option<InvalidCause> {
        let max_ms = self.plan.trial.send_lag_p99_max_ms.0 as f64;
        let of_shards = self.report.shards.iter().map(|shard| shard.send_lag_ms);
        let p99_ms = of_shards
            .chain([self.report.send_lag_ms])
            .filter(|lag| lag.count > 0)
            .map(|lag| lag.p99)
            .reduce(f64::max)?;
        (p99_ms >= max_ms).then_some(InvalidCause::SendLag { p99_ms, max_ms })
    }

    fn unsent(&self) -> Option<InvalidCause> {
        let share_max = self.plan.trial.unsent_max.0;
        let share = self.unsent_by(true) as f64 / self.counted.counts.intended.max(1) as f64;
        (share > share_max + ROUNDING).then_some(InvalidCause::Unsent { share, share_max })
    }

    /// Unsent for our own causes, or for the node's.
    fn unsent_by(&self, ours: bool) -> u64 {
        let unsent = &self.counted.counts.unsent;
        unsent.iter().filter(|(cause, _)| cause.is_ours() == ours).map(|(_, number)| number).sum()
    }

    /// Gaps over the bound, and every block that was not observed: without it nothing can be counted.
    fn unreadable(&self) -> impl Iterator<Item = InvalidCause> {
        let gap_max_ms = self.plan.trial.gap_max_ms.0;
        let too_long = move |gap: &&Gap| length_ms(gap) > gap_max_ms;
        let gaps = self.observation.gaps.iter().filter(too_long);
        gaps.chain(&self.counted.window.holes).filter(|gap| !self.follows_from_a_crash(gap)).map(|gap| {
            InvalidCause::Gap { source: gap.source.clone(), gap_ms: length_ms(gap), error: gap.cause.clone() }
        })
    }

    /// Whether the gap lasted to a crash or began after it, and is in that node's metrics or in the blocks, which any
    /// producer may serve.
    fn follows_from_a_crash(&self, gap: &Gap) -> bool {
        self.crashes().any(|exit| {
            let concerned = gap.source == exit.node.0 || gap.source == "blocks";
            concerned && gap.to_unix_ns >= exit.unix_ns
        })
    }

    /// On a chain that is not idle, transfers may be half settled, so up to the pending may be counted otherwise.
    fn accounts_open(&self) -> Option<InvalidCause> {
        let difference = self.counted.counts.difference;
        let may_be_half_settled = if self.observation.idle { 0 } else { self.observation.pending };
        (difference.unsigned_abs() > may_be_half_settled).then_some(InvalidCause::AccountsOpen { difference })
    }

    /// In the order in which ties are broken.
    fn broken_criteria(&self) -> Vec<Since> {
        let mut broken: Vec<Since> = self.crashes().map(crashed).collect();
        broken.extend(self.missed_chunks());
        broken.extend(self.block_time());
        broken.extend(self.backlog());
        broken
    }

    fn missed_chunks(&self) -> Option<Since> {
        let window = &self.counted.window;
        let share_max = self.plan.goal.missed_slots_max.0;
        let slots = window.slots();
        let allowed = share_max * slots as f64 + ROUNDING;
        let mut missed = 0;
        let broken = window.intervals.iter().find(|interval| {
            missed += interval.missed_slots();
            missed as f64 > allowed
        })?;
        let criterion = BrokenCriterion::MissedChunks { missed: window.missed(), slots, share_max };
        Some((broken.ended_unix_ns, criterion))
    }

    fn block_time(&self) -> Option<Since> {
        let goal = &self.plan.goal;
        let max_ms = goal.block_time_ratio_max * self.plan.chain.block_time_min_ms.0 as f64;
        let times_ms = self.counted.window.block_times_ms();
        let quantile_ms = quantile_ms(&times_ms, goal.block_time_quantile)?;
        if quantile_ms <= max_ms {
            return None;
        }
        // The quantile is over the bound exactly when more intervals are than may lie above its rank. An interval is
        // too long from the moment on at which it has lasted the bound, not only when its block comes at last.
        let may_be_slow = times_ms.len() - rank(times_ms.len(), goal.block_time_quantile);
        let too_long_since = |interval: &crate::Interval| {
            let over_ms = interval.block_time_ms.map(|block_time| block_time - max_ms)?;
            (over_ms > 0.0).then(|| interval.ended_unix_ns.saturating_sub((over_ms * 1e6) as u64))
        };
        let since = self.counted.window.intervals.iter().filter_map(too_long_since).nth(may_be_slow)?;
        Some((since, BrokenCriterion::BlockTime { quantile_ms, max_ms }))
    }

    /// Settled by the end of the drain, of the sent and of what the network did not let us send.
    fn backlog(&self) -> Option<Since> {
        let due = self.counted.counts.sent + self.unsent_by(false);
        if due == 0 {
            return None;
        }
        let share_min = self.plan.goal.settled_min.0;
        let settled_share = self.counted.counts.settled_by_drain_end as f64 / due as f64;
        let is_broken = settled_share < share_min - ROUNDING;
        is_broken.then_some((
            self.observation.drained_unix_ns,
            BrokenCriterion::Backlog { settled_share, share_min },
        ))
    }
}

fn crashed(exit: &NodeExit) -> Since {
    let node: NodeName = exit.node.clone();
    (exit.unix_ns, BrokenCriterion::NodeCrashed { node, exit: exit.exit })
}

fn length_ms(gap: &Gap) -> u64 {
    gap.to_unix_ns.saturating_sub(gap.from_unix_ns) / 1_000_000
}

/// Whether the cause leaves transfers unexplained by itself, so that open accounts are no news.
fn can_open_accounts(cause: &InvalidCause) -> bool {
    match cause {
        InvalidCause::Interrupted | InvalidCause::NodeEnded { .. } | InvalidCause::NoBlocks => true,
        InvalidCause::Gap { source, .. } => source == "blocks",
        InvalidCause::SendLag { .. }
        | InvalidCause::Unsent { .. }
        | InvalidCause::ClockStep
        | InvalidCause::AccountsOpen { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use tpsctl_model::{
        ShardId,
        load::UnsentCause,
        observation::{ExitKind, LostCause},
    };

    use crate::{
        count,
        testkit::{SECOND_NS, START_NS, chain, inject, plan},
    };

    use super::*;

    const SHARDS: [ShardId; 2] = [ShardId(0), ShardId(1)];

    /// 1 000 transfers on each shard, all settled in the window, no fault anywhere.
    struct Case {
        report: InjectReport,
        seen: Observation,
        interrupted: bool,
    }

    impl Case {
        fn good() -> Self {
            let seen = chain(&SHARDS, 12).window(2.0, 8.0).units(5, 0, 2_000).units(5, 1, 2_000).done();
            Self { report: inject(&[(1_000, [1_000, 0]), (1_000, [0, 1_000])]), seen, interrupted: false }
        }

        fn but(change: impl FnOnce(&mut Self)) -> Verdict {
            let mut case = Self::good();
            change(&mut case);
            case.judged()
        }

        fn judged(&self) -> Verdict {
            let plan = plan(&SHARDS);
            let counted = count(&self.report, &self.seen, &plan);
            judge(&counted, &self.report, &self.seen, &plan, self.interrupted)
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
        assert_eq!(Case { report, seen, interrupted: false }.judged(), Verdict::Pass);
    }

    #[test]
    fn each_fault_of_ours_is_invalid() {
        use InvalidCause as C;
        let lag = |p99: f64| Case::but(|case| case.report.shards[1].send_lag_ms.p99 = p99);
        assert_eq!(lag(49.9), Verdict::Pass);
        assert!(matches!(causes(&lag(50.0)), [C::SendLag { .. }]), "50 ms is too much");
        let short = |number: u64| {
            Case::but(|case| {
                case.report.shards[0].unsent.insert(UnsentCause::GeneratorLate, number);
                case.report.shards[0].intended += number;
            })
        };
        assert_eq!(short(2), Verdict::Pass, "2 of 2 002 is under 0.1 %");
        assert!(matches!(causes(&short(3)), [C::Unsent { .. }]));
        assert!(matches!(causes(&Case::but(|case| case.report.clock_stepped = true)), [C::ClockStep]));
        assert!(matches!(causes(&Case::but(|case| case.interrupted = true)), [C::Interrupted]));
        assert_eq!(Case::but(|case| case.gap("cp0", 2, 5)), Verdict::Pass, "3 s is not over 3 s");
        assert!(matches!(causes(&Case::but(|case| case.gap("cp0", 2, 6))), [C::Gap { gap_ms: 4_000, .. }]));
        let killed = Case::but(|case| case.exit(5, ExitKind::Signal(9)));
        assert!(matches!(causes(&killed), [C::NodeEnded { .. }]));
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
        let broken = criteria(&verdict);
        assert!(matches!(broken[0], BrokenCriterion::NodeCrashed { .. }), "{broken:?}");
        assert!(broken.iter().any(|criterion| matches!(criterion, BrokenCriterion::Backlog { .. })));
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
        assert_eq!(
            criteria(&verdict),
            [BrokenCriterion::BlockTime { quantile_ms: 2_000.0, max_ms: 1_500.0 }]
        );
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
            case.seen.blocks[5].chunks[0].gas_used -= 100 * tpsctl_near::TRANSFER_GAS_UNIT;
            case.seen.blocks[10].chunks[0].gas_used = 100 * tpsctl_near::TRANSFER_GAS_UNIT;
        });
        assert_eq!(criteria(&verdict), [BrokenCriterion::Backlog { settled_share: 0.975, share_min: 0.98 }]);
    }

    #[test]
    fn load_that_the_network_refuses_counts_as_backlog() {
        let refused = |cause, number| {
            Case::but(|case| {
                case.report.shards[0].unsent.insert(cause, number);
                case.report.shards[0].intended += number;
            })
        };
        assert_eq!(refused(UnsentCause::BackPressure, 40), Verdict::Pass, "2 000 of 2 040 is 98.04 %");
        for cause in [UnsentCause::BackPressure, UnsentCause::NotConnected] {
            assert!(matches!(criteria(&refused(cause, 50)), [BrokenCriterion::Backlog { .. }]));
        }
    }

    #[test]
    fn losses_with_evidence_fail_and_do_not_open_the_accounts() {
        let verdict = Case::but(|case| {
            case.seen.blocks[5].chunks[0].gas_used -= 200 * tpsctl_near::TRANSFER_GAS_UNIT;
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
            matches!(
                criteria(&verdict),
                [B::BlockTime { .. }, B::MissedChunks { .. }, B::NodeCrashed { .. }]
            ),
            "{verdict:?}"
        );
    }

    #[test]
    fn a_chain_that_is_not_idle_may_hold_half_settled_transfers() {
        let with_gas_of = |units: u64| {
            Case::but(|case| {
                (case.seen.idle, case.seen.pending) = (false, 30);
                case.seen.blocks[5].chunks[0].gas_used = units * tpsctl_near::TRANSFER_GAS_UNIT;
            })
        };
        // 30 converted and not executed: 970 x 2 + 30 units.
        assert_eq!(with_gas_of(1_970), Verdict::Pass);
        assert!(matches!(causes(&with_gas_of(1_800)), [InvalidCause::AccountsOpen { difference: 70 }]));
    }
}
