//! Checks of the chain itself: layout, validators, supply, epochs, block times.

use std::cmp::Reverse;

use tpsctl_model::{
    Millis, Yocto,
    ids::YOCTO_PER_NEAR,
    plan::{NodeRole, RunPlan},
};
use tpsctl_near::{AccountId, ShardLayout};

use super::{
    Look,
    load::{last_account, near},
    look,
};
use crate::Capabilities;

/// `minimum_stake_ratio`: a stake at or below this share of the total has no seat; as numerator and denominator.
const STAKE_RATIO_MIN: (u128, u128) = (160, 1_000_000);
/// For this long transactions must be able to name one block: the injector reads a new one every second, and waits up to two
/// seconds for the answer.
const HASH_USABLE_MIN: Millis = Millis(3_000);

/// All account ids are valid, and each lies in the shard that it is meant for.
pub(super) fn accounts_in_their_shards(plan: &RunPlan, _: &Capabilities) -> Look {
    if let Some((sentence, figure)) = layout_fault(plan) {
        return look(false, sentence, figure);
    }
    let shards = plan.chain.shard_ids.len();
    look(true, "", format!("{shards} shards, {} boundaries", plan.chain.boundary_accounts.len()))
}

/// The first fault of layout and account ids: a sentence and its figure.
fn layout_fault(plan: &RunPlan) -> Option<(&'static str, String)> {
    let parse = |text: &str| text.parse::<AccountId>();
    let boundaries: Result<Vec<_>, _> = plan.chain.boundary_accounts.iter().map(|text| parse(text)).collect();
    let boundaries = match boundaries {
        Ok(boundaries) => boundaries,
        Err(fault) => return Some(("a boundary account has no valid id", fault.to_string())),
    };
    let layout = match ShardLayout::new(boundaries, plan.chain.shard_ids.iter().map(|id| id.0).collect()) {
        Ok(layout) => layout,
        Err(fault) => return Some(("the shard layout cannot be", fault.to_string())),
    };
    if let Some(fault) = plan.nodes.iter().find_map(|node| parse(&node.name.0).err()) {
        return Some(("a node's name is no account id", fault.to_string()));
    }
    for (index, prefix) in plan.accounts.prefixes.iter().enumerate() {
        for text in [format!("{prefix}_user_0"), last_account(plan, prefix)] {
            match parse(&text) {
                Ok(id) if layout.index_of(&id) == index => {}
                Ok(id) => {
                    let figure = format!("{id}: index {}, meant {index}", layout.index_of(&id));
                    return Some(("an account lies in another shard", figure));
                }
                Err(fault) => return Some(("an account has no valid id", fault.to_string())),
            }
        }
    }
    None
}

/// neard starts a chain with a shard that nobody produces, and misses all of its chunks.
pub(super) fn every_shard_has_a_producer(plan: &RunPlan, _: &Capabilities) -> Look {
    let shards = &plan.chain.shard_ids;
    let fewest = shards.iter().map(|shard| plan.producers_of(*shard).count()).min().unwrap_or(0);
    let sentence =
        "a shard has no chunk producer, so all of its chunks are missed: raise `chain.producers_per_shard`";
    look(fewest > 0, sentence, format!("{fewest} producers of a shard or more, {} shards", shards.len()))
}

/// Genesis has as many seats of producers as there are producers, and seats of chunk validators for all; they go by stake, then
/// by name (chain/epoch-manager/src/validator_selection.rs:339-383).
pub(super) fn seats_go_to_the_producers(plan: &RunPlan, _: &Capabilities) -> Look {
    let mut ranked: Vec<_> = plan.nodes.iter().filter_map(|node| Some((node.role.stake()?, node))).collect();
    ranked.sort_by_key(|(stake, node)| (Reverse(stake.0), node.name.0.clone()));
    let seats = plan.producers().count();
    let is_producer = |role: &NodeRole| matches!(role, NodeRole::Producer { .. });
    let in_place = ranked.iter().take(seats).filter(|(_, node)| is_producer(&node.role)).count();
    let sentence = "a validator that is to produce nothing ranks before a producer and takes its seat: give producers the \
                    greater stake";
    let figure = format!("{seats} seats of producers, {in_place} for them; {} validators", ranked.len());
    look(in_place == seats && seats > 0, sentence, figure)
}

/// Each stake of the plan's validators.
fn stakes(plan: &RunPlan) -> impl Iterator<Item = u128> + '_ {
    plan.nodes.iter().filter_map(|node| node.role.stake()).map(|stake| stake.0)
}

/// No validator falls below the least stake for a seat.
pub(super) fn stake_has_a_seat(plan: &RunPlan, _: &Capabilities) -> Look {
    let total: u128 = stakes(plan).fold(0, u128::saturating_add);
    let least = stakes(plan).min().unwrap_or(0);
    let (above, below) = STAKE_RATIO_MIN;
    let sentence =
        "a validator's stake is too small a share of the total to have a seat: use fewer validators";
    let figure = format!("{} of {}, least ratio {above}/{below}", near(least), near(total));
    // In the other order the products do not fit: stakes are of the order of 10^31.
    look(least > (total / below).saturating_mul(above), sentence, figure)
}

/// Sum of all balances at genesis; none when it does not fit into 128 bits, as which the chain counts it.
fn supply(plan: &RunPlan) -> Option<u128> {
    let accounts = u128::from(plan.accounts.per_shard).checked_mul(plan.chain.shard_ids.len() as u128)?;
    let balances = accounts.checked_mul(plan.accounts.balance.0)?;
    stakes(plan).try_fold(balances, u128::checked_add)
}

/// The supply, for the rendered plan; the largest number when it does not fit.
pub(crate) fn supply_or_max(plan: &RunPlan) -> Yocto {
    Yocto(supply(plan).unwrap_or(u128::MAX))
}

pub(super) fn supply_fits(plan: &RunPlan, _: &Capabilities) -> Look {
    let sentence = "the total supply does not fit into the chain's 128 bits: lower `chain.account_balance`";
    let figure = format!(
        "{} shards x {} accounts x {} NEAR",
        plan.chain.shard_ids.len(),
        plan.accounts.per_shard,
        plan.accounts.balance.0 / YOCTO_PER_NEAR
    );
    // The chain multiplies the supply when it pays rewards; half of the range leaves it room, and validators'
    // own balances.
    look(supply(plan).is_some_and(|supply| supply < u128::MAX / 2), sentence, figure)
}

/// neard refuses to start otherwise (chain/epoch-manager/src/lib.rs:222-230).
pub(super) fn validity_within_two_epochs(plan: &RunPlan, _: &Capabilities) -> Look {
    let validity = plan.chain.transaction_validity_blocks;
    let two_epochs = plan.chain.epoch_length_blocks.saturating_mul(2);
    let sentence = "`chain.transaction_validity` is over two epochs, with which neard does not start: \
                    lower it or raise `chain.epoch_length`";
    look(validity <= two_epochs, sentence, format!("{validity} blocks, two epochs are {two_epochs}"))
}

/// A transaction is taken for as long as the block that it names is young enough. The injector uses a block's hash for half of
/// that time at most, and must have got the next one by then.
pub(super) fn validity_outlasts_the_hash(plan: &RunPlan, _: &Capabilities) -> Look {
    let (validity, time) = (plan.chain.transaction_validity_blocks, plan.chain.block_time_min_ms);
    let usable = Millis(time.0.saturating_mul(validity / 2));
    let sentence = "transfers would expire before the injector has a newer block to name: raise \
                    `chain.transaction_validity` or `chain.block_time_min`";
    let figure =
        format!("half of {validity} blocks of {time} is {usable}, at least {HASH_USABLE_MIN} needed");
    look(usable >= HASH_USABLE_MIN, sentence, figure)
}

/// A skip approval is due no sooner than two endorsement delays (asserted in chain/chain/src/doomslug.rs:497-506).
pub(super) fn skip_after_two_block_times(plan: &RunPlan, _: &Capabilities) -> Look {
    let (min, max) = (plan.chain.block_time_min_ms, plan.chain.block_time_max_ms);
    let twice = Millis(min.0.saturating_mul(2));
    let sentence = "heights would be skipped before a block can come: raise `chain.block_time_max` to twice \
                    `chain.block_time_min` or more";
    look(max >= twice, sentence, format!("{max}, twice the minimum is {twice}"))
}

/// A block waits for late chunks before it goes without them (chain/chain/src/doomslug.rs:776-783): where it waits longer than
/// the goal allows blocks to be late, overload shows as slow blocks and not as missed chunks.
pub(super) fn late_chunks_are_seen(plan: &RunPlan, _: &Capabilities) -> Look {
    let (above, below) = plan.chain.chunk_wait_mult;
    let wait = plan.chain.block_time_max_ms.0 as f64 * f64::from(above) / f64::from(below.max(1));
    let slack = plan.chain.block_time_min_ms.0 as f64 * (plan.goal.block_time_ratio_max - 1.0);
    let sentence = "blocks become too slow for the goal before chunks are missed, so block time is what the search ends at; \
                    lower `chain.chunk_wait_mult` to see misses first";
    let figure =
        format!("late chunks are waited for {wait:.0} ms, the goal lets blocks be {slack:.0} ms late");
    look(wait <= slack, sentence, figure)
}

/// A chunk needs endorsements of more than two thirds of its stake: floor(2/3) + 1 of equal mandates
/// (core/primitives/src/stateless_validation/validator_assignment.rs:18-31).
pub(super) fn two_thirds_can_endorse(plan: &RunPlan, _: &Capabilities) -> Look {
    let mandates = plan.chain.mandates_per_shard;
    let needed = mandates.saturating_mul(2) / 3 + 1;
    let sentence = "every mandate of a chunk has to endorse it, so one slow validator makes it miss: with \
                    `chain.mandates_per_shard` of 4 or more one may be late";
    look(needed < mandates, sentence, format!("{needed} of {mandates} mandates a shard"))
}

/// There is a mandate for every validator: one without any checks no chunk.
pub(super) fn mandates_go_round(plan: &RunPlan, _: &Capabilities) -> Look {
    let validators = stakes(plan).count() as u64;
    let mandates = plan.chain.mandates_per_shard.saturating_mul(plan.chain.shard_ids.len() as u64);
    let has_idle = plan.nodes.iter().any(|node| matches!(node.role, NodeRole::ChunkValidator { .. }));
    let sentence = "some validators can have no chunk to check: raise `chain.mandates_per_shard` or lower \
                    `chain.chunk_validators`";
    let figure = format!("{mandates} mandates for {validators} validators");
    look(!has_idle || mandates >= validators, sentence, figure)
}

/// Genesis sets the kick-out thresholds to 0: whoever misses everything stays a producer, and its shard stays with it.
pub(super) fn kickouts_move_no_shard(plan: &RunPlan, _: &Capabilities) -> Look {
    let blocks = plan.search.time_budget_ms.0 / plan.chain.block_time_min_ms.0.max(1);
    let epoch = plan.chain.epoch_length_blocks;
    let sentence = "epochs change during the run; nobody is kicked out (all thresholds are 0), so a producer that misses all \
                    of its chunks keeps its shard";
    look(blocks < epoch, sentence, format!("up to {blocks} blocks, epochs of {epoch}, kick-out below 0%"))
}

/// Every node can meet every other. Where not, messages take detours: published runs lost most of their rate so.
pub(super) fn peers_suffice(plan: &RunPlan, _: &Capabilities) -> Look {
    let fellows = plan.nodes.len().saturating_sub(1);
    let producers = plan.producers().count();
    let most = plan.network.max_peers;
    let sentence = "not every node can connect to every other, so messages take detours: raise `network.max_peers` unless \
                    that is what you measure";
    let connections = most.map_or_else(|| "no limit on".to_owned(), |most| most.to_string());
    let figure = format!("{connections} connections, {fellows} fellow nodes, {producers} chunk producers");
    look(most.is_none_or(|most| fellows <= most as usize), sentence, figure)
}
