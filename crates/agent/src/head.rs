//! A recent final block, for transactions to name: read anew every second, from whichever producer answers.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tpsctl_near::CryptoHash;
use tpsctl_rpc::{Client, RpcError, jsonrpc::BlockRef};

/// Pause between readings. A hash is valid for hundreds of blocks; this keeps it a few blocks old.
const REFRESH: Duration = Duration::from_secs(1);

/// The block that transactions name, and how high the chain is known to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) block_hash: CryptoHash,
    pub(crate) height: u64,
    /// When a producer last confirmed that this is its last final block, or gave it.
    pub(crate) read_at: Instant,
}

/// The final block of the first of `clients`, from number `first` on, that gives one; which one gave it.
pub(crate) async fn read(clients: &[Client], first: usize) -> Result<(Head, usize), RpcError> {
    let mut failed = None;
    for number in (first..clients.len()).chain(0..first) {
        match clients[number].block(BlockRef::Final).await {
            Ok(block) => {
                let (block_hash, height) = (block.header.hash, block.header.height);
                return Ok((Head { block_hash, height, read_at: Instant::now() }, number));
            }
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.expect("there is at least one producer"))
}

/// Keeps `head` fresh until `cancel`. A final block below the one known (from a producer that is behind) is passed over.
pub(crate) async fn follow(clients: Vec<Client>, head: watch::Sender<Head>, cancel: CancellationToken) {
    let mut from = 0;
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = sleep(REFRESH) => {}
        }
        let read = tokio::select! {
            () = cancel.cancelled() => return,
            read = read(&clients, from) => read,
        };
        match read {
            Ok((new, number)) => {
                let is_taken = head.send_if_modified(|known| take_newer(known, new));
                // Next time, ask another than one that is behind.
                from = if is_taken { number } else { (number + 1) % clients.len() };
            }
            Err(error) => tracing::debug!(%error, "no producer gives a final block"),
        }
    }
}

fn take_newer(known: &mut Head, new: Head) -> bool {
    let is_newer = new.height >= known.height;
    if is_newer {
        *known = new;
    }
    is_newer
}
