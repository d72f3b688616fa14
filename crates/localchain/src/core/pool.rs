//! One shard's transaction pool: groups by account and key, nonce order within a group, one of each group in turn
//! (chain/pool/src/lib.rs). Over its limit it drops in silence, as neard does.

use std::{
    collections::{BTreeMap, btree_map},
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

use super::{
    VerifiedTransaction,
    types::{GroupKey, TxKey},
};

/// What became of a transaction that was offered to a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insertion {
    /// It is in.
    Added,
    /// Its key and nonce are there already.
    Duplicate,
    /// The pool is full.
    NoSpaceLeft,
}

type Group = BTreeMap<u64, Arc<VerifiedTransaction>>;

#[derive(Debug)]
pub(crate) struct Pool {
    groups: BTreeMap<GroupKey, Group>,
    bytes: u64,
    len: u64,
    bytes_max: Option<u64>,
    /// The last group that gave a transaction to a chunk.
    position: GroupKey,
}

/// Transactions to prepare, in the pool's order; they stay in the pool.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    pub(crate) transactions: Vec<Arc<VerifiedTransaction>>,
    /// Whether these are all that the pool holds.
    pub(crate) is_all: bool,
}

impl Pool {
    pub(crate) fn new(bytes_max: Option<u64>) -> Self {
        Self { groups: BTreeMap::new(), bytes: 0, len: 0, bytes_max, position: [0; 32] }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn insert(&mut self, transaction: Arc<VerifiedTransaction>) -> Insertion {
        let TxKey { group, nonce } = transaction.key();
        let bytes = self.bytes + transaction.size();
        let group = match self.groups.entry(group) {
            btree_map::Entry::Occupied(entry) if entry.get().contains_key(&nonce) => {
                return Insertion::Duplicate;
            }
            _ if self.bytes_max.is_some_and(|bytes_max| bytes > bytes_max) => return Insertion::NoSpaceLeft,
            entry => entry.or_default(),
        };
        group.insert(nonce, transaction);
        self.bytes = bytes;
        self.len += 1;
        Insertion::Added
    }

    pub(crate) fn remove(&mut self, key: TxKey) {
        let btree_map::Entry::Occupied(mut group) = self.groups.entry(key.group) else { return };
        if let Some(transaction) = group.get_mut().remove(&key.nonce) {
            self.bytes -= transaction.size();
            self.len -= 1;
        }
        if group.get().is_empty() {
            group.remove();
        }
    }

    /// The next preparation begins after this group.
    pub(crate) fn advance(&mut self, last_used: GroupKey) {
        self.position = last_used;
    }

    /// The transactions that come next, up to `bytes_max` of them together.
    pub(crate) fn candidates(&self, bytes_max: u64) -> Candidates {
        let mut taken = Candidates { transactions: Vec::new(), is_all: false };
        let mut bytes = 0;
        let mut take = |transaction: &Arc<VerifiedTransaction>| {
            bytes += transaction.size();
            taken.transactions.push(Arc::clone(transaction));
            bytes < bytes_max
        };
        let after = self.groups.range((Excluded(self.position), Unbounded));
        let before = self.groups.range(..=self.position);
        let mut turns = Vec::new();
        for (_, group) in after.chain(before) {
            let mut turn = group.values();
            if let Some(first) = turn.next() {
                if !take(first) {
                    return taken;
                }
                turns.push(turn);
            }
        }
        while !turns.is_empty() {
            let mut is_full = false;
            turns.retain_mut(|turn| match turn.next() {
                Some(transaction) if !is_full => {
                    is_full = !take(transaction);
                    true
                }
                next => next.is_some(),
            });
            if is_full {
                return taken;
            }
        }
        taken.is_all = true;
        taken
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tpsctl_near::{Action, CryptoHash, KeyPair, Transaction};

    use super::*;

    fn transaction(signer: u8, nonce: u64) -> Arc<VerifiedTransaction> {
        let key = KeyPair::from_seed([signer; 32]);
        let signed = Transaction {
            signer_id: format!("user_{signer}").parse().expect("id"),
            public_key: key.public(),
            nonce,
            receiver_id: "receiver".parse().expect("id"),
            block_hash: CryptoHash::default(),
            actions: vec![Action::Transfer { deposit: 1 }],
        }
        .sign(&key);
        Arc::new(VerifiedTransaction::of_signed(signed).expect("signed"))
    }

    fn names(candidates: &Candidates) -> Vec<(String, u64)> {
        let name = |own: &Arc<VerifiedTransaction>| {
            (own.signed().transaction.signer_id.to_string(), own.key().nonce)
        };
        candidates.transactions.iter().map(name).collect()
    }

    #[test]
    fn groups_take_turns_in_nonce_order() {
        let mut pool = Pool::new(None);
        for (signer, nonce) in [(1, 9), (1, 3), (2, 5), (1, 4), (2, 1)] {
            assert_eq!(pool.insert(transaction(signer, nonce)), Insertion::Added);
        }
        assert_eq!(pool.insert(transaction(1, 3)), Insertion::Duplicate);
        let all = pool.candidates(u64::MAX);
        assert!(all.is_all);
        let names = names(&all);
        let nonces = |user: &str| -> Vec<u64> {
            names.iter().filter(|(name, _)| name == user).map(|(_, nonce)| *nonce).collect()
        };
        assert_eq!((nonces("user_1"), nonces("user_2")), (vec![3, 4, 9], vec![1, 5]));
        assert_ne!(names[0].0, names[1].0, "one of each group first");
    }

    #[test]
    fn the_next_preparation_begins_behind_the_last() {
        let mut pool = Pool::new(None);
        for signer in 0..6 {
            pool.insert(transaction(signer, 1));
        }
        let first = pool.candidates(1).transactions;
        pool.advance(first[0].key().group);
        let order = pool.candidates(u64::MAX).transactions;
        assert_eq!(order.last().expect("six").key(), first[0].key());
    }

    #[test]
    fn a_full_pool_drops() {
        let size = transaction(1, 1).size();
        let mut pool = Pool::new(Some(size * 2 + size / 2));
        assert_eq!(pool.insert(transaction(1, 1)), Insertion::Added);
        assert_eq!(pool.insert(transaction(1, 2)), Insertion::Added);
        assert_eq!(pool.insert(transaction(1, 3)), Insertion::NoSpaceLeft);
        pool.remove(transaction(1, 1).key());
        assert_eq!(pool.insert(transaction(1, 3)), Insertion::Added);
        assert_eq!((pool.len(), pool.bytes()), (2, 2 * size));
    }

    proptest! {
        #[test]
        fn bytes_and_length_close(steps in proptest::collection::vec((0_u8..4, 1_u64..6, any::<bool>()), 0..60)) {
            let mut pool = Pool::new(None);
            for (signer, nonce, is_insert) in steps {
                let own = transaction(signer, nonce);
                if is_insert { pool.insert(own); } else { pool.remove(own.key()); }
                let all = pool.candidates(u64::MAX);
                prop_assert!(all.is_all);
                prop_assert_eq!(all.transactions.len() as u64, pool.len());
                prop_assert_eq!(all.transactions.iter().map(|own| own.size()).sum::<u64>(), pool.bytes());
            }
        }
    }
}
