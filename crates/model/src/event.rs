//! What the controller tells whoever listens while a run goes on. The library never prints; the binary renders these.

use serde::{Deserialize, Serialize};

use crate::{NodeName, load::InjectTick, result::TrialRecord};

/// The stages of a run, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Scenario to plan.
    Plan,
    /// Plan to files.
    Genesis,
    /// Processes started, blocks advance.
    Provision,
    /// Trials.
    Search,
    /// The report is written.
    Report,
    /// Everything is ended.
    Teardown,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum RunEvent {
    /// The run has a directory.
    RunStarted {
        /// Its id.
        run_id: String,
        /// Its directory, as one would type it.
        directory: String,
    },
    /// A stage began.
    StageStarted {
        /// Which.
        stage: Stage,
    },
    /// A stage ended well.
    StageDone {
        /// Which.
        stage: Stage,
        /// What it made, in one line.
        summary: String,
    },
    /// A node's process runs.
    NodeStarted {
        /// Which.
        node: NodeName,
        /// Its process.
        pid: u32,
    },
    /// A node ended that the run did not end.
    NodeEnded {
        /// Which.
        node: NodeName,
        /// How.
        exit: crate::observation::ExitKind,
    },
    /// A trial began.
    TrialStarted {
        /// Its number.
        trial: u32,
        /// Its rate per shard.
        rate_per_shard: u64,
        /// How long the load will take, milliseconds.
        load_ms: u64,
        /// Why this rate.
        why: String,
    },
    /// Live figures of a trial.
    Live {
        /// Its number.
        trial: u32,
        /// What the injector did so far.
        inject: InjectTick,
        /// Highest block height seen.
        height: u64,
        /// Transfers settled since the load began.
        settled: u64,
        /// Chunk slots missed since the load began.
        missed_chunk_slots: u64,
        /// `load`, `drain` or `idle`.
        phase: TrialPhase,
    },
    /// A trial ended.
    TrialDone {
        /// Its record.
        record: Box<TrialRecord>,
    },
    /// Look before trusting this run.
    Warning {
        /// In one sentence.
        text: String,
    },
    /// Ctrl-C was seen; the load stops, the network is torn down, the report is still written.
    Interrupted,
}

/// Where in a trial we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialPhase {
    /// Load runs.
    Load,
    /// Waiting for the rest to settle.
    Drain,
}
