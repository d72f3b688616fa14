//! Work that takes long: a value in, a value out, run wherever the shell likes.

use std::{sync::Arc, time::Duration};

use tpsctl_near::CryptoHash;

use super::{
    prepare::{Produced, Production},
    recheck::Recheck,
    runtime::{ApplyInput, Outcome, apply},
    state::ShardState,
    types::TxKey,
    witness::{Validation, ValidationReport},
};

/// A piece of work. Its result goes back to the node as [`super::Event::Job`].
#[derive(Debug)]
pub struct Job(pub(crate) Work);

/// What a [`Job`] came to.
#[derive(Debug)]
pub struct JobResult(pub(crate) Finished);

#[derive(Debug)]
pub(crate) enum Work {
    Apply { block: CryptoHash, pre: Arc<ShardState>, input: ApplyInput },
    Produce(Box<Production>),
    Validate(Box<Validation>),
    Recheck(Recheck),
}

#[derive(Debug)]
pub(crate) enum Finished {
    Applied {
        block: CryptoHash,
        shard: usize,
        pre: Arc<ShardState>,
        outcome: Option<Box<Outcome>>,
        time: Duration,
    },
    Produced(Box<Produced>),
    Validated {
        chunk: CryptoHash,
        shard: usize,
        report: ValidationReport,
    },
    Rechecked {
        shard: usize,
        refused: Vec<TxKey>,
    },
}

impl Job {
    /// Does the work. `elapsed` tells the time since it began, for the limit on preparing a chunk and for the metrics.
    pub fn run(self, elapsed: &dyn Fn() -> Duration) -> JobResult {
        JobResult(match self.0 {
            Work::Apply { block, pre, input } => {
                let outcome = apply(&pre, &input).ok().map(Box::new);
                Finished::Applied { block, shard: input.shard, pre, outcome, time: elapsed() }
            }
            Work::Produce(production) => Finished::Produced(Box::new(production.run(elapsed))),
            Work::Validate(validation) => {
                let report = validation.run(elapsed);
                Finished::Validated { chunk: validation.chunk.hash(), shard: validation.shard, report }
            }
            Work::Recheck(recheck) => Finished::Rechecked { shard: recheck.shard, refused: recheck.run() },
        })
    }

    /// What it does, for names of threads and traces.
    pub fn name(&self) -> &'static str {
        match self.0 {
            Work::Apply { .. } => "apply",
            Work::Produce(_) => "produce",
            Work::Validate(_) => "validate",
            Work::Recheck(_) => "recheck",
        }
    }
}
