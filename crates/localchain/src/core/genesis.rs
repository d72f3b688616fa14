//! What genesis.json, the epoch config and the node config come to: [`Genesis`] for all nodes, [`Settings`] for one.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tpsctl_near::{AccountId, CryptoHash, KeyPair, PublicKey, ShardLayout, Signature};

use super::{
    Assignment, Seats, Validator,
    account::{AccessKey, Account},
    state::ShardState,
    tree::{Key, Leaf, Tree, key_of},
    types::{Block, BlockChunk, BlockHeader, ChunkHeader, SignedChunkHeader, receipts_root},
};

/// The chain id on which neard lifts its limits (core/primitives-core/src/chains.rs:13).
const UNLIMITED_CHAIN_ID: &str = "benchmarknet";

/// The chain's constants and first state. All nodes of a chain have the same.
#[derive(Debug, Clone)]
pub struct Genesis {
    /// Chain id.
    pub chain_id: String,
    /// Height of the genesis block.
    pub height: u64,
    /// Nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// Gas limit of a chunk.
    pub gas_limit: u64,
    /// The gas price, which stays, yocto per gas.
    pub gas_price: u128,
    /// Blocks in an epoch.
    pub epoch_length: u64,
    /// Blocks for which a block hash stays valid in transactions.
    pub validity_period: u64,
    /// Sum of all balances, yocto.
    pub total_supply: u128,
    /// How accounts map to shards.
    pub layout: Arc<ShardLayout>,
    /// The validators, in any order.
    pub validators: Vec<Validator>,
    /// How many of them have which role.
    pub seats: Seats,
    /// First state, by shard index.
    pub states: Vec<Arc<ShardState>>,
}

/// Storage that neard counts for an account with so many full-access keys: 100 bytes, and for each key 40 + 33 + 9
/// (core/store/src/genesis/state_applier.rs:38-75).
pub(crate) fn storage_usage(keys: usize) -> u64 {
    100 + 82 * keys as u64
}

/// First states by shard index.
pub(crate) fn shard_states(
    layout: &ShardLayout,
    accounts: BTreeMap<AccountId, Account>,
) -> Vec<Arc<ShardState>> {
    let mut shards: Vec<BTreeMap<Key, Account>> = vec![BTreeMap::new(); layout.len()];
    for (id, mut account) in accounts {
        account.storage_usage = storage_usage(account.keys.len());
        shards[layout.index_of(&id)].insert(key_of(&id), account);
    }
    let state = |accounts: BTreeMap<Key, Account>| {
        let leaves: Vec<Arc<Leaf>> =
            accounts.into_iter().map(|(key, account)| Arc::new(Leaf::new(key, account))).collect();
        // An empty tree holds no pruned part.
        let tree = Tree::Empty.set(&leaves).unwrap_or_default();
        Arc::new(ShardState::new(tree, Arc::default()))
    };
    shards.into_iter().map(state).collect()
}

impl Genesis {
    /// Collects accounts: `(id, amount, locked)` and `(id, key, nonce)` in any order, into first states.
    pub fn states_of(
        layout: &ShardLayout,
        accounts: impl IntoIterator<Item = (AccountId, u128, u128)>,
        keys: impl IntoIterator<Item = (AccountId, PublicKey, u64)>,
    ) -> Vec<Arc<ShardState>> {
        let mut all: BTreeMap<AccountId, Account> = accounts
            .into_iter()
            .map(|(id, amount, locked)| {
                (id.clone(), Account { id, amount, locked, storage_usage: 0, keys: Vec::new() })
            })
            .collect();
        for (id, public_key, nonce) in keys {
            if let Some(account) = all.get_mut(&id) {
                account.keys.push(AccessKey { public_key, nonce });
            }
        }
        shard_states(layout, all)
    }

    /// A first state of which only the root is known.
    pub fn absent_state(root: CryptoHash) -> Arc<ShardState> {
        Arc::new(ShardState::absent(root))
    }

    /// Whether neard's limits on transactions are lifted.
    pub fn is_unlimited(&self) -> bool {
        self.chain_id == UNLIMITED_CHAIN_ID
    }

    /// The genesis block. Its hash is our own: SHA-256 over borsh of (chain id, gas limit, epoch length, validity
    /// period, mandates, boundary accounts, each validator's account, key and stake, and the genesis header, whose
    /// chunks carry the state roots). neard's differs, so the two never mix.
    pub fn block(&self) -> Block {
        let chunk = |(shard, state): (usize, &Arc<ShardState>)| BlockChunk {
            signed: SignedChunkHeader {
                header: ChunkHeader {
                    shard_id: self.layout.shard_ids()[shard],
                    height_created: self.height,
                    prev_block_hash: CryptoHash::default(),
                    prev_state_root: state.root(),
                    prev_gas_used: 0,
                    prev_balance_burnt: 0,
                    delayed_count: 0,
                    delayed_gas: 0,
                    tx_root: CryptoHash::default(),
                    receipts_root: receipts_root(&vec![Vec::new(); self.layout.len()]),
                    encoded_length: 0,
                    gas_limit: self.gas_limit,
                },
                signature: Signature([0; 64]),
            },
            height_included: self.height,
        };
        let ordered = Assignment::order(&self.validators);
        let mut header = BlockHeader {
            height: self.height,
            prev_height: self.height,
            prev_hash: CryptoHash::default(),
            epoch_id: CryptoHash::default(),
            next_epoch_id: CryptoHash::default(),
            timestamp_ns: self.time_unix_ns,
            author: ordered[0].account_id.clone(),
            gas_price: self.gas_price,
            total_supply: self.total_supply,
            ordinal: 1,
            last_final: CryptoHash::default(),
            last_ds_final: CryptoHash::default(),
            chunk_mask: vec![true; self.layout.len()],
            chunks: self.states.iter().enumerate().map(chunk).collect(),
            approvals: Vec::new(),
            endorsements: vec![Vec::new(); self.layout.len()],
        };
        let validators: Vec<_> =
            ordered.iter().map(|own| (&own.account_id, &own.public_key, own.stake)).collect();
        let mandates = self.seats.mandates_per_shard;
        let limits = (self.gas_limit, self.epoch_length, self.validity_period, mandates);
        let hash = CryptoHash::of_borsh(&(
            &self.chain_id,
            limits,
            self.layout.boundaries().to_vec(),
            validators,
            &header,
        ));
        // Seats count where they are scarce.
        let hash = match self.seats.scarce(self.validators.len()) {
            Some(seats) => CryptoHash::of_borsh(&(hash, seats)),
            None => hash,
        };
        // As in neard, the second epoch has the genesis hash for its id.
        header.next_epoch_id = hash;
        Block::genesis(header, hash)
    }
}

/// Delays of block production (chain/chain/src/doomslug.rs; names of config.json).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// An approval of the next height is sent this long after a block was accepted.
    pub min_block_production_delay: Duration,
    /// The wait before heights are skipped begins with this.
    pub max_block_production_delay: Duration,
    /// And ends with this.
    pub max_block_wait_delay: Duration,
    /// Numerator and denominator of the share of that wait for which a producer waits for chunks.
    pub chunk_wait_mult: (u32, u32),
    /// After this a missing chunk or page is asked for again.
    pub retry_period: Duration,
}

impl Timing {
    /// `get_delay`: the wait before a skip, `heights` after the last final block (doomslug.rs:176-181).
    pub fn skip_delay(&self, heights: u64) -> Duration {
        let step = self.max_block_production_delay / 10;
        let steps = u32::try_from(heights.saturating_sub(2)).unwrap_or(u32::MAX);
        self.max_block_wait_delay.min(self.max_block_production_delay + step.saturating_mul(steps))
    }

    /// How long a producer that may make a block waits for chunks.
    pub fn chunk_wait(&self, heights: u64) -> Duration {
        self.skip_delay(heights) * self.chunk_wait_mult.0 / self.chunk_wait_mult.1.max(1)
    }
}

/// Limits of the pool and of chunks.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of each shard's pool; none for no limit.
    pub pool_bytes: Option<u64>,
    /// Time to add transactions to a chunk; none for no limit.
    pub prepare_time: Option<Duration>,
    /// Gas that a chunk's transactions may burn when they are converted.
    pub transactions_gas: u64,
    /// Bytes of a chunk's transactions.
    pub transactions_bytes: usize,
    /// Blocks whose bodies are kept for peers that catch up.
    pub kept_blocks: u64,
    /// And at most so many bytes of them.
    pub kept_bytes: usize,
    /// About so many bytes of headers are kept.
    pub kept_header_bytes: usize,
    /// Heights of hashes kept, and so the longest validity period that is honoured.
    pub kept_hashes: u64,
    /// Transactions whose outcomes are remembered at most: some seconds of a loaded chain, some tens of megabytes.
    pub kept_outcomes: usize,
    /// Whether the outcomes of all transactions are remembered, or of those that are watched.
    pub keeps_outcomes: bool,
}

impl Limits {
    /// neard's limits on this chain (facts 3.9): without limits on gas and with 4 000 000 bytes on `benchmarknet`,
    /// else 500 Tgas and 4 MiB.
    pub fn of_chain(genesis: &Genesis) -> Self {
        let (transactions_gas, transactions_bytes) =
            if genesis.is_unlimited() { (u64::MAX, 4_000_000) } else { (500_000_000_000_000, 4_194_304) };
        Self {
            pool_bytes: Some(tpsctl_near::files::DEFAULT_POOL_SIZE_LIMIT_BYTES),
            prepare_time: None,
            transactions_gas,
            transactions_bytes,
            kept_blocks: 1_000,
            kept_bytes: 256 * 1024 * 1024,
            kept_header_bytes: 64 * 1024 * 1024,
            kept_hashes: 10_000,
            kept_outcomes: 50_000,
            keeps_outcomes: false,
        }
    }
}

/// What may change while a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Delays.
    pub timing: Timing,
    /// Time to add transactions to a chunk; none for no limit.
    pub prepare_time: Option<Duration>,
}

/// All that one node is told before it starts.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The chain.
    pub genesis: Arc<Genesis>,
    /// Delays.
    pub timing: Timing,
    /// Limits.
    pub limits: Limits,
    /// The validator's account and key, where the node is to act as one.
    pub validator: Option<(AccountId, KeyPair)>,
    /// Shards to track beside those that the node produces, by index.
    pub tracked: Vec<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_waits_fit_their_type() {
        let day = Duration::from_hours(24);
        let timing = Timing {
            min_block_production_delay: day,
            max_block_production_delay: day,
            max_block_wait_delay: day,
            chunk_wait_mult: (u32::MAX, u32::MAX),
            retry_period: day,
        };
        for heights in [0, 1, 2, 3, u64::from(u32::MAX), u64::MAX] {
            assert_eq!((timing.skip_delay(heights), timing.chunk_wait(heights)), (day, day));
        }
    }
}
