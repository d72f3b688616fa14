//! The verdict on a trial. A fault on our side never moves the search: it makes the trial invalid, whatever the chain
//! did. Only the chain can make a trial fail.

use tpsctl_model::{
    NodeName, ShardId,
    load::UnsentCause,
    observation::{Gap, NodeExit, Observation},
    plan::RunPlan,
    verdict::{BrokenCriterion, InvalidCause, Verdict},
};

use crate::{
    JudgedLoad,
    count::Counted,
    quantile::{quantile_ms, rank},
    window::Interval,
};

/// Guards comparisons of shares against the last bit of a product.
const ROUNDING: f64 = 1e-9;

/// Judges a counted trial against the goal and the invalid thresholds of `plan`.
///
/// Invalid dominates, with one exception: when a node exits or crashes by itself, that is the chain's failure, and what
/// follows from it (that node's metrics or blocks that cannot be read, load that was not sent, open accounts) does not
/// make it invalid. All causes, or all criteria, are listed; criteria in the order of the moment from which they could
/// not hold any more, but a crash that stopped the load before all others.
pub fn judge(counted: &Counted, load: &JudgedLoad<'_>, observation: &Observation, plan: &RunPlan) -> Verdict {
    let trial =
        JudgedTrial { counted, load, observation, plan, is_cut_short: load.is_cut_short(observation) };
    let causes = trial.invalid_causes();
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
    load: &'a JudgedLoad<'a>,
    observation: &'a Observation,
    plan: &'a RunPlan,
    is_cut_short: bool,
}

/// A criterion with the moment from which it could not hold any more, nanoseconds since the Unix epoch.
type Since = (u64, BrokenCriterion);

impl JudgedTrial<'_> {
    fn invalid_causes(&self) -> Vec<InvalidCause> {
        let mut causes = Vec::new();
        if self.load.interrupted {
            causes.push(InvalidCause::Interrupted);
        }
        causes.extend(self.node_ended_from_outside());
        causes.extend(self.send_lag());
        causes.extend(self.too_much_unsent());
        causes.extend(self.schedule_missed());
        if self.load.report.clock_stepped {
            causes.push(InvalidCause::ClockStep);
        }
        causes.extend(self.unreadable());
        if self.counted.window.intervals.is_empty() && self.crashes().next().is_none() {
            causes.push(InvalidCause::NoBlocks);
        }
        let is_explained = causes.iter().any(can_open_accounts) || self.crashes().next().is_some();
        causes.extend(self.accounts_open(is_explained));
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
        let of_shards = self.load.report.shards.iter().map(|shard| shard.send_lag_ms);
        let p99_ms = of_shards
            .chain([self.load.report.send_lag_ms])
            .filter(|lag| lag.count > 0)
            .map(|lag| lag.p99)
            .reduce(f64::max)?;
        (p99_ms >= max_ms).then_some(InvalidCause::SendLag { p99_ms, max_ms })
    }

    fn too_much_unsent(&self) -> Option<InvalidCause> {
        let share_max = self.plan.trial.unsent_max.0;
        let ours = self.unsent(|cause| cause.is_ours() && !self.follows_from_the_end(cause));
        let share = ours as f64 / self.counted.counts.intended.max(1) as f64;
        (share > share_max + ROUNDING).then_some(InvalidCause::Unsent { share, share_max })
    }

    fn unsent(&self, wanted: impl Fn(UnsentCause) -> bool) -> u64 {
        let unsent = &self.counted.counts.unsent;
        unsent.iter().filter(|(cause, _)| wanted(**cause)).map(|(_, number)| number).sum()
    }

    /// Whether what cut the trial short brought this about: the load stops on purpose, and a node that ends takes its
    /// connections along.
    fn follows_from_the_end(&self, cause: UnsentCause) -> bool {
        match cause {
            UnsentCause::Stopped => self.is_cut_short,
            UnsentCause::NotConnected => !self.observation.exits.is_empty(),
            UnsentCause::GeneratorLate | UnsentCause::BackPressure | UnsentCause::NoBlockHash => false,
        }
    }

    /// Shards on which another number of transfers fell due than was ordered, where the load ran to its end.
    fn schedule_missed(&self) -> impl Iterator<Item = InvalidCause> {
        let scheduled = self.load.scheduled_per_shard();
        let shards = if self.is_cut_short { &[] } else { self.plan.chain.shard_ids.as_slice() };
        let missed = move |shard: &ShardId| {
            let own = self.load.report.shards.iter().filter(|own| own.shard == *shard);
            let intended = own.map(|own| own.intended).sum();
            (intended != scheduled).then_some(InvalidCause::ScheduleMissed {
                shard: *shard,
                intended,
                scheduled,
            })
        };
        shards.iter().filter_map(missed)
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

    /// On a chain that is not idle, transfers are in blocks that are not final and in receipts on their way: nothing can
    /// be said of sent and included there. What the injector's own books leave open, nothing explains.
    fn accounts_open(&self, is_explained: bool) -> Option<InvalidCause> {
        let can_be_judged = self.observation.idle && !is_explained;
        let difference = if can_be_judged {
            self.counted.counts.difference
        } else {
            i64::try_from(self.load.books_open()).unwrap_or(i64::MAX)
        };
        (difference != 0).then_some(InvalidCause::AccountsOpen { difference })
    }

    /// In the order in which ties are broken.
    fn broken_criteria(&self) -> Vec<Since> {
        let mut broken: Vec<Since> = self.crashes().map(|exit| self.crashed(exit)).collect();
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
        let too_long_since = |interval: &Interval| {
            let over_ms = interval.block_time_ms.map(|block_time| block_time - max_ms)?;
            (over_ms > 0.0).then(|| interval.ended_unix_ns.saturating_sub((over_ms * 1e6) as u64))
        };
        let since = self.counted.window.intervals.iter().filter_map(too_long_since).nth(may_be_slow)?;
        Some((since, BrokenCriterion::BlockTime { quantile_ms, max_ms }))
    }

    /// A crash that stopped the load is what the trial says, whatever had gone wrong before it.
    fn crashed(&self, exit: &NodeExit) -> Since {
        let stopped_the_load = exit.unix_ns < self.load.scheduled_end_unix_ns();
        let since = if stopped_the_load { 0 } else { exit.unix_ns };
        let node: NodeName = exit.node.clone();
        (since, BrokenCriterion::NodeCrashed { node, exit: exit.exit })
    }

    /// Settled by the end of the drain, of what the network was offered: the sent, and what it did not let us send.
    /// A trial that was cut short had no drain.
    fn backlog(&self) -> Option<Since> {
        let offered = self.counted.counts.sent + self.unsent(|cause| !cause.is_ours());
        if offered == 0 || self.is_cut_short {
            return None;
        }
        let share_min = self.plan.goal.settled_min.0;
        let settled_share = self.counted.counts.settled_by_drain_end as f64 / offered as f64;
        let is_broken = settled_share < share_min - ROUNDING;
        is_broken.then_some((
            self.observation.drained_unix_ns,
            BrokenCriterion::Backlog { settled_share, share_min },
        ))
    }
}

fn length_ms(gap: &Gap) -> u64 {
    gap.to_unix_ns.saturating_sub(gap.from_unix_ns) / 1_000_000
}

/// Whether the cause leaves transfers unexplained by itself, so that open accounts are no news.
fn can_open_accounts(cause: &InvalidCause) -> bool {
    match cause {
        InvalidCause::Interrupted
        | InvalidCause::AgentLost { .. }
        | InvalidCause::NodeEnded { .. }
        | InvalidCause::NoBlocks => true,
        InvalidCause::Gap { source, .. } => source == "blocks",
        InvalidCause::SendLag { .. }
        | InvalidCause::Unsent { .. }
        | InvalidCause::ScheduleMissed { .. }
        | InvalidCause::ClockStep
        | InvalidCause::AccountsOpen { .. } => false,
    }
}

#[cfg(test)]
mod tests;
