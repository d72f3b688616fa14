//! The run plan: what the `plan` stage decides, so that no later stage has to.

use serde::{Deserialize, Serialize};

use crate::{Bytes, Gas, Millis, NodeName, Seed, ShardId, Share, Tps, Yocto};

/// The value of [`RunPlan::schema`] that this version writes.
pub const PLAN_SCHEMA: &str = "tpsctl.plan/1";

/// Every node, shard, account range, limit and deadline of a run. Written as `plan.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// [`PLAN_SCHEMA`].
    pub schema: String,
    /// The scenario's name.
    pub scenario: String,
    /// The run's seed.
    pub seed: Seed,
    /// Who makes the network.
    pub provider: ProviderKind,
    /// The node program and how long to wait for it.
    pub node: NodeSoftware,
    /// The chain's own parameters.
    pub chain: ChainPlan,
    /// Producers first, in the order in which the chain ranks them; then validators that produce nothing; then RPC nodes.
    pub nodes: Vec<NodePlan>,
    /// How the nodes are connected.
    #[serde(default)]
    pub network: NetworkPlan,
    /// The accounts that genesis funds.
    pub accounts: AccountsPlan,
    /// What is sent.
    pub load: LoadPlan,
    /// How long one trial is and what makes it invalid.
    pub trial: TrialPlan,
    /// What the network has to keep up.
    pub goal: Goal,
    /// How the limit is searched for.
    pub search: SearchPlan,
}

/// Who makes the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    /// Processes on this host.
    Local,
}

/// The program that every node runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeBinary {
    /// `tpsctl localnode run`, this very binary.
    Embedded,
    /// A `neard` binary at this path.
    Neard(String),
}

/// The node program and the deadlines around it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSoftware {
    /// Which program.
    pub binary: NodeBinary,
    /// Scheduling priority of local nodes (0 to 19), so that they cannot starve the injector on a small host.
    pub nice: u8,
    /// Every node must answer and blocks must advance within this time from the start.
    pub ready_timeout_ms: Millis,
    /// After SIGINT a node has this long to end before SIGKILL.
    pub stop_timeout_ms: Millis,
}

/// The chain's parameters, as genesis, epoch config and node config will say them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainPlan {
    /// NEAR's chain id; never `mainnet` or `testnet`.
    pub chain_id: String,
    /// Protocol version of genesis.
    pub protocol_version: u32,
    /// Boundary accounts of shard layout V2, sorted; one fewer than shards.
    pub boundary_accounts: Vec<String>,
    /// Shard ids by index, in the order of the boundaries.
    pub shard_ids: Vec<ShardId>,
    /// Gas limit of a chunk.
    pub gas_limit: Gas,
    /// Minimum (and in practice constant) gas price, yocto per gas.
    pub min_gas_price: Yocto,
    /// Blocks in an epoch.
    pub epoch_length_blocks: u64,
    /// Blocks for which a transaction's block hash stays valid.
    pub transaction_validity_blocks: u64,
    /// Chunk validator mandates a shard (`target_validator_mandates_per_shard`).
    pub mandates_per_shard: u64,
    /// `min_block_production_delay`.
    pub block_time_min_ms: Millis,
    /// `max_block_production_delay`: after this a height without a block is skipped.
    pub block_time_max_ms: Millis,
    /// `max_block_wait_delay`.
    pub block_wait_max_ms: Millis,
    /// `chunk_wait_mult` as numerator and denominator: this share of the maximum delay is waited for late chunks.
    pub chunk_wait_mult: (u32, u32),
    /// `transaction_pool_size_limit`, bytes a shard.
    pub pool_size_limit_bytes: Bytes,
    /// `produce_chunk_add_transactions_time_limit`.
    pub prepare_time_limit_ms: Millis,
}

/// How the nodes are connected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkPlan {
    /// Most fellow nodes that a node connects to; none for as many as there are.
    pub max_peers: Option<u32>,
}

/// One node of the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePlan {
    /// Its name; for producers also the validator's account id.
    pub name: NodeName,
    /// What it does.
    pub role: NodeRole,
}

/// What a node does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    /// A validator that produces blocks and chunks.
    Producer {
        /// The shards that the chain's own assignment rule gives it: one, or several where there are fewer producers than
        /// shards.
        shards: Vec<ShardId>,
        /// Its stake.
        stake: Yocto,
    },
    /// A validator that checks chunks and produces nothing.
    ChunkValidator {
        /// Its stake.
        stake: Yocto,
    },
    /// Follows all shards, validates nothing.
    Rpc,
}

/// How account keys are made (docs: keys in a row are fast but have no seed, so no key file).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyKind {
    /// Secret scalars a, a+1, a+2, ...: for our own injector only.
    Row,
    /// A seed each: other tools can read them.
    Seed,
}

/// The accounts that genesis funds: `accounts_per_shard` in each shard, named `<prefix>_user_<i>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountsPlan {
    /// Number in each shard.
    pub per_shard: u32,
    /// Account id prefix by shard index; an id with it lies in that shard.
    pub prefixes: Vec<String>,
    /// Balance of each at genesis.
    pub balance: Yocto,
    /// How their keys are made.
    pub keys: KeyKind,
}

/// How transactions are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signing {
    /// One nonce point a key: about forty times faster, leaks the key, for throwaway keys only.
    FixedNonce,
    /// The ordinary way (RFC 8032). Needs [`KeyKind::Seed`].
    Rfc8032,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPlan {
    /// How transactions are signed.
    pub signing: Signing,
    /// Share of transfers whose receiver lies in another shard.
    pub cross_shard: Share,
    /// Amount of each transfer.
    pub amount: Yocto,
    /// After a stall of the generator, what fell due less than this ago is still sent; older is counted unsent.
    pub catch_up_ms: Millis,
}

/// How long one trial is, and what makes it invalid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialPlan {
    /// Load before the window; counted in the accounts, not in the goal.
    pub warmup_ms: Millis,
    /// The measured part of the load.
    pub window_ms: Millis,
    /// After the load, at most this long until the settled share is judged.
    pub drain_timeout_ms: Millis,
    /// After the load, at most this long until the network is proven idle; else the run ends.
    pub idle_timeout_ms: Millis,
    /// How many invalid trials in a row are repeated at one rate before the run gives up.
    pub invalid_retries: u32,
    /// Invalid when the send lag's 99th percentile is this or more.
    pub send_lag_p99_max_ms: Millis,
    /// Invalid when more than this share of the intended was unsent for causes of our own.
    pub unsent_max: Share,
    /// Invalid when blocks or metrics could not be read for longer than this.
    pub gap_max_ms: Millis,
}

/// What the network has to keep up in the window. All criteria must hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// At most this share of chunk slots missed.
    pub missed_slots_max: Share,
    /// The quantile of block times that is compared, such as 0.9.
    pub block_time_quantile: Share,
    /// That quantile is at most this many times the minimum block time.
    pub block_time_ratio_max: f64,
    /// At least this share of what was sent is settled by the end of the drain.
    pub settled_min: Share,
}

/// How the limit is searched for: from below, then by bisection. Rates are per shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchPlan {
    /// The first rate.
    pub start: Tps,
    /// While nothing fails, the next rate is this many times the last.
    pub growth: f64,
    /// No rate above this is tried.
    pub max: Tps,
    /// Done when the interval is at most this share of its upper end.
    pub resolution: Share,
    /// Equal verdicts that an end of the interval needs.
    pub confirmations: u32,
    /// After this long no new trial begins.
    pub time_budget_ms: Millis,
}

impl NodeRole {
    /// Whether it produces the chunks of `shard`.
    pub fn produces(&self, shard: ShardId) -> bool {
        matches!(self, Self::Producer { shards, .. } if shards.contains(&shard))
    }

    /// Its stake, where it is a validator.
    pub fn stake(&self) -> Option<Yocto> {
        match self {
            Self::Producer { stake, .. } | Self::ChunkValidator { stake } => Some(*stake),
            Self::Rpc => None,
        }
    }
}

impl RunPlan {
    /// The names of the producers of `shard`, in plan order.
    pub fn producers_of(&self, shard: ShardId) -> impl Iterator<Item = &NodeName> {
        self.nodes.iter().filter(move |node| node.role.produces(shard)).map(|node| &node.name)
    }

    /// The names of all producers, in plan order.
    pub fn producers(&self) -> impl Iterator<Item = &NodeName> {
        self.nodes.iter().filter(|node| matches!(node.role, NodeRole::Producer { .. })).map(|node| &node.name)
    }
}
