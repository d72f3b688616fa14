//! A compact sparse Merkle tree over accounts, persistent: versions share what did not change.
//!
//! A leaf stands as high as it can (a subtree of one account is that leaf), so depth is about log2 of the accounts. A
//! *witness* is the same tree with all that was not touched replaced by [`Tree::Pruned`]; the runtime runs on it
//! unchanged, and where it would need more, it gets [`Incomplete`].

use std::{io, sync::Arc};

use borsh::{BorshDeserialize, BorshSerialize};
use tpsctl_near::{AccountId, CryptoHash};

use super::account::Account;

/// Where an account stands: SHA-256 of its id.
pub(crate) type Key = [u8; 32];

/// The tree is a witness and does not hold what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Incomplete;

/// The key of an account.
pub(crate) fn key_of(id: &AccountId) -> Key {
    CryptoHash::of(id.as_str().as_bytes()).0
}

#[derive(Debug)]
pub(crate) struct Leaf {
    key: Key,
    hash: CryptoHash,
    account: Account,
}

impl Leaf {
    pub(crate) fn new(key: Key, account: Account) -> Self {
        Self { key, hash: CryptoHash::of_borsh(&(0_u8, &account)), account }
    }
}

#[derive(Debug)]
pub(crate) struct Branch {
    hash: CryptoHash,
    left: Tree,
    right: Tree,
}

impl Branch {
    fn new(left: Tree, right: Tree) -> Self {
        let mut bytes = [1; 65];
        bytes[1..33].copy_from_slice(&left.hash().0);
        bytes[33..].copy_from_slice(&right.hash().0);
        Self { hash: CryptoHash::of(&bytes), left, right }
    }
}

/// A tree, or a subtree.
#[derive(Debug, Clone, Default)]
pub(crate) enum Tree {
    #[default]
    Empty,
    /// Known by its hash only.
    Pruned(CryptoHash),
    Leaf(Arc<Leaf>),
    Branch(Arc<Branch>),
}

/// The bit that decides at `depth`; false is left.
fn bit(key: &Key, depth: usize) -> bool {
    key[depth / 8] >> (7 - depth % 8) & 1 == 1
}

/// Splits what is sorted by key and agrees above `depth`.
fn split_at<T>(items: &[T], depth: usize, key: impl Fn(&T) -> &Key) -> (&[T], &[T]) {
    items.split_at(items.partition_point(|item| !bit(key(item), depth)))
}

impl Tree {
    pub(crate) fn hash(&self) -> CryptoHash {
        match self {
            Self::Empty => CryptoHash::default(),
            Self::Pruned(hash) => *hash,
            Self::Leaf(leaf) => leaf.hash,
            Self::Branch(branch) => branch.hash,
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Result<Option<&Account>, Incomplete> {
        let mut tree = self;
        for depth in 0..=256 {
            match tree {
                Self::Empty => return Ok(None),
                Self::Pruned(_) => return Err(Incomplete),
                Self::Leaf(leaf) => return Ok((leaf.key == *key).then_some(&leaf.account)),
                Self::Branch(branch) => {
                    tree = if depth < 256 && bit(key, depth) { &branch.right } else { &branch.left };
                }
            }
        }
        Err(Incomplete)
    }

    /// The tree with these accounts set. `leaves` are sorted by key, without duplicates; each branch is hashed once.
    pub(crate) fn set(&self, leaves: &[Arc<Leaf>]) -> Result<Self, Incomplete> {
        self.set_at(leaves, 0)
    }

    fn set_at(&self, leaves: &[Arc<Leaf>], depth: usize) -> Result<Self, Incomplete> {
        if leaves.is_empty() {
            return Ok(self.clone());
        }
        match self {
            Self::Empty => Ok(build(leaves, depth)),
            Self::Pruned(_) => Err(Incomplete),
            Self::Leaf(old) => match leaves.binary_search_by(|leaf| leaf.key.cmp(&old.key)) {
                Ok(_) => Ok(build(leaves, depth)),
                Err(at) => {
                    let mut all = Vec::with_capacity(leaves.len() + 1);
                    all.extend_from_slice(&leaves[..at]);
                    all.push(Arc::clone(old));
                    all.extend_from_slice(&leaves[at..]);
                    Ok(build(&all, depth))
                }
            },
            Self::Branch(branch) => {
                let (left, right) = split_at(leaves, depth, |leaf| &leaf.key);
                let left = branch.left.set_at(left, depth + 1)?;
                let right = branch.right.set_at(right, depth + 1)?;
                Ok(Self::Branch(Arc::new(Branch::new(left, right))))
            }
        }
    }

    /// The part of the tree that look-ups and changes of these sorted keys need.
    pub(crate) fn prune(&self, keys: &[Key]) -> Self {
        self.prune_at(keys, 0)
    }

    fn prune_at(&self, keys: &[Key], depth: usize) -> Self {
        match self {
            Self::Empty | Self::Pruned(_) => self.clone(),
            _ if keys.is_empty() => Self::Pruned(self.hash()),
            Self::Leaf(_) => self.clone(),
            Self::Branch(branch) => {
                let (left, right) = split_at(keys, depth, |key| key);
                let left = branch.left.prune_at(left, depth + 1);
                let right = branch.right.prune_at(right, depth + 1);
                Self::Branch(Arc::new(Branch { hash: branch.hash, left, right }))
            }
        }
    }

    /// Every account, in key order. Pruned parts are left out.
    #[cfg(test)]
    pub(crate) fn accounts(&self) -> Vec<&Account> {
        match self {
            Self::Empty | Self::Pruned(_) => Vec::new(),
            Self::Leaf(leaf) => vec![&leaf.account],
            Self::Branch(branch) => {
                let mut all = branch.left.accounts();
                all.extend(branch.right.accounts());
                all
            }
        }
    }

    fn write<W: io::Write>(&self, writer: &mut W) -> io::Result<()> {
        match self {
            Self::Empty => 0_u8.serialize(writer),
            Self::Pruned(hash) => (1_u8, hash).serialize(writer),
            Self::Leaf(leaf) => (2_u8, &leaf.account).serialize(writer),
            Self::Branch(branch) => {
                3_u8.serialize(writer)?;
                branch.left.write(writer)?;
                branch.right.write(writer)
            }
        }
    }

    fn read<R: io::Read>(reader: &mut R, depth: usize) -> io::Result<Self> {
        match u8::deserialize_reader(reader)? {
            0 => Ok(Self::Empty),
            1 => Ok(Self::Pruned(CryptoHash::deserialize_reader(reader)?)),
            2 => {
                let account = Account::deserialize_reader(reader)?;
                Ok(Self::Leaf(Arc::new(Leaf::new(key_of(&account.id), account))))
            }
            3 if depth < 256 => {
                let left = Self::read(reader, depth + 1)?;
                let right = Self::read(reader, depth + 1)?;
                Ok(Self::Branch(Arc::new(Branch::new(left, right))))
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "not a tree")),
        }
    }
}

fn build(leaves: &[Arc<Leaf>], depth: usize) -> Tree {
    match leaves {
        [] => Tree::Empty,
        [one] => Tree::Leaf(Arc::clone(one)),
        _ => {
            let (left, right) = split_at(leaves, depth, |leaf| &leaf.key);
            Tree::Branch(Arc::new(Branch::new(build(left, depth + 1), build(right, depth + 1))))
        }
    }
}

impl BorshSerialize for Tree {
    fn serialize<W: io::Write>(&self, writer: &mut W) -> io::Result<()> {
        self.write(writer)
    }
}

impl BorshDeserialize for Tree {
    fn deserialize_reader<R: io::Read>(reader: &mut R) -> io::Result<Self> {
        Self::read(reader, 0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn account(number: u16, amount: u128) -> (Key, Account) {
        let id: AccountId = format!("user_{number}").parse().expect("id");
        (key_of(&id), Account { id, amount, locked: 0, storage_usage: 182, keys: Vec::new() })
    }

    fn leaves(accounts: &BTreeMap<Key, Account>) -> Vec<Arc<Leaf>> {
        accounts.iter().map(|(key, account)| Arc::new(Leaf::new(*key, account.clone()))).collect()
    }

    proptest! {
        #[test]
        fn order_of_changes_does_not_matter_and_witnesses_suffice(
            steps in proptest::collection::vec(proptest::collection::vec((0_u16..200, 0_u128..9), 0..20), 1..6),
        ) {
            let mut model = BTreeMap::new();
            let mut tree = Tree::Empty;
            for step in steps {
                let changes: BTreeMap<Key, Account> = step.into_iter().map(|(n, a)| account(n, a)).collect();
                let keys: Vec<Key> = changes.keys().copied().collect();
                let witness = borsh::to_vec(&tree.prune(&keys)).expect("memory");
                let witness = Tree::try_from_slice(&witness).expect("own bytes");
                prop_assert_eq!(witness.hash(), tree.hash());
                tree = tree.set(&leaves(&changes)).expect("whole");
                prop_assert_eq!(witness.set(&leaves(&changes)).expect("witness").hash(), tree.hash());
                model.extend(changes);
            }
            prop_assert_eq!(Tree::Empty.set(&leaves(&model)).expect("whole").hash(), tree.hash());
            for (key, account) in &model {
                prop_assert_eq!(tree.get(key), Ok(Some(account)));
            }
            prop_assert_eq!(tree.get(&account(999, 0).0), Ok(None));
            prop_assert_eq!(tree.accounts().len(), model.len());
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(0_u8..5, 0..200)) {
            let _unread = Tree::try_from_slice(&bytes);
        }
    }

    #[test]
    fn what_was_pruned_is_missed() {
        let all: BTreeMap<Key, Account> = (0..50).map(|number| account(number, 1)).collect();
        let tree = Tree::Empty.set(&leaves(&all)).expect("whole");
        let witness = tree.prune(&[account(7, 0).0]);
        assert!(witness.get(&account(7, 0).0).expect("in the witness").is_some());
        assert!((0..50).any(|number| witness.get(&account(number, 0).0) == Err(Incomplete)));
    }
}
