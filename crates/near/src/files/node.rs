//! config.json (nearcore/src/config.rs:225-460, chain/network/src/config_json.rs:87-224): the keys that matter to a
//! chain under load. The file has many more; they are ignored when read, and a node's file is written by laying these
//! over a whole one.

use core::net::SocketAddr;
use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Ratio;
use crate::{AccountId, PublicKey};

/// `transaction_pool_size_limit` where the key is absent (core/chain-configs/src/client_config.rs:611-613).
pub const DEFAULT_POOL_SIZE_LIMIT_BYTES: u64 = 100_000_000;

/// config.json, the keys that matter. Absent keys have neard's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeConfigFile {
    /// Relative to the home directory.
    pub genesis_file: String,
    /// Records apart from genesis.json; none here.
    pub genesis_records_file: Option<String>,
    /// Relative to the home directory; the file may be missing.
    pub validator_key_file: String,
    /// Relative to the home directory.
    pub node_key_file: String,
    /// None for no RPC server.
    pub rpc: Option<RpcFile>,
    /// Peers.
    pub network: NetworkFile,
    /// Block timing.
    pub consensus: ConsensusFile,
    /// Which shards' state is kept, beside those that a validator must.
    pub tracked_shards_config: TrackedShardsFile,
    /// Bytes of the pool of each shard; none for no limit.
    pub transaction_pool_size_limit: Option<u64>,
    /// Most time for choosing a chunk's transactions. neard's `init` writes 200 ms, but an absent key is no limit.
    pub produce_chunk_add_transactions_time_limit: Option<Duration>,
    /// Whether outcomes of transactions are kept; where it is not said, a node that tracks all shards keeps them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub save_tx_outcomes: Option<bool>,
}

/// `rpc` (chain/jsonrpc/src/lib.rs:118-200).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RpcFile {
    /// Where it listens.
    pub addr: SocketAddr,
    /// A second server with nothing but `/metrics`.
    pub prometheus_addr: Option<SocketAddr>,
    /// How `send_tx` and `tx` wait.
    pub polling_config: PollingFile,
    /// Limits of requests.
    pub limits_config: RequestLimitsFile,
    /// Whether `/debug` answers.
    pub enable_debug_rpc: bool,
}

/// `rpc.polling_config`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PollingFile {
    /// How often a wait looks.
    pub polling_interval: Duration,
    /// How long it lasts at most.
    pub polling_timeout: Duration,
}

/// `rpc.limits_config`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestLimitsFile {
    /// Longest body of a request, bytes.
    pub json_payload_max_size: usize,
}

impl Default for PollingFile {
    fn default() -> Self {
        Self { polling_interval: Duration::from_millis(200), polling_timeout: Duration::from_secs(10) }
    }
}

impl Default for RequestLimitsFile {
    fn default() -> Self {
        Self { json_payload_max_size: 10 * 1024 * 1024 }
    }
}

/// `network`. neard wants some keys whenever the object is there; those have no default here either.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkFile {
    /// Where it listens.
    pub addr: SocketAddr,
    /// Peers to connect to, `key@ip:port` separated by commas in the file.
    #[serde(with = "peer_list")]
    pub boot_nodes: Vec<PeerAddr>,
    /// Most peers on tier 2.
    #[serde(default = "default_max_num_peers")]
    pub max_num_peers: u32,
    /// Below this many peers more are sought.
    #[serde(default = "default_ideal_connections_lo")]
    pub ideal_connections_lo: u32,
    /// Above this many peers one outside the safe set is dropped by chance.
    #[serde(default = "default_ideal_connections_hi")]
    pub ideal_connections_hi: u32,
    /// An inbound connection must shake hands within this time.
    pub handshake_timeout: Duration,
    /// Whether block production begins without waiting for peers.
    pub skip_sync_wait: bool,
    /// How long a banned peer stays out.
    pub ban_window: Duration,
    /// Addresses that others are told.
    #[serde(default)]
    pub public_addrs: Vec<PeerAddr>,
    /// Whether `public_addrs` may name private or loopback addresses.
    #[serde(default)]
    pub allow_private_ip_in_public_addrs: bool,
}

/// `consensus`. As with `network`, keys without a default are needed whenever the object is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsensusFile {
    /// Peers needed before blocks are produced.
    pub min_num_peers: u32,
    /// How often block production is checked for.
    #[serde(default = "default_tracking_delay")]
    pub block_production_tracking_delay: Duration,
    /// No block sooner than this after the last.
    pub min_block_production_delay: Duration,
    /// After this the height may be skipped.
    pub max_block_production_delay: Duration,
    /// Bound on the delay as it grows with skipped heights.
    pub max_block_wait_delay: Duration,
    /// Share of the maximum delay that is waited for late chunks.
    #[serde(default = "default_chunk_wait_mult")]
    pub chunk_wait_mult: Ratio,
    /// Whether blocks without transactions are produced.
    pub produce_empty_blocks: bool,
    /// Headers asked for at once in sync.
    pub block_header_fetch_horizon: u64,
    /// How often catch-up steps.
    pub catchup_step_period: Duration,
    /// How often missing chunk parts are asked for again.
    pub chunk_request_retry_period: Duration,
    /// How often approvals are checked.
    #[serde(default = "default_doomslug_step")]
    pub doomslug_step_period: Duration,
}

/// `tracked_shards_config` (core/chain-configs/src/client_config.rs:49-63).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TrackedShardsFile {
    /// Only what a validator must.
    #[default]
    NoShards,
    /// All.
    AllShards,
    /// These shard uids (`s<id>.v<version>`).
    Shards(Vec<String>),
    /// Those of another validator.
    ShadowValidator(AccountId),
    /// In turn by epoch.
    Schedule(Vec<Vec<u64>>),
    /// Those of these accounts.
    Accounts(Vec<AccountId>),
}

fn default_max_num_peers() -> u32 {
    40
}
fn default_ideal_connections_lo() -> u32 {
    30
}
fn default_ideal_connections_hi() -> u32 {
    35
}
fn default_tracking_delay() -> Duration {
    Duration::from_millis(10)
}
fn default_chunk_wait_mult() -> Ratio {
    Ratio::literal(1, 3)
}
fn default_doomslug_step() -> Duration {
    Duration::from_millis(10)
}

impl Default for NodeConfigFile {
    fn default() -> Self {
        Self {
            genesis_file: "genesis.json".to_owned(),
            genesis_records_file: None,
            validator_key_file: "validator_key.json".to_owned(),
            node_key_file: "node_key.json".to_owned(),
            rpc: Some(RpcFile::default()),
            network: NetworkFile::default(),
            consensus: ConsensusFile::default(),
            tracked_shards_config: TrackedShardsFile::default(),
            transaction_pool_size_limit: Some(DEFAULT_POOL_SIZE_LIMIT_BYTES),
            produce_chunk_add_transactions_time_limit: None,
            save_tx_outcomes: None,
        }
    }
}

impl Default for RpcFile {
    fn default() -> Self {
        Self {
            addr: SocketAddr::from(([0, 0, 0, 0], 3030)),
            prometheus_addr: None,
            polling_config: PollingFile::default(),
            limits_config: RequestLimitsFile::default(),
            enable_debug_rpc: false,
        }
    }
}

impl Default for NetworkFile {
    fn default() -> Self {
        Self {
            addr: SocketAddr::from(([0, 0, 0, 0], 24567)),
            boot_nodes: Vec::new(),
            max_num_peers: default_max_num_peers(),
            ideal_connections_lo: default_ideal_connections_lo(),
            ideal_connections_hi: default_ideal_connections_hi(),
            handshake_timeout: Duration::from_secs(20),
            skip_sync_wait: false,
            ban_window: Duration::from_hours(3),
            public_addrs: Vec::new(),
            allow_private_ip_in_public_addrs: false,
        }
    }
}

impl Default for ConsensusFile {
    fn default() -> Self {
        Self {
            min_num_peers: 3,
            block_production_tracking_delay: default_tracking_delay(),
            min_block_production_delay: Duration::from_millis(600),
            max_block_production_delay: Duration::from_secs(2),
            max_block_wait_delay: Duration::from_secs(6),
            chunk_wait_mult: default_chunk_wait_mult(),
            produce_empty_blocks: true,
            block_header_fetch_horizon: 50,
            catchup_step_period: Duration::from_millis(100),
            chunk_request_retry_period: Duration::from_millis(400),
            doomslug_step_period: default_doomslug_step(),
        }
    }
}

/// A peer's key and address; `ed25519:<base58>@<ip>:<port>` in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddr {
    /// The peer's key.
    pub id: PublicKey,
    /// Where it listens.
    pub addr: SocketAddr,
}

/// A text is not a peer's key and address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a peer such as `ed25519:<base58>@127.0.0.1:24567`")]
pub struct PeerAddrError(pub String);

impl fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.id, self.addr)
    }
}

impl FromStr for PeerAddr {
    type Err = PeerAddrError;
    fn from_str(text: &str) -> Result<Self, PeerAddrError> {
        let read = || {
            let (id, addr) = text.split_once('@')?;
            Some(Self { id: id.parse().ok()?, addr: addr.parse().ok()? })
        };
        read().ok_or_else(|| PeerAddrError(text.to_owned()))
    }
}

impl Serialize for PeerAddr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PeerAddr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <String as Deserialize>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Peers in one string, separated by commas.
mod peer_list {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::PeerAddr;

    pub(super) fn serialize<S: Serializer>(peers: &[PeerAddr], serializer: S) -> Result<S::Ok, S::Error> {
        let texts: Vec<String> = peers.iter().map(ToString::to_string).collect();
        serializer.serialize_str(&texts.join(","))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PeerAddr>, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.split(',')
            .map(str::trim)
            .filter(|peer| !peer.is_empty())
            .map(|peer| peer.parse().map_err(D::Error::custom))
            .collect()
    }
}
