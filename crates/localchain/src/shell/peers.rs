//! The nodes that this one is connected to, and what is sent to them.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::body::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tpsctl_near::{AccountId, PublicKey};

use super::metrics::Metrics;
use crate::core::To;

/// Frames that may wait for a peer: some blocks' worth of chunks and votes. A peer that lets more pile up is dropped.
pub(super) const QUEUE_FRAMES_MAX: usize = 512;

/// A connected node.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) account: Option<AccountId>,
    /// Where others reach it.
    pub(super) addr: SocketAddr,
    /// Who dialed: of two connections between a pair, the one dialed by the lower key stays.
    pub(super) dialer: PublicKey,
    pub(super) queue: mpsc::Sender<Bytes>,
    pub(super) cancel: CancellationToken,
}

#[derive(Debug)]
pub(super) struct Peers {
    nodes: Mutex<BTreeMap<PublicKey, (u64, Peer)>>,
    next_id: AtomicU64,
    metrics: Arc<Metrics>,
}

impl Peers {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { nodes: Mutex::default(), next_id: AtomicU64::new(0), metrics }
    }

    /// Counts one message that came.
    pub(super) fn count(&self, name: &str) {
        self.metrics.messages.with_label_values(&[name]).inc();
    }

    /// Counts connections of all kinds.
    pub(super) fn set_connections(&self, connections: usize) {
        self.metrics.peer_connections.set(connections.cast_signed() as i64);
    }

    /// Adds a node; says under which number, or nothing where another connection to it stays.
    pub(super) fn add(&self, key: PublicKey, peer: Peer) -> Option<u64> {
        let mut nodes = self.nodes.lock().ok()?;
        if let Some((_, other)) = nodes.get(&key) {
            if other.dialer < peer.dialer {
                return None;
            }
            other.cancel.cancel();
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        nodes.insert(key, (id, peer));
        Some(id)
    }

    /// Removes the connection with this number, if it is still the node's.
    pub(super) fn remove(&self, key: PublicKey, id: u64) {
        if let Ok(mut nodes) = self.nodes.lock()
            && nodes.get(&key).is_some_and(|(own, _)| *own == id)
        {
            nodes.remove(&key);
        }
    }

    pub(super) fn is_connected(&self, key: &PublicKey) -> bool {
        self.nodes.lock().is_ok_and(|nodes| nodes.contains_key(key))
    }

    /// Where the connected nodes are reached.
    pub(super) fn addrs(&self) -> Vec<(PublicKey, SocketAddr)> {
        let Ok(nodes) = self.nodes.lock() else { return Vec::new() };
        nodes.iter().map(|(key, (_, peer))| (*key, peer.addr)).collect()
    }

    /// Queues a frame. A peer whose queue is full is dropped, not waited for; it comes back when it can.
    pub(super) fn send(&self, to: &To, frame: &Bytes) {
        let Ok(nodes) = self.nodes.lock() else { return };
        let is_meant = |key: &PublicKey, peer: &Peer| match to {
            To::All => true,
            To::Validator(account) => peer.account.as_ref() == Some(account),
            To::Peer(meant) => key == meant,
        };
        for (key, (_, peer)) in nodes.iter().filter(|(key, (_, peer))| is_meant(key, peer)) {
            if let Err(mpsc::error::TrySendError::Full(_)) = peer.queue.try_send(frame.clone()) {
                tracing::warn!(peer = %key, "dropped a peer that reads too slowly");
                peer.cancel.cancel();
            }
        }
    }
}
