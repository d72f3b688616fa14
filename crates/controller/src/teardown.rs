//! The last stage, from the ledger alone.

use std::{path::Path, time::Duration};

use serde::Serialize;
use tpsctl_model::{
    NodeName,
    event::{RunEvent, Stage},
};
use tpsctl_provider::{DestroyReport, Ledger, Network, ledger::EntryState};

use crate::{RunDir, error::ControllerError, events::Events, prepare::Prepared};

/// After SIGINT, how long nodes of a run whose plan is not at hand have until SIGKILL.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// What a run is and what of it still runs.
#[derive(Debug, Clone, Serialize)]
pub struct StatusReport {
    /// The run's id.
    pub run_id: String,
    /// The scenario's name.
    pub scenario: String,
    /// Whether the process that drives it is alive.
    pub controller_alive: bool,
    /// Its nodes, by the newest ledger entry of each.
    pub nodes: Vec<NodeStatus>,
}

/// One node of a [`StatusReport`].
#[derive(Debug, Clone, Serialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: NodeName,
    /// Its process, if it ever had one.
    pub pid: Option<u32>,
    /// Whether that process is alive and the run's.
    pub alive: bool,
    /// JSON-RPC address.
    pub rpc: String,
    /// Peer-to-peer address.
    pub p2p: String,
}

/// Ends every process of a run and removes the nodes' homes; results and logs stay.
pub async fn down(dir: &RunDir) -> Result<DestroyReport, ControllerError> {
    Ok(tpsctl_provider::destroy(dir.root(), STOP_GRACE).await?)
}

/// What a run is and what of it still runs, from its ledger and the processes that are alive.
pub fn status(dir: &RunDir) -> Result<StatusReport, ControllerError> {
    let ledger = Ledger::open(dir.root())?;
    let mut nodes: Vec<NodeStatus> = Vec::new();
    for entry in ledger.entries() {
        let process = entry.process();
        let is_open = !matches!(entry.state, EntryState::Ended { .. });
        let status = NodeStatus {
            name: entry.node.clone(),
            pid: process.map(|process| process.pid),
            alive: is_open && process.is_some_and(|process| process.is_alive().unwrap_or(false)),
            rpc: entry.rpc.to_string(),
            p2p: entry.p2p.to_string(),
        };
        nodes.retain(|node| node.name != status.name);
        nodes.push(status);
    }
    let header = ledger.header();
    Ok(StatusReport {
        run_id: dir.id().to_owned(),
        scenario: header.scenario.clone(),
        controller_alive: header.controller.is_alive().unwrap_or(false),
        nodes,
    })
}

/// Ends this run's network, where it came to be, and whatever else the ledger holds; returns how many processes are left.
pub(crate) async fn end(
    prepared: &mut Prepared,
    network: Option<Network>,
    events: &mut Events,
) -> Result<u32, ControllerError> {
    events.tell(RunEvent::StageStarted { stage: Stage::Teardown }).await?;
    let grace = prepared.plan.node.stop_timeout_ms.as_duration();
    let mut ended = 0;
    if let Some(mut network) = network {
        match network.stop(&mut prepared.ledger, grace).await {
            Ok(ends) => ended += ends.len(),
            // What could not be stopped as a child is still in the ledger, and ended from there below.
            Err(fault) => events.tell(RunEvent::Warning { text: crate::network::chain(&fault) }).await?,
        }
    }
    let report = tpsctl_provider::destroy(prepared.dir.root(), grace).await?;
    if let Some(fault) = &report.ledger_fault {
        events.tell(RunEvent::Warning { text: crate::network::chain(fault) }).await?;
    }
    let summary = format!("{} processes ended, {} left", ended + report.ended.len(), report.left.len());
    events.tell(RunEvent::StageDone { stage: Stage::Teardown, summary }).await?;
    Ok(u32::try_from(report.left.len()).unwrap_or(u32::MAX))
}

/// Ends what earlier runs left behind whose controllers are gone, except networks that `up` left on purpose.
pub(crate) async fn sweep(runs: &Path, events: &mut Events) -> Result<(), ControllerError> {
    for orphan in tpsctl_provider::sweep(runs)? {
        let report = tpsctl_provider::destroy(&orphan, STOP_GRACE).await?;
        let text = format!(
            "an earlier run was left behind, its controller gone: {} ({} processes ended, {} left)",
            orphan.display(),
            report.ended.len(),
            report.left.len()
        );
        events.tell(RunEvent::Warning { text }).await?;
    }
    Ok(())
}
