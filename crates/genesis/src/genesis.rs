//! genesis.json and the epoch config.

use std::{collections::BTreeSet, io, iter};

use tpsctl_model::{
    ShardId, Yocto,
    ids::YOCTO_PER_NEAR,
    plan::{NodeRole, RunPlan},
};
use tpsctl_near::{
    AccountId, PublicKey, ShardLayout,
    files::{EpochConfigFile, GenesisConfigFile, StateRecord, ValidatorFile, write_genesis},
};
use tpsctl_workload::{Keyring, ShardKeys};

use crate::{GenesisError, NodeKeys, digest::HashingWriter, node_keys, nodes::treasury_key, template};

/// What each producer's account holds beside its stake: for nothing but being an account like any other.
pub const NODE_BALANCE: Yocto = Yocto(1_000_000 * YOCTO_PER_NEAR);

/// What the treasury's account holds; neard wants it to exist.
pub const TREASURY_BALANCE: Yocto = Yocto(1_000_000 * YOCTO_PER_NEAR);

/// Records are small; they go to the writer in pieces of this size.
const BUFFER_BYTES: usize = 256 * 1024;

/// What was written as genesis.json.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenesisDigest {
    /// SHA-256 of the file, hex.
    pub sha256_hex: String,
    /// Its length.
    pub bytes: u64,
    /// Account records in it.
    pub accounts: u64,
}

/// The plan's shard layout.
fn shard_layout(plan: &RunPlan) -> Result<ShardLayout, GenesisError> {
    let (texts, ids) = (&plan.chain.boundary_accounts, &plan.chain.shard_ids);
    let count = |source| GenesisError::Layout { shards: ids.len(), boundaries: texts.len(), source };
    let boundary = |(number, text): (usize, &String)| {
        // A boundary begins the shard after it; without one, the layout is refused below for its count.
        let shard = ids.get(number + 1).copied().unwrap_or(ShardId(number as u64 + 1));
        text.parse().map_err(|source| GenesisError::Boundary { shard, source })
    };
    let boundaries = texts.iter().enumerate().map(boundary).collect::<Result<_, _>>()?;
    ShardLayout::new(boundaries, ids.iter().map(|id| id.0).collect()).map_err(count)
}

/// Writes genesis.json to `out`, one record at a time. Fails before the first byte when an account would lie in another
/// shard than the plan says, when two accounts share a name or when the supply does not fit.
pub fn genesis(
    plan: &RunPlan,
    keyring: &Keyring,
    out: impl io::Write,
) -> Result<GenesisDigest, GenesisError> {
    let config = genesis_config(plan)?;
    check_keyring(plan, keyring, &config)?;
    let treasury = config.protocol_treasury_account.clone();
    let treasury_key = treasury_key(plan.seed).public();
    let nodes = config
        .validators
        .iter()
        .flat_map(|node| account(node.account_id.clone(), NODE_BALANCE, node.amount, node.public_key));
    let records = nodes
        .chain(account(treasury, TREASURY_BALANCE, 0, treasury_key))
        .chain(keyring.shards().iter().flat_map(|keys| users(keys, plan.accounts.balance)));
    let mut out = HashingWriter::new(io::BufWriter::with_capacity(BUFFER_BYTES, out));
    write_genesis(&config, records, &mut out).map_err(|source| GenesisError::File { source })?;
    let (sha256_hex, bytes) =
        out.finish().map_err(|source| GenesisError::Write { what: "genesis.json".to_owned(), source })?;
    let users: usize = keyring.shards().iter().map(ShardKeys::len).sum();
    Ok(GenesisDigest { sha256_hex, bytes, accounts: (users + config.validators.len() + 1) as u64 })
}

/// genesis.json without its records.
fn genesis_config(plan: &RunPlan) -> Result<GenesisConfigFile, GenesisError> {
    let template = template::genesis()?;
    let validators = validators(plan)?;
    let seats = Seats::of(plan, template.num_chunk_producer_seats, template.num_chunk_validator_seats);
    Ok(GenesisConfigFile {
        protocol_version: plan.chain.protocol_version,
        chain_id: plan.chain.chain_id.clone(),
        num_block_producer_seats: seats.block_producers,
        num_chunk_producer_seats: seats.chunk_producers,
        num_chunk_validator_seats: seats.chunk_validators,
        target_validator_mandates_per_shard: plan.chain.mandates_per_shard,
        epoch_length: plan.chain.epoch_length_blocks,
        gas_limit: plan.chain.gas_limit.0,
        min_gas_price: plan.chain.min_gas_price.0,
        max_gas_price: template.max_gas_price.max(plan.chain.min_gas_price.0),
        transaction_validity_period: plan.chain.transaction_validity_blocks,
        total_supply: total_supply(plan, &validators)?,
        shard_layout: shard_layout(plan)?,
        validators,
        ..template
    })
}

/// `epoch_configs/<protocol version>.json`, relative to a node's home directory.
pub fn epoch_config_path(plan: &RunPlan) -> String {
    format!("epoch_configs/{}.json", plan.chain.protocol_version)
}

/// How many validators have which role: by rank, so the producers come first.
struct Seats {
    block_producers: u64,
    chunk_producers: u64,
    chunk_validators: u64,
}

impl Seats {
    /// Seats to spare, as `chunk_producers` and `chunk_validators` have, but none that a validator would take that is to
    /// produce nothing.
    fn of(plan: &RunPlan, chunk_producers: u64, chunk_validators: u64) -> Self {
        let producers = plan.producers().count() as u64;
        let all = plan.nodes.iter().filter(|node| node.role.stake().is_some()).count() as u64;
        Self {
            block_producers: producers,
            chunk_producers: if all > producers { producers } else { chunk_producers.max(producers) },
            chunk_validators: chunk_validators.max(all),
        }
    }
}

/// The epoch config: nobody is kicked out, every validator has the seats of its role.
pub fn epoch_config(plan: &RunPlan) -> Result<EpochConfigFile, GenesisError> {
    let template = template::epoch_config()?;
    let seats = Seats::of(plan, template.num_chunk_producer_seats, template.num_chunk_validator_seats);
    Ok(EpochConfigFile {
        epoch_length: plan.chain.epoch_length_blocks,
        num_block_producer_seats: seats.block_producers,
        num_chunk_producer_seats: seats.chunk_producers,
        num_chunk_validator_seats: seats.chunk_validators,
        target_validator_mandates_per_shard: plan.chain.mandates_per_shard,
        shard_layout: shard_layout(plan)?,
        ..template
    })
}

fn validators(plan: &RunPlan) -> Result<Vec<ValidatorFile>, GenesisError> {
    let keys = node_keys(plan);
    let validator = |(role, keys): (&NodeRole, NodeKeys)| match (role.stake(), keys.validator) {
        (Some(stake), Some(key)) => Some(
            keys.name
                .as_ref()
                .parse()
                .map(|account_id| ValidatorFile { account_id, public_key: key.public(), amount: stake.0 })
                .map_err(|source| GenesisError::NodeName { node: keys.name, source }),
        ),
        _ => None,
    };
    plan.nodes.iter().map(|node| &node.role).zip(keys).filter_map(validator).collect()
}

/// The sum of `amount` and `locked` of all accounts, which neard compares with its own.
fn total_supply(plan: &RunPlan, validators: &[ValidatorFile]) -> Result<u128, GenesisError> {
    let users = plan.chain.shard_ids.len() as u128 * u128::from(plan.accounts.per_shard);
    let funded = users.checked_mul(plan.accounts.balance.0);
    let overflow =
        || GenesisError::Supply { shards: plan.chain.shard_ids.len(), accounts: plan.accounts.per_shard };
    validators
        .iter()
        .flat_map(|validator| [validator.amount, NODE_BALANCE.0])
        .chain([TREASURY_BALANCE.0])
        .try_fold(funded.ok_or_else(overflow)?, u128::checked_add)
        .ok_or_else(overflow)
}

/// Every user lies in its shard, and no two accounts share a name. Users cannot share one: their prefixes lie in
/// different shards.
fn check_keyring(plan: &RunPlan, keyring: &Keyring, config: &GenesisConfigFile) -> Result<(), GenesisError> {
    let (expected, actual) = (plan.chain.shard_ids.len(), keyring.shards().len());
    if expected != actual {
        return Err(GenesisError::Keyring { expected, actual });
    }
    let mut named = BTreeSet::from([&config.protocol_treasury_account]);
    for validator in &config.validators {
        if !named.insert(&validator.account_id) {
            return Err(GenesisError::DuplicateAccount(validator.account_id.clone()));
        }
    }
    for (keys, expected) in keyring.shards().iter().zip(&plan.chain.shard_ids) {
        for account in (0..keys.len()).map(|index| keys.account_id(index)) {
            let actual = ShardId(config.shard_layout.shard_of(&account));
            if actual != *expected {
                return Err(GenesisError::WrongShard { account, expected: *expected, actual });
            }
            if named.contains(&account) {
                return Err(GenesisError::DuplicateAccount(account));
            }
        }
    }
    Ok(())
}

/// An account's two records.
fn account(id: AccountId, amount: Yocto, locked: u128, key: PublicKey) -> impl Iterator<Item = StateRecord> {
    let record = StateRecord::account(id.clone(), amount.0, locked);
    iter::once(record).chain(iter::once(StateRecord::full_access_key(id, key)))
}

fn users(keys: &ShardKeys, balance: Yocto) -> impl Iterator<Item = StateRecord> {
    (0..keys.len()).flat_map(move |index| account(keys.account_id(index), balance, 0, keys.public_key(index)))
}
