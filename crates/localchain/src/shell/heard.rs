//! Nodes to dial: those of the configuration, and validators' nodes that somebody trusted told of.

use std::{collections::BTreeMap, net::SocketAddr};

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

    /// Somebody trusted says where a node is; where that node was not reached lately, it is tried there.
    pub(super) fn tell(&mut self, told: impl IntoIterator<Item = (PublicKey, SocketAddr)>) {
        for (key, addr) in told.into_iter().take(TOLD_MAX) {
            let has_room = self.0.len() < ENTRIES_MAX;
            match self.0.get_mut(&key) {
                Some(entry) if entry.failures > 0 && !entry.is_boot => entry.addr = addr,
                None if has_room => {
                    self.0.insert(key, Entry { addr, is_boot: false, failures: 0 });
                }
                Some(_) | None => {}
            }
        }
    }

    /// A validator's node that is connected says itself where it is.
    pub(super) fn introduced(&mut self, key: PublicKey, addr: SocketAddr) {
        self.tell([(key, addr)]);
        if let Some(entry) = self.0.get_mut(&key).filter(|entry| !entry.is_boot) {
            entry.addr = addr;
        }
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

    pub(super) fn addrs(&self) -> Vec<(PublicKey, SocketAddr)> {
        self.0.iter().map(|(key, entry)| (*key, entry.addr)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u16) -> (PublicKey, SocketAddr) {
        let mut key = [0; 32];
        key[..2].copy_from_slice(&number.to_le_bytes());
        (PublicKey(key), SocketAddr::from(([127, 0, 0, 1], number)))
    }

    #[test]
    fn gossip_is_bounded() {
        let mut heard = Heard::new([entry(0)].into_iter());
        heard.tell((1..=60_000).map(entry));
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
