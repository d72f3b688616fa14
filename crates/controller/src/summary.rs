//! Stage 9's input: everything of a run in one value.

use tpsctl_model::{
    plan::{NodeBinary, ProviderKind, RunPlan},
    result::{
        Accounting, Bounds, Fingerprints, Knee, LimitedBy, NodeInfo, Outcome, RUN_SCHEMA, RunResult,
        TrialRecord,
    },
    verdict::Verdict,
};

use crate::{
    clock,
    error::{Category, ControllerError},
    host,
    hunt::Hunt,
    network::chain,
    prepare::{Prepared, RunRequest},
    teardown::Teardown,
};

/// The outcome of a run that an error ended after `trials`.
pub(crate) fn outcome_of(error: &ControllerError, trials: &[TrialRecord]) -> Outcome {
    if let (ControllerError::NotIdle { .. }, Some(last)) = (error, trials.last())
        && matches!(last.verdict, Verdict::Invalid { .. })
    {
        return not_idle_after_invalid(error, last);
    }
    let mut why = format!("failed to {}", chain(error));
    if let ControllerError::Provider { source } = error
        && let Some(hint) = source.hint()
    {
        why = format!("{why}; {hint}");
    }
    match error.category() {
        _ if matches!(error, ControllerError::NotIdle { unread, .. } if unread.is_empty()) => {
            Outcome::Inconclusive { why }
        }
        Category::Provider => Outcome::ProviderFailed { why },
        Category::Interrupted => Outcome::Interrupted,
        Category::BadInput | Category::Ours => Outcome::Invalid { why },
    }
}

/// Where our own side failed in the last trial, that the network is not idle after it says nothing of the network.
fn not_idle_after_invalid(error: &ControllerError, last: &TrialRecord) -> Outcome {
    let what = format!("failed to {}; trial {} was invalid before: {}", chain(error), last.trial, last.cause);
    let is_busy = last.verdict.is_short_of_host();
    let advice = if is_busy {
        "; the host was too busy to load and watch this network: run it on a quiet one"
    } else {
        ""
    };
    Outcome::Invalid { why: format!("{what}{advice}") }
}

fn knee(interval: Option<(u64, Option<u64>)>, shards: u64) -> Option<Knee> {
    let (low, high) = interval?;
    Some(Knee {
        per_shard_low: low,
        per_shard_high: high,
        total_low: low * shards,
        total_high: high.map(|high| high * shards),
        unit: "transfers/s".to_owned(),
    })
}

/// The worst of what the search found, what the accounts say and what is left.
fn outcome(hunt: &Hunt, accounting: &Accounting, ending: &Teardown) -> Outcome {
    if !ending.left.is_empty() {
        let why = format!("failed to end {}; `tpsctl down` tries again", ending.left.join(", "));
        return Outcome::ProviderFailed { why };
    }
    if let Some(fault) = &ending.fault {
        return outcome_of(fault, &hunt.trials);
    }
    match &hunt.outcome {
        Outcome::Done | Outcome::Inconclusive { .. } | Outcome::GoalNotMet { .. } if !accounting.closed => {
            let why = format!("the accounts do not add up: {} transfers unexplained", accounting.difference);
            Outcome::Invalid { why }
        }
        found => found.clone(),
    }
}

/// What was decided before the first trial.
#[derive(Debug)]
pub(crate) struct Basis<'a> {
    pub(crate) run_id: &'a str,
    pub(crate) plan: &'a RunPlan,
    pub(crate) scenario: serde_json::Value,
    pub(crate) fingerprints: &'a Fingerprints,
}

/// How the run went.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) started_unix_ns: u64,
    pub(crate) ended_unix_ns: u64,
    pub(crate) outcome: Outcome,
    pub(crate) interval: Option<(u64, Option<u64>)>,
    pub(crate) bounds: Option<Bounds>,
    pub(crate) limited_by: LimitedBy,
    pub(crate) trials: Vec<TrialRecord>,
    pub(crate) node_version: String,
    pub(crate) processes_left: u32,
    pub(crate) warnings: Vec<String>,
}

/// The result of a run that this process drove.
pub(crate) fn assemble(
    request: &RunRequest,
    prepared: &Prepared,
    hunt: Hunt,
    ending: &Teardown,
    warnings: &[String],
) -> RunResult {
    let basis = Basis {
        run_id: prepared.dir.id(),
        plan: &prepared.plan,
        scenario: serde_json::to_value(&request.scenario).unwrap_or_default(),
        fingerprints: &prepared.fingerprints,
    };
    let accounting = tpsctl_search::accounting(&hunt.trials);
    let ended = Course {
        started_unix_ns: prepared.started_unix_ns,
        ended_unix_ns: clock::unix_ns(),
        outcome: outcome(&hunt, &accounting, ending),
        interval: hunt.interval,
        bounds: tpsctl_search::bounds(&hunt.history, prepared.plan.search.confirmations),
        limited_by: hunt.limited_by,
        trials: hunt.trials,
        node_version: hunt.node_version,
        processes_left: u32::try_from(ending.left.len()).unwrap_or(u32::MAX),
        warnings: warnings.to_vec(),
    };
    result_of(&basis, ended)
}

/// Puts a result together.
pub(crate) fn result_of(basis: &Basis<'_>, ended: Course) -> RunResult {
    let plan = basis.plan;
    let mut warnings = ended.warnings;
    let invalid =
        ended.trials.iter().filter(|trial| matches!(trial.verdict, Verdict::Invalid { .. })).count();
    if invalid > 0 {
        warnings.push(format!("{invalid} of {} trials were invalid and moved no bound", ended.trials.len()));
    }
    let binary = match &plan.node.binary {
        NodeBinary::Embedded => "embedded".to_owned(),
        NodeBinary::Neard(path) => path.clone(),
    };
    RunResult {
        schema: RUN_SCHEMA.to_owned(),
        run_id: basis.run_id.to_owned(),
        started_at: clock::rfc3339(ended.started_unix_ns),
        ended_at: clock::rfc3339(ended.ended_unix_ns),
        scenario: basis.scenario.clone(),
        seed: plan.seed.0,
        provider: match plan.provider {
            ProviderKind::Local => "local".to_owned(),
        },
        node: NodeInfo {
            binary,
            version: ended.node_version,
            embedded: plan.node.binary == NodeBinary::Embedded,
        },
        host: host::host_info(),
        goal: plan.goal.clone(),
        knee: knee(ended.interval, plan.chain.shard_ids.len() as u64),
        bounds: ended.bounds,
        outcome: ended.outcome,
        limited_by: ended.limited_by,
        accounting: tpsctl_search::accounting(&ended.trials),
        trials: ended.trials,
        fingerprints: basis.fingerprints.clone(),
        processes_left: ended.processes_left,
        warnings,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tpsctl_model::{
        load::QuantilesMs,
        result::TrialCounts,
        verdict::{BrokenCriterion, InvalidCause},
    };

    use super::*;

    fn trial(verdict: Verdict) -> TrialRecord {
        TrialRecord {
            trial: 4,
            rate_per_shard: 500,
            why: String::new(),
            cause: verdict.cause(),
            verdict,
            counts: TrialCounts::default(),
            block_time_ms: QuantilesMs::default(),
            send_lag_ms: QuantilesMs::default(),
            shards: Vec::new(),
            skipped_heights: 0,
            load_seconds: 0.0,
            drain_seconds: 0.0,
        }
    }

    fn not_idle() -> ControllerError {
        let timeout = Duration::from_mins(1);
        ControllerError::NotIdle { timeout, pending: 0, quiet_blocks: 1, unread: Vec::new() }
    }

    #[test]
    fn a_network_that_is_not_idle_after_an_invalid_trial_was_not_measured() {
        let short = InvalidCause::Unsent { share: 0.3, share_max: 0.001 };
        let gap =
            InvalidCause::Gap { source: "node1".to_owned(), gap_ms: 9_000, error: "timed out".to_owned() };
        for cause in [short, gap] {
            let ended = outcome_of(&not_idle(), &[trial(Verdict::Invalid { causes: vec![cause.clone()] })]);
            let Outcome::Invalid { why } = ended else { panic!("{ended:?}") };
            assert!(why.contains("see the network idle within 60 s"), "{why}");
            assert!(why.contains(&cause.to_string()) && why.contains("trial 4"), "{why}");
            assert!(why.contains("the host was too busy"), "{why}");
        }
        let stepped = Verdict::Invalid { causes: vec![InvalidCause::ClockStep] };
        let Outcome::Invalid { why } = outcome_of(&not_idle(), &[trial(stepped)]) else {
            panic!("an invalid trial")
        };
        assert!(!why.contains("busy"), "{why}");
    }

    #[test]
    fn a_network_that_is_not_idle_after_a_sound_trial_is_inconclusive() {
        let slow = BrokenCriterion::BlockTime { quantile_ms: 500.0, max_ms: 450.0 };
        let invalid = || trial(Verdict::Invalid { causes: vec![InvalidCause::ClockStep] });
        for trials in [
            vec![],
            vec![trial(Verdict::Pass)],
            vec![invalid(), trial(Verdict::Fail { criteria: vec![slow] })],
        ] {
            let ended = outcome_of(&not_idle(), &trials);
            assert!(matches!(ended, Outcome::Inconclusive { .. }), "{ended:?}");
        }
    }
}
