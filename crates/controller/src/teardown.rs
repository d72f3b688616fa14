//! The last stage, from the ledger alone.

use std::{path::Path, time::Duration};

use serde::Serialize;
use tpsctl_model::{
    NodeName,
    event::{RunEvent, Stage},
};
use tpsctl_provider::{DestroyReport, Ledger, Network, ledger::EntryState};

use crate::{RunDir, error::ControllerError, events::Events, network::chain, prepare::Prepared};

/// After SIGINT, how long nodes of a run whose plan is not at hand have until SIGKILL.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// How long a controller that is asked to end its run has to do so: it tears down and writes its report.
const CONTROLLER_PATIENCE: Duration = Duration::from_secs(30);

/// What a run is and what of it still runs.
#[derive(Debug, Clone, Serialize)]
pub struct StatusReport {
    /// The run's id.
    pub run_id: String,
    /// The scenario's name.
    pub scenario: String,
    /// Whether the process that drives it is alive.
    pub controller_alive: bool,
    /// Whether `tpsctl up` left its network running on purpose.
    pub is_kept: bool,
    /// Whether it came to its end: its `run.json` is there.
    pub has_result: bool,
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

/// Ends every process of a run and removes the nodes' homes; results and logs stay. A controller that drives the run is
/// asked to end it first, as Ctrl-C would, so that no two processes tear down one network.
pub async fn down(dir: &RunDir) -> Result<DestroyReport, ControllerError> {
    tpsctl_provider::end_controller(dir.root(), CONTROLLER_PATIENCE).await?;
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
        is_kept: header.is_kept,
        has_result: dir.path("run.json").is_file(),
        nodes,
    })
}

/// What is left after teardown.
#[derive(Debug, Default)]
pub(crate) struct Teardown {
    /// Processes that could not be ended, as `node (process pid)`.
    pub(crate) left: Vec<String>,
    /// Why nothing is known of what is left.
    pub(crate) fault: Option<ControllerError>,
}

/// Ends this run's network, where it came to be, and whatever else the ledger holds. Goes on whatever fails: what cannot
/// be ended or removed is said, and never keeps the report from being written.
pub(crate) async fn end(prepared: &mut Prepared, network: Option<Network>, events: &mut Events) -> Teardown {
    events.tell(RunEvent::StageStarted { stage: Stage::Teardown }).await;
    let grace = prepared.plan.node.stop_timeout_ms.as_duration();
    let mut ended = 0;
    if let Some(mut network) = network {
        let nodes = network.deployment().nodes.len();
        match network.stop(&mut prepared.ledger, grace).await {
            Ok(ends) => ended += ends.len(),
            // What could not be stopped as a child, or not be recorded, is ended from the ledger below.
            Err(fault) => {
                ended += nodes;
                events.warn(format!("failed to {}", chain(&fault))).await;
            }
        }
    }
    match tpsctl_provider::destroy(prepared.dir.root(), grace).await {
        Ok(report) => {
            if let Some(fault) = &report.ledger_fault {
                events.warn(format!("failed to {}", chain(fault))).await;
            }
            let left: Vec<_> =
                report.left.iter().map(|left| format!("{} (process {})", left.node, left.pid)).collect();
            let ended = (ended + report.ended.len()).saturating_sub(left.len());
            let summary = format!("{ended} processes ended, {} left", left.len());
            events.tell(RunEvent::StageDone { stage: Stage::Teardown, summary }).await;
            Teardown { left, fault: None }
        }
        Err(fault) => {
            events.warn(format!("failed to {}", chain(&fault))).await;
            Teardown { left: Vec::new(), fault: Some(fault.into()) }
        }
    }
}

/// Ends what earlier runs left behind whose controllers are gone, except networks that `up` left on purpose. What cannot
/// be ended is said and does not keep the new run from starting.
pub(crate) async fn sweep(runs: &Path, events: &mut Events) {
    let orphans = match tpsctl_provider::sweep(runs) {
        Ok(orphans) => orphans,
        Err(fault) => {
            return events.warn(format!("earlier runs not looked at: failed to {}", chain(&fault))).await;
        }
    };
    for orphan in orphans {
        let what = format!("an earlier run was left behind, its controller gone: {}", orphan.display());
        let done = match tpsctl_provider::destroy(&orphan, STOP_GRACE).await {
            Ok(report) => format!("{} processes ended, {} left", report.ended.len(), report.left.len()),
            Err(fault) => format!("failed to {}", chain(&fault)),
        };
        events.warn(format!("{what} ({done})")).await;
    }
}
