//! The process around the core: files, sockets, HTTP, threads, time.
//!
//! Tasks, all owned by [`run_reloadable`] and joined before it returns: the driver (owns the core), the network (listener,
//! dialer and every connection), the HTTP server, the reloader of config.json. Cancelling the token ends them.

mod admission;
mod advice;
mod body;
mod clock;
mod connection;
mod contain;
mod context;
mod driver;
mod file;
mod heard;
mod hello;
mod home;
mod http;
mod impatient;
mod index;
mod json;
mod lock;
mod meter;
mod metrics;
mod network;
mod offline;
mod outbox;
mod peers;
mod reload;
mod rpc;
mod scrape;
mod seldom;

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tpsctl_near::files::FileError;

use self::{
    admission::Admission,
    connection::Context,
    driver::Driver,
    metrics::Metrics,
    network::Network,
    peers::Peers,
    reload::Reloader,
    rpc::{Parts, Rpc},
    scrape::Scrape,
};
pub use self::{
    index::{IndexError, index_genesis},
    offline::OfflineRpc,
};
use crate::core::Node;

/// What a node is started with.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The home directory: genesis.json, config.json, epoch_configs/, node_key.json, perhaps validator_key.json.
    pub home: PathBuf,
}

/// The node could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A file of the home directory cannot be read; the source names it.
    #[error("read the home directory")]
    ReadHome(#[source] std::io::Error),
    /// A file of the home directory is not what it should be.
    #[error("read `{path}`")]
    Parse {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: FileError,
    },
    /// No chain can come of this genesis.
    #[error("start a chain from `{path}`: {fault}")]
    Genesis {
        /// The genesis file.
        path: PathBuf,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The configuration cannot be followed.
    #[error("follow `{path}`: {fault}")]
    Config {
        /// The configuration file.
        path: PathBuf,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The index of a genesis does not hold or cannot be made.
    #[error("use or make `{path}`")]
    Index {
        /// The index.
        path: PathBuf,
        /// Why not.
        #[source]
        source: IndexError,
    },
    /// The accounts of genesis do not hold what it says.
    #[error("start a chain from `{path}`: its total_supply is {stated} yocto, its accounts hold {counted}")]
    Supply {
        /// The genesis file.
        path: PathBuf,
        /// What it says.
        stated: u128,
        /// What they hold, staked or not.
        counted: u128,
    },
    /// An address is taken or not ours.
    #[error("listen on {addr} for {what}")]
    Listen {
        /// Which.
        addr: SocketAddr,
        /// For what.
        what: &'static str,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The node has been away for longer than its peers keep blocks: all validators that are connected and ahead say
    /// so, with more than a third of the stake.
    #[error(
        "catch up: block {needed} is needed, but peers keep blocks only from {earliest} on; restart the whole network"
    )]
    TooFarBehind {
        /// The first block lacking.
        needed: u64,
        /// The first that a peer has.
        earliest: u64,
    },
    /// Our own mistake: a task ended that should not.
    #[error("go on: a task of the node ended by a fault of its own")]
    Task(#[source] tokio::task::JoinError),
}

async fn listen(addr: SocketAddr, what: &'static str) -> Result<TcpListener, NodeError> {
    TcpListener::bind(addr).await.map_err(|source| NodeError::Listen { addr, what, source })
}

/// What a node that is started in this home directory is told, or why none can be started; nothing is started here.
pub fn read_settings(home: &std::path::Path) -> Result<crate::core::Settings, NodeError> {
    home::Home::read(home).map(|home| home.settings)
}

/// Runs a node until `cancel` or a fault that it cannot survive.
pub async fn run(options: RunOptions, cancel: CancellationToken) -> Result<(), NodeError> {
    let (_, nobody_asks) = mpsc::channel(1);
    run_reloadable(options, nobody_asks, cancel).await
}

/// The home, read on a thread of its own: a large genesis takes seconds, in which `cancel` is heard. None where it was.
async fn read_home(path: PathBuf, cancel: &CancellationToken) -> Result<Option<home::Home>, NodeError> {
    tracing::info!(home = %path.display(), "reading the home directory");
    tokio::select! {
        biased;
        () = cancel.cancelled() => Ok(None),
        read = tokio::task::spawn_blocking(move || home::Home::read(&path)) => {
            read.map_err(NodeError::Task)?.map(Some)
        }
    }
}

/// As [`run`]. Whenever something comes through `reloads`, config.json is read again, and what neard takes over while it
/// runs is taken over: the delays of block production and the time limit on choosing a chunk's transactions.
pub async fn run_reloadable(
    options: RunOptions,
    reloads: mpsc::Receiver<()>,
    cancel: CancellationToken,
) -> Result<(), NodeError> {
    let Some(home) = read_home(options.home.clone(), &cancel).await? else { return Ok(()) };
    let network_listener = listen(home.network_addr, "peers").await?;
    let rpc_listener = match home.rpc_addr {
        Some(addr) => Some(listen(addr, "JSON-RPC").await?),
        None => None,
    };
    let metrics_listener = match home.metrics_addr() {
        Some(addr) => Some(listen(addr, "metrics").await?),
        None => None,
    };
    let node = Node::new(home.settings.clone());
    let assignment = node.assignment().clone();
    let metrics = Arc::new(Metrics::new(&home.settings.genesis));
    let peers = Arc::new(Peers::new(Arc::clone(&metrics)));
    let (view_sender, view) = watch::channel(Arc::clone(node.view()));
    let (driver, inputs) = Driver::new(node, Arc::clone(&peers), Arc::clone(&metrics), view_sender);
    let admission =
        Arc::new(Admission::new(view.clone(), inputs.clone(), Arc::clone(&peers), Arc::clone(&metrics)));
    let parts = Parts {
        view: view.clone(),
        inputs: inputs.clone(),
        admission: Arc::clone(&admission),
        peers: Arc::clone(&peers),
        assignment,
    };
    let rpc = Rpc::new(&home, parts, cancel.clone());
    let reloader = Reloader::new(&options.home, &home.config, inputs.events.clone(), Arc::clone(&metrics));
    let scrape = Arc::new(Scrape::new(metrics, inputs.clone()));
    let context = Context::new(&home, view, inputs, admission, peers);
    tracing::info!(
        chain_id = home.settings.genesis.chain_id,
        account = home.settings.validator.as_ref().map(|(account, _)| tracing::field::display(account)),
        network = %home.network_addr,
        "the embedded node starts"
    );
    let mut tasks: JoinSet<Result<(), NodeError>> = JoinSet::new();
    // A child token: a fault of one task ends the others without ending whoever called.
    let cancel = cancel.child_token();
    tasks.spawn(driver.run(cancel.clone()));
    tasks.spawn(reloader.run(reloads, cancel.clone()));
    let network = Network::new(context, &home);
    tasks.spawn(network.run(network_listener, cancel.clone()));
    if let Some(listener) = rpc_listener {
        let app = http::app(Arc::new(rpc), Arc::clone(&scrape));
        tasks.spawn(http::serve(listener, app, cancel.clone()));
    }
    if let Some(listener) = metrics_listener {
        tasks.spawn(http::serve(listener, http::metrics_app(scrape), cancel.clone()));
    }
    let mut outcome = Ok(());
    while let Some(ended) = tasks.join_next().await {
        cancel.cancel();
        let ended = ended.map_err(NodeError::Task).flatten();
        if outcome.is_ok() {
            outcome = ended;
        }
    }
    tracing::info!("the embedded node ended");
    outcome
}
