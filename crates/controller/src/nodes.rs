//! The nodes under a trial: those that this process made, or those of a network that it only loads.

use std::time::Duration;

use tpsctl_model::{NodeName, observation::ExitKind};
use tpsctl_provider::{Ledger, Network, ProcessIdentity, ProviderError};

use crate::error::ControllerError;

/// From one look at foreign processes to the next.
const LOOK_PERIOD: Duration = Duration::from_millis(200);

/// Whose nodes they are.
#[derive(Debug)]
pub(crate) enum Nodes<'a> {
    /// Children of this process.
    Own(&'a mut Network, &'a mut Ledger),
    /// Processes of an earlier `up`, by the ledger.
    Foreign(Vec<(NodeName, ProcessIdentity)>),
}

impl Nodes<'_> {
    /// The nodes of a network that another process made and that are alive.
    pub(crate) fn foreign(ledger: &Ledger) -> Self {
        let running =
            ledger.open_entries().filter_map(|entry| Some((entry.node.clone(), entry.process()?.clone())));
        Self::Foreign(running.filter(|(_, process)| process.is_alive().unwrap_or(false)).collect())
    }

    /// The next end of a node; each is told once. Nothing is lost when this is dropped.
    pub(crate) async fn next_exit(&mut self) -> Result<(NodeName, ExitKind), ControllerError> {
        match self {
            Self::Own(network, _) => {
                let ended = network.next_exit().await?;
                Ok((ended.node, ended.exit))
            }
            Self::Foreign(processes) => {
                let mut every = tokio::time::interval(LOOK_PERIOD);
                loop {
                    every.tick().await;
                    for index in 0..processes.len() {
                        let alive = processes[index].1.is_alive();
                        if !alive.map_err(|source| ProviderError::Processes { source })? {
                            return Ok((processes.remove(index).0, ExitKind::Unseen));
                        }
                    }
                }
            }
        }
    }
}
