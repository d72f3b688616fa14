//! genesis.json (core/chain-configs/src/genesis_config.rs:110-320): config fields and `records` in one JSON object.
//!
//! A genesis with 200 000 accounts is tens of megabytes, so records are read and written one at a time.

use std::{fmt, io};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{FileError, Ratio, StateRecord, StripComments, decimal};
use crate::{AccountId, PublicKey, ShardLayout};

pub(super) const WHAT: &str = "genesis.json";
const RECORDS: &str = "records";

/// Genesis is read in pieces of this size.
const BUFFER_BYTES: usize = 256 * 1024;

/// genesis.json without its records. Defaults of absent fields are those of genesis_config.rs:43-101.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenesisConfigFile {
    /// Protocol version of the first block.
    pub protocol_version: u32,
    /// RFC 3339; see [`Self::genesis_time_unix_ns`].
    pub genesis_time: String,
    /// Chain id. `benchmarknet` lifts neard's limits (core/parameters/src/config_store.rs:171-191).
    pub chain_id: String,
    /// Height of the first block.
    pub genesis_height: u64,
    /// Seats for block producers.
    pub num_block_producer_seats: u64,
    /// Whether shards may split by themselves.
    pub dynamic_resharding: bool,
    /// Share of stake that makes an upgrade happen.
    #[serde(default = "default_upgrade_threshold")]
    pub protocol_upgrade_stake_threshold: Ratio,
    /// Blocks in an epoch.
    pub epoch_length: u64,
    /// Gas limit of a chunk.
    pub gas_limit: u64,
    /// Lowest gas price, yocto per gas.
    #[serde(with = "decimal")]
    pub min_gas_price: u128,
    /// Highest gas price, yocto per gas.
    #[serde(with = "decimal")]
    pub max_gas_price: u128,
    /// Percent of blocks; neard takes the one of the epoch config where there is one.
    pub block_producer_kickout_threshold: u8,
    /// Percent of chunks; as above.
    pub chunk_producer_kickout_threshold: u8,
    /// Percent of endorsements; as above.
    #[serde(default = "default_validator_kickout")]
    pub chunk_validator_only_kickout_threshold: u8,
    /// Mandates a shard; as above.
    #[serde(default = "default_mandates")]
    pub target_validator_mandates_per_shard: u64,
    /// Below this share of blocks a validator earns nothing.
    #[serde(default = "default_online_min")]
    pub online_min_threshold: Ratio,
    /// From this share on it earns all.
    #[serde(default = "default_online_max")]
    pub online_max_threshold: Ratio,
    /// How fast the gas price moves.
    pub gas_price_adjustment_rate: Ratio,
    /// Exactly the accounts whose record has `locked` above 0, with that amount.
    pub validators: Vec<ValidatorFile>,
    /// Blocks for which a transaction's block hash stays valid.
    pub transaction_validity_period: u64,
    /// The treasury's share of rewards.
    pub protocol_reward_rate: Ratio,
    /// Inflation a year.
    pub max_inflation_rate: Ratio,
    /// Sum of `amount` and `locked` of all accounts, yocto.
    #[serde(with = "decimal")]
    pub total_supply: u128,
    /// Blocks a year, for inflation.
    pub num_blocks_per_year: u64,
    /// Must have an account record.
    pub protocol_treasury_account: AccountId,
    /// Stake of a fisherman, yocto.
    #[serde(with = "decimal")]
    pub fishermen_threshold: u128,
    /// Stakes may not fall below the seat price over this.
    #[serde(default = "default_stake_divisor")]
    pub minimum_stake_divisor: u64,
    /// How accounts map to shards.
    pub shard_layout: ShardLayout,
    /// Fewest chunk producers of a shard.
    #[serde(default = "default_validators_per_shard")]
    pub minimum_validators_per_shard: u64,
    /// Most stake that may be kicked out at once, percent.
    #[serde(default = "default_kickout_stake")]
    pub max_kickout_stake_perc: u8,
    /// Lowest stake as a share of all.
    #[serde(default = "default_stake_ratio")]
    pub minimum_stake_ratio: Ratio,
    /// Whether producers change shards by chance.
    #[serde(default)]
    pub shuffle_shard_assignment_for_chunk_producers: bool,
    /// Whether the config of mainnet replaces this one.
    #[serde(default)]
    pub use_production_config: bool,
    /// Seats for chunk producers.
    #[serde(default = "default_chunk_producer_seats")]
    pub num_chunk_producer_seats: u64,
    /// Seats for chunk validators.
    #[serde(default = "default_chunk_validator_seats")]
    pub num_chunk_validator_seats: u64,
    /// Most producers that change shards between epochs.
    #[serde(default = "default_changes_limit")]
    pub chunk_producer_assignment_changes_limit: u64,
}

/// A validator of the first epochs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatorFile {
    /// Its account.
    pub account_id: AccountId,
    /// Its staking key.
    pub public_key: PublicKey,
    /// Its stake, yocto.
    #[serde(with = "decimal")]
    pub amount: u128,
}

/// A whole genesis in memory; for small ones and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenesisFile {
    /// Everything but the records.
    pub config: GenesisConfigFile,
    /// The records.
    pub records: Vec<StateRecord>,
}

fn default_upgrade_threshold() -> Ratio {
    Ratio::literal(8, 10)
}
fn default_validator_kickout() -> u8 {
    80
}
fn default_mandates() -> u64 {
    68
}
fn default_online_min() -> Ratio {
    Ratio::literal(90, 100)
}
fn default_online_max() -> Ratio {
    Ratio::literal(99, 100)
}
fn default_stake_divisor() -> u64 {
    10
}
fn default_validators_per_shard() -> u64 {
    1
}
fn default_kickout_stake() -> u8 {
    100
}
fn default_stake_ratio() -> Ratio {
    Ratio::literal(160, 1_000_000)
}
fn default_chunk_producer_seats() -> u64 {
    100
}
fn default_chunk_validator_seats() -> u64 {
    300
}
fn default_changes_limit() -> u64 {
    5
}

impl GenesisConfigFile {
    /// `genesis_time` in nanoseconds since the Unix epoch. RFC 3339 in UTC (`Z` or `+00:00`), as neard writes it.
    pub fn genesis_time_unix_ns(&self) -> Result<u64, FileError> {
        utc_unix_ns(&self.genesis_time).ok_or_else(|| FileError::Time(self.genesis_time.clone()))
    }
}

fn utc_unix_ns(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').or_else(|| text.strip_suffix("+00:00"))?;
    let (date, time) = text.split_once('T')?;
    let date: Vec<u64> = date.splitn(3, '-').map(digits).collect::<Option<_>>()?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let clock: Vec<u64> = clock.splitn(3, ':').map(digits).collect::<Option<_>>()?;
    let ([year, month, day], [hour, minute, second]) =
        (date[..].try_into().ok()?, clock[..].try_into().ok()?);
    if !(1970..=2500).contains(&year) || !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 59
    {
        return None;
    }
    if day == 0 || day > days_of_month(year, month) || fraction.len() > 9 {
        return None;
    }
    let nanos = digits(fraction)? * 10_u64.pow(9 - u32::try_from(fraction.len()).ok()?);
    let days = (1970..year).map(days_of_year).sum::<u64>()
        + (1..month).map(|month| days_of_month(year, month)).sum::<u64>()
        + day
        - 1;
    (days * 86_400 + hour * 3_600 + minute * 60 + second).checked_mul(1_000_000_000)?.checked_add(nanos)
}

fn digits(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of_year(year: u64) -> u64 {
    365 + u64::from(is_leap(year))
}

fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Reads genesis.json, handing each record to `on_record` as it comes, and returns the rest. Fails when records are
/// missing or of a kind that is not known.
pub fn read_genesis(
    reader: impl io::Read,
    on_record: impl FnMut(StateRecord),
) -> Result<GenesisConfigFile, FileError> {
    let parse = |source| FileError::Parse { what: WHAT, source };
    let mut json = serde_json::Deserializer::from_reader(io::BufReader::with_capacity(
        BUFFER_BYTES,
        StripComments::new(reader),
    ));
    let config = json.deserialize_map(GenesisVisitor { on_record }).map_err(parse)?;
    json.end().map_err(parse)?;
    GenesisConfigFile::deserialize(Value::Object(config)).map_err(parse)
}

impl GenesisFile {
    /// Reads a whole genesis into memory.
    pub fn read(reader: impl io::Read) -> Result<Self, FileError> {
        let mut records = Vec::new();
        let config = read_genesis(reader, |record| records.push(record))?;
        Ok(Self { config, records })
    }
}

/// Collects the config fields, which are few, and passes the records on.
struct GenesisVisitor<F> {
    on_record: F,
}

impl<'de, F: FnMut(StateRecord)> Visitor<'de> for GenesisVisitor<F> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a genesis with `records`")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut config = Map::new();
        let mut has_records = false;
        while let Some(key) = map.next_key::<String>()? {
            if key != RECORDS {
                config.insert(key, map.next_value()?);
            } else if has_records {
                return Err(serde::de::Error::duplicate_field(RECORDS));
            } else {
                map.next_value_seed(RecordsSeed { on_record: &mut self.on_record })?;
                has_records = true;
            }
        }
        if has_records { Ok(config) } else { Err(serde::de::Error::missing_field(RECORDS)) }
    }
}

struct RecordsSeed<'f, F> {
    on_record: &'f mut F,
}

impl<'de, F: FnMut(StateRecord)> DeserializeSeed<'de> for RecordsSeed<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(StateRecord)> Visitor<'de> for RecordsSeed<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of state records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(record) = seq.next_element()? {
            (self.on_record)(record);
        }
        Ok(())
    }
}

/// Writes genesis.json: the config fields in their order, then the records as the iterator yields them. The config is
/// indented; records stand one a line.
pub fn write_genesis(
    config: &GenesisConfigFile,
    records: impl IntoIterator<Item = StateRecord>,
    mut out: impl io::Write,
) -> Result<(), FileError> {
    let write = |source| FileError::Write { what: WHAT, source };
    let text = serde_json::to_string_pretty(config).map_err(|source| write(source.into()))?;
    let head = text.trim_end_matches(['}', '\n']);
    out.write_all(head.as_bytes()).map_err(write)?;
    out.write_all(b",\n  \"records\": [").map_err(write)?;
    let mut separator: &[u8] = b"\n";
    for record in records {
        out.write_all(separator).map_err(write)?;
        serde_json::to_writer(&mut out, &record).map_err(|source| write(source.into()))?;
        separator = b",\n";
    }
    out.write_all(b"\n  ]\n}\n").map_err(write)
}
