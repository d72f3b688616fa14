//! Checks of the load: accounts, balances, nonces, and what pools and chunks take.

use tpsctl_model::{ids::YOCTO_PER_NEAR, plan::RunPlan};
use tpsctl_near::{MIN_GAS_PURCHASE_PRICE, NONCE_RANGE_PER_HEIGHT, TRANSFER_GAS_UNIT, units_per_transfer};

use super::{Look, look, trial::load_ms};
use crate::Capabilities;

/// `combined_transactions_size_limit` on `benchmarknet` (core/parameters/src/config_store.rs:183-185), bytes a chunk.
const CHUNK_BYTES_BENCHMARKNET: u64 = 4_000_000;
/// The same on any other chain id (runtime_configs/parameters.snap).
const CHUNK_BYTES: u64 = 4_194_304;
/// `max_tx_gas`, what the transactions of a chunk may burn on any other chain id (runtime_configs/parameters.snap).
const CHUNK_TRANSACTION_GAS: u64 = 500_000_000_000_000;
/// Signed transfer without the two account ids (V0, ed25519).
const TRANSFER_BYTES: usize = 167;
/// The chain id on which neard lifts its limits.
const UNLIMITED_CHAIN: &str = "benchmarknet";

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

/// Most producers that one shard has.
fn producers_of_a_shard(plan: &RunPlan) -> u64 {
    let counts = plan.chain.shard_ids.iter().map(|shard| plan.producers_of(*shard).count() as u64);
    counts.max().unwrap_or(0)
}

/// Every producer has accounts that send to it, and no account would have to pay itself.
pub(super) fn accounts_suffice(plan: &RunPlan, _: &Capabilities) -> Look {
    let (accounts, producers) = (u64::from(plan.accounts.per_shard), producers_of_a_shard(plan));
    let figure = format!("{accounts} accounts for {producers} producers in a shard");
    if accounts < producers {
        let sentence = "each producer needs an account of its own that sends to it: raise `chain.accounts_per_shard` or \
                        lower `chain.producers_per_shard`";
        return look(false, sentence, figure);
    }
    let all_leave_the_shard = plan.chain.shard_ids.len() > 1 && plan.load.cross_shard.0 >= 1.0;
    if accounts >= 2 || (all_leave_the_shard && accounts == 1) {
        return look(true, "", figure);
    }
    let sentence =
        "within its shard an account has nobody to send to: raise `chain.accounts_per_shard` to 2 or more";
    let figure = format!("{accounts} accounts in a shard, {} of transfers leave it", plan.load.cross_shard);
    look(false, sentence, figure)
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
pub(super) fn balance_lasts(plan: &RunPlan, _: &Capabilities) -> Look {
    let transfers = due_at_most(plan, plan.search.time_budget_ms.0.saturating_add(load_ms(plan)));
    let each = u128::from(busiest_account(plan, transfers));
    let needed = each.saturating_mul(transfer_cost(plan));
    let sentence = "accounts could run dry: raise `chain.account_balance` or `chain.accounts_per_shard`, or lower \
                    `search.max` or `search.time_budget`";
    let figure = format!(
        "up to {each} transfers an account cost {}, it has {}",
        near(needed),
        near(plan.accounts.balance.0)
    );
    look(needed <= plan.accounts.balance.0, sentence, figure)
}

/// An amount in NEAR, rounded up to a thousandth.
pub(crate) fn near(yocto: u128) -> String {
    let thousandths = yocto.div_ceil(YOCTO_PER_NEAR / 1_000);
    let (whole, rest) = (thousandths / 1_000, thousandths % 1_000);
    if rest == 0 { format!("{whole} NEAR") } else { format!("{whole}.{rest:03} NEAR") }
}

/// Less than this is written in yocto: in NEAR it would be a row of zeros.
const SMALL_AMOUNT_YOCTO: u128 = YOCTO_PER_NEAR / 1_000;

/// An amount as one would write it: exact.
pub(crate) fn amount(yocto: u128) -> String {
    if yocto < SMALL_AMOUNT_YOCTO || !yocto.is_multiple_of(SMALL_AMOUNT_YOCTO) {
        format!("{yocto} yocto")
    } else {
        near(yocto)
    }
}

/// A key's nonces stay below height x 10^6: it must not need a million of them between two blocks.
pub(super) fn nonces_below_ceiling(plan: &RunPlan, _: &Capabilities) -> Look {
    let each = busiest_account(plan, due_at_most(plan, plan.chain.block_wait_max_ms.0));
    let sentence = "keys would need nonces that the chain does not accept yet: raise `chain.accounts_per_shard` or lower `search.max`";
    let figure = format!("{each} nonces a key and block, below {NONCE_RANGE_PER_HEIGHT} allowed");
    look(each < NONCE_RANGE_PER_HEIGHT, sentence, figure)
}

/// Below the price at which receipt gas is sold, each transfer makes a third receipt, which gives the difference back and burns
/// gas as well (runtime/runtime/src/lib.rs:1197-1283).
pub(super) fn gas_has_no_refund(plan: &RunPlan, _: &Capabilities) -> Look {
    let price = plan.chain.min_gas_price.0;
    let sentence = "each transfer makes a refund receipt as well, which is work that is not counted: raise \
                    `chain.min_gas_price`";
    look(
        price >= MIN_GAS_PURCHASE_PRICE,
        sentence,
        format!("{price} yocto, no refund from {MIN_GAS_PURCHASE_PRICE}"),
    )
}

/// A pool holds what comes between two slow blocks; what does not fit is dropped without a word.
pub(super) fn pool_holds_the_load(plan: &RunPlan, _: &Capabilities) -> Look {
    let (wait, limit) = (plan.chain.block_wait_max_ms, plan.chain.pool_size_limit_bytes);
    let needed = due_at_most(plan, wait.0).saturating_mul(transfer_bytes(plan));
    let sentence = "at `search.max` a pool overflows within one slow block, and drops count as the chain's limit: raise \
                    `chain.pool_size_limit`";
    look(needed <= limit.0, sentence, format!("{needed} bytes in {wait}, the pool holds {limit}"))
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
pub(super) fn chunk_holds_the_load(plan: &RunPlan, _: &Capabilities) -> Look {
    let (capacity, bound) = chunk_capacity(plan);
    let time = plan.chain.block_time_min_ms;
    let due = due_at_most(plan, time.0);
    let sentence =
        format!("the search can end at {bound} before the nodes are busy: shorten `chain.block_time_min`");
    look(due <= capacity, sentence, format!("{due} transfers in {time}, a chunk takes {capacity}"))
}
