//! `tpsctl localnode run`: the embedded node in the foreground.

use std::path::PathBuf;

use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::{
    exit::{self, Failure},
    signals::Interrupts,
};

/// Runs until SIGINT or SIGTERM.
pub(crate) fn run(home: PathBuf) -> Result<u8, Failure> {
    if !home.is_dir() {
        return Err(Failure::input(anyhow::anyhow!(
            "`{}` is not a directory: name a node's home",
            home.display()
        )));
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let runtime = super::runtime(1)?;
    let ended = runtime.block_on(async {
        let interrupts = Interrupts::new();
        let cancel: CancellationToken = interrupts.first.clone();
        let node = tpsctl_localchain::run(tpsctl_localchain::RunOptions { home }, cancel);
        let listen = interrupts.listen();
        tokio::pin!(node, listen);
        tokio::select! {
            ended = &mut node => ended,
            // The second signal: it is to end at once.
            _ = &mut listen => Ok(()),
        }
    });
    ended
        .map(|()| exit::DONE)
        .map_err(|error| Failure { is_act: true, ..Failure::new(exit::PROVIDER_FAILED, error) })
}
