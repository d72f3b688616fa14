//! What admission and queries may know: a picture of the chain at its head that never changes.

use std::{collections::BTreeMap, sync::Arc};

use tpsctl_near::{AccountId, CryptoHash, ShardLayout};

use super::{Block, EpochTally, signatures::Signatures, state::ShardState, tally::Tallies};

/// A block with the states after it that the node has.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The block.
    pub block: Arc<Block>,
    /// States by shard index; none for shards that are not tracked.
    pub states: Vec<Option<Arc<ShardState>>>,
}

/// The chain as seen from its head.
#[derive(Debug, Clone)]
pub struct View {
    /// The head.
    pub head: Snapshot,
    /// The last block with another directly above it.
    pub near_final: Snapshot,
    /// The last final block.
    pub last_final: Snapshot,
    /// How accounts map to shards.
    pub layout: Arc<ShardLayout>,
    /// Yocto per gas.
    pub gas_price: u128,
    /// Whether the node is behind its peers.
    pub is_syncing: bool,
    /// For which shards the node produces chunks, by index.
    pub produces: Vec<bool>,
    /// Whom to forward transactions of a shard to, by index: who makes its chunk after the next, then its other producers.
    pub next_producers: Vec<Vec<AccountId>>,
    pub(crate) known: Arc<BTreeMap<CryptoHash, u64>>,
    pub(crate) validity_period: u64,
    pub(crate) tallies: Tallies,
    pub(crate) signatures: Arc<Signatures>,
}

impl View {
    /// What validators produced and what was expected of them in the epoch of the head.
    pub fn tally(&self) -> &EpochTally {
        self.tallies.running()
    }

    /// The same of an epoch that ended not long ago.
    pub fn ended_tally(&self, epoch_id: &CryptoHash) -> Option<&EpochTally> {
        self.tallies.ended(epoch_id).map(|tally| &**tally)
    }

    /// Whether a transaction on this base may go into the next chunk: on the chain, and within the validity period
    /// (chain/chain/src/store/utils.rs:56-75).
    pub fn is_valid_base(&self, base: &CryptoHash) -> bool {
        is_valid_base(&self.known, base, self.head.block.height(), self.validity_period)
    }

    /// The index of an account's shard.
    pub fn shard_of(&self, account: &AccountId) -> usize {
        self.layout.index_of(account)
    }

    /// The state at the head of the shard of `account`, if tracked.
    pub fn state_of(&self, account: &AccountId) -> Option<&Arc<ShardState>> {
        self.head.states.get(self.shard_of(account))?.as_ref()
    }
}

/// Whether `base` is known and at most `validity_period` below `height`.
pub(crate) fn is_valid_base(
    known: &BTreeMap<CryptoHash, u64>,
    base: &CryptoHash,
    height: u64,
    validity_period: u64,
) -> bool {
    known.get(base).is_some_and(|own| height <= own.saturating_add(validity_period))
}
