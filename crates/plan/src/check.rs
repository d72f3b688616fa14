//! The checks that lint a plan. Each looks at one thing, has one weight, and gives a sentence and its figures.

mod chain;
mod host;
mod load;
#[cfg(test)]
pub(crate) mod tests;
mod trial;

use std::{borrow::Cow, fmt::Write as _};

use serde::Serialize;
use tpsctl_model::plan::RunPlan;

use crate::{Capabilities, Severity};

pub(crate) use self::{
    chain::supply_or_max,
    load::{amount, last_account, near},
};

/// One check: its name, how much it weighs when it speaks, and what holds when it does not.
#[derive(Debug)]
pub struct Check {
    /// Its name, such as `validity_within_two_epochs`.
    pub name: &'static str,
    /// How much it weighs.
    pub severity: Severity,
    /// What is true of a plan that passes, in one sentence.
    pub holds: &'static str,
    look: fn(&RunPlan, &Capabilities) -> Look,
}

/// What a check saw.
#[derive(Debug)]
pub(crate) struct Look {
    is_fine: bool,
    /// What is wrong and what to change; not shown where all is fine.
    sentence: Cow<'static, str>,
    figure: String,
}

/// A look whose figure is told either way.
fn look(is_fine: bool, sentence: impl Into<Cow<'static, str>>, figure: String) -> Look {
    Look { is_fine, sentence: sentence.into(), figure }
}

/// What one check says of one plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The check's name.
    pub check: &'static str,
    /// How much it weighs when it does not hold.
    pub severity: Severity,
    /// Whether the plan passes.
    pub holds: bool,
    /// What holds, or what is wrong and what to change.
    pub sentence: String,
    /// The figures behind it.
    pub figure: String,
}

macro_rules! checks {
    ($($severity:ident $module:ident::$name:ident: $holds:literal;)*) => {
        /// Every check, in the order in which they are told.
        pub static CHECKS: &[Check] = &[$(Check {
            name: stringify!($name),
            severity: Severity::$severity,
            holds: $holds,
            look: $module::$name,
        },)*];
    };
}

checks! {
    Error chain::accounts_in_their_shards: "boundaries and account ids are valid, and each account lies in the shard that it is meant for";
    Error chain::every_shard_has_a_producer: "each shard has a chunk producer";
    Error chain::seats_go_to_the_producers: "there is a seat for each validator, and those of producers go to the producers, who rank first by stake and name";
    Error chain::stake_has_a_seat: "no stake is below the least share of the total that has a seat";
    Error chain::supply_fits: "the total supply fits into the chain's 128 bits, with room for rewards";
    Error chain::validity_within_two_epochs: "transactions stay valid for two epochs at most, or neard does not start";
    Error chain::validity_outlasts_the_hash: "transactions stay valid until the injector has a newer block to name";
    Error chain::skip_after_two_block_times: "a height is skipped no sooner than two block times after the last";
    Note chain::late_chunks_are_seen: "chunks are missed before the wait for them makes blocks too slow for the goal";
    Note chain::two_thirds_can_endorse: "a chunk needs two thirds of its mandates, so a slow validator does not make it miss";
    Warning chain::mandates_go_round: "there is a mandate for each validator, so that all of them check chunks";
    Note chain::kickouts_move_no_shard: "the run ends within one epoch, so no producer can be kicked out or get another shard";
    Warning chain::peers_suffice: "each node can connect to all others: peers are at least as many as chunk producers and the rest";
    Error load::accounts_suffice: "each producer has accounts that send to it, and no account has to pay itself";
    Error load::balance_lasts: "the balance of an account pays for all that it could send";
    Error load::nonces_below_ceiling: "no key needs more nonces between two blocks than the chain accepts for one height";
    Note load::gas_has_no_refund: "the gas price is high enough for transfers without a refund receipt";
    Warning load::pool_holds_the_load: "a pool holds what comes between two slow blocks";
    Warning load::chunk_holds_the_load: "a chunk takes what falls due between two blocks, by bytes and by gas";
    Warning trial::one_miss_passes: "the window has so many slots that the goal's share of misses is one at least";
    Warning trial::drain_outlasts_a_transfer: "what is sent last can be settled before the backlog is judged";
    Warning trial::idle_outlasts_slow_blocks: "an idle network can be proven idle in time, even if its blocks are slow";
    Warning trial::budget_holds_a_search: "the time budget holds the idle trial and both ends of an interval";
    Error host::provider_runs_the_nodes: "the provider can run that many nodes";
    Error host::files_can_be_opened: "each node may open as many files and connections as it needs";
    Note host::nodes_have_cores: "each node has a core of its own";
    Warning host::cores_suffice: "the nodes do not mostly wait for each other's cores";
    Warning host::memory_holds_the_pools: "full pools of all producers fit into memory";
    Warning host::memory_holds_the_accounts: "the accounts that all nodes keep fit into memory";
}

/// Runs every check.
pub(crate) fn check(plan: &RunPlan, capabilities: &Capabilities) -> Vec<Checked> {
    let checked = |check: &Check| {
        let Look { is_fine, sentence, figure } = (check.look)(plan, capabilities);
        let sentence = if is_fine { check.holds.to_owned() } else { sentence.into_owned() };
        Checked { check: check.name, severity: check.severity, holds: is_fine, sentence, figure }
    };
    CHECKS.iter().map(checked).collect()
}

/// The table of `docs/plan-checks.md`.
pub fn checks_markdown() -> String {
    let mut text = "| check | severity | what holds |\n|---|---|---|\n".to_owned();
    for Check { name, severity, holds, .. } in CHECKS {
        // Writing to a string cannot fail.
        let written = writeln!(text, "| `{name}` | {severity} | {holds} |");
        debug_assert!(written.is_ok());
    }
    text.push('\n');
    text
}
