use tpsctl_model::ShardId;
use tpsctl_near::AccountIdError;

/// Keys or load cannot be made as the plan asks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// The chain is not a throwaway.
    #[error(
        "make load keys for chain id `{chain_id}`, which is named like a chain with real accounts: signatures with a \
         fixed nonce point give the key away; set `chain.id` to an id without the words mainnet and testnet"
    )]
    RealChain {
        /// The chain id as it was given.
        chain_id: String,
    },
    /// The plan does not name a prefix for each shard.
    #[error(
        "name accounts: the plan has {shards} shards but {prefixes} account prefixes; plan the scenario anew"
    )]
    PrefixCount {
        /// Shards in the plan.
        shards: usize,
        /// Prefixes in the plan.
        prefixes: usize,
    },
    /// A prefix makes no account id.
    #[error("name the accounts of shard {shard} with prefix `{prefix}`; plan the scenario anew")]
    Prefix {
        /// Which shard.
        shard: ShardId,
        /// Its prefix.
        prefix: String,
        /// The rule that is broken.
        #[source]
        source: AccountIdError,
    },
    /// Keys in a row have no seed, which the ordinary signature needs.
    #[error(
        "sign as `rfc8032` in shard {shard}, whose keys are in a row and have no seed: set `chain.keys: seed`, or \
         `load.signing: fixed_nonce`"
    )]
    NoSeed {
        /// Which shard.
        shard: ShardId,
    },
    /// The stream would have to send from an account to itself, or has no account at all.
    #[error(
        "make a stream for shard {shard}: it has {accounts} accounts for {producers} producers; raise \
         `chain.accounts_per_shard` to {needed} or more"
    )]
    TooFewAccounts {
        /// Which shard.
        shard: ShardId,
        /// Accounts in each shard.
        accounts: usize,
        /// Accounts that would suffice.
        needed: usize,
        /// Producers of this shard.
        producers: usize,
    },
    /// There is no such shard.
    #[error("make a stream for the shard at index {index}: the plan has only {shards} shards")]
    NoShard {
        /// The index given.
        index: usize,
        /// Shards in the plan.
        shards: usize,
    },
    /// There is no such producer.
    #[error(
        "make a stream towards producer number {number} of shard {shard}: the plan has only {producers} there, counted \
         from 0"
    )]
    NoProducer {
        /// Which shard.
        shard: ShardId,
        /// The number given.
        number: usize,
        /// Producers of this shard.
        producers: usize,
    },
    /// A nonce would reach the bound that the chain sets at this height.
    #[error(
        "use nonce {nonce} at height {height}: the chain takes only nonces below {bound}, a million a key and block; raise \
         `chain.accounts_per_shard` or lower `search.max`"
    )]
    NonceCeiling {
        /// The nonce.
        nonce: u64,
        /// The head's height.
        height: u64,
        /// The bound of the next block.
        bound: u64,
    },
}
