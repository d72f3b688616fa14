//! The sentences that the terminal and the page share. A limit is an interval with its goal, never a bare number.

use tpsctl_model::{
    Millis,
    result::{Accounting, Bounds, Knee, LimitedBy, NotJudged, Outcome, RunResult, TrialRecord},
    verdict::{BrokenCriterion, Verdict},
};

use crate::number::{grouped, grouped_signed, total};

/// What every report of a run on the embedded node says, word for word.
pub(crate) const EMBEDDED_NOTICE: &str = "embedded node: not a measurement of neard";

/// The result in one line: the limit, or why there is none.
pub(crate) fn headline(result: &RunResult) -> String {
    match (&result.outcome, &result.knee) {
        (Outcome::Done, Some(knee)) => format!("limit: {}", interval(knee)),
        (Outcome::Done, None) => "no limit found".to_owned(),
        (Outcome::GoalNotMet { why }, _) => format!("goal not met: {why}"),
        (Outcome::Inconclusive { why }, _) => format!("inconclusive: {why}"),
        (Outcome::Invalid { why }, _) => format!("invalid run: {why}"),
        (Outcome::ProviderFailed { why }, _) => format!("provider or node failed: {why}"),
        (Outcome::Interrupted, _) => {
            let trials = result.trials.len();
            format!("interrupted after {trials} {}", if trials == 1 { "trial" } else { "trials" })
        }
    }
}

/// The same for a page's heading: the limit or the kind of end, and apart from it why there is no limit.
pub(crate) fn heading(result: &RunResult) -> (String, Option<&str>) {
    let (kind, why) = match &result.outcome {
        Outcome::Done | Outcome::Interrupted => return (headline(result), None),
        Outcome::GoalNotMet { why } => ("No limit: the goal is not met", why),
        Outcome::Inconclusive { why } => ("Inconclusive: no limit found", why),
        Outcome::Invalid { why } => ("Invalid run: it says nothing about the network", why),
        Outcome::ProviderFailed { why } => ("Provider or node failed: no limit found", why),
    };
    (kind.to_owned(), Some(why))
}

/// A text whose `code` stands between backticks, in its parts: whether it is code, and what it says.
pub(crate) fn parts(text: &str) -> Vec<(bool, &str)> {
    let parts: Vec<&str> = text.split('`').collect();
    // With an odd number of backticks nobody knows what is code.
    if parts.len().is_multiple_of(2) {
        return vec![(false, text)];
    }
    parts.into_iter().enumerate().map(|(index, part)| (!index.is_multiple_of(2), part)).collect()
}

/// `1 530-1 560 transfers/s per shard (6 120-6 240 total)`.
pub(crate) fn interval(knee: &Knee) -> String {
    let unit = &knee.unit;
    match (knee.per_shard_high, knee.total_high) {
        (Some(high), Some(total_high)) => format!(
            "{}-{} {unit} per shard ({}-{} total)",
            grouped(knee.per_shard_low),
            grouped(high),
            grouped(knee.total_low),
            grouped(total_high)
        ),
        _ => format!(
            "at least {} {unit} per shard ({} total), the search's upper bound",
            grouped(knee.per_shard_low),
            grouped(knee.total_low)
        ),
    }
}

/// What the headline rests on: how often each end was tried, or what is known without an interval.
pub(crate) fn basis(result: &RunResult) -> String {
    // "2 of 3": a verdict that was not unanimous must not read as if it had been.
    let times = |rate, word| {
        let valid = |trial: &&TrialRecord| trial.rate_per_shard == rate && trial.verdict.word() != "invalid";
        let trials = result.trials.iter().filter(valid).count();
        let same = result.trials.iter().filter(valid).filter(|trial| trial.verdict.word() == word).count();
        match (same, trials) {
            (1, 1) => "once".to_owned(),
            (2, 2) => "twice".to_owned(),
            (same, trials) if same == trials => format!("{same} times"),
            (same, trials) => format!("{same} of {trials} times"),
        }
    };
    match (&result.outcome, &result.knee) {
        (Outcome::Done, Some(knee)) => {
            let low = format!("{} passed {}", grouped(knee.per_shard_low), times(knee.per_shard_low, "pass"));
            let high = knee
                .per_shard_high
                .map(|high| format!(", {} failed {}", grouped(high), times(high, "fail")))
                .unwrap_or_default();
            format!("{low}{high}; no probability is claimed")
        }
        (_, Some(knee)) => format!("the search had closed at {}, but do not use it", interval(knee)),
        _ => known_bounds(result.bounds),
    }
}

fn known_bounds(bounds: Option<Bounds>) -> String {
    let (low, high) = bounds.map_or((None, None), |bounds| (bounds.per_shard_low, bounds.per_shard_high));
    match (low.map(grouped), high.map(grouped)) {
        (None, None) => "no rate was judged".to_owned(),
        (Some(low), None) => format!("known so far: {low} transfers/s per shard passed, none failed"),
        (None, Some(high)) => format!("known so far: {high} transfers/s per shard failed, none passed"),
        (Some(low), Some(high)) => format!("known so far: {low} transfers/s per shard passed, {high} failed"),
    }
}

/// The goal in words.
pub(crate) fn goal(result: &RunResult) -> String {
    let goal = &result.goal;
    let bound = block_time_bound_ms(result).map(|bound| format!(" ({bound:.0} ms)")).unwrap_or_default();
    format!(
        "at most {} of chunk slots missed; {} at most {} x the minimum{bound}; at least {} of what the network was offered settled by the end of the drain",
        goal.missed_slots_max,
        block_time_name(result),
        goal.block_time_ratio_max,
        goal.settled_min,
    )
}

/// The quantile of the goal: `block time p90`.
pub(crate) fn block_time_name(result: &RunResult) -> String {
    let quantile = result.goal.block_time_quantile.to_string();
    format!("block time p{}", quantile.trim_end_matches('%'))
}

/// The goal's bound on block times: from the scenario, else from a trial that broke it; else unknown.
pub(crate) fn block_time_bound_ms(result: &RunResult) -> Option<f64> {
    let minimum = result.scenario.pointer("/chain/block_time_min").and_then(serde_json::Value::as_str);
    let from_scenario = minimum
        .and_then(|text| text.parse::<Millis>().ok())
        .map(|minimum| minimum.0 as f64 * result.goal.block_time_ratio_max);
    let broken = || {
        result.trials.iter().find_map(|trial| match &trial.verdict {
            Verdict::Fail { criteria } => criteria.iter().find_map(|criterion| match criterion {
                BrokenCriterion::BlockTime { max_ms, .. } => Some(*max_ms),
                _ => None,
            }),
            _ => None,
        })
    };
    from_scenario.or_else(broken)
}

/// What stopped the network, in words.
pub(crate) fn limited_by(limit: LimitedBy) -> &'static str {
    match limit {
        LimitedBy::MissedChunks => "missed chunks",
        LimitedBy::BlockTime => "slow blocks",
        LimitedBy::Backlog => "a growing backlog",
        LimitedBy::NodeCrashed => "a node that ended by itself",
        LimitedBy::Generator => "our own generator, not the network",
        LimitedBy::BoundReached => "the search's upper bound, not the network",
        LimitedBy::None => "nothing that was found",
    }
}

/// The accounts of all trials in one line.
pub(crate) fn accounts(result: &RunResult) -> String {
    if result.trials.iter().all(|trial| trial.counts.sent == 0) {
        return "closed: nothing was sent".to_owned();
    }
    let sum = |of: fn(&TrialRecord) -> u64| grouped(total(result.trials.iter().map(of)));
    let difference =
        result.trials.iter().fold(0_i64, |sum, trial| sum.saturating_add(trial.counts.difference));
    let apart = match difference {
        0 => String::new(),
        difference => format!(" + difference {}", grouped_signed(difference)),
    };
    let sums = format!(
        "sent {} = included {} + pending {} + lost {}{apart}",
        sum(|trial| trial.counts.sent),
        sum(|trial| trial.counts.included),
        sum(|trial| trial.counts.pending),
        sum(|trial| total(trial.counts.lost.values().copied())),
    );
    let Accounting { closed, difference, not_judged } = &result.accounting;
    match (closed, not_judged.is_empty()) {
        (false, _) => format!("OPEN, {} transfers unexplained: {sums}", grouped(*difference)),
        (true, false) => format!("closed but for what is not judged: {sums}"),
        (true, true) => format!("closed: {sums}"),
    }
}

/// What is not judged in the accounts, a sentence a trial.
pub(crate) fn not_judged(result: &RunResult) -> Vec<String> {
    let said = |own: &NotJudged| {
        format!(
            "trial {}, not judged: {} transfers, since {}",
            own.trial,
            grouped_signed(own.transfers),
            own.why
        )
    };
    result.accounting.not_judged.iter().map(said).collect()
}

/// What helps where the run says nothing about the chain because our own side could not keep up.
pub(crate) fn hint(result: &RunResult) -> Option<&'static str> {
    let is_short = result.trials.last().is_some_and(|trial| trial.verdict.is_short_of_host());
    (matches!(result.outcome, Outcome::Invalid { .. }) && is_short).then_some(
        "most likely other programs use this host, or it is too small: end them, or make the network smaller (`chain.shards`)",
    )
}

/// The trials at the two ends of the interval, the last of each; without an interval those at the bounds known so far.
pub(crate) fn deciding(result: &RunResult) -> Vec<&TrialRecord> {
    let (low, high) = match (&result.knee, result.bounds) {
        (Some(knee), _) => (Some(knee.per_shard_low), knee.per_shard_high),
        (None, Some(bounds)) => (bounds.per_shard_low, bounds.per_shard_high),
        (None, None) => (None, None),
    };
    let last = |rate: Option<u64>, word| {
        let at_the_end =
            |trial: &&TrialRecord| Some(trial.rate_per_shard) == rate && trial.verdict.word() == word;
        result.trials.iter().rfind(at_the_end)
    };
    last(low, "pass").into_iter().chain(last(high, "fail")).collect()
}

#[cfg(test)]
mod tests {
    use crate::testkit;

    use super::*;

    #[test]
    fn the_last_trial_at_each_end_decides() {
        let numbers = |result: &RunResult| -> Vec<u32> {
            deciding(result).into_iter().map(|trial| trial.trial).collect()
        };
        let mut result = testkit::done();
        assert_eq!(numbers(&result), [9, 10]);
        result.knee = None;
        result.bounds = Some(Bounds { per_shard_low: Some(1_530), per_shard_high: Some(1_560) });
        assert_eq!(numbers(&result), [9, 10], "the search's own bounds do as well");
        result.bounds = Some(Bounds { per_shard_low: None, per_shard_high: Some(1_600) });
        assert_eq!(numbers(&result), [4]);
        result.bounds = None;
        assert_eq!(numbers(&result), [0_u32; 0], "nothing is known, whatever single trials say");
    }

    #[test]
    fn code_is_what_stands_between_backticks() {
        assert_eq!(
            parts("raise `a`, or `b`"),
            [(false, "raise "), (true, "a"), (false, ", or "), (true, "b"), (false, "")]
        );
        assert_eq!(parts("a ` alone"), [(false, "a ` alone")]);
    }

    #[test]
    fn a_heading_is_no_error_message() {
        for result in testkit::all() {
            let (heading, why) = heading(&result);
            assert!(!heading.contains('`') && (why.is_none() || heading.len() < 60), "{heading}");
            assert!(why.is_none_or(|why| headline(&result).contains(why)));
        }
    }

    #[test]
    fn only_a_host_that_could_not_keep_up_is_blamed() {
        let hinted = |named: &str| {
            let result = testkit::named().into_iter().find(|(name, _)| *name == named).map(|(_, run)| run);
            hint(&result.expect("a run")).is_some()
        };
        assert!(hinted("not_idle"));
        assert!(!hinted("all_invalid"), "a node was ended from outside");
        assert!(!hinted("done") && !hinted("provider_failed") && !hinted("interrupted"));
    }

    #[test]
    fn what_is_known_is_what_the_search_knows() {
        let mut result = testkit::done();
        result.knee = None;
        result.outcome = Outcome::Interrupted;
        let mut said = |low, high| {
            result.bounds = Some(Bounds { per_shard_low: low, per_shard_high: high });
            basis(&result)
        };
        assert_eq!(
            said(Some(800), Some(1_560)),
            "known so far: 800 transfers/s per shard passed, 1 560 failed"
        );
        assert_eq!(said(Some(800), None), "known so far: 800 transfers/s per shard passed, none failed");
        assert_eq!(said(None, Some(1_560)), "known so far: 1 560 transfers/s per shard failed, none passed");
        assert_eq!(said(None, None), "no rate was judged");
    }
}
