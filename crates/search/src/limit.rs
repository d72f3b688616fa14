//! What stopped the network, as one word of a closed list.

use tpsctl_model::{
    result::LimitedBy,
    verdict::{BrokenCriterion, InvalidCause, Verdict},
};

use crate::{GiveUp, Step, Trial};

/// What stopped the network, from the failing trials at the upper end of the interval (or of what is known of it): the
/// criterion that broke first in most of them; in a tie, the one of the earlier trial. A search that our own generator
/// ended is limited by the generator.
pub fn limited_by(history: &[Trial], end: &Step) -> LimitedBy {
    match end {
        Step::Probe { .. } | Step::Repeat { .. } => LimitedBy::None,
        Step::Done { high: None, .. } => LimitedBy::BoundReached,
        Step::Done { high: Some(high), .. } => first_broken(history, *high),
        Step::GiveUp { why } => match why {
            GiveUp::IdleFails { .. } => first_broken(history, 0),
            GiveUp::NothingPassed => first_broken(history, 1),
            GiveUp::TimeBudget { high, .. } => {
                high.map_or(LimitedBy::None, |high| first_broken(history, high))
            }
            GiveUp::NodeDiesTwice { .. } => LimitedBy::NodeCrashed,
            GiveUp::InvalidRetriesExhausted { invalid, .. } => generator(history, *invalid),
        },
    }
}

fn first_broken(history: &[Trial], rate: u64) -> LimitedBy {
    let criteria =
        history.iter().filter(|trial| trial.rate == rate).filter_map(|trial| match &trial.verdict {
            Verdict::Fail { criteria } => criteria.first().map(word),
            Verdict::Pass | Verdict::Invalid { .. } => None,
        });
    let mut counts: Vec<(LimitedBy, u32)> = Vec::new();
    for criterion in criteria {
        match counts.iter_mut().find(|(known, _)| *known == criterion) {
            Some((_, count)) => *count += 1,
            None => counts.push((criterion, 1)),
        }
    }
    // `max_by_key` keeps the last of equals; reversed, that is the earliest.
    counts
        .into_iter()
        .rev()
        .max_by_key(|(_, count)| *count)
        .map_or(LimitedBy::None, |(criterion, _)| criterion)
}

fn word(criterion: &BrokenCriterion) -> LimitedBy {
    match criterion {
        BrokenCriterion::MissedChunks { .. } => LimitedBy::MissedChunks,
        BrokenCriterion::BlockTime { .. } => LimitedBy::BlockTime,
        BrokenCriterion::Backlog { .. } => LimitedBy::Backlog,
        BrokenCriterion::NodeCrashed { .. } => LimitedBy::NodeCrashed,
    }
}

/// The generator, when at least half of the last `number` trials, all invalid, were so because it was late or short.
fn generator(history: &[Trial], number: u32) -> LimitedBy {
    let late_or_short =
        |cause: &InvalidCause| matches!(cause, InvalidCause::SendLag { .. } | InvalidCause::Unsent { .. });
    let (mut invalid, mut ours) = (0, 0);
    for trial in history.iter().rev().take(number as usize) {
        if let Verdict::Invalid { causes } = &trial.verdict {
            invalid += 1;
            ours += u32::from(causes.iter().any(late_or_short));
        }
    }
    if ours * 2 >= invalid && ours > 0 { LimitedBy::Generator } else { LimitedBy::None }
}

#[cfg(test)]
mod tests {
    use tpsctl_model::{NodeName, observation::ExitKind};

    use super::*;

    fn fail(rate: u64, criteria: Vec<BrokenCriterion>) -> Trial {
        Trial { rate, verdict: Verdict::Fail { criteria } }
    }

    fn missed() -> BrokenCriterion {
        BrokenCriterion::MissedChunks { missed: 9, slots: 100, share_max: 0.02 }
    }

    fn slow() -> BrokenCriterion {
        BrokenCriterion::BlockTime { quantile_ms: 2_000.0, max_ms: 900.0 }
    }

    fn crashed() -> BrokenCriterion {
        BrokenCriterion::NodeCrashed { node: NodeName("cp0".to_owned()), exit: ExitKind::Code(1) }
    }

    #[test]
    fn the_most_frequent_first_symptom_at_the_upper_end() {
        let end = Step::Done { low: 90, high: Some(100) };
        let history = [
            fail(200, vec![crashed()]),
            fail(100, vec![missed()]),
            fail(100, vec![slow(), missed()]),
            fail(100, vec![slow()]),
        ];
        assert_eq!(limited_by(&history, &end), LimitedBy::BlockTime);
        assert_eq!(limited_by(&history[..3], &end), LimitedBy::MissedChunks, "a tie goes to the earlier");
    }

    #[test]
    fn ends_without_an_interval() {
        let ended = |why| Step::GiveUp { why };
        let bound = Step::Done { low: 100, high: None };
        assert_eq!(limited_by(&[], &bound), LimitedBy::BoundReached);
        let history = [fail(0, vec![slow()]), fail(1, vec![missed()])];
        let idle = ended(GiveUp::IdleFails { cause: String::new() });
        assert_eq!(limited_by(&history, &idle), LimitedBy::BlockTime);
        assert_eq!(limited_by(&history, &ended(GiveUp::NothingPassed)), LimitedBy::MissedChunks);
        assert_eq!(
            limited_by(&history, &ended(GiveUp::NodeDiesTwice { rate: 7, low: None })),
            LimitedBy::NodeCrashed
        );
        let budget = |high| ended(GiveUp::TimeBudget { low: None, high });
        assert_eq!(limited_by(&history, &budget(Some(1))), LimitedBy::MissedChunks);
        assert_eq!(limited_by(&history, &budget(None)), LimitedBy::None);
        let interrupted = Step::Probe { rate: 5, why: String::new() };
        assert_eq!(limited_by(&history, &interrupted), LimitedBy::None);
    }

    #[test]
    fn the_generator_is_named_only_when_it_was_the_cause() {
        let invalid = |cause| Trial { rate: 5, verdict: Verdict::Invalid { causes: vec![cause] } };
        let late = || invalid(InvalidCause::SendLag { p99_ms: 80.0, max_ms: 50.0 });
        let step = || invalid(InvalidCause::ClockStep);
        let end = |invalid| {
            let why = GiveUp::InvalidRetriesExhausted { rate: 5, invalid, cause: String::new() };
            Step::GiveUp { why }
        };
        assert_eq!(limited_by(&[late(), step(), late()], &end(3)), LimitedBy::Generator);
        assert_eq!(limited_by(&[step(), step(), late()], &end(3)), LimitedBy::None);
        assert_eq!(
            limited_by(&[late(), late(), step(), step()], &end(2)),
            LimitedBy::None,
            "only the last ones"
        );
    }
}
