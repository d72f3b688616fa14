//! `tpsctl localnode run`: the embedded node in the foreground.

use std::path::PathBuf;

use anyhow::Context;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tpsctl_localchain::{NodeError, RunOptions, run_reloadable};

use crate::{
    exit::{self, Failure},
    node_log,
    signals::NodeSignals,
};

/// How the waiting for the node ended.
enum Ended {
    ByItself(Result<(), NodeError>),
    /// The second signal: it is to end at once.
    AtOnce,
}

/// Runs until SIGINT, SIGTERM or SIGQUIT; on SIGHUP the configuration is read again.
pub(crate) fn run(home: PathBuf) -> Result<u8, Failure> {
    if !home.is_dir() {
        return Err(Failure::input(anyhow::anyhow!(
            "`{}` is not a directory: name a node's home",
            home.display()
        )));
    }
    node_log::start();
    let runtime = super::runtime(1)?;
    let ended = runtime.block_on(serve(home));
    // Everything of the node was joined, or is not to be waited for: a thread that still reads a large genesis, and after
    // the second signal all others.
    runtime.shutdown_background();
    match ended? {
        Ended::ByItself(Ok(())) => Ok(exit::DONE),
        Ended::ByItself(Err(error)) => {
            let code = if error.is_input() { exit::BAD_INPUT } else { exit::PROVIDER_FAILED };
            Err(Failure { is_act: true, ..Failure::new(code, error) })
        }
        Ended::AtOnce => Ok(exit::INTERRUPTED),
    }
}

async fn serve(home: PathBuf) -> Result<Ended, Failure> {
    // Before anything else: a signal that comes while the home is read must not end the process in its own way.
    let signals = NodeSignals::new()
        .context("cannot listen for signals")
        .map_err(|error| Failure::new(exit::PROVIDER_FAILED, error))?;
    // One that waits is enough: it reads what is newest.
    let (reload, reloads) = mpsc::channel(1);
    let cancel = CancellationToken::new();
    tokio::select! {
        ended = run_reloadable(RunOptions { home }, reloads, cancel.clone()) => Ok(Ended::ByItself(ended)),
        () = signals.listen(cancel, reload) => Ok(Ended::AtOnce),
    }
}
