use proptest::prelude::*;
use tpsctl_model::{
    Millis, NodeName, Share, Tps,
    observation::ExitKind,
    verdict::{BrokenCriterion, InvalidCause},
};

use crate::testkit::search_plan;

use super::*;

const RETRIES: u32 = 3;

fn pass() -> Verdict {
    Verdict::Pass
}

fn fail() -> Verdict {
    Verdict::Fail { criteria: vec![BrokenCriterion::MissedChunks { missed: 9, slots: 100, share_max: 0.02 }] }
}

fn crash() -> Verdict {
    let node = NodeName("cp0".to_owned());
    Verdict::Fail { criteria: vec![BrokenCriterion::NodeCrashed { node, exit: ExitKind::Code(101) }] }
}

fn invalid() -> Verdict {
    Verdict::Invalid { causes: vec![InvalidCause::ClockStep] }
}

/// `0P 100P 200F` as a history; `X` is a crash, `I` invalid.
fn history(script: &str) -> Vec<Trial> {
    script
        .split_whitespace()
        .map(|word| {
            let (rate, letter) = word.split_at(word.len() - 1);
            let verdict = match letter {
                "P" => pass(),
                "F" => fail(),
                "X" => crash(),
                _ => invalid(),
            };
            Trial { rate: rate.parse().unwrap(), verdict }
        })
        .collect()
}

fn after(script: &str) -> Step {
    next(&search_plan(), RETRIES, &history(script), 0)
}

/// A step in short: `probe 100`, `repeat 100`, `done 100-200`, or why it gave up.
fn short(step: &Step) -> String {
    match step {
        Step::Probe { rate, .. } => format!("probe {rate}"),
        Step::Repeat { rate, .. } => format!("repeat {rate}"),
        Step::Done { low, high: Some(high) } => format!("done {low}-{high}"),
        Step::Done { low, high: None } => format!("done {low}-"),
        Step::GiveUp { why } => why.to_string(),
    }
}

#[test]
fn scripts_of_verdicts() {
    let table = [
        // The idle trial comes first, is repeated when invalid and until a failure is confirmed, which ends all.
        ("", "probe 0"),
        ("0I", "repeat 0"),
        ("0F", "repeat 0"),
        ("0F 0I", "repeat 0"),
        ("0F 0P", "probe 100"),
        (
            "0X 0X",
            "node dies at 0 transfers/s per shard: it ended by itself in two trials; no rate had passed for certain",
        ),
        ("0F 0F", "the idle network misses the goal: missed 9 of 100 chunk slots (at most 2 %)"),
        (
            "0I 0I 0I 0I",
            "4 trials in a row were invalid at 0 transfers/s per shard, more than may be repeated; the last: the wall clock was stepped",
        ),
        // Only trials in a row at one rate use the retries up.
        ("0I 0I 0I 0P 100I 100I 100I 100P 200I", "repeat 200"),
        // From below by doubling.
        ("0P", "probe 100"),
        ("0P 100P", "probe 200"),
        ("0P 100P 200I", "repeat 200"),
        ("0P 100P 200P 400P 800P 1600P 3200P", "probe 6400"),
        ("0P 100P 200P 400P 800P 1600P 3200P 6400P", "repeat 6400"),
        ("0P 3200P 6400P 6400P", "done 6400-"),
        // The first failure is confirmed before the interval is closed in on; a fluke is forgotten.
        ("0P 100P 200F", "repeat 200"),
        ("0P 100P 200F 200I", "repeat 200"),
        ("0P 100P 200F 200P", "repeat 200"),
        ("0P 100P 200F 200P 200P", "probe 400"),
        ("0P 100P 200F 200P 200F", "probe 150"),
        ("0P 100P 200F 200F", "probe 150"),
        // Bisection takes one verdict a rate; the ends are confirmed when they are close enough.
        ("0P 100P 200F 200F 150P", "probe 175"),
        ("0P 100P 200F 200F 150F", "probe 125"),
        ("0P 190P 200F 200F", "repeat 190"),
        ("0P 190P 200F 200F 190P", "done 190-200"),
        ("0P 190P 200F 300F 300F 190P", "repeat 200"),
        // An end that does not hold is given up and the search goes on from what is known.
        ("0P 100P 200F 200F 190P 190F", "repeat 190"),
        ("0P 100P 200F 200F 190P 190F 190F", "probe 150"),
        ("0P 100P 400F 400F 200P 210F 200P 210P 210P", "probe 300"),
        // Contradictions: confirmed overrules unconfirmed. Confirmed against confirmed comes of spliced histories only;
        // the fail holds.
        ("0P 100F 400F 400F 300P 300P", "probe 350"),
        ("0P 200F 200F 300P 190P 190P", "done 190-200"),
        ("0P 200F 200F 300P 300P", "probe 100"),
        ("0P 100P 100F 100F 100P 100P 100F 100P 100F", "repeat 100"),
        // Downwards when the first rate fails.
        ("0P 100F 100F", "probe 50"),
        ("0P 100F 100F 50F 25F 12F 6F 3F", "probe 1"),
        ("0P 100F 100F 50F 25F 12F 6F 3F 1F", "repeat 1"),
        ("0P 100F 100F 50F 25F 12F 6F 3F 1F 1F", "even 1 transfer/s per shard misses the goal"),
        ("0P 100F 100F 50P", "probe 75"),
        // A node that dies twice at one rate.
        ("0P 100P 200X", "repeat 200"),
        (
            "0P 100P 200X 200X",
            "node dies at 200 transfers/s per shard: it ended by itself in two trials; no rate had passed for certain",
        ),
        (
            "0P 100F 100P 100P 150P 200X 200X",
            "node dies at 200 transfers/s per shard: it ended by itself in two trials; 100 transfers/s per shard passed for certain",
        ),
        ("0P 100P 200X 150X", "repeat 150"),
    ];
    for (script, wanted) in table {
        assert_eq!(short(&after(script)), wanted, "after `{script}`");
    }
}

#[test]
fn every_trial_says_why() {
    let table = [
        ("", "idle: the network without load"),
        ("0F", "idle: again without load, since that missed the goal, fail 1 of 2"),
        ("0P", "bracket: the scenario's first rate"),
        ("0P 100P", "bracket: no failure yet, 2 times the last rate"),
        ("0P 3200P", "bracket: no failure yet, the search's upper bound"),
        ("0P 100P 200I", "again: the last trial was invalid"),
        ("0P 100P 200F", "confirm: first failure, fail 1 of 2 so far"),
        ("0P 100P 200F 200P", "split: 1 passed, 1 failed at this rate"),
        ("0P 100P 200F 200F", "bisect: between 100 (passed) and 200 (failed)"),
        ("0P 190P 200F 200F", "confirm: lower end, pass 1 of 2 so far"),
        ("0P 100F 100F", "downwards: nothing passed yet, half of the lowest rate that failed"),
    ];
    for (script, wanted) in table {
        let (Step::Probe { why, .. } | Step::Repeat { why, .. }) = after(script) else { panic!("{script}") };
        assert_eq!(why, wanted, "after `{script}`");
    }
}

#[test]
fn no_new_trial_after_the_time_budget_but_a_closed_interval_counts() {
    let late = |script| next(&search_plan(), RETRIES, &history(script), search_plan().time_budget_ms.0);
    assert_eq!(
        short(&late("0P 100P 200F")),
        "the time budget ended before the interval was closed, 100 transfers/s per shard passed, 200 failed"
    );
    assert_eq!(short(&late("0P 190P 200F 200F 190P")), "done 190-200");
}

#[test]
fn bounds_are_what_is_known_so_far() {
    let table = [
        ("", None),
        ("0P", None),
        ("0F", None),
        ("0P 100I", None),
        ("0P 100P", Some((Some(100), None))),
        ("0P 100F", Some((None, Some(100)))),
        ("0P 100P 200F", Some((Some(100), Some(200)))),
        // Confirmed overrules: neither the highest that passed nor the lowest that failed.
        ("0P 200F 200F 300P 150P", Some((Some(150), Some(200)))),
        ("0P 100F 300P 300P 400F", Some((Some(300), Some(400)))),
    ];
    for (script, wanted) in table {
        let found = bounds(&history(script), search_plan().confirmations);
        let wanted = wanted.map(|(per_shard_low, per_shard_high)| Bounds { per_shard_low, per_shard_high });
        assert_eq!(found, wanted, "after `{script}`");
    }
}

#[test]
fn the_middle_is_round() {
    for (low, high, wanted) in
        [(1_000, 2_000, 1_500), (1_530, 1_660, 1_600), (100, 103, 101), (7, 9, 8), (0, 3, 1)]
    {
        assert_eq!(middle(low, high), wanted, "{low} to {high}");
    }
}

/// Runs a search against `oracle` and gives its end and all its trials. `oracle` gets the rate and the trial's number.
fn search(
    plan: &SearchPlan,
    retries: u32,
    mut oracle: impl FnMut(u64, usize) -> Verdict,
) -> (Step, Vec<Trial>) {
    let mut trials = Vec::new();
    loop {
        let step = next(plan, retries, &trials, 0);
        let (Step::Probe { rate, .. } | Step::Repeat { rate, .. }) = step else { return (step, trials) };
        assert!(rate <= plan.max.0, "{rate} is above the search's bound");
        let verdict = oracle(rate, trials.len());
        trials.push(Trial { rate, verdict });
        assert!(trials.len() < 1_000, "does not end: {trials:?}");
    }
}

fn at_knee(knee: u64) -> impl Fn(u64) -> Verdict {
    move |rate| if rate <= knee { pass() } else { fail() }
}

prop_compose! {
    fn plans()(
        start in 1_u64..2_000, max in 1_u64..20_000, growth in 1.05_f64..4.0, resolution in 0.001_f64..0.3,
        confirmations in 1_u32..4,
    ) -> SearchPlan {
        SearchPlan {
            start: Tps(start), max: Tps(max), growth, resolution: Share(resolution), confirmations,
            time_budget_ms: Millis(1),
        }
    }
}

/// Trials that a noiseless search may need: idle, bracket, bisection (9/16 a step at worst), confirmations.
fn bound(plan: &SearchPlan) -> usize {
    let max = plan.max.0 as f64;
    // Where growth rounds to one more transfer, whole numbers rise faster than the power.
    let bracket = max.ln() / plan.growth.ln() + 1.0 / (plan.growth - 1.0);
    let bisect = max.ln() / (16.0_f64 / 9.0).ln();
    (8.0 + bracket + bisect + max.log2()).ceil() as usize + 3 * plan.confirmations as usize
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_noiseless_knee_is_found(plan in plans(), knee in 0_u64..25_000) {
        let oracle = at_knee(knee);
        let (end, trials) = search(&plan, 0, |rate, _| oracle(rate));
        prop_assert!(trials.len() <= bound(&plan), "{} trials, bound {}", trials.len(), bound(&plan));
        match end {
            Step::Done { low, high: Some(high) } => {
                prop_assert!(low <= knee && knee < high, "{low}-{high}");
                let width = high - low;
                prop_assert!(width <= 1 || width as f64 <= plan.resolution.0 * high as f64 + 1e-6);
                for (rate, verdict) in [(low, pass()), (high, fail())] {
                    let wanted = Trial { rate, verdict };
                    let equal = trials.iter().filter(|trial| **trial == wanted).count();
                    prop_assert!(equal >= plan.confirmations as usize);
                }
            }
            Step::Done { low, high: None } => prop_assert!(low == plan.max.0 && low <= knee),
            Step::GiveUp { why: GiveUp::NothingPassed } => prop_assert_eq!(knee, 0),
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn noise_ends_and_its_interval_is_in_order(
        plan in plans(), knee in 1_f64..10_000.0, softness in 1_f64..2_000.0, chance in prop::collection::vec(0_f64..1.0, 1_000),
    ) {
        let (end, trials) = search(&plan, 0, |rate, number| {
            let passing = 1.0 / (1.0 + ((rate as f64 - knee) / softness).exp());
            if rate == 0 || chance[number] < passing { pass() } else { fail() }
        });
        // A rate needs at most 2c - 1 verdicts, because the first majority ends it.
        for trial in &trials {
            let same = trials.iter().filter(|other| other.rate == trial.rate).count();
            prop_assert!(same < 2 * plan.confirmations as usize, "{} trials at {}", same, trial.rate);
        }
        let confirmed = |rate: u64, verdict: Verdict| {
            let at_rate = || trials.iter().filter(|trial| trial.rate == rate);
            let equal = at_rate().filter(|trial| trial.verdict == verdict).count();
            equal >= plan.confirmations as usize && equal * 2 > at_rate().count()
        };
        match end {
            Step::Done { low, high } => {
                prop_assert!(confirmed(low, pass()), "{low} of {trials:?}");
                if let Some(high) = high {
                    prop_assert!(low < high && confirmed(high, fail()), "{high} of {trials:?}");
                } else {
                    prop_assert_eq!(low, plan.max.0);
                }
                let known = Bounds { per_shard_low: Some(low), per_shard_high: high };
                prop_assert_eq!(bounds(&trials, plan.confirmations), Some(known));
            }
            Step::GiveUp { why } => prop_assert_eq!(why, GiveUp::NothingPassed),
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn invalid_trials_never_move_a_bound(
        plan in plans(), knee in 0_u64..25_000,
        before_each in prop::collection::vec(0_u32..=RETRIES, 300),
    ) {
        let oracle = at_knee(knee);
        let (wanted, clean) = search(&plan, 0, |rate, _| oracle(rate));
        let mut clean_trials = clean.iter();
        // Every valid trial may need all retries, and the search goes on.
        let mut hiccups = before_each.iter().copied().cycle();
        let mut left = RETRIES;
        let (end, trials) = search(&plan, RETRIES, |rate, _| {
            if let Some(less) = left.checked_sub(1) {
                left = less;
                invalid()
            } else {
                left = hiccups.next().unwrap_or(0);
                oracle(rate)
            }
        });
        prop_assert_eq!(end, wanted);
        prop_assert_eq!(bounds(&trials, plan.confirmations), bounds(&clean, plan.confirmations));
        for trial in trials.iter().filter(|trial| !matches!(trial.verdict, Verdict::Invalid { .. })) {
            prop_assert_eq!(Some(trial), clean_trials.next());
        }
    }

    #[test]
    fn any_history_gets_an_answer_within_the_bounds(
        plan in plans(), rates in prop::collection::vec((0_u64..20_000, 0_u8..4), 0..40), elapsed in 0_u64..2,
    ) {
        let trials: Vec<Trial> = rates
            .into_iter()
            .map(|(rate, kind)| Trial {
                rate: rate.min(plan.max.0),
                verdict: match kind { 0 => pass(), 1 => fail(), 2 => crash(), _ => invalid() },
            })
            .collect();
        match next(&plan, 5, &trials, elapsed) {
            Step::Probe { rate, .. } | Step::Repeat { rate, .. } => {
                prop_assert!(rate <= plan.max.0 && elapsed < plan.time_budget_ms.0);
            }
            Step::Done { low, high } => prop_assert!(high.is_none_or(|high| low < high)),
            Step::GiveUp { .. } => {}
        }
    }
}
