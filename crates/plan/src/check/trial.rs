//! Checks of trials and of the search: whether what is asked for can be seen in the time that there is.

use tpsctl_model::{Millis, plan::RunPlan};

use super::{Look, look};
use crate::Capabilities;

/// Blocks until a transfer that was sent is proven settled: its inclusion, execution and refund, the header that reports the
/// gas of the last of them, and two more that make that one final.
const BLOCKS_TO_SETTLE: u64 = 6;
/// Blocks until an idle network is proven idle: those in which the last transfer settles, and the three quiet ones after them,
/// one of which may come late.
const BLOCKS_TO_IDLE: u64 = 10;
/// Time for the metrics that the proof of idleness needs beside the blocks.
const METRICS_TIME: Millis = Millis(3_000);

/// The window has enough slots for the goal's share of misses to mean at least one.
pub(super) fn one_miss_passes(plan: &RunPlan, _: &Capabilities) -> Look {
    let heights = plan.trial.window_ms.0 / plan.chain.block_time_min_ms.0.max(1);
    let slots = heights.saturating_mul(plan.chain.shard_ids.len() as u64);
    let share = plan.goal.missed_slots_max.0;
    let is_fine = share <= 0.0 || share * slots as f64 >= 1.0;
    let sentence = "a single missed chunk already fails the goal: lengthen `trial.window`";
    let below = if is_fine { "at most missed" } else { "of them is below one" };
    look(is_fine, sentence, format!("{slots} slots in the window, {} {below}", plan.goal.missed_slots_max))
}

/// What is sent last can be proven settled by the time at which the backlog is judged.
pub(super) fn drain_outlasts_a_transfer(plan: &RunPlan, _: &Capabilities) -> Look {
    let (drain, time) = (plan.trial.drain_timeout_ms, plan.chain.block_time_max_ms);
    let needed = Millis(time.0.saturating_mul(BLOCKS_TO_SETTLE));
    let sentence = "transfers that were sent last may not be settled when the backlog is judged: raise \
                    `trial.drain_timeout`";
    let figure = format!("{drain}, {BLOCKS_TO_SETTLE} blocks of `chain.block_time_max` take {needed}");
    look(drain >= needed, sentence, figure)
}

/// A network that is idle can be proven so in time, even if its blocks are slow.
pub(super) fn idle_outlasts_slow_blocks(plan: &RunPlan, _: &Capabilities) -> Look {
    let (idle, time) = (plan.trial.idle_timeout_ms, plan.chain.block_time_max_ms);
    let needed = Millis(time.0.saturating_mul(BLOCKS_TO_IDLE).saturating_add(METRICS_TIME.0));
    let sentence = "the run may end before the network can be proven idle: raise `trial.idle_timeout`";
    let figure =
        format!("{idle}, {BLOCKS_TO_IDLE} blocks of `chain.block_time_max` and {METRICS_TIME} are {needed}");
    look(idle >= needed, sentence, figure)
}

/// How long the load of one trial runs, milliseconds.
pub(super) fn load_ms(plan: &RunPlan) -> u64 {
    plan.trial.warmup_ms.0.saturating_add(plan.trial.window_ms.0)
}

/// There is time for the idle trial and for both ends of an interval, each confirmed.
pub(super) fn budget_holds_a_search(plan: &RunPlan, _: &Capabilities) -> Look {
    let trials = 1 + 2 * u64::from(plan.search.confirmations);
    let needed = trials.saturating_mul(load_ms(plan));
    let budget = plan.search.time_budget_ms;
    let sentence = "the time budget ends before any interval can be closed: raise `search.time_budget`";
    let figure = format!("{trials} trials take {} or more, the budget is {budget}", Millis(needed));
    look(needed <= budget.0, sentence, figure)
}
