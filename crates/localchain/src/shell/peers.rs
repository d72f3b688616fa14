//! The nodes that this one is connected to, and what is sent to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::body::Bytes;
use tokio_util::sync::CancellationToken;
use tpsctl_near::{AccountId, PublicKey, p2p::block_frame};

use super::{clock, heard::TOLD_MAX, lock::lock, meter::Meter, metrics::Metrics, outbox::Outbox};
use crate::core::{Block, To};

/// A connected node.
#[derive(Debug)]
pub(super) struct Peer {
    /// The validator that it proved to be.
    pub(super) account: Option<AccountId>,
    /// Where others reach it.
    pub(super) addr: SocketAddr,
    /// Whether it is a validator's or of the configuration: only those are counted against the most that may be.
    pub(super) is_known: bool,
    /// Who dialed: of two connections between a pair, the one dialed by the lower key stays; but a proven one stays
    /// before one that is not, for anybody who is dialed can say to have the other's key.
    pub(super) dialer: PublicKey,
    pub(super) outbox: Outbox,
    pub(super) cancel: CancellationToken,
}

/// A peer that did not introduce itself: it gets every block, as from neard, and nothing else.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) outbox: Outbox,
    pub(super) cancel: CancellationToken,
}

/// `PeerMessage.block_response` with the block in NEAR's own form.
pub(super) fn block_message(block: &Block) -> Bytes {
    let borsh = borsh::to_vec(&block.near()).expect("memory takes every byte");
    block_frame(&borsh).into()
}

#[derive(Debug)]
pub(super) struct Peers {
    nodes: Mutex<BTreeMap<PublicKey, (u64, Peer)>>,
    /// Peers that are no nodes, by the number of their connection.
    guests: Mutex<BTreeMap<u64, Guest>>,
    next_id: AtomicU64,
    metrics: Arc<Metrics>,
    received: Meter,
    sent: Meter,
}

/// A connected node, as others are told of it.
#[derive(Debug, Clone)]
pub(super) struct PeerFacts {
    pub(super) key: PublicKey,
    pub(super) addr: SocketAddr,
    pub(super) account: Option<AccountId>,
}

impl Peers {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            nodes: Mutex::default(),
            guests: Mutex::default(),
            next_id: AtomicU64::new(0),
            metrics,
            received: Meter::default(),
            sent: Meter::default(),
        }
    }

    /// All connected nodes.
    pub(super) fn list(&self) -> Vec<PeerFacts> {
        let nodes = self.nodes();
        let facts = |(key, (_, peer)): (&PublicKey, &(u64, Peer))| PeerFacts {
            key: *key,
            addr: peer.addr,
            account: peer.account.clone(),
        };
        nodes.iter().map(facts).collect()
    }

    /// Counts bytes that came from peers.
    pub(super) fn count_received(&self, bytes: usize) {
        self.received.add(bytes as u64, clock::unix_seconds());
    }

    /// Bytes received from peers and sent to them in the last whole second.
    pub(super) fn bytes_per_second(&self) -> (u64, u64) {
        let now = clock::unix_seconds();
        (self.received.rate(now), self.sent.rate(now))
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<PublicKey, (u64, Peer)>> {
        lock(&self.nodes)
    }

    /// Counts one message that came.
    pub(super) fn count(&self, name: &str) {
        self.metrics.message(name);
    }

    /// Counts a connection that ended by a panic.
    pub(super) fn count_panic(&self) {
        self.metrics.connection_panic();
    }

    /// Counts connections of all kinds.
    pub(super) fn set_connections(&self, connections: usize) {
        self.metrics.set_connections(connections);
    }

    /// Adds a node; says under which number, or nothing where another connection to it stays.
    pub(super) fn add(&self, key: PublicKey, peer: Peer) -> Option<u64> {
        let mut nodes = self.nodes();
        if let Some((_, other)) = nodes.get(&key) {
            if (other.account.is_none(), other.dialer) < (peer.account.is_none(), peer.dialer) {
                return None;
            }
            other.cancel.cancel();
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        nodes.insert(key, (id, peer));
        Some(id)
    }

    /// Adds a guest; says under which number.
    pub(super) fn add_guest(&self, guest: Guest) -> u64 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        lock(&self.guests).insert(id, guest);
        id
    }

    /// It ended, or turned out to be a node.
    pub(super) fn remove_guest(&self, id: u64) {
        lock(&self.guests).remove(&id);
    }

    /// Queues a block for all guests, encoded once. A guest that lets too many pile up is dropped.
    pub(super) fn tell_guests(&self, block: &Block) {
        let guests = lock(&self.guests);
        if guests.is_empty() {
            return;
        }
        let frame = block_message(block);
        for guest in guests.values().filter(|guest| !guest.cancel.is_cancelled()) {
            if !guest.outbox.push_for_guest(frame.clone()) {
                guest.cancel.cancel();
            }
        }
    }

    /// Whether another known node may come where there may be `most`: there is room, or it is wanted and one that is not
    /// goes for it.
    pub(super) fn make_room(&self, key: &PublicKey, most: usize, wanted: &BTreeSet<PublicKey>) -> bool {
        let nodes = self.nodes();
        let known = || nodes.iter().filter(|(_, (_, peer))| peer.is_known && !peer.cancel.is_cancelled());
        // On a ring everybody has two.
        if nodes.contains_key(key) || known().count() < most.max(2) {
            return true;
        }
        let unwanted = known().find(|(key, _)| !wanted.contains(key)).filter(|_| wanted.contains(key));
        let Some((_, (_, peer))) = unwanted else { return false };
        peer.cancel.cancel();
        true
    }

    /// Drops known nodes that are not wanted until there are no more than `most`: of two that came at once, each may have
    /// found the last place.
    pub(super) fn trim(&self, most: usize, wanted: &BTreeSet<PublicKey>) {
        let nodes = self.nodes();
        let known = nodes.iter().filter(|(_, (_, peer))| peer.is_known && !peer.cancel.is_cancelled());
        let (wanted, unwanted): (Vec<_>, Vec<_>) = known.partition(|(key, _)| wanted.contains(key));
        let room = most.max(2).saturating_sub(wanted.len());
        unwanted.iter().skip(room).for_each(|(_, (_, peer))| peer.cancel.cancel());
    }

    /// Removes the connection with this number, if it is still the node's.
    pub(super) fn remove(&self, key: PublicKey, id: u64) {
        let mut nodes = self.nodes();
        if nodes.get(&key).is_some_and(|(own, _)| *own == id) {
            nodes.remove(&key);
        }
    }

    pub(super) fn is_connected(&self, key: &PublicKey) -> bool {
        self.nodes().contains_key(key)
    }

    /// Where the connected validators' nodes are reached; as many as one message may tell of.
    pub(super) fn validators(&self) -> Vec<(PublicKey, SocketAddr)> {
        let nodes = self.nodes();
        let proven = nodes.iter().filter(|(_, (_, peer))| peer.account.is_some());
        proven.map(|(key, (_, peer))| (*key, peer.addr)).take(TOLD_MAX).collect()
    }

    /// Queues a frame for all nodes but one.
    pub(super) fn tell_others(&self, but: PublicKey, frame: &Bytes) {
        self.send_where(|key, _| *key != but, frame);
    }

    /// Queues a frame. A peer whose queue is full is dropped, not waited for; it comes back when it can.
    pub(super) fn send(&self, to: &To, frame: &Bytes) {
        self.send_where(
            |key, peer| match to {
                To::All => true,
                To::Validators => peer.account.is_some(),
                To::Validator(account) => peer.account.as_ref() == Some(account),
                To::Peer(meant) => key == meant,
                To::Peers(meant) => meant.contains(key),
            },
            frame,
        );
    }

    /// Queues a frame for the first of these validators whose node is connected and takes it. Says whether there is one.
    pub(super) fn send_to_one(&self, accounts: &[AccountId], frame: &Bytes) -> bool {
        let nodes = self.nodes();
        accounts.iter().any(|account| {
            let mut meant = nodes.iter().filter(|(_, (_, peer))| peer.account.as_ref() == Some(account));
            meant.any(|(key, (_, peer))| self.push(key, peer, frame))
        })
    }

    fn send_where(&self, is_meant: impl Fn(&PublicKey, &Peer) -> bool, frame: &Bytes) {
        let nodes = self.nodes();
        for (key, (_, peer)) in nodes.iter().filter(|(key, (_, peer))| is_meant(key, peer)) {
            self.push(key, peer, frame);
        }
    }

    /// Says whether the peer takes the frame.
    fn push(&self, key: &PublicKey, peer: &Peer, frame: &Bytes) -> bool {
        if peer.cancel.is_cancelled() {
            return false;
        }
        let is_taken = peer.outbox.push(frame.clone());
        if is_taken {
            self.sent.add(frame.len() as u64, clock::unix_seconds());
        } else {
            tracing::warn!(peer = %key, "dropped a peer that reads too slowly");
            peer.cancel.cancel();
        }
        is_taken
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;

    use tpsctl_near::KeyPair;

    use super::*;
    use crate::shell::{
        home::Home,
        lock::poison,
        outbox::{Outgoing, outbox},
    };

    fn id(text: &str) -> AccountId {
        text.parse().expect("id")
    }

    fn key(number: u8) -> PublicKey {
        KeyPair::from_seed([number; 32]).public()
    }

    pub(in crate::shell) fn peers() -> Peers {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/neard/home/node0");
        let home = Home::read(&home).expect("the fixture's home");
        Peers::new(Arc::new(Metrics::new(&home.settings.genesis)))
    }

    pub(in crate::shell) fn connect(peers: &Peers, number: u8, account: Option<&str>) -> Outgoing {
        let (outbox, outgoing) = outbox();
        let peer = Peer {
            account: account.map(id),
            addr: "127.0.0.1:1".parse().expect("an address"),
            is_known: true,
            dialer: key(number),
            outbox,
            cancel: CancellationToken::new(),
        };
        peers.add(key(number), peer).expect("a place");
        outgoing
    }

    #[test]
    fn one_frame_goes_to_the_first_that_is_there() {
        let peers = peers();
        let (accounts, frame) = ([id("one"), id("two"), id("three")], Bytes::from_static(b"frame"));
        assert!(!peers.send_to_one(&accounts, &frame), "nobody is there");
        let stranger = connect(&peers, 9, None);
        assert!(!peers.send_to_one(&accounts, &frame), "nobody who is meant");
        let (three, two) = (connect(&peers, 3, Some("three")), connect(&peers, 2, Some("two")));
        assert!(peers.send_to_one(&accounts, &frame));
        assert_eq!((two.waiting(), three.waiting()), (1, 0));
        peers.nodes()[&key(2)].1.cancel.cancel();
        assert!(peers.send_to_one(&accounts, &frame), "one that ends is passed over");
        assert_eq!((two.waiting(), three.waiting(), stranger.waiting()), (1, 1, 0));
        assert!(!peers.send_to_one(&[], &frame));
    }

    #[test]
    fn a_panic_under_a_lock_does_not_silence_the_node() {
        let peers = peers();
        poison(&peers.nodes);
        poison(&peers.guests);
        let node = connect(&peers, 1, Some("one"));
        peers.send(&To::All, &Bytes::from_static(b"frame"));
        assert_eq!(node.waiting(), 1);
        assert_eq!(peers.list().len(), 1);
        let wanted = BTreeSet::from([key(5)]);
        assert!(peers.make_room(&key(5), 2, &wanted), "there is room");
        let (outbox, guest) = outbox();
        let cancel = CancellationToken::new();
        let guest_id = peers.add_guest(Guest { outbox, cancel: cancel.clone() });
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/neard/home/node0");
        let block = Home::read(&home).expect("the fixture's home").settings.genesis.block();
        peers.tell_guests(&block);
        assert_eq!(guest.waiting(), 1);
        peers.remove_guest(guest_id);
        peers.tell_guests(&block);
        assert_eq!(guest.waiting(), 1, "it went");
        let others = [connect(&peers, 2, Some("two")), connect(&peers, 3, Some("three"))];
        peers.trim(2, &BTreeSet::from([key(1), key(2)]));
        assert!(peers.nodes()[&key(3)].1.cancel.is_cancelled(), "{others:?}");
    }
}
