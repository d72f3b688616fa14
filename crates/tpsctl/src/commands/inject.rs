//! `tpsctl inject`: one stretch of load on a network that `up` left running.

use std::path::Path;

use tpsctl_controller::{InjectRequest, RunDir};
use tpsctl_model::verdict::{InvalidCause, Verdict};

use super::Driven;
use crate::{
    cli::{Color, InjectArgs},
    exit::{self, Failure},
    output,
};

/// Loads, waits for the drain and prints what became of every transfer.
pub(crate) fn inject(runs_dir: &Path, color: Color, args: &InjectArgs) -> Result<u8, Failure> {
    let dir = RunDir::open(runs_dir, Some(&args.run)).map_err(super::failure)?;
    let request = InjectRequest { dir, rate_per_shard: args.rate, duration_ms: args.duration };
    let done = super::drive(color, false, |events, interrupts| {
        tpsctl_controller::inject(request, events, interrupts.first)
    })?;
    let Driven::Done(result) = done else { return Ok(exit::INTERRUPTED) };
    let record = result.map_err(super::failure)?;
    if args.json {
        output::json(&record)?;
    } else {
        output::data(&crate::render::trial_in_words(&record))?;
    }
    Ok(match &record.verdict {
        Verdict::Pass => exit::DONE,
        Verdict::Fail { .. } => exit::GOAL_NOT_MET,
        Verdict::Invalid { causes } if causes.contains(&InvalidCause::Interrupted) => exit::INTERRUPTED,
        Verdict::Invalid { .. } => exit::INVALID,
    })
}
