//! The result of a run whose controller ended without one (kill -9, power), from what it left on disk.

use tpsctl_model::{
    plan::RunPlan,
    result::{Fingerprints, LimitedBy, Outcome, RunResult, TrialRecord},
};
use tpsctl_provider::{Ledger, read_journal};
use tpsctl_scenario::Source;
use tpsctl_search::Trial;

use crate::{
    RunDir,
    error::ControllerError,
    network::chain,
    prepare::FINGERPRINTS_FILE,
    summary::{Basis, Course, result_of},
    teardown,
};

/// Every trial that was judged, as an interrupted run; refused while its controller lives. The network may still run; `processes_left` says so.
pub fn rebuild(dir: &RunDir) -> Result<RunResult, ControllerError> {
    let ledger = Ledger::open(dir.root())?;
    let status = teardown::status(dir)?;
    if status.controller_alive {
        return Err(ControllerError::StillMeasured { run: dir.id().to_owned() });
    }
    let plan: RunPlan = RunDir::read_json(&dir.path("plan.json"))?;
    let fingerprints: Fingerprints = RunDir::read_json(&dir.path(FINGERPRINTS_FILE))?;
    let trials = trials(dir)?;
    if trials.is_empty() {
        return Err(ControllerError::NoResult { run: dir.id().to_owned() });
    }
    let started_unix_ns = ledger.header().created_unix_ms.saturating_mul(1_000_000);
    let mut warnings =
        vec!["made from what was on disk: the run's controller ended without a report".to_owned()];
    // The journal only says when the run ended: without it the trials are as good.
    let journal = read_journal(dir.root()).unwrap_or_else(|fault| {
        warnings.push(format!("when the run ended is not known: failed to {}", chain(&fault)));
        Vec::new()
    });
    let ended_unix_ns =
        journal.last().map_or(started_unix_ns, |entry| entry.unix_ms.saturating_mul(1_000_000));
    let alive = status.nodes.iter().filter(|node| node.alive).count();
    let history: Vec<_> = trials
        .iter()
        .map(|trial| Trial { rate: trial.rate_per_shard, verdict: trial.verdict.clone() })
        .collect();
    let basis = Basis { run_id: dir.id(), plan: &plan, scenario: scenario(dir), fingerprints: &fingerprints };
    let ended = Course {
        started_unix_ns,
        ended_unix_ns,
        outcome: Outcome::Interrupted,
        interval: None,
        bounds: tpsctl_search::bounds(&history, plan.search.confirmations),
        limited_by: LimitedBy::None,
        trials,
        node_version: String::new(),
        processes_left: u32::try_from(alive).unwrap_or(u32::MAX),
        warnings,
    };
    Ok(result_of(&basis, ended))
}

/// The records of `trials/NN/verdict.json`, by number.
fn trials(dir: &RunDir) -> Result<Vec<TrialRecord>, ControllerError> {
    let mut trials = Vec::new();
    for number in 0.. {
        let path = dir.trial(number).join("verdict.json");
        if !path.is_file() {
            break;
        }
        trials.push(RunDir::read_json(&path)?);
    }
    Ok(trials)
}

/// The resolved scenario; null where it cannot be read, for it decides nothing here.
fn scenario(dir: &RunDir) -> serde_json::Value {
    let name = "scenario.resolved.yaml";
    let text = fs_err::read_to_string(dir.path(name)).unwrap_or_default();
    let loaded = tpsctl_scenario::load(&Source { name: name.to_owned(), text }, &[]).ok();
    loaded.and_then(|scenario| serde_json::to_value(scenario).ok()).unwrap_or_default()
}
