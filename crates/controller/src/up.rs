//! A network by hand: up, and one stretch of load on it.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tpsctl_agent::{LoadAgent, LocalAgent};
use tpsctl_model::{Millis, Tps, event::RunEvent, plan::RunPlan, result::TrialRecord};
use tpsctl_provider::{Deployment, Journal, Ledger};
use tpsctl_workload::Keyring;

use crate::{
    RunDir, StatusReport, clock,
    error::ControllerError,
    events::Events,
    nodes::Nodes,
    prepare::{self, RunRequest},
    recover, run, teardown,
    trial::{self, Bench, TrialOrder},
    watch::Watch,
};

/// Brings a network up and leaves it running; its ledger says that this is meant.
pub async fn up(
    request: RunRequest,
    events: mpsc::Sender<RunEvent>,
    interrupt: CancellationToken,
) -> Result<StatusReport, ControllerError> {
    let mut events = Events::new(events);
    teardown::sweep(&request.runs_dir, &mut events).await;
    let mut prepared = prepare::prepare(&request, &mut events).await?;
    let (network, fault) = match run::provision(&request, &mut prepared, &mut events, &interrupt).await {
        Ok(network) => match prepared.ledger.keep() {
            Ok(()) => return teardown::status(&prepared.dir),
            Err(error) => (Some(network), error.into()),
        },
        Err(error) => (None, error),
    };
    teardown::end(&mut prepared, network, &mut events).await;
    Err(if interrupt.is_cancelled() { ControllerError::Interrupted } else { fault })
}

/// One stretch of load on a network that [`up`] left running.
#[derive(Debug)]
pub struct InjectRequest {
    /// The run.
    pub dir: RunDir,
    /// Rate on each shard.
    pub rate_per_shard: Tps,
    /// How long; all of it is the measured window.
    pub duration_ms: Millis,
}

/// Loads a running network and says what became of every transfer, against the scenario's goal.
pub async fn inject(
    request: InjectRequest,
    events: mpsc::Sender<RunEvent>,
    interrupt: CancellationToken,
) -> Result<TrialRecord, ControllerError> {
    let InjectRequest { dir, rate_per_shard, duration_ms } = request;
    let status = teardown::status(&dir)?;
    if status.nodes.iter().all(|node| !node.alive) {
        return Err(ControllerError::NotUp { run: dir.id().to_owned() });
    }
    if status.controller_alive {
        let why = "`tpsctl scenario run` is measuring it".to_owned();
        return Err(ControllerError::Busy { run: dir.id().to_owned(), why });
    }
    let _lock = lock(&dir)?;
    let plan: RunPlan = RunDir::read_json(&dir.path("plan.json"))?;
    let deployment: Deployment = RunDir::read_json(&dir.path("deployment.json"))?;
    let keyring = Keyring::build(&plan).map_err(|source| ControllerError::Keys { source })?;
    let (plan, keyring) = (Arc::new(plan), Arc::new(keyring));
    let mut events = Events::new(events);
    events.record_in(Journal::open(dir.root())?);
    let (trial, folder) = next_folder(&dir)?;
    let order = TrialOrder {
        trial,
        rate_per_shard: rate_per_shard.0,
        why: "asked for by hand".to_owned(),
        warmup_ms: Millis(0),
        window_ms: duration_ms,
        folder,
    };
    let mut watch = Watch::start(&deployment).await?;
    let mut agent = LocalAgent::new(Arc::clone(&plan), keyring);
    let mut bench = Bench {
        plan: &plan,
        targets: trial::targets(&deployment),
        nodes: Nodes::foreign(&Ledger::open(dir.root())?),
        watch: &mut watch,
        agent: &mut agent,
        events: &mut events,
        interrupt: &interrupt,
    };
    let ran = inject_on(&mut bench, &order).await;
    agent.close().await;
    watch.stop().await;
    let record = ran?;
    events.tell(RunEvent::TrialDone { record: Box::new(record.clone()) }).await;
    Ok(record)
}

/// The network may still settle what an earlier injection sent: its transfers are not ours.
async fn inject_on(bench: &mut Bench<'_>, order: &TrialOrder) -> Result<TrialRecord, ControllerError> {
    bench.connect().await?;
    bench.watch.load_ended(clock::unix_ns());
    let timeout = bench.plan.trial.idle_timeout_ms.as_duration();
    recover::wait_until_idle(bench, timeout, tokio::time::Instant::now() + timeout).await?;
    Ok(trial::run(bench, order).await?.0)
}

/// Two injections into one network would count each other's transfers.
fn lock(dir: &RunDir) -> Result<fs_err::File, ControllerError> {
    let path = dir.path("inject.lock");
    let fault = |source| ControllerError::WriteArtefact { path: path.clone(), source };
    let file = fs_err::File::create(&path).map_err(fault)?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let why = "another `tpsctl inject` is loading it".to_owned();
            Err(ControllerError::Busy { run: dir.id().to_owned(), why })
        }
        Err(error) => Err(fault(error.into())),
    }
}

/// The number of the next injection, and a new folder for it.
fn next_folder(dir: &RunDir) -> Result<(u32, std::path::PathBuf), ControllerError> {
    let folder_of = |number: u32| dir.path("injections").join(format!("{number:02}"));
    let mut number = 1;
    while folder_of(number).exists() {
        number += 1;
    }
    let folder = folder_of(number);
    let made = fs_err::create_dir_all(&folder);
    made.map_err(|source| ControllerError::WriteArtefact { path: folder.clone(), source })?;
    Ok((number, folder))
}
