//! The processes of a network that this process started, all in one hand.

use std::{
    net::SocketAddr,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Instant;
use tpsctl_model::{NodeName, event::RunEvent};

use crate::{
    Deployment, Ledger, NodeEnded, NodeHandle, ProviderError,
    deployment::{DeployedNode, DeploymentSchema},
    ledger::NodeIntent,
    ports::PortPair,
    process::NodeCommand,
};

/// Is told of nodes that start and of warnings.
pub(crate) type OnEvent<'a> = &'a (dyn Fn(RunEvent) + Send + Sync);

/// A node whose home is written and whose ports are held.
#[derive(Debug)]
pub(crate) struct PreparedNode {
    /// Everything of it but the pid.
    pub(crate) node: DeployedNode,
    pub(crate) command: NodeCommand,
    pub(crate) ports: PortPair,
}

/// A running network. Dropping it ends nothing: that is [`Network::stop`] for who holds it, and [`crate::destroy`] for
/// everyone else.
#[derive(Debug)]
pub struct Network {
    deployment: Deployment,
    nodes: Vec<RunningNode>,
}

#[derive(Debug)]
struct RunningNode {
    handle: NodeHandle,
    entry: u64,
    is_end_told: bool,
}

impl Network {
    pub(crate) fn new(chain_id: &str) -> Self {
        let deployment =
            Deployment { schema: DeploymentSchema::V1, chain_id: chain_id.to_owned(), nodes: Vec::new() };
        Self { deployment, nodes: Vec::new() }
    }

    /// Where the nodes are.
    pub fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// A node's process.
    pub fn handle(&self, name: &NodeName) -> Option<&NodeHandle> {
        self.nodes.iter().map(|node| &node.handle).find(|handle| handle.node() == name)
    }

    /// Waits until a node has ended whose end was not told yet; for ever if there is none left. Nothing is lost when this
    /// is dropped.
    pub async fn next_exit(&mut self) -> Result<NodeEnded, ProviderError> {
        std::future::poll_fn(|context| self.poll_exit(context)).await
    }

    /// Ends all nodes at once: SIGINT, and SIGKILL for those still there after `grace`. The first fault is returned only
    /// after everything was tried for every node.
    pub async fn stop(
        &mut self,
        ledger: &mut Ledger,
        grace: Duration,
    ) -> Result<Vec<NodeEnded>, ProviderError> {
        let deadline = Instant::now() + grace;
        let (mut ends, mut records, mut fault) = (Vec::new(), Vec::new(), Ok(()));
        for node in &mut self.nodes {
            fault = fault.and(node.handle.interrupt());
        }
        for node in &mut self.nodes {
            match node.handle.ended_by(deadline).await {
                Ok(ended) => {
                    records.push((node.entry, Some(ended.exit)));
                    node.is_end_told = true;
                    ends.push(ended);
                }
                Err(error) => fault = fault.and(Err(error)),
            }
        }
        let recorded = ledger.record_ended(&records);
        fault.and(recorded).map(|()| ends)
    }

    /// Starts a node again that has ended, in the same home and with the same ports; returns its new pid.
    pub async fn restart(
        &mut self,
        name: &NodeName,
        ledger: &mut Ledger,
        on_event: OnEvent<'_>,
    ) -> Result<u32, ProviderError> {
        let unknown = || ProviderError::UnknownNode { node: name.clone() };
        let node = self.nodes.iter_mut().find(|node| node.handle.node() == name).ok_or_else(unknown)?;
        let deployed =
            self.deployment.nodes.iter_mut().find(|node| node.name == *name).ok_or_else(unknown)?;
        let pid = node.handle.process().pid;
        // One look is enough: whoever restarts has been told that it ended, or has not.
        let look = std::future::poll_fn(|context| Poll::Ready(node.handle.poll_exited(context))).await;
        let Poll::Ready(ended) = look else {
            return Err(ProviderError::StillRunning { node: name.clone(), pid });
        };
        ledger.record_ended(&[(node.entry, Some(ended?.exit))])?;
        let intent = intent_of(deployed);
        let command = node.handle.command().clone();
        let (entry, handle) = start(intent, command, None, ledger, on_event).await?;
        deployed.pid = handle.process().pid;
        *node = RunningNode { handle, entry, is_end_told: false };
        Ok(deployed.pid)
    }

    /// Starts a node and takes it in.
    pub(crate) async fn add(
        &mut self,
        prepared: PreparedNode,
        ledger: &mut Ledger,
        on_event: OnEvent<'_>,
    ) -> Result<(), ProviderError> {
        let PreparedNode { mut node, command, ports } = prepared;
        let (entry, handle) = start(intent_of(&node), command, Some(ports), ledger, on_event).await?;
        node.pid = handle.process().pid;
        self.deployment.nodes.push(node);
        self.nodes.push(RunningNode { handle, entry, is_end_told: false });
        Ok(())
    }

    fn poll_exit(&mut self, context: &mut Context<'_>) -> Poll<Result<NodeEnded, ProviderError>> {
        for node in self.nodes.iter_mut().filter(|node| !node.is_end_told) {
            if let Poll::Ready(ended) = node.handle.poll_exited(context) {
                node.is_end_told = true;
                return Poll::Ready(ended);
            }
        }
        Poll::Pending
    }
}

fn intent_of(node: &DeployedNode) -> NodeIntent {
    let (p2p, rpc): (SocketAddr, SocketAddr) = (node.p2p, node.rpc);
    NodeIntent { node: node.name.clone(), home: node.home.clone(), p2p, rpc }
}

/// Ledger, then process, then ledger again. A process that cannot be written down is ended.
async fn start(
    intent: NodeIntent,
    command: NodeCommand,
    ports: Option<PortPair>,
    ledger: &mut Ledger,
    on_event: OnEvent<'_>,
) -> Result<(u64, NodeHandle), ProviderError> {
    let entry = ledger.intend(intent)?;
    drop(ports);
    let (handle, warning) = match NodeHandle::spawn(command) {
        Ok(spawned) => spawned,
        Err(error) => {
            // The spawn's own failure is the one to tell; an entry that stays intended does no harm.
            ledger.record_ended(&[(entry, None)]).ok();
            return Err(error);
        }
    };
    let handle = recorded(ledger, entry, handle).await?;
    on_event(RunEvent::NodeStarted { node: handle.node().clone(), pid: handle.process().pid });
    if let Some(text) = warning {
        on_event(RunEvent::Warning { text });
    }
    Ok((entry, handle))
}

/// The handle, once its process is in the ledger; else the process is ended.
async fn recorded(
    ledger: &mut Ledger,
    entry: u64,
    mut handle: NodeHandle,
) -> Result<NodeHandle, ProviderError> {
    match ledger.record_running(entry, handle.process().clone()) {
        Ok(()) => Ok(handle),
        Err(error) => {
            handle.stop(Duration::ZERO).await?;
            Err(error)
        }
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
