//! What all connections share.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::body::Bytes;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};
use tpsctl_near::{
    AccountId, KeyPair, PublicKey,
    p2p::{Identity, NodeFacts},
};

use super::{
    admission::Admission,
    driver::Inputs,
    heard::{Heard, TOLD_MAX},
    hello::{Ends, Hello},
    home::Home,
    lock::lock,
    peers::{Peers, block_message},
};
use crate::core::{View, message_field as field};

/// Messages of strangers to the core have this distance, all strangers' together: each may cost it a signature check or
/// two, and validators' messages wait behind them.
const STRANGERS_PACE: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Context {
    pub(super) identity: Identity,
    account: Option<(AccountId, KeyPair)>,
    pub(super) validators: BTreeMap<AccountId, PublicKey>,
    listen_addr: SocketAddr,
    tracked_shards: Vec<u64>,
    view: watch::Receiver<Arc<View>>,
    pub(super) inputs: Inputs,
    pub(super) admission: Arc<Admission>,
    pub(super) peers: Arc<Peers>,
    pub(super) handshake_timeout: Duration,
    /// Places of strangers: who came in and has not proved to be a validator's.
    places: Arc<Semaphore>,
    /// Most nodes that this one connects to.
    pub(super) peers_max: usize,
    next_stranger_at: tokio::sync::Mutex<Instant>,
    /// Nodes that were heard of.
    pub(super) heard: Mutex<Heard>,
    pub(super) is_heard: Notify,
}

impl Context {
    pub(super) fn new(
        home: &Home,
        view: watch::Receiver<Arc<View>>,
        inputs: Inputs,
        admission: Arc<Admission>,
        peers: Arc<Peers>,
    ) -> Self {
        let genesis = &home.settings.genesis;
        let tracked = genesis.layout.shard_ids().iter().zip(&home.settings.tracked);
        let validators = genesis.validators.iter();
        let boot = home.boot_nodes.iter().map(|boot| (boot.id, boot.addr));
        Self {
            identity: Identity {
                key: home.node_key.clone(),
                chain_id: genesis.chain_id.clone(),
                genesis_hash: genesis.block().hash(),
            },
            account: home.settings.validator.clone(),
            validators: validators.map(|own| (own.account_id.clone(), own.public_key)).collect(),
            listen_addr: home.public_addr,
            tracked_shards: tracked.filter(|(_, is_tracked)| **is_tracked).map(|(id, _)| *id).collect(),
            view,
            inputs,
            admission,
            peers,
            handshake_timeout: home.handshake_timeout,
            places: Arc::new(Semaphore::new(home.guests_max().min(Semaphore::MAX_PERMITS))),
            peers_max: home.peers_max,
            next_stranger_at: tokio::sync::Mutex::new(Instant::now()),
            heard: Mutex::new(Heard::new(boot)),
            is_heard: Notify::new(),
        }
    }

    fn height(&self) -> u64 {
        self.view.borrow().head.block.height()
    }

    pub(super) fn facts(&self) -> NodeFacts {
        NodeFacts {
            addr: Some(self.listen_addr),
            account_id: self.account.as_ref().map(|(account, _)| account.clone()),
            listen_port: self.listen_addr.port(),
            height: self.height(),
            tracked_shards: self.tracked_shards.clone(),
        }
    }

    /// This node's introduction to `receiver`.
    pub(super) fn hello(&self, receiver: PublicKey) -> Bytes {
        self.introduction(receiver).frame(field::FIELD_HELLO)
    }

    /// The same to a node for which there is no place.
    pub(super) fn full(&self, receiver: PublicKey) -> Bytes {
        self.introduction(receiver).frame(field::FIELD_FULL)
    }

    fn introduction(&self, receiver: PublicKey) -> Hello {
        let sender = self.identity.key.public();
        let ends = Ends { genesis_hash: self.identity.genesis_hash, sender, receiver };
        let facts = (self.listen_addr, self.height());
        // Those of which it only heard, too: who finds no place here looks for one there.
        let heard = lock(&self.heard).addrs();
        let told = self.peers.validators().into_iter().chain(heard).collect::<BTreeMap<_, _>>();
        let told = told.into_iter().filter(|(key, _)| *key != receiver).take(TOLD_MAX).collect();
        Hello::new(ends, self.account.as_ref(), facts, told)
    }

    /// The head, for a guest that has just come.
    pub(super) fn latest_block(&self) -> Bytes {
        let head = Arc::clone(&self.view.borrow().head.block);
        block_message(&head)
    }

    /// A place among the strangers, if there is one.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Waits for a stranger's turn to be heard by the core.
    pub(super) async fn pace(&self) {
        let mut next_at = self.next_stranger_at.lock().await;
        tokio::time::sleep_until(*next_at).await;
        *next_at = Instant::now() + STRANGERS_PACE;
    }
}
