//! The checks that lint a plan. Each looks at one thing and gives at most one note.

use tpsctl_model::{
    Millis, Yocto,
    ids::YOCTO_PER_NEAR,
    plan::{NodeRole, RunPlan},
};
use tpsctl_near::{
    AccountId, MIN_GAS_PURCHASE_PRICE, NONCE_RANGE_PER_HEIGHT, ShardLayout, TRANSFER_GAS_UNIT,
    units_per_transfer,
};

use crate::{Capabilities, Note, Severity};

/// `combined_transactions_size_limit` on `benchmarknet` (core/parameters/src/config_store.rs:183-185), bytes a chunk.
const CHUNK_BYTES_BENCHMARKNET: u64 = 4_000_000;
/// The same on any other chain id (runtime_configs/parameters.snap).
const CHUNK_BYTES: u64 = 4_194_304;
/// `max_tx_gas`, what the transactions of a chunk may burn on any other chain id (runtime_configs/parameters.snap).
const CHUNK_TRANSACTION_GAS: u64 = 500_000_000_000_000;
/// Signed transfer without the two account ids (V0, ed25519).
const TRANSFER_BYTES: usize = 167;
/// `minimum_stake_ratio`: a stake at or below this share of the total has no seat; as numerator and denominator.
const STAKE_RATIO_MIN: (u128, u128) = (160, 1_000_000);
/// The chain id on which neard lifts its limits.
const UNLIMITED_CHAIN: &str = "benchmarknet";
/// Local nodes for each core from which on they mostly wait for each other.
const NODES_PER_CORE_MAX: usize = 4;
/// For this long transactions must be able to name one block: the injector reads a new one every second, and waits up to two
/// seconds for the answer.
const HASH_USABLE_MIN: Millis = Millis(3_000);
/// Blocks until a transfer that was sent is proven settled: its inclusion, execution and refund, the header that reports the
/// gas of the last of them, and two more that make that one final.
const BLOCKS_TO_SETTLE: u64 = 6;
/// Blocks until an idle network is proven idle: those in which the last transfer settles, and the three quiet ones after them,
/// one of which may come late.
const BLOCKS_TO_IDLE: u64 = 10;
/// Time for the metrics that the proof of idleness needs beside the blocks.
const METRICS_TIME: Millis = Millis(3_000);

/// Runs every check; the notes come in the order of the checks.
pub(crate) fn check(plan: &RunPlan, capabilities: &Capabilities) -> Vec<Note> {
    let checks: &[fn(&RunPlan) -> Option<Note>] = &[
        accounts_in_their_shards,
        accounts_suffice,
        validity_within_two_epochs,
        validity_outlasts_the_hash,
        skip_after_two_block_times,
        stake_has_a_seat,
        supply_fits,
        balance_lasts,
        nonces_below_ceiling,
        pool_holds_the_load,
        chunk_holds_the_load,
        one_miss_passes,
        drain_outlasts_a_transfer,
        idle_outlasts_slow_blocks,
        budget_holds_a_search,
        peers_suffice,
        mandates_go_round,
    ];
    let of_provider: &[fn(&RunPlan, &Capabilities) -> Option<Note>] =
        &[provider_runs_the_nodes, cores_suffice, memory_holds_the_pools];
    let own = checks.iter().filter_map(|check| check(plan));
    own.chain(of_provider.iter().filter_map(|check| check(plan, capabilities))).collect()
}

fn note(check: &'static str, severity: Severity, sentence: impl Into<String>, figure: String) -> Note {
    Note { check, severity, sentence: sentence.into(), figure }
}

/// The account id of the last account of the shard at `index`.
pub(crate) fn last_account(plan: &RunPlan, prefix: &str) -> String {
    format!("{prefix}_user_{}", plan.accounts.per_shard.saturating_sub(1))
}

/// Size of the largest transfer that the plan can make.
fn transfer_bytes(plan: &RunPlan) -> u64 {
    let longest =
        plan.accounts.prefixes.iter().map(|prefix| last_account(plan, prefix).len()).max().unwrap_or(0);
    (TRANSFER_BYTES + 2 * longest) as u64
}

/// Transfers of one shard that fall due in `ms` at the highest rate of the search, rounded up.
fn due_at_most(plan: &RunPlan, ms: u64) -> u64 {
    let transfers = (u128::from(plan.search.max.0) * u128::from(ms)).div_ceil(1_000);
    u64::try_from(transfers).unwrap_or(u64::MAX)
}

/// All account ids are valid, and each lies in the shard that it is meant for.
fn accounts_in_their_shards(plan: &RunPlan) -> Option<Note> {
    const CHECK: &str = "accounts_in_their_shards";
    let parse = |text: &str| text.parse::<AccountId>();
    let boundaries: Result<Vec<_>, _> = plan.chain.boundary_accounts.iter().map(|text| parse(text)).collect();
    let layout = match boundaries {
        Ok(boundaries) => ShardLayout::new(boundaries, plan.chain.shard_ids.iter().map(|id| id.0).collect()),
        Err(fault) => {
            return Some(note(
                CHECK,
                Severity::Error,
                "a boundary account has no valid id",
                fault.to_string(),
            ));
        }
    };
    let layout = match layout {
        Ok(layout) => layout,
        Err(fault) => {
            return Some(note(CHECK, Severity::Error, "the shard layout cannot be", fault.to_string()));
        }
    };
    for node in &plan.nodes {
        if let Err(fault) = parse(&node.name.0) {
            return Some(note(CHECK, Severity::Error, "a node's name is no account id", fault.to_string()));
        }
    }
    for (index, prefix) in plan.accounts.prefixes.iter().enumerate() {
        for text in [format!("{prefix}_user_0"), last_account(plan, prefix)] {
            match parse(&text) {
                Ok(id) if layout.index_of(&id) == index => {}
                Ok(id) => {
                    let figure = format!("{id}: index {}, meant {index}", layout.index_of(&id));
                    return Some(note(CHECK, Severity::Error, "an account lies in another shard", figure));
                }
                Err(fault) => {
                    return Some(note(
                        CHECK,
                        Severity::Error,
                        "an account has no valid id",
                        fault.to_string(),
                    ));
                }
            }
        }
    }
    None
}

/// Most producers that one shard has.
fn producers_of_a_shard(plan: &RunPlan) -> u64 {
    let counts = plan.chain.shard_ids.iter().map(|shard| plan.producers_of(*shard).count() as u64);
    counts.max().unwrap_or(0)
}

/// Every producer has accounts that send to it, and no account would have to pay itself.
fn accounts_suffice(plan: &RunPlan) -> Option<Note> {
    const CHECK: &str = "accounts_suffice";
    let (accounts, producers) = (u64::from(plan.accounts.per_shard), producers_of_a_shard(plan));
    if accounts < producers {
        let sentence = "each producer needs an account of its own that sends to it: raise `chain.accounts_per_shard` or \
                        lower `chain.producers_per_shard`";
        let figure = format!("{accounts} accounts for {producers} producers in a shard");
        return Some(note(CHECK, Severity::Error, sentence, figure));
    }
    let all_leave_the_shard = plan.chain.shard_ids.len() > 1 && plan.load.cross_shard.0 >= 1.0;
    if accounts >= 2 || (all_leave_the_shard && accounts == 1) {
        return None;
    }
    let sentence =
        "within its shard an account has nobody to send to: raise `chain.accounts_per_shard` to 2 or more";
    let figure = format!("{accounts} accounts in a shard, {} of transfers leave it", plan.load.cross_shard);
    Some(note(CHECK, Severity::Error, sentence, figure))
}

/// neard refuses to start otherwise (chain/epoch-manager/src/lib.rs:222-230).
fn validity_within_two_epochs(plan: &RunPlan) -> Option<Note> {
    let (validity, epoch) = (plan.chain.transaction_validity_blocks, plan.chain.epoch_length_blocks);
    if validity <= epoch.saturating_mul(2) {
        return None;
    }
    let sentence = "`chain.transaction_validity` is over two epochs, with which neard does not start: \
                    lower it or raise `chain.epoch_length`";
    let figure = format!("{validity} blocks, two epochs are {}", epoch.saturating_mul(2));
    Some(note("validity_within_two_epochs", Severity::Error, sentence, figure))
}

/// A transaction is taken for as long as the block that it names is young enough. The injector uses a block's hash for half of
/// that time at most, and must have got the next one by then.
fn validity_outlasts_the_hash(plan: &RunPlan) -> Option<Note> {
    let (validity, time) = (plan.chain.transaction_validity_blocks, plan.chain.block_time_min_ms);
    let usable = Millis(time.0.saturating_mul(validity / 2));
    if usable >= HASH_USABLE_MIN {
        return None;
    }
    let sentence = "transfers would expire before the injector has a newer block to name: raise \
                    `chain.transaction_validity` or `chain.block_time_min`";
    let figure =
        format!("half of {validity} blocks of {time} is {usable}, at least {HASH_USABLE_MIN} needed");
    Some(note("validity_outlasts_the_hash", Severity::Error, sentence, figure))
}

/// A skip approval is due no sooner than two endorsement delays (asserted in chain/chain/src/doomslug.rs:497-506).
fn skip_after_two_block_times(plan: &RunPlan) -> Option<Note> {
    let (min, max) = (plan.chain.block_time_min_ms, plan.chain.block_time_max_ms);
    if max.0 >= min.0.saturating_mul(2) {
        return None;
    }
    let sentence = "heights would be skipped before a block can come: raise `chain.block_time_max` to twice \
                    `chain.block_time_min` or more";
    Some(note(
        "skip_after_two_block_times",
        Severity::Error,
        sentence,
        format!("{max}, twice the minimum is {}", Millis(min.0.saturating_mul(2))),
    ))
}

/// Each stake of the plan's validators.
fn stakes(plan: &RunPlan) -> impl Iterator<Item = u128> + '_ {
    plan.nodes.iter().filter_map(|node| node.role.stake()).map(|stake| stake.0)
}

/// No validator falls below the least stake for a seat.
fn stake_has_a_seat(plan: &RunPlan) -> Option<Note> {
    let total: u128 = stakes(plan).fold(0, u128::saturating_add);
    let least = stakes(plan).min().unwrap_or(0);
    let (above, below) = STAKE_RATIO_MIN;
    // In the other order the products do not fit: stakes are of the order of 10^31.
    if least > (total / below).saturating_mul(above) {
        return None;
    }
    let sentence =
        "a validator's stake is too small a share of the total to have a seat: use fewer validators";
    let figure = format!("{least} of {total} yocto, least ratio {above}/{below}");
    Some(note("stake_has_a_seat", Severity::Error, sentence, figure))
}

/// Sum of all balances at genesis; none when it does not fit into 128 bits, as which the chain counts it.
fn supply(plan: &RunPlan) -> Option<u128> {
    let accounts = u128::from(plan.accounts.per_shard).checked_mul(plan.chain.shard_ids.len() as u128)?;
    let balances = accounts.checked_mul(plan.accounts.balance.0)?;
    stakes(plan).try_fold(balances, u128::checked_add)
}

fn supply_fits(plan: &RunPlan) -> Option<Note> {
    // The chain multiplies the supply when it pays rewards; half of the range leaves it room, and validators'
    // own balances.
    if supply(plan).is_some_and(|supply| supply < u128::MAX / 2) {
        return None;
    }
    let sentence = "the total supply does not fit into the chain's 128 bits: lower `chain.account_balance`";
    let figure = format!(
        "{} shards x {} accounts x {} NEAR",
        plan.chain.shard_ids.len(),
        plan.accounts.per_shard,
        plan.accounts.balance.0 / YOCTO_PER_NEAR
    );
    Some(note("supply_fits", Severity::Error, sentence, figure))
}

/// Most that a transfer takes from its sender until it is settled, yocto: both gas units bought at the price at which
/// receipt gas is sold, and the amount (runtime/runtime/src/config.rs:459-526).
fn transfer_cost(plan: &RunPlan) -> u128 {
    let price = plan.chain.min_gas_price.0;
    let gas =
        u128::from(TRANSFER_GAS_UNIT).saturating_mul(price.saturating_add(price.max(MIN_GAS_PURCHASE_PRICE)));
    gas.saturating_add(plan.load.amount.0)
}

/// Of `transfers` that fall due in one shard, those of the busiest account. They go to the shard's producers in turn, and each
/// producer's come from its own part of the accounts in turn: account i belongs to producer i mod P (tpsctl-workload).
fn busiest_account(plan: &RunPlan, transfers: u64) -> u64 {
    let producers = producers_of_a_shard(plan).max(1);
    let accounts = (u64::from(plan.accounts.per_shard) / producers).max(1);
    transfers.div_ceil(producers).div_ceil(accounts)
}

/// No account runs dry, even if the whole time budget were spent at the highest rate, with no refund and no income.
fn balance_lasts(plan: &RunPlan) -> Option<Note> {
    let transfers = due_at_most(plan, plan.search.time_budget_ms.0.saturating_add(load_ms(plan)));
    let each = u128::from(busiest_account(plan, transfers));
    let needed = each.saturating_mul(transfer_cost(plan));
    if needed <= plan.accounts.balance.0 {
        return None;
    }
    let sentence = "accounts could run dry: raise `chain.account_balance` or `chain.accounts_per_shard`, or lower \
                    `search.max` or `search.time_budget`";
    let figure = format!(
        "up to {each} transfers an account cost {}, it has {}",
        near(needed),
        near(plan.accounts.balance.0)
    );
    Some(note("balance_lasts", Severity::Error, sentence, figure))
}

/// An amount in NEAR, rounded up to a thousandth.
pub(crate) fn near(yocto: u128) -> String {
    let thousandths = yocto.div_ceil(YOCTO_PER_NEAR / 1_000);
    let (whole, rest) = (thousandths / 1_000, thousandths % 1_000);
    if rest == 0 { format!("{whole} NEAR") } else { format!("{whole}.{rest:03} NEAR") }
}

/// A key's nonces stay below height x 10^6: it must not need a million of them between two blocks.
fn nonces_below_ceiling(plan: &RunPlan) -> Option<Note> {
    let each = busiest_account(plan, due_at_most(plan, plan.chain.block_wait_max_ms.0));
    if each < NONCE_RANGE_PER_HEIGHT {
        return None;
    }
    let sentence = "keys would need nonces that the chain does not accept yet: raise `chain.accounts_per_shard` or lower `search.max`";
    let figure = format!("{each} nonces a key and block, below {NONCE_RANGE_PER_HEIGHT} allowed");
    Some(note("nonces_below_ceiling", Severity::Error, sentence, figure))
}

/// A pool holds what comes between two slow blocks; what does not fit is dropped without a word.
fn pool_holds_the_load(plan: &RunPlan) -> Option<Note> {
    let (wait, limit) = (plan.chain.block_wait_max_ms, plan.chain.pool_size_limit_bytes);
    let needed = due_at_most(plan, wait.0).saturating_mul(transfer_bytes(plan));
    if needed <= limit.0 {
        return None;
    }
    let sentence = "at `search.max` a pool overflows within one slow block, and drops count as the chain's limit: raise \
                    `chain.pool_size_limit`";
    let figure = format!("{needed} bytes in {wait}, the pool holds {limit}");
    Some(note("pool_holds_the_load", Severity::Warning, sentence, figure))
}

/// Most transfers that a chunk takes, and what bounds them.
fn chunk_capacity(plan: &RunPlan) -> (u64, &'static str) {
    let is_unlimited = plan.chain.chain_id == UNLIMITED_CHAIN;
    let bytes = if is_unlimited { CHUNK_BYTES_BENCHMARKNET } else { CHUNK_BYTES };
    let by_size = (bytes / transfer_bytes(plan), "the bytes of a chunk");
    // All units of a settled transfer, since under steady load a chunk converts as many as it executes and refunds.
    let gas = units_per_transfer(plan.chain.min_gas_price.0) * TRANSFER_GAS_UNIT;
    let by_gas = (plan.chain.gas_limit.0 / gas, "`chain.gas_limit`");
    let by_transaction_gas = (CHUNK_TRANSACTION_GAS / TRANSFER_GAS_UNIT, "the transaction gas of a chunk");
    let bounds = if is_unlimited { vec![by_size, by_gas] } else { vec![by_size, by_gas, by_transaction_gas] };
    bounds.into_iter().min_by_key(|(transfers, _)| *transfers).unwrap_or(by_size)
}

/// A chunk takes what falls due in the time between two blocks at the highest rate.
fn chunk_holds_the_load(plan: &RunPlan) -> Option<Note> {
    let (capacity, bound) = chunk_capacity(plan);
    let time = plan.chain.block_time_min_ms;
    let due = due_at_most(plan, time.0);
    if due <= capacity {
        return None;
    }
    let sentence =
        format!("the search can end at {bound} before the nodes are busy: shorten `chain.block_time_min`");
    let figure = format!("{due} transfers in {time}, a chunk takes {capacity}");
    Some(note("chunk_holds_the_load", Severity::Warning, sentence, figure))
}

/// The window has enough slots for the goal's share of misses to mean at least one.
fn one_miss_passes(plan: &RunPlan) -> Option<Note> {
    let heights = plan.trial.window_ms.0 / plan.chain.block_time_min_ms.0.max(1);
    let slots = heights.saturating_mul(plan.chain.shard_ids.len() as u64);
    let share = plan.goal.missed_slots_max.0;
    if share <= 0.0 || share * slots as f64 >= 1.0 {
        return None;
    }
    let sentence = "a single missed chunk already fails the goal: lengthen `trial.window`";
    let figure = format!("{slots} slots in the window, {} of them is below one", plan.goal.missed_slots_max);
    Some(note("one_miss_passes", Severity::Warning, sentence, figure))
}

/// What is sent last can be proven settled by the time at which the backlog is judged.
fn drain_outlasts_a_transfer(plan: &RunPlan) -> Option<Note> {
    let (drain, time) = (plan.trial.drain_timeout_ms, plan.chain.block_time_max_ms);
    let needed = Millis(time.0.saturating_mul(BLOCKS_TO_SETTLE));
    if drain >= needed {
        return None;
    }
    let sentence = "transfers that were sent last may not be settled when the backlog is judged: raise \
                    `trial.drain_timeout`";
    let figure = format!("{drain}, {BLOCKS_TO_SETTLE} blocks of `chain.block_time_max` take {needed}");
    Some(note("drain_outlasts_a_transfer", Severity::Warning, sentence, figure))
}

/// A network that is idle can be proven so in time, even if its blocks are slow.
fn idle_outlasts_slow_blocks(plan: &RunPlan) -> Option<Note> {
    let (idle, time) = (plan.trial.idle_timeout_ms, plan.chain.block_time_max_ms);
    let needed = Millis(time.0.saturating_mul(BLOCKS_TO_IDLE).saturating_add(METRICS_TIME.0));
    if idle >= needed {
        return None;
    }
    let sentence = "the run may end before the network can be proven idle: raise `trial.idle_timeout`";
    let figure =
        format!("{idle}, {BLOCKS_TO_IDLE} blocks of `chain.block_time_max` and {METRICS_TIME} are {needed}");
    Some(note("idle_outlasts_slow_blocks", Severity::Warning, sentence, figure))
}

/// How long the load of one trial runs, milliseconds.
fn load_ms(plan: &RunPlan) -> u64 {
    plan.trial.warmup_ms.0.saturating_add(plan.trial.window_ms.0)
}

/// There is time for the idle trial and for both ends of an interval, each confirmed.
fn budget_holds_a_search(plan: &RunPlan) -> Option<Note> {
    let trials = 1 + 2 * u64::from(plan.search.confirmations);
    let needed = trials.saturating_mul(load_ms(plan));
    let budget = plan.search.time_budget_ms;
    if needed <= budget.0 {
        return None;
    }
    let sentence = "the time budget ends before any interval can be closed: raise `search.time_budget`";
    let figure = format!("{trials} trials take {} or more, the budget is {budget}", Millis(needed));
    Some(note("budget_holds_a_search", Severity::Warning, sentence, figure))
}

/// Every node can meet every other. Where not, messages take detours: published runs lost most of their rate so.
fn peers_suffice(plan: &RunPlan) -> Option<Note> {
    let most = plan.network.max_peers?;
    let fellows = plan.nodes.len().saturating_sub(1);
    if fellows <= most as usize {
        return None;
    }
    let sentence = "not every node can connect to every other, so messages take detours: raise `network.max_peers` unless \
                    that is what you measure";
    let figure = format!("{most} connections, {fellows} fellow nodes");
    Some(note("peers_suffice", Severity::Warning, sentence, figure))
}

/// There is a mandate for every validator: one without any checks no chunk.
fn mandates_go_round(plan: &RunPlan) -> Option<Note> {
    let validators = stakes(plan).count() as u64;
    let mandates = plan.chain.mandates_per_shard.saturating_mul(plan.chain.shard_ids.len() as u64);
    let has_idle = plan.nodes.iter().any(|node| matches!(node.role, NodeRole::ChunkValidator { .. }));
    if !has_idle || mandates >= validators {
        return None;
    }
    let sentence = "some validators can have no chunk to check: raise `chain.mandates_per_shard` or lower \
                    `chain.chunk_validators`";
    let figure = format!("{mandates} mandates for {validators} validators");
    Some(note("mandates_go_round", Severity::Warning, sentence, figure))
}

fn provider_runs_the_nodes(plan: &RunPlan, capabilities: &Capabilities) -> Option<Note> {
    let most = capabilities.nodes_max.filter(|most| plan.nodes.len() > *most as usize)?;
    let sentence = format!("the provider `{}` cannot run that many nodes", capabilities.name);
    Some(note(
        "provider_runs_the_nodes",
        Severity::Error,
        sentence,
        format!("{} nodes, at most {most}", plan.nodes.len()),
    ))
}

fn cores_suffice(plan: &RunPlan, capabilities: &Capabilities) -> Option<Note> {
    let cores = capabilities.cores as usize;
    if cores == 0 || plan.nodes.len() <= cores * NODES_PER_CORE_MAX {
        return None;
    }
    let sentence =
        "the nodes share so few cores that the host is measured and not the chain: use fewer shards";
    Some(note(
        "cores_suffice",
        Severity::Warning,
        sentence,
        format!("{} nodes on {cores} cores", plan.nodes.len()),
    ))
}

/// Full pools of all producers fit into the host's memory.
fn memory_holds_the_pools(plan: &RunPlan, capabilities: &Capabilities) -> Option<Note> {
    let pools = plan.chain.shard_ids.iter().map(|shard| plan.producers_of(*shard).count() as u64).sum();
    let needed = plan.chain.pool_size_limit_bytes.0.saturating_mul(pools);
    if capabilities.memory_bytes == 0 || needed <= capabilities.memory_bytes {
        return None;
    }
    let sentence = "full pools do not fit into memory: lower `chain.pool_size_limit`";
    let figure = format!("{needed} bytes of pools, {} bytes of memory", capabilities.memory_bytes);
    Some(note("memory_holds_the_pools", Severity::Warning, sentence, figure))
}

/// The supply, for the rendered plan; the largest number when it does not fit.
pub(crate) fn supply_or_max(plan: &RunPlan) -> Yocto {
    Yocto(supply(plan).unwrap_or(u128::MAX))
}

#[cfg(test)]
pub(crate) mod tests {
    use tpsctl_model::Share;
    use tpsctl_scenario::{load, resolve_name};

    use super::*;

    pub(crate) fn quickstart() -> RunPlan {
        let scenario = load(&resolve_name("quickstart").unwrap(), &[]).unwrap();
        crate::plan(&scenario, &host()).unwrap().plan
    }

    fn host() -> Capabilities {
        Capabilities { name: "local".to_owned(), nodes_max: None, cores: 2, memory_bytes: 8_000_000_000 }
    }

    /// What no scenario's bounds allow, but a plan read from disk could hold.
    #[test]
    fn plans_that_no_scenario_makes_are_refused_too() {
        let broken = |change: fn(&mut RunPlan)| {
            let mut plan = quickstart();
            change(&mut plan);
            check(&plan, &host()).into_iter().map(|note| note.check).collect::<Vec<_>>()
        };
        assert_eq!(broken(|plan| plan.accounts.balance = Yocto(u128::MAX / 20_001)), ["supply_fits"]);
        assert_eq!(broken(|plan| plan.accounts.prefixes.swap(1, 2)), ["accounts_in_their_shards"]);
        assert_eq!(broken(|plan| plan.chain.boundary_accounts.reverse()), ["accounts_in_their_shards"]);
        let too_long = broken(|plan| plan.accounts.prefixes[0] = "0".repeat(60));
        assert!(too_long.contains(&"accounts_in_their_shards"));
        assert_eq!(broken(|plan| plan.nodes[0].name.0 = "Node".to_owned()), ["accounts_in_their_shards"]);
        let dwarf = |plan: &mut RunPlan| {
            if let NodeRole::Producer { stake, .. } = &mut plan.nodes[0].role {
                *stake = Yocto(1);
            }
        };
        assert_eq!(broken(dwarf), ["stake_has_a_seat"]);
    }

    #[test]
    fn a_single_account_can_only_pay_other_shards() {
        let mut plan = quickstart();
        plan.accounts.per_shard = 1;
        assert!(accounts_suffice(&plan).is_some_and(|note| note.severity == Severity::Error));
        plan.load.cross_shard = Share(1.0);
        assert_eq!(accounts_suffice(&plan), None);
        plan.accounts.per_shard = 0;
        assert!(accounts_suffice(&plan).is_some());
    }
}
