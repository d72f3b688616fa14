//! Stages 5 to 8: trial after trial, until the search is done or gives up.

use std::sync::Arc;

use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tpsctl_agent::{LoadAgent, LocalAgent};
use tpsctl_model::{
    event::RunEvent,
    result::{LimitedBy, Outcome, TrialRecord},
};
use tpsctl_provider::Network;
use tpsctl_search::{Step, Trial};

use crate::{
    RunDir,
    error::ControllerError,
    events::Events,
    network,
    network::chain,
    nodes::Nodes,
    prepare::Prepared,
    recover,
    trial::{self, Bench, TrialOrder},
    watch::Watch,
};

/// What the search found so far; kept when something ends it early.
#[derive(Debug)]
pub(crate) struct Hunt {
    pub(crate) trials: Vec<TrialRecord>,
    pub(crate) interval: Option<(u64, Option<u64>)>,
    pub(crate) limited_by: LimitedBy,
    pub(crate) outcome: Outcome,
    pub(crate) node_version: String,
    pub(crate) history: Vec<Trial>,
}

impl Default for Hunt {
    fn default() -> Self {
        Self {
            trials: Vec::new(),
            interval: None,
            limited_by: LimitedBy::None,
            outcome: Outcome::Inconclusive { why: "the search did not begin".to_owned() },
            node_version: String::new(),
            history: Vec::new(),
        }
    }
}

/// `search.json`: the history and the step that it led to.
#[derive(Serialize)]
struct SearchFile<'a> {
    history: &'a [Trial],
    next: &'a Step,
}

/// Runs trials as the search asks for them, until it is done, gives up, or is interrupted.
pub(crate) async fn search(
    network: &mut Network,
    prepared: &mut Prepared,
    events: &mut Events,
    interrupt: &CancellationToken,
    hunt: &mut Hunt,
) -> Result<(), ControllerError> {
    hunt.node_version = network::version(network.deployment()).await?;
    let Prepared { dir, plan, keyring, ledger, .. } = prepared;
    let deployment = network.deployment().clone();
    let targets = trial::targets(&deployment);
    let mut watch = Watch::start(&deployment).await?;
    let mut agent = LocalAgent::new(Arc::clone(plan), Arc::clone(keyring));
    let nodes = Nodes::Own(network, ledger);
    let mut bench = Bench { plan, targets, nodes, watch: &mut watch, agent: &mut agent, events, interrupt };
    let searched = match bench.connect().await {
        Ok(()) => search_on(&mut bench, dir, hunt).await,
        Err(error) => Err(error),
    };
    agent.close().await;
    watch.stop().await;
    searched
}

async fn search_on(bench: &mut Bench<'_>, dir: &RunDir, hunt: &mut Hunt) -> Result<(), ControllerError> {
    let began = Instant::now();
    loop {
        let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let plan = bench.plan;
        let step = tpsctl_search::next(&plan.search, plan.trial.invalid_retries, &hunt.history, elapsed_ms);
        let file = SearchFile { history: &hunt.history, next: &step };
        if let Err(fault) = RunDir::write_json(&dir.path("search.json"), &file) {
            bench.events.warn(format!("failed to {}", chain(&fault))).await;
        }
        hunt.limited_by = tpsctl_search::limited_by(&hunt.history, &step);
        let (rate, why) = match step {
            _ if bench.interrupt.is_cancelled() => {
                hunt.outcome = Outcome::Interrupted;
                return Ok(());
            }
            Step::Done { low, high } => {
                hunt.interval = Some((low, high));
                hunt.outcome = Outcome::Done;
                return Ok(());
            }
            Step::GiveUp { why } => {
                hunt.outcome = why.outcome();
                return Ok(());
            }
            Step::Probe { rate, why } | Step::Repeat { rate, why } => (rate, why),
        };
        let trial = u32::try_from(hunt.trials.len()).unwrap_or(u32::MAX);
        let order = TrialOrder {
            trial,
            folder: dir.trial(trial),
            rate_per_shard: rate,
            why,
            warmup_ms: plan.trial.warmup_ms,
            window_ms: plan.trial.window_ms,
        };
        let (record, aftermath) = trial::run(bench, &order).await?;
        hunt.history.push(Trial { rate, verdict: record.verdict.clone() });
        hunt.trials.push(record.clone());
        bench.events.tell(RunEvent::TrialDone { record: Box::new(record) }).await;
        if !bench.interrupt.is_cancelled() {
            recover::recover(bench, aftermath).await?;
        }
    }
}
