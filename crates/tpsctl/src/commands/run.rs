//! `tpsctl scenario run`: the whole job.

use std::{io::IsTerminal, path::Path};

use anyhow::{Context, anyhow};
use tpsctl_controller::RunRequest;
use tpsctl_model::result::Outcome;

use super::Driven;
use crate::{
    cli::{Color, RunArgs},
    exit::{self, Failure},
    output, render,
};

/// Runs, prints the summary (or `run.json`) and returns the outcome's exit code.
pub(crate) fn run(runs_dir: &Path, color: Color, args: &RunArgs) -> Result<u8, Failure> {
    let request = request(runs_dir, &args.scenario)?;
    let done = super::drive(color, args.quiet, |events, interrupts| {
        tpsctl_controller::run(request, events, interrupts.first)
    })?;
    let result = match done {
        Driven::Done(result) => result,
        Driven::Abandoned(directory) => return Ok(super::left_behind(directory.as_deref())),
    };
    let finished = result.map_err(super::failure)?;
    if args.json {
        output::data(
            &tpsctl_report::json(&finished.result).map_err(|error| Failure::new(exit::INVALID, error))?,
        )?;
    } else {
        let colour = render::wants_colour(color, std::io::stdout().is_terminal());
        let directory = finished.dir.root().display().to_string();
        output::data(&tpsctl_report::summary(&finished.result, &directory, colour))?;
    }
    if let Outcome::ProviderFailed { why } | Outcome::Invalid { why } = &finished.result.outcome {
        output::talk(&format!("error: {why}"));
    }
    if let Some(fault) = finished.report_fault {
        return Err(super::failure(fault));
    }
    Ok(exit::of_outcome(&finished.result.outcome))
}

/// What the controller needs to make a network of a scenario.
pub(crate) fn request(runs_dir: &Path, scenario: &crate::cli::ScenarioArgs) -> Result<RunRequest, Failure> {
    let scenario = super::scenario::load(scenario)?;
    let program = std::env::current_exe()
        .context("cannot find this program, which is also the embedded node")
        .map_err(|error| Failure::new(exit::PROVIDER_FAILED, error))?;
    let runs_dir = runs_dir.to_owned();
    if runs_dir.is_file() {
        return Err(Failure::input(anyhow!("`{}` is a file, not a directory for runs", runs_dir.display())));
    }
    if runs_dir.to_str().is_none() {
        return Err(Failure::input(anyhow!(
            "`{}` is not UTF-8: name another --runs-dir",
            runs_dir.display()
        )));
    }
    let index_genesis =
        |genesis: &Path| tpsctl_localchain::index_genesis(genesis).map(drop).map_err(Into::into);
    Ok(RunRequest { scenario, runs_dir, program, index_genesis })
}
