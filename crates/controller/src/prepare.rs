//! Stages 1 to 3 on disk: the run directory, the resolved scenario, the plan, genesis and keys.

use std::{
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use tpsctl_model::{
    event::{RunEvent, Stage},
    plan::{KeyKind, NodeBinary, NodeRole, RunPlan},
    result::Fingerprints,
};
use tpsctl_plan::Severity;
use tpsctl_provider::{Bundle, Journal, Ledger, LedgerHeader};
use tpsctl_scenario::Scenario;
use tpsctl_workload::Keyring;

use crate::{RunDir, clock, error::ControllerError, events::Events, host};

/// What the seed determined, in the run directory.
pub(crate) const FINGERPRINTS_FILE: &str = "genesis/fingerprints.json";

/// A scenario to be made into a network.
#[derive(Debug)]
pub struct RunRequest {
    /// What to do.
    pub scenario: Scenario,
    /// Where run directories live.
    pub runs_dir: PathBuf,
    /// This very program, which is also the embedded node.
    pub program: PathBuf,
    /// How the embedded node indexes a genesis.json, so that each of many nodes reads its own part only.
    pub index_genesis: IndexGenesis,
}

/// Writes an index beside a genesis.json.
pub type IndexGenesis = fn(&Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Everything that is decided and written before the first process starts.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) dir: RunDir,
    pub(crate) plan: Arc<RunPlan>,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) fingerprints: Fingerprints,
    pub(crate) bundle: Bundle,
    pub(crate) ledger: Ledger,
    pub(crate) started_unix_ns: u64,
}

/// Plans, makes the run directory and writes genesis.
pub(crate) async fn prepare(request: &RunRequest, events: &mut Events) -> Result<Prepared, ControllerError> {
    let started_unix_ns = clock::unix_ns();
    let planned = tpsctl_plan::plan(&request.scenario, &host::local_capabilities())
        .map_err(|source| ControllerError::Plan { source })?;
    let plan = planned.plan;
    let dir = RunDir::create(&request.runs_dir, &clock::run_id(&plan.scenario, started_unix_ns))?;
    let header =
        LedgerHeader::of_this_process(dir.root(), dir.id(), &plan.scenario, started_unix_ns / 1_000_000)?;
    let ledger = Ledger::create(dir.root(), header)?;
    events.record_in(Journal::open(dir.root())?);
    let directory = request.runs_dir.join(dir.id()).display().to_string();
    events.tell(RunEvent::RunStarted { run_id: dir.id().to_owned(), directory }).await;

    events.tell(RunEvent::StageStarted { stage: Stage::Plan }).await;
    RunDir::write_text(&dir.path("scenario.resolved.yaml"), &request.scenario.to_yaml())?;
    RunDir::write_json(&dir.path("plan.json"), &plan)?;
    for note in planned.notes.iter().filter(|note| note.severity == Severity::Warning) {
        events.warn(format!("{}: {} ({})", note.check, note.sentence, note.figure)).await;
    }
    events.tell(RunEvent::StageDone { stage: Stage::Plan, summary: plan_summary(&plan) }).await;

    events.tell(RunEvent::StageStarted { stage: Stage::Genesis }).await;
    let plan = Arc::new(plan);
    let (keyring, fingerprints, genesis_json) = genesis_apart(&plan, &dir, request.index_genesis).await?;
    RunDir::write_json(&dir.path(FINGERPRINTS_FILE), &fingerprints)?;
    let accounts: usize = keyring.shards().iter().map(tpsctl_workload::ShardKeys::len).sum();
    let summary = format!("{accounts} accounts, sha256 {}", &fingerprints.genesis[..16]);
    events.tell(RunEvent::StageDone { stage: Stage::Genesis, summary }).await;
    let bundle = Bundle { genesis_json };
    let keyring = Arc::new(keyring);
    Ok(Prepared { dir, plan, keyring, fingerprints, bundle, ledger, started_unix_ns })
}

fn plan_summary(plan: &RunPlan) -> String {
    let producers = plan.producers().count();
    let followers = plan.nodes.iter().filter(|node| node.role == NodeRole::Rpc).count();
    let validators = match plan.nodes.len() - producers - followers {
        0 => String::new(),
        count => format!("{count} chunk validators, "),
    };
    format!(
        "{} shards, {producers} chunk producers, {validators}{followers} RPC nodes, blocks every {} to {}",
        plan.chain.shard_ids.len(),
        plan.chain.block_time_min_ms,
        plan.chain.block_time_max_ms,
    )
}

/// [`genesis`] on a thread of its own: it computes for seconds, in which Ctrl-C must be heard.
async fn genesis_apart(
    plan: &Arc<RunPlan>,
    dir: &RunDir,
    index_genesis: IndexGenesis,
) -> Result<(Keyring, Fingerprints, PathBuf), ControllerError> {
    let (plan, dir) = (Arc::clone(plan), dir.clone());
    let made = tokio::task::spawn_blocking(move || {
        let made = genesis(&plan, &dir)?;
        if plan.node.binary == NodeBinary::Embedded {
            index_genesis(&made.2).map_err(|source| ControllerError::IndexGenesis { source })?;
        }
        Ok(made)
    })
    .await;
    made.map_err(|source| ControllerError::Task { part: "genesis", source })?
}

/// Keys, then `genesis/genesis.json`, streamed; with `keys: seed` also the account files that other tools read.
fn genesis(plan: &RunPlan, dir: &RunDir) -> Result<(Keyring, Fingerprints, PathBuf), ControllerError> {
    let keyring = Keyring::build(plan).map_err(|source| ControllerError::Keys { source })?;
    let path = dir.path("genesis/genesis.json");
    let fault = |source| ControllerError::WriteArtefact { path: path.clone(), source };
    fs_err::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(fault)?;
    let mut out = BufWriter::new(fs_err::File::create(&path).map_err(fault)?);
    let digest = tpsctl_genesis::genesis(plan, &keyring, &mut out)
        .map_err(|source| ControllerError::Genesis { source })?;
    out.flush().map_err(fault)?;
    if plan.accounts.keys == KeyKind::Seed {
        account_files(&keyring, dir)?;
    }
    let keys = tpsctl_genesis::keys_fingerprint(&keyring, &tpsctl_genesis::node_keys(plan));
    let stream = tpsctl_workload::stream::stream_fingerprint(plan, &keyring)
        .map_err(|source| ControllerError::Keys { source })?;
    Ok((keyring, Fingerprints { genesis: digest.sha256_hex, keys, stream }, path))
}

/// `genesis/accounts/shard_<id>.json`, in the format of nearcore's load tools.
fn account_files(keyring: &Keyring, dir: &RunDir) -> Result<(), ControllerError> {
    for keys in keyring.shards() {
        let path = dir.path(&format!("genesis/accounts/shard_{}.json", keys.shard()));
        let fault = |source| ControllerError::WriteArtefact { path: path.clone(), source };
        fs_err::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(fault)?;
        let mut out = BufWriter::new(fs_err::File::create(&path).map_err(fault)?);
        tpsctl_genesis::account_files(keys, &mut out)
            .map_err(|source| ControllerError::Genesis { source })?;
        out.flush().map_err(fault)?;
    }
    Ok(())
}
