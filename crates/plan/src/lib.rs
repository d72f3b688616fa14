//! A scenario and what the provider can do, to a run plan with nothing left to decide.
//!
//! [`plan`] names every node, draws the shard boundaries, gives each producer the shard that the chain's own rule will
//! give it, and then runs its checks: each is named, says one sentence, and shows its figures.

mod check;
mod layout;
mod nodes;
mod render;

use std::fmt;

use serde::Serialize;
use tpsctl_model::plan::{
    AccountsPlan, ChainPlan, Goal, LoadPlan, NetworkPlan, NodeSoftware, PLAN_SCHEMA, RunPlan, SearchPlan,
    TrialPlan,
};
use tpsctl_near::PROTOCOL_VERSION;
use tpsctl_scenario::Scenario;

use crate::{
    check::check,
    layout::{Layout, layout},
    nodes::{NodeCounts, nodes},
};

pub use check::{CHECKS, Check, Checked, checks_markdown};
pub use render::render;

/// What the provider can do, as far as a plan depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The provider's name, for messages.
    pub name: String,
    /// Most nodes that it can run; none if only the host limits it.
    pub nodes_max: Option<u32>,
    /// Processors that all nodes and the injector share; 0 if each node has its own machine.
    pub cores: u32,
    /// Memory that they share, in bytes; 0 if unknown.
    pub memory_bytes: u64,
    /// Files that a process may open; 0 if unknown.
    pub files_max: u64,
    /// To how many a process may raise that; 0 if unknown.
    pub files_hard_max: u64,
}

/// How much a note weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The run cannot work as planned.
    Error,
    /// Look before trusting the run.
    Warning,
    /// Know what the figures will mean.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// What a check finds wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The check's name, such as `validity_within_two_epochs`.
    pub check: &'static str,
    /// How much it weighs.
    pub severity: Severity,
    /// What is wrong and what to change, in one sentence.
    pub sentence: String,
    /// The figures behind it.
    pub figure: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {} ({})", self.severity, self.check, self.sentence, self.figure)
    }
}

/// A plan, and what should be known before trusting it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Planned {
    /// The plan.
    #[serde(flatten)]
    pub plan: RunPlan,
    /// What each check says, in the order of [`CHECKS`].
    pub checks: Vec<Checked>,
    /// The errors and warnings among it, errors first.
    #[serde(skip)]
    pub notes: Vec<Note>,
}

impl Planned {
    /// Why the plan cannot be carried out, if it cannot.
    pub fn refusal(&self) -> Option<PlanError> {
        let has_error = self.notes.iter().any(|note| note.severity == Severity::Error);
        has_error.then(|| PlanError::Checks { notes: self.notes.clone() })
    }
}

/// The scenario cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Some checks found errors; warnings are listed with them.
    #[error("the plan cannot work:\n  {}", .notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  "))]
    Checks {
        /// All notes, errors first.
        notes: Vec<Note>,
    },
}

/// Plans a run.
///
/// # Errors
/// When any check finds an error; all notes are in it.
pub fn plan(scenario: &Scenario, capabilities: &Capabilities) -> Result<Planned, PlanError> {
    let planned = examine(scenario, capabilities);
    match planned.refusal() {
        Some(error) => Err(error),
        None => Ok(planned),
    }
}

/// Plans a run and tells what every check says, also of a plan that cannot be carried out.
pub fn examine(scenario: &Scenario, capabilities: &Capabilities) -> Planned {
    let plan = draft(scenario);
    let checks = check(&plan, capabilities);
    let spoken = checks.iter().filter(|own| !own.holds && own.severity != Severity::Note);
    let mut notes: Vec<_> = spoken
        .map(|own| Note {
            check: own.check,
            severity: own.severity,
            sentence: own.sentence.clone(),
            figure: own.figure.clone(),
        })
        .collect();
    notes.sort_by_key(|note| note.severity);
    Planned { plan, checks, notes }
}

/// How many producers serve the shards; no more than the chain needs.
fn producers(scenario: &Scenario) -> u32 {
    let chain = scenario.chain();
    if chain.shards_per_producer > 1 {
        chain.shards.div_ceil(chain.shards_per_producer)
    } else {
        chain.shards.saturating_mul(chain.producers_per_shard)
    }
}

/// The plan before anything is checked.
fn draft(scenario: &Scenario) -> RunPlan {
    let node = scenario.node();
    let chain = scenario.chain();
    let layout = layout(chain.shards);
    RunPlan {
        schema: PLAN_SCHEMA.to_owned(),
        scenario: scenario.name().to_owned(),
        seed: scenario.seed(),
        provider: scenario.provider(),
        node: NodeSoftware {
            binary: node.binary.clone(),
            nice: node.nice,
            ready_timeout_ms: node.ready_timeout,
            stop_timeout_ms: node.stop_timeout,
        },
        nodes: nodes(
            &layout.shard_ids,
            NodeCounts {
                producers: producers(scenario),
                chunk_validators: chain.chunk_validators,
                rpc: chain.rpc_nodes,
            },
        ),
        network: NetworkPlan { max_peers: Some(scenario.network().max_peers).filter(|most| *most > 0) },
        accounts: AccountsPlan {
            per_shard: chain.accounts_per_shard,
            prefixes: layout.prefixes.clone(),
            balance: chain.account_balance,
            keys: chain.keys,
        },
        chain: chain_plan(scenario, layout),
        load: LoadPlan {
            signing: scenario.load().signing,
            cross_shard: scenario.load().cross_shard,
            amount: scenario.load().amount,
            catch_up_ms: scenario.load().catch_up,
        },
        trial: trial_plan(scenario),
        goal: Goal {
            missed_slots_max: scenario.goal().missed_slots_max,
            block_time_quantile: scenario.goal().block_time_quantile,
            block_time_ratio_max: scenario.goal().block_time_ratio_max,
            settled_min: scenario.goal().settled_min,
        },
        search: SearchPlan {
            start: scenario.search().start,
            growth: scenario.search().growth,
            max: scenario.search().max,
            resolution: scenario.search().resolution,
            confirmations: scenario.search().confirmations,
            time_budget_ms: scenario.search().time_budget,
        },
    }
}

fn chain_plan(scenario: &Scenario, layout: Layout) -> ChainPlan {
    let chain = scenario.chain();
    ChainPlan {
        chain_id: chain.id.as_str().to_owned(),
        protocol_version: PROTOCOL_VERSION,
        boundary_accounts: layout.boundary_accounts,
        shard_ids: layout.shard_ids,
        gas_limit: chain.gas_limit,
        min_gas_price: chain.min_gas_price.0,
        epoch_length_blocks: chain.epoch_length,
        transaction_validity_blocks: chain.transaction_validity,
        mandates_per_shard: chain.mandates_per_shard,
        block_time_min_ms: chain.block_time_min,
        block_time_max_ms: chain.block_time_max,
        block_wait_max_ms: chain.block_wait_max,
        chunk_wait_mult: (chain.chunk_wait_mult.numerator, chain.chunk_wait_mult.denominator),
        pool_size_limit_bytes: chain.pool_size_limit,
        prepare_time_limit_ms: chain.prepare_time_limit,
    }
}

fn trial_plan(scenario: &Scenario) -> TrialPlan {
    let trial = scenario.trial();
    TrialPlan {
        warmup_ms: trial.warmup,
        window_ms: trial.window,
        drain_timeout_ms: trial.drain_timeout,
        idle_timeout_ms: trial.idle_timeout,
        invalid_retries: trial.invalid_retries,
        send_lag_p99_max_ms: trial.send_lag_p99_max,
        unsent_max: trial.unsent_max,
        gap_max_ms: trial.gap_max,
    }
}
