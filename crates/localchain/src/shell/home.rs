//! The home directory, read once.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::BufReader,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fs_err as fs;
use tpsctl_near::{
    AccountId, CryptoHash, KeyPair, PublicKey, ShardLayout,
    files::{
        EpochConfigFile, FileError, GenesisConfigFile, KeyFile, NodeConfigFile, PeerAddr, Permission,
        RpcFile, StateRecord, TrackedShardsFile, read_genesis,
    },
};

use super::{
    NodeError,
    file::{open_file, read_file},
    index,
};
use crate::core::{
    Assignment, Genesis, Limits, Seats, Settings, ShardState, Timing, Tuning, Validator, kept_shards,
};

const CONFIG: &str = "config.json";
const EPOCH_CONFIGS: &str = "epoch_configs";

/// Longest delay or timeout of a configuration.
const WAIT_MAX: Duration = Duration::from_hours(24);
/// Highest height that a chain may begin at.
const HEIGHT_MAX: u64 = 1 << 63;
/// Highest gas price, yocto: any 64 bits of gas at it fit a balance.
const GAS_PRICE_MAX: u128 = 1_000_000_000_000_000_000;
/// Most mandates of a shard; they are shuffled at every height.
const MANDATES_MAX: u64 = 10_000;

/// All that the home directory says.
#[derive(Debug, Clone)]
pub(super) struct Home {
    pub(super) config: NodeConfigFile,
    pub(super) folder: PathBuf,
    pub(super) genesis_path: PathBuf,
    pub(super) settings: Settings,
    pub(super) node_key: KeyPair,
    pub(super) rpc_addr: Option<SocketAddr>,
    /// How the RPC behaves, where there is one.
    pub(super) rpc: RpcFile,
    pub(super) network_addr: SocketAddr,
    /// Where others reach this node.
    pub(super) public_addr: SocketAddr,
    pub(super) boot_nodes: Vec<PeerAddr>,
    pub(super) peers_max: usize,
    pub(super) handshake_timeout: Duration,
}

/// Places for peers that are no nodes, however few nodes may connect.
const GUESTS_MIN: usize = 40;
/// Beyond those that send load, which are one for each shard that the node produces.
const GUESTS_BESIDE_LOAD: usize = 20;

/// config.json of a home.
pub(super) fn read_config(home: &Path) -> Result<NodeConfigFile, NodeError> {
    read_file(&home.join(CONFIG), CONFIG)
}

/// The delays and time limits of config.json; what is wrong with them where they cannot be followed (neard refuses the
/// same orders, nearcore/src/config_validate.rs). The longest wait keeps all sums of times within their types.
pub(super) fn tuning_of(config: &NodeConfigFile) -> Result<Tuning, &'static str> {
    let own = &config.consensus;
    let polling = config.rpc.as_ref().map(|rpc| rpc.polling_config).unwrap_or_default();
    let waits = [
        own.max_block_wait_delay,
        own.chunk_request_retry_period,
        config.network.handshake_timeout,
        polling.polling_interval,
        polling.polling_timeout,
    ];
    let faults = [
        (own.max_block_production_delay.is_zero(), "consensus.max_block_production_delay is 0"),
        (
            own.min_block_production_delay > own.max_block_production_delay,
            "consensus.min_block_production_delay is above consensus.max_block_production_delay",
        ),
        (
            own.max_block_production_delay > own.max_block_wait_delay,
            "consensus.max_block_production_delay is above consensus.max_block_wait_delay",
        ),
        (waits.into_iter().any(|wait| wait > WAIT_MAX), "a delay or timeout is longer than a day"),
        (
            own.chunk_wait_mult.of(own.max_block_wait_delay) > WAIT_MAX,
            "consensus.chunk_wait_mult times consensus.max_block_wait_delay is longer than a day",
        ),
        (own.chunk_request_retry_period.is_zero(), "consensus.chunk_request_retry_period is 0"),
        (config.network.handshake_timeout.is_zero(), "network.handshake_timeout is 0"),
        (polling.polling_interval.is_zero(), "rpc.polling_config.polling_interval is 0"),
    ];
    if let Some((_, fault)) = faults.into_iter().find(|(is_fault, _)| *is_fault) {
        return Err(fault);
    }
    let timing = Timing {
        min_block_production_delay: own.min_block_production_delay,
        max_block_production_delay: own.max_block_production_delay,
        max_block_wait_delay: own.max_block_wait_delay,
        chunk_wait_mult: (own.chunk_wait_mult.numerator(), own.chunk_wait_mult.denominator()),
        retry_period: own.chunk_request_retry_period,
    };
    Ok(Tuning { timing, prepare_time: config.produce_chunk_add_transactions_time_limit })
}

impl Home {
    /// Places for peers that are no nodes.
    pub(super) fn guests_max(&self) -> usize {
        let genesis = &self.settings.genesis;
        let seed = CryptoHash::default();
        let assignment =
            Assignment::new(&genesis.validators, genesis.layout.shard_ids(), genesis.seats, seed);
        let account = self.settings.validator.as_ref().map(|(account, _)| account);
        let me = account.and_then(|account| assignment.index_of(account));
        let shards = (0..genesis.layout.len())
            .filter(|shard| me.is_some_and(|me| assignment.producers(*shard).contains(&me)));
        self.peers_max.max(GUESTS_MIN).max(shards.count() + GUESTS_BESIDE_LOAD)
    }

    pub(super) fn read(home: &Path) -> Result<Self, NodeError> {
        let config = read_config(home)?;
        let tuning =
            tuning_of(&config).map_err(|fault| NodeError::Config { path: home.join(CONFIG), fault })?;
        let node_key: KeyFile = read_file(&home.join(&config.node_key_file), "node_key.json")?;
        let validator_path = home.join(&config.validator_key_file);
        let validator = if validator_path.exists() {
            Some(read_file::<KeyFile>(&validator_path, "validator_key.json")?)
        } else {
            None
        };
        let validator = validator.and_then(|file| Some((file.account_id?, file.key)));
        let genesis = Arc::new(read_chain(home, &config, validator.as_ref())?);
        let tracked = tracked_shards(&config.tracked_shards_config, &genesis.layout);
        let limits = Limits {
            pool_bytes: config.transaction_pool_size_limit,
            prepare_time: tuning.prepare_time,
            keeps_outcomes: keeps_outcomes(&config),
            ..Limits::of_chain(&genesis)
        };
        let own_addr = config.network.public_addrs.iter().find(|own| own.id == node_key.key.public());
        Ok(Self {
            settings: Settings { genesis, timing: tuning.timing, limits, validator, tracked },
            node_key: node_key.key,
            folder: home.to_owned(),
            genesis_path: home.join(&config.genesis_file),
            rpc_addr: config.rpc.as_ref().map(|rpc| rpc.addr),
            rpc: config.rpc.clone().unwrap_or_default(),
            network_addr: config.network.addr,
            public_addr: own_addr.map_or(config.network.addr, |own| own.addr),
            boot_nodes: config.network.boot_nodes.clone(),
            peers_max: config.network.max_num_peers as usize,
            handshake_timeout: config.network.handshake_timeout,
            config,
        })
    }
}

impl Home {
    /// Where metrics are served beside the RPC's address, if anywhere (chain/jsonrpc/src/lib.rs:3066).
    pub(super) fn metrics_addr(&self) -> Option<SocketAddr> {
        let rpc = self.rpc_addr?;
        self.rpc.prometheus_addr.filter(|addr| *addr != rpc)
    }
}

/// neard's rule: as the configuration says, or where all shards are tracked.
fn keeps_outcomes(config: &NodeConfigFile) -> bool {
    config.save_tx_outcomes.unwrap_or(config.tracked_shards_config == TrackedShardsFile::AllShards)
}

/// Balances and keys as the records come, in any order.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) accounts: Vec<(AccountId, u128, u128)>,
    pub(super) keys: Vec<(AccountId, PublicKey, u64)>,
}

/// What all records come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) accounts: u64,
    /// Balances and stakes; none where they do not fit.
    pub(super) balances: Option<u128>,
}

impl Records {
    pub(super) fn totals(&self) -> Totals {
        let mut balances = self.accounts.iter().flat_map(|(_, amount, locked)| [*amount, *locked]);
        let balances = balances.try_fold(0, u128::checked_add);
        Totals { accounts: self.accounts.len() as u64, balances }
    }

    pub(super) fn add(&mut self, record: StateRecord) {
        match record {
            StateRecord::Account { account_id, account } => {
                self.accounts.push((account_id, account.amount, account.locked));
            }
            // Keys with fewer rights cannot sign transfers.
            StateRecord::AccessKey { account_id, public_key, access_key } => {
                if access_key.permission == Permission::FullAccess {
                    self.keys.push((account_id, public_key, access_key.nonce));
                }
            }
        }
    }
}

/// The chain: the shards that the node keeps by the index of its genesis, where there is one that holds; else the whole
/// genesis.
fn read_chain(
    home: &Path,
    config: &NodeConfigFile,
    validator: Option<&(AccountId, KeyPair)>,
) -> Result<Genesis, NodeError> {
    let path = home.join(&config.genesis_file);
    match read_indexed(home, &path, config, validator) {
        Ok(Some(genesis)) => return Ok(genesis),
        Ok(None) => {}
        Err(error) => {
            let cause = std::error::Error::source(&error).map(tracing::field::display);
            tracing::warn!(%error, cause, "the index of genesis is not used: all of genesis is read");
        }
    }
    let parse = |source| NodeError::Parse { path: path.clone(), source };
    let file = open_file(&path).map_err(NodeError::ReadHome)?;
    let mut records = Records::default();
    let file = read_genesis(BufReader::new(file), |record| records.add(record)).map_err(parse)?;
    let totals = records.totals();
    let states = Genesis::states_of(&file.shard_layout, records.accounts, records.keys);
    assemble(home, path, file, totals, states)
}

/// The chain by the index of its genesis; none where there is no index.
fn read_indexed(
    home: &Path,
    path: &Path,
    config: &NodeConfigFile,
    validator: Option<&(AccountId, KeyPair)>,
) -> Result<Option<Genesis>, NodeError> {
    let fault = |source| NodeError::Index { path: index::path_of(path), source };
    let Some((index, file)) = index::open(path).map_err(fault)? else { return Ok(None) };
    let tracked = tracked_shards(&config.tracked_shards_config, &file.shard_layout);
    let mut genesis = assemble(home, path.to_owned(), file, index.totals(), index.absent_states())?;
    let kept = kept_shards(&genesis, validator, &tracked);
    index.load(path, &mut genesis, &kept).map_err(fault)?;
    tracing::info!(
        shards = kept.iter().filter(|is_kept| **is_kept).count(),
        "read the shards of genesis that this node keeps"
    );
    Ok(Some(genesis))
}

fn assemble(
    home: &Path,
    path: PathBuf,
    file: GenesisConfigFile,
    totals: Totals,
    states: Vec<Arc<ShardState>>,
) -> Result<Genesis, NodeError> {
    let seats = read_seats(home, &file)?;
    if let Some(fault) = fault_of(&file, totals, seats) {
        return Err(NodeError::Genesis { path, fault });
    }
    // neard refuses a supply that is off by one yocto as well.
    if let Some(counted) = totals.balances.filter(|counted| *counted != file.total_supply) {
        return Err(NodeError::Supply { path, stated: file.total_supply, counted });
    }
    let validator = |own: &tpsctl_near::files::ValidatorFile| Validator {
        account_id: own.account_id.clone(),
        public_key: own.public_key,
        stake: own.amount,
    };
    let time_unix_ns: Result<u64, FileError> = file.genesis_time_unix_ns();
    Ok(Genesis {
        time_unix_ns: time_unix_ns.map_err(|source| NodeError::Parse { path, source })?,
        height: file.genesis_height,
        gas_limit: file.gas_limit,
        gas_price: file.min_gas_price,
        epoch_length: file.epoch_length,
        validity_period: file.transaction_validity_period,
        total_supply: file.total_supply,
        validators: file.validators.iter().map(validator).collect(),
        seats,
        states,
        layout: Arc::new(file.shard_layout),
        chain_id: file.chain_id,
    })
}

/// What makes it impossible to run this chain. The bounds keep all sums of heights, gas and balances within their types.
fn fault_of(file: &GenesisConfigFile, totals: Totals, seats: Seats) -> Option<&'static str> {
    let names: BTreeSet<&AccountId> = file.validators.iter().map(|own| &own.account_id).collect();
    let stakes = file.validators.iter().try_fold(0, |sum: u128, own| sum.checked_add(own.amount));
    let faults = [
        (file.validators.is_empty(), "it names no validator"),
        (names.len() < file.validators.len(), "it names a validator twice"),
        (stakes == Some(0), "no validator has a stake"),
        (file.validators.iter().any(|own| own.amount == 0), "the amount of one of its validators is 0"),
        (stakes.is_none(), "the stakes together do not fit 128 bits"),
        (totals.accounts == 0, "it has no accounts"),
        (totals.balances.is_none(), "the balances together do not fit 128 bits"),
        (file.genesis_height > HEIGHT_MAX, "its height is above 2^63"),
        (file.min_gas_price > GAS_PRICE_MAX, "its gas price is above 10^18 yocto"),
        (file.protocol_version == 0, "its protocol_version is 0"),
        (file.epoch_length == 0, "its epoch_length is 0"),
        (file.gas_limit == 0, "its gas_limit is 0"),
        (seats.block_producers == 0, "num_block_producer_seats is 0"),
        (seats.chunk_producers == 0, "num_chunk_producer_seats is 0"),
        (seats.mandates_per_shard > MANDATES_MAX, "a shard has more than 10000 mandates"),
    ];
    faults.into_iter().find(|(is_fault, _)| *is_fault).map(|(_, fault)| fault)
}

/// Seats: from the epoch config, from genesis where there is none.
fn read_seats(home: &Path, genesis: &GenesisConfigFile) -> Result<Seats, NodeError> {
    let epoch = read_epoch_config(home, genesis.protocol_version)?;
    let of_genesis = Seats {
        block_producers: genesis.num_block_producer_seats,
        chunk_producers: genesis.num_chunk_producer_seats,
        producers_per_shard_min: genesis.minimum_validators_per_shard,
        mandates_per_shard: genesis.target_validator_mandates_per_shard,
    };
    Ok(epoch.map_or(of_genesis, |epoch| Seats {
        block_producers: epoch.num_block_producer_seats,
        chunk_producers: epoch.num_chunk_producer_seats,
        producers_per_shard_min: epoch.minimum_validators_per_shard,
        mandates_per_shard: epoch.target_validator_mandates_per_shard,
    }))
}

/// The epoch config of the highest version up to this one, if there is any (chain/epoch-manager/src/lib.rs:165-204).
pub(super) fn read_epoch_config(home: &Path, version: u32) -> Result<Option<EpochConfigFile>, NodeError> {
    let folder = home.join(EPOCH_CONFIGS);
    if !folder.exists() {
        return Ok(None);
    }
    let mut versions: BTreeMap<u32, PathBuf> = BTreeMap::new();
    for entry in fs::read_dir(&folder).map_err(NodeError::ReadHome)? {
        let path = entry.map_err(NodeError::ReadHome)?.path();
        if let Some(version) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()) {
            versions.insert(version, path);
        }
    }
    let path = versions.range(..=version).next_back().map(|(_, path)| path);
    path.map(|path| read_file(path, "epoch config")).transpose()
}

/// Shards to track by shard index, beside those that are produced. A schedule is not followed in time: every shard that
/// it ever names is tracked.
fn tracked_shards(config: &TrackedShardsFile, layout: &ShardLayout) -> Vec<bool> {
    let is_tracked = |id: &u64| match config {
        TrackedShardsFile::AllShards => true,
        TrackedShardsFile::NoShards | TrackedShardsFile::ShadowValidator(_) => false,
        TrackedShardsFile::Shards(uids) => {
            let uid = format!("s{id}.v{}", layout.version());
            uids.contains(&uid)
        }
        TrackedShardsFile::Schedule(turns) => turns.iter().flatten().any(|own| own == id),
        TrackedShardsFile::Accounts(accounts) => accounts.iter().any(|own| layout.shard_of(own) == *id),
    };
    layout.shard_ids().iter().map(is_tracked).collect()
}
