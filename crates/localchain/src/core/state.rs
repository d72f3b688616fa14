//! A shard's state: its accounts and the receipts that wait.

use std::{collections::VecDeque, sync::Arc};

use tpsctl_near::{AccountId, CryptoHash};

use super::{
    account::Account,
    transfer::Receipt,
    tree::{Incomplete, Tree, key_of},
};

/// Receipts that did not fit into the gas limit, oldest first.
pub(crate) type Delayed = Arc<VecDeque<Receipt>>;

/// The state of one shard after some block. Cheap to clone, never changes.
#[derive(Debug, Clone)]
pub struct ShardState {
    tree: Tree,
    delayed: Delayed,
    delayed_gas: u128,
    root: CryptoHash,
}

impl ShardState {
    pub(crate) fn new(tree: Tree, delayed: Delayed) -> Self {
        let queue = if delayed.is_empty() { CryptoHash::default() } else { CryptoHash::of_borsh(&*delayed) };
        let root = CryptoHash::of_borsh(&(tree.hash(), queue));
        let delayed_gas = delayed.iter().map(|receipt| u128::from(receipt.gas())).sum();
        Self { tree, delayed, delayed_gas, root }
    }

    /// A state of which nothing but the root is here: a shard's that the node does not keep.
    pub(crate) fn absent(root: CryptoHash) -> Self {
        Self { tree: Tree::Pruned(CryptoHash::default()), delayed: Delayed::default(), delayed_gas: 0, root }
    }

    /// Commits to accounts and waiting receipts.
    pub fn root(&self) -> CryptoHash {
        self.root
    }

    /// An account, if it exists. A state is never a witness outside a re-execution, so nothing is missing.
    pub fn account(&self, id: &AccountId) -> Option<&Account> {
        self.tree.get(&key_of(id)).ok().flatten()
    }

    pub(crate) fn look_up(&self, key: &super::tree::Key) -> Result<Option<&Account>, Incomplete> {
        self.tree.get(key)
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn delayed(&self) -> &Delayed {
        &self.delayed
    }

    /// Number of receipts that wait.
    pub fn delayed_count(&self) -> u64 {
        self.delayed.len() as u64
    }

    /// Gas that they will burn.
    pub(crate) fn delayed_gas(&self) -> u128 {
        self.delayed_gas
    }
}
