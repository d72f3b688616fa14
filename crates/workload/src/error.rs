use tpsctl_model::{ShardId, plan::Signing};
use tpsctl_near::AccountIdError;

/// Keys or load cannot be made as the plan asks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// The chain is not a throwaway.
    #[error(
        "make load keys for chain id `{chain_id}`: signatures with a fixed nonce point give the key away, so a chain \
         named mainnet or testnet is never loaded; give the benchmark chain another name"
    )]
    RealChain {
        /// The chain id as it was given.
        chain_id: String,
    },
    /// The plan does not name a prefix for each shard.
    #[error("name accounts: the plan has {shards} shards but {prefixes} account prefixes")]
    PrefixCount {
        /// Shards in the plan.
        shards: usize,
        /// Prefixes in the plan.
        prefixes: usize,
    },
    /// A prefix makes no account id.
    #[error("name the accounts of shard {shard} with prefix `{prefix}`")]
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
        "sign as {signing:?} with keys in a row, which have no seed: use `keys: seed`, or `signing: fixed_nonce`"
    )]
    NoSeed {
        /// What was asked for.
        signing: Signing,
    },
    /// The stream would have to send from an account to itself, or has no account at all.
    #[error("make a stream for shard {shard}: it has {accounts} accounts for {producers} producers")]
    TooFewAccounts {
        /// Which shard.
        shard: ShardId,
        /// Accounts in each shard.
        accounts: usize,
        /// Producers of this shard.
        producers: usize,
    },
    /// The producer's number or the shard's index lies outside the plan.
    #[error("make a stream for {what} {index}: there are only {count}")]
    OutOfPlan {
        /// `shard index` or `producer`.
        what: &'static str,
        /// The number given.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A nonce would reach the bound that the chain sets at this height.
    #[error("use nonce {nonce} at height {height}: the chain takes only nonces below {bound}")]
    NonceCeiling {
        /// The nonce.
        nonce: u64,
        /// The head's height.
        height: u64,
        /// The bound of the next block.
        bound: u64,
    },
}
