//! Nodes to dial: those of the configuration, and validators' nodes that somebody trusted told of.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use tpsctl_near::PublicKey;

/// Entries taken from one message.
pub(super) const TOLD_MAX: usize = 100;
/// Entries kept.
const ENTRIES_MAX: usize = 1_000;
/// Dials that may fail in a row before a node is forgotten; those of the configuration never are.
const FAILURES_MAX: u32 = 10;

#[derive(Debug)]
struct Entry {
    addr: SocketAddr,
    is_boot: bool,
    failures: u32,
}

#[derive(Debug)]
pub(super) struct Heard(BTreeMap<PublicKey, Entry>);

impl Heard {
    pub(super) fn new(boot: impl Iterator<Item = (PublicKey, SocketAddr)>) -> Self {
        Self(boot.map(|(key, addr)| (key, Entry { addr, is_boot: true, failures: 0 })).collect())
    }

    /// Whether it is of the configuration, or a validator's.
    pub(super) fn is_known(&self, key: &PublicKey) -> bool {
        self.0.contains_key(key)
    }

    /// Whether it is of the configuration.
    pub(super) fn is_boot(&self, key: &PublicKey) -> bool {
        self.0.get(key).is_some_and(|entry| entry.is_boot)
    }

    /// Somebody trusted says where a node is; where that node was not reached lately, it is tried there. Returns what
    /// is new.
    pub(super) fn tell(
        &mut self,
        told: impl IntoIterator<Item = (PublicKey, SocketAddr)>,
    ) -> Vec<(PublicKey, SocketAddr)> {
        let mut new = Vec::new();
        for (key, addr) in told.into_iter().take(TOLD_MAX) {
            let has_room = self.0.len() < ENTRIES_MAX;
            match self.0.get_mut(&key) {
                Some(entry) if entry.failures > 0 && !entry.is_boot => entry.addr = addr,
                None if has_room => {
                    self.0.insert(key, Entry { addr, is_boot: false, failures: 0 });
                    new.push((key, addr));
                }
                Some(_) | None => {}
            }
        }
        new
    }

    /// A validator's node that is connected says itself where it is. Says whether that is news.
    pub(super) fn introduced(&mut self, key: PublicKey, addr: SocketAddr) -> bool {
        let mut is_news = !self.tell([(key, addr)]).is_empty();
        if let Some(entry) = self.0.get_mut(&key).filter(|entry| !entry.is_boot) {
            is_news |= entry.addr != addr;
            entry.addr = addr;
        }
        is_news
    }

    /// The node is connected.
    pub(super) fn reached(&mut self, key: &PublicKey) {
        if let Some(entry) = self.0.get_mut(key) {
            entry.failures = 0;
        }
    }

    /// A dial ended.
    pub(super) fn failed(&mut self, key: &PublicKey) {
        let Some(entry) = self.0.get_mut(key) else { return };
        entry.failures += 1;
        if entry.failures >= FAILURES_MAX && !entry.is_boot {
            self.0.remove(key);
        }
    }

    /// Which of them the node `own` is to be connected to, where it may have `most` connections to nodes.
    pub(super) fn wanted(&self, own: &PublicKey, most: usize) -> BTreeSet<PublicKey> {
        neighbours(own, self.0.keys().copied().chain([*own]).collect(), most)
    }

    pub(super) fn addrs(&self) -> Vec<(PublicKey, SocketAddr)> {
        self.0.iter().map(|(key, entry)| (*key, entry.addr)).collect()
    }
}

/// The neighbours of `own` among `all` (itself too) when nobody may have more than `most`. If there is room for everybody,
/// all; else the nodes stand in a ring by their keys, and each is connected to the next ones on both sides and to some at
/// distances that grow by a factor, so that any other is few connections away. All nodes come to the same graph, as soon as
/// they have heard of the same nodes.
fn neighbours(own: &PublicKey, all: BTreeSet<PublicKey>, most: usize) -> BTreeSet<PublicKey> {
    let ring: Vec<PublicKey> = all.into_iter().collect();
    let len = ring.len();
    let Some(place) = ring.iter().position(|key| key == own).filter(|_| len > most + 1) else {
        return ring.into_iter().filter(|key| key != own).collect();
    };
    let around = |distance: usize| [ring[(place + distance) % len], ring[(place + len - distance) % len]];
    distances(len, most / 2).into_iter().flat_map(around).collect()
}

/// `count` distances on a ring of `len`, from 1 up to half of it.
fn distances(len: usize, count: usize) -> BTreeSet<usize> {
    let half = len / 2;
    let mut chosen = BTreeSet::from([1]);
    for turn in 1..count {
        // The turn-th of so many equal factors between 1 and a half of the ring.
        let factor = (half as f64).powf(turn as f64 / count as f64);
        chosen.insert((factor.round() as usize).clamp(1, half));
    }
    // Small rings round to the same distance more than once.
    for distance in 2..half.max(2) {
        if chosen.len() >= count.max(1) {
            break;
        }
        chosen.insert(distance);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capped_nodes_come_to_one_graph_in_which_all_are_near() {
        for (count, most) in
            [(2_u16, 1), (5, 4), (6, 4), (12, 4), (12, 5), (50, 10), (70, 10), (70, 30), (9, 2), (140, 4)]
        {
            let all: BTreeSet<PublicKey> = (0..count).map(|number| entry(number).0).collect();
            let of = |key: &PublicKey| neighbours(key, all.clone(), most);
            let (mut reached, mut steps) = (BTreeSet::from([entry(0).0]), 0);
            for key in &all {
                let own = of(key);
                assert!(own.len() <= most && !own.contains(key), "{count} {most}: {}", own.len());
                assert!(own.iter().all(|other| of(other).contains(key)), "both see the connection");
            }
            while reached.len() < all.len() {
                let next: Vec<_> = reached.iter().flat_map(of).collect();
                reached.extend(next);
                steps += 1;
                assert!(steps <= count, "{count} {most}: in pieces");
            }
            let bound = if most < 4 { count / 2 } else { 12.min(count / 4 + 2) };
            assert!(steps <= bound, "{count} nodes, {most} connections: {steps} steps");
        }
    }

    fn entry(number: u16) -> (PublicKey, SocketAddr) {
        let mut key = [0; 32];
        key[..2].copy_from_slice(&number.to_le_bytes());
        (PublicKey(key), SocketAddr::from(([127, 0, 0, 1], number)))
    }

    #[test]
    fn gossip_is_bounded() {
        let mut heard = Heard::new([entry(0)].into_iter());
        assert_eq!(heard.tell((1..=60_000).map(entry)).len(), TOLD_MAX);
        assert_eq!(heard.addrs().len(), 1 + TOLD_MAX);
        for number in 1..100 {
            heard.tell((number * 100..number * 100 + 100).map(entry));
        }
        assert_eq!(heard.addrs().len(), ENTRIES_MAX);
    }

    #[test]
    fn who_is_never_reached_is_forgotten() {
        let mut heard = Heard::new([entry(0)].into_iter());
        heard.tell([entry(1), entry(2)]);
        for _ in 0..FAILURES_MAX {
            heard.failed(&entry(0).0);
            heard.failed(&entry(1).0);
            heard.failed(&entry(2).0);
            heard.reached(&entry(2).0);
        }
        assert_eq!(heard.addrs(), [entry(0), entry(2)], "configured ones stay");
    }

    #[test]
    fn a_reached_node_is_not_moved_by_others() {
        let mut heard = Heard::new(std::iter::empty());
        let (key, addr) = entry(1);
        heard.tell([(key, addr)]);
        heard.tell([(key, entry(9).1)]);
        assert_eq!(heard.addrs(), [(key, addr)]);
        heard.failed(&key);
        heard.tell([(key, entry(9).1)]);
        assert_eq!(heard.addrs(), [(key, entry(9).1)]);
        heard.introduced(key, addr);
        assert_eq!(heard.addrs(), [(key, addr)]);
    }
}
