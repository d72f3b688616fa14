//! What every provider can do.

use std::{fmt, path::PathBuf, pin::Pin};

use tokio_util::sync::CancellationToken;
use tpsctl_model::{event::RunEvent, plan::RunPlan};

use crate::{Deployment, Ledger, Network, ProviderError};

/// A future that a trait object returns.
pub type Task<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes networks. What it makes is undone by [`crate::destroy`], which needs the ledger and not the provider.
pub trait Provider: fmt::Debug + Send + Sync {
    /// What it has to offer; input of the plan stage.
    fn capabilities(&self) -> Result<Capabilities, ProviderError>;

    /// Makes the network of a plan and returns once it is ready. When it fails or is cancelled, it has ended what it
    /// started.
    fn provision<'a>(&'a self, request: Provision<'a>) -> Task<'a, Result<Network, ProviderError>>;
}

/// The host that nodes run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Processors that this process may use.
    pub cores: usize,
    /// Main memory, bytes.
    pub memory_bytes: u64,
}

/// What the genesis stage wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The run's `genesis.json`, one for all nodes; perhaps with `genesis.index.json` beside it.
    pub genesis_json: PathBuf,
}

/// A network to be made.
pub struct Provision<'a> {
    /// What it is.
    pub plan: &'a RunPlan,
    /// What the genesis stage wrote for it.
    pub bundle: &'a Bundle,
    /// Where everything is written down before it is created.
    pub ledger: &'a mut Ledger,
    /// Tells when the network is ready.
    pub probe: &'a dyn ReadyProbe,
    /// Ends the making early.
    pub cancel: &'a CancellationToken,
    /// Is told of nodes that start and end, and of warnings.
    pub on_event: &'a (dyn Fn(RunEvent) + Send + Sync),
}

/// Tells whether a network is ready: every node answers and blocks advance. The provider asks again and again until the
/// plan's deadline, and drops an answer that takes longer.
pub trait ReadyProbe: Send + Sync {
    /// Looks once. `Err` says what is still missing, such as `node2 does not answer: connection refused`.
    fn look<'a>(&'a self, deployment: &'a Deployment) -> Task<'a, Result<(), String>>;
}

impl fmt::Debug for Provision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provision")
            .field("scenario", &self.plan.scenario)
            .field("bundle", &self.bundle)
            .field("ledger", &self.ledger)
            .finish_non_exhaustive()
    }
}
