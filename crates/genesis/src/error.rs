use tpsctl_model::{NodeName, ShardId};
use tpsctl_near::{AccountId, AccountIdError, LayoutError, files::FileError};

/// A plan from which no network can be made, or bytes that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// A node's name is not an account id.
    #[error("make a validator of node `{node}`; plan the scenario anew")]
    NodeName {
        /// The name.
        node: NodeName,
        /// The rule that it breaks.
        #[source]
        source: AccountIdError,
    },
    /// A boundary is not an account id.
    #[error(
        "begin shard {shard} at its boundary account; plan the scenario anew, boundaries come from `chain.shards`"
    )]
    Boundary {
        /// The shard that the boundary begins.
        shard: ShardId,
        /// The rule that it breaks.
        #[source]
        source: AccountIdError,
    },
    /// The boundaries and shard ids make no layout.
    #[error(
        "lay out {shards} shards with {boundaries} boundary accounts; plan the scenario anew, both come from \
         `chain.shards`"
    )]
    Layout {
        /// Shard ids in the plan.
        shards: usize,
        /// Boundary accounts in the plan.
        boundaries: usize,
        /// Why not.
        #[source]
        source: LayoutError,
    },
    /// Two accounts would have one name.
    #[error("create account `{0}` twice; plan the scenario anew")]
    DuplicateAccount(AccountId),
    /// The keyring was made from another plan.
    #[error(
        "fund the accounts of a keyring with {actual} shards in a plan with {expected}: make both from one plan"
    )]
    Keyring {
        /// Shards of the plan.
        expected: usize,
        /// Shards of the keyring.
        actual: usize,
    },
    /// An account would not live where the plan says.
    #[error(
        "create account `{account}` in shard {expected}: the layout puts it into shard {actual}; plan the scenario anew"
    )]
    WrongShard {
        /// The account.
        account: AccountId,
        /// By the plan.
        expected: ShardId,
        /// By the layout.
        actual: ShardId,
    },
    /// Balances and stakes do not fit into 128 bits; neard would stop with an overflow.
    #[error(
        "add up the supply of {shards} shards with {accounts} accounts each: it exceeds 2^128 yocto; lower \
         `chain.account_balance` or `chain.accounts_per_shard`"
    )]
    Supply {
        /// Shards in the plan.
        shards: usize,
        /// Accounts in each of them.
        accounts: u32,
    },
    /// The chunk wait multiplier is not a ratio.
    #[error("set chunk_wait_mult to {numerator}/{denominator}; change `chain.chunk_wait_mult`")]
    Ratio {
        /// Above the line.
        numerator: u32,
        /// Below the line.
        denominator: u32,
        /// Why not.
        #[source]
        source: tpsctl_near::files::RatioError,
    },
    /// There is no such node.
    #[error("configure node `{0}`, which is not in the plan")]
    UnknownNode(NodeName),
    /// Keys in a row have no seed, so no key file.
    #[error(
        "export the key of `{0}`: keys in a row have no seed that other tools could read; set `chain.keys: seed`"
    )]
    NoSeed(AccountId),
    /// A file cannot be read or written.
    #[error("make the network's files")]
    File {
        /// Which and why.
        #[source]
        source: FileError,
    },
    /// The bytes of a file cannot be written.
    #[error("write {what}")]
    Write {
        /// Which file.
        what: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}
