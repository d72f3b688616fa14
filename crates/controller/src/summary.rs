//! Stage 9's input: everything of a run in one value.

use tpsctl_model::{
    plan::{NodeBinary, ProviderKind},
    result::{Knee, NodeInfo, Outcome, RUN_SCHEMA, RunResult},
    verdict::Verdict,
};

use crate::{
    clock,
    error::{Category, ControllerError},
    host,
    hunt::Hunt,
    network::chain,
    prepare::{Prepared, RunRequest},
};

/// The outcome of a run that an error ended.
pub(crate) fn outcome_of(error: &ControllerError) -> Outcome {
    let mut why = format!("failed to {}", chain(error));
    if let ControllerError::Provider { source } = error
        && let Some(hint) = source.hint()
    {
        why = format!("{why}; {hint}");
    }
    match error.category() {
        _ if matches!(error, ControllerError::NotIdle { .. }) => Outcome::Inconclusive { why },
        Category::Provider => Outcome::ProviderFailed { why },
        Category::BadInput | Category::Ours => Outcome::Invalid { why },
    }
}

fn knee(hunt: &Hunt, shards: u64) -> Option<Knee> {
    let (low, high) = hunt.interval?;
    Some(Knee {
        per_shard_low: low,
        per_shard_high: high,
        total_low: low * shards,
        total_high: high.map(|high| high * shards),
        unit: "transfers/s".to_owned(),
    })
}

/// Puts the result together.
pub(crate) fn assemble(
    request: &RunRequest,
    prepared: &Prepared,
    hunt: Hunt,
    processes_left: u32,
) -> RunResult {
    let plan = &prepared.plan;
    let accounting = tpsctl_search::accounting(&hunt.trials);
    let outcome = match hunt.outcome {
        Outcome::Done | Outcome::Inconclusive { .. } | Outcome::GoalNotMet { .. } if !accounting.closed => {
            let why = format!("the accounts do not add up: {} transfers unexplained", accounting.difference);
            Outcome::Invalid { why }
        }
        ref outcome => outcome.clone(),
    };
    let shards = plan.chain.shard_ids.len() as u64;
    let mut warnings = prepared.warnings.clone();
    let invalid = hunt.trials.iter().filter(|trial| matches!(trial.verdict, Verdict::Invalid { .. })).count();
    if invalid > 0 {
        warnings.push(format!("{invalid} of {} trials were invalid and moved no bound", hunt.trials.len()));
    }
    let binary = match &plan.node.binary {
        NodeBinary::Embedded => "embedded".to_owned(),
        NodeBinary::Neard(path) => path.clone(),
    };
    RunResult {
        schema: RUN_SCHEMA.to_owned(),
        run_id: prepared.dir.id().to_owned(),
        started_at: clock::rfc3339(prepared.started_unix_ns),
        ended_at: clock::rfc3339(clock::unix_ns()),
        scenario: serde_json::to_value(&request.scenario).unwrap_or_default(),
        seed: plan.seed.0,
        provider: match plan.provider {
            ProviderKind::Local => "local".to_owned(),
        },
        node: NodeInfo {
            binary,
            version: hunt.node_version.clone(),
            embedded: plan.node.binary == NodeBinary::Embedded,
        },
        host: host::host_info(),
        goal: plan.goal.clone(),
        knee: knee(&hunt, shards),
        outcome,
        limited_by: hunt.limited_by,
        trials: hunt.trials,
        accounting,
        fingerprints: prepared.fingerprints.clone(),
        processes_left,
        warnings,
    }
}
