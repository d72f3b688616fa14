//! Stage 4: the network as it runs, and whether it is ready.

use std::{sync::Mutex, time::Duration};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tpsctl_provider::{
    Deployment, LocalProvider, Network, Provider, ProviderError, Provision, ReadyProbe, Task,
};
use tpsctl_rpc::Client;

use crate::{
    error::ControllerError,
    events::Events,
    prepare::{Prepared, RunRequest},
};

/// Blocks that every node must have beyond the first height that was seen, before a network counts as ready.
const ADVANCE_BLOCKS: u64 = 2;
/// From one look at readiness to the next.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// Events that the provider may be ahead of the journal: a few a node.
const PROVIDER_EVENTS_MAX: usize = 1_024;

/// Makes the network of a prepared run and waits until it produces blocks.
pub(crate) async fn provision(
    request: &RunRequest,
    prepared: &mut Prepared,
    events: &mut Events,
    cancel: &CancellationToken,
) -> Result<Network, ControllerError> {
    let provider =
        LocalProvider { own_program: request.program.clone(), run_directory: prepared.dir.root().to_owned() };
    let (sender, mut told) = mpsc::channel(PROVIDER_EVENTS_MAX);
    let on_event = move |event| drop(sender.try_send(event));
    let probe = BlocksAdvance::default();
    let network = {
        let making = provider.provision(Provision {
            plan: &prepared.plan,
            bundle: &prepared.bundle,
            ledger: &mut prepared.ledger,
            probe: &probe,
            cancel,
            on_event: &on_event,
        });
        tokio::pin!(making);
        loop {
            tokio::select! {
                biased;
                Some(event) = told.recv() => events.tell(event).await,
                made = &mut making => break made,
            }
        }
    };
    while let Ok(event) = told.try_recv() {
        events.tell(event).await;
    }
    let network = network?;
    crate::RunDir::write_json(&prepared.dir.path("deployment.json"), network.deployment())?;
    Ok(network)
}

/// Ready when every node answers, is not syncing, and has seen the chain advance since the first look.
#[derive(Debug, Default)]
pub(crate) struct BlocksAdvance {
    first_height: Mutex<Option<u64>>,
}

impl ReadyProbe for BlocksAdvance {
    fn look<'a>(&'a self, deployment: &'a Deployment) -> Task<'a, Result<(), String>> {
        Box::pin(self.look_at(deployment))
    }
}

impl BlocksAdvance {
    async fn look_at(&self, deployment: &Deployment) -> Result<(), String> {
        let mut lowest = u64::MAX;
        let mut highest = 0;
        for node in &deployment.nodes {
            let name = &node.name;
            let status = match Client::new(node.rpc) {
                Ok(client) => client.status().await,
                Err(error) => Err(error),
            };
            let status = status.map_err(|error| format!("{name} does not answer: {}", chain(&error)))?;
            if status.sync_info.syncing {
                return Err(format!(
                    "{name} is still syncing at height {}",
                    status.sync_info.latest_block_height
                ));
            }
            lowest = lowest.min(status.sync_info.latest_block_height);
            highest = highest.max(status.sync_info.latest_block_height);
        }
        let mut first = self.first_height.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let wanted = *first.get_or_insert(highest) + ADVANCE_BLOCKS;
        if lowest < wanted {
            return Err(format!("the lowest head is {lowest}, not yet {wanted}"));
        }
        Ok(())
    }
}

/// Looks until the network is ready, at most for `timeout`.
pub(crate) async fn wait_until_ready(
    deployment: &Deployment,
    timeout: Duration,
) -> Result<(), ControllerError> {
    let probe = BlocksAdvance::default();
    let mut reason = "no answer yet".to_owned();
    let look = async {
        let mut every = tokio::time::interval(LOOK_PERIOD);
        loop {
            every.tick().await;
            match probe.look_at(deployment).await {
                Ok(()) => return,
                Err(missing) => reason = missing,
            }
        }
    };
    if tokio::time::timeout(timeout, look).await.is_ok() {
        return Ok(());
    }
    Err(ProviderError::NotReady { after: timeout, reason }.into())
}

/// What the first node says of its software.
pub(crate) async fn version(deployment: &Deployment) -> Result<String, ControllerError> {
    let Some(node) = deployment.nodes.first() else { return Ok(String::new()) };
    let asked = |source| ControllerError::Ask { node: node.name.to_string(), source: Box::new(source) };
    let status = Client::new(node.rpc).map_err(asked)?.status().await.map_err(asked)?;
    Ok(format!("{} {}", status.version.version, status.version.build))
}

/// An error with its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
