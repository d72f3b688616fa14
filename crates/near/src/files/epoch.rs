//! `epoch_configs/<protocol version>.json` (core/primitives/src/epoch_manager.rs:103-166).

use serde::{Deserialize, Serialize};

use super::{Ratio, decimal};
use crate::ShardLayout;

/// The epoch config that neard really uses on a chain of one's own; genesis only lends it the epoch's length
/// (chain/epoch-manager/src/lib.rs:165-204).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochConfigFile {
    /// Blocks in an epoch. Twice this must be at least the transaction validity period, or neard panics.
    pub epoch_length: u64,
    /// Seats for block producers.
    pub num_block_producer_seats: u64,
    /// Percent of blocks below which a block producer is kicked out; 0 for never.
    pub block_producer_kickout_threshold: u8,
    /// Percent of chunks; 0 for never.
    pub chunk_producer_kickout_threshold: u8,
    /// Percent of endorsements; 0 for never.
    pub chunk_validator_only_kickout_threshold: u8,
    /// Mandates that each shard's validators share.
    pub target_validator_mandates_per_shard: u64,
    /// Most stake that may be kicked out at once, percent.
    pub validator_max_kickout_stake_perc: u8,
    /// Below this share of blocks a validator earns nothing.
    pub online_min_threshold: Ratio,
    /// From this share on it earns all.
    pub online_max_threshold: Ratio,
    /// Stake of a fisherman, yocto.
    #[serde(with = "decimal")]
    pub fishermen_threshold: u128,
    /// Stakes may not fall below the seat price over this.
    pub minimum_stake_divisor: u64,
    /// Share of stake that makes an upgrade happen.
    pub protocol_upgrade_stake_threshold: Ratio,
    /// How accounts map to shards.
    pub shard_layout: ShardLayout,
    /// Seats for chunk producers.
    pub num_chunk_producer_seats: u64,
    /// Seats for chunk validators.
    pub num_chunk_validator_seats: u64,
    /// Fewest chunk producers of a shard.
    pub minimum_validators_per_shard: u64,
    /// Lowest stake as a share of all.
    pub minimum_stake_ratio: Ratio,
    /// Most producers that change shards between epochs.
    pub chunk_producer_assignment_changes_limit: u64,
    /// Whether producers change shards by chance.
    pub shuffle_shard_assignment_for_chunk_producers: bool,
    /// Inflation a year.
    pub max_inflation_rate: Ratio,
}
