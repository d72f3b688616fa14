//! `tpsctl report`: the report again, from the run's directory.

use std::{io::IsTerminal, path::Path};

use tpsctl_controller::RunDir;
use tpsctl_model::result::RunResult;

use crate::{
    cli::{Color, ReportArgs},
    exit::{self, Failure},
    output, render,
};

/// Writes `report.html` again and prints the summary or `run.json`.
pub(crate) fn report(runs_dir: &Path, color: Color, args: &ReportArgs) -> Result<u8, Failure> {
    let dir = RunDir::open(runs_dir, args.run.as_deref()).map_err(super::failure)?;
    let path = dir.path("run.json");
    let result = if path.is_file() { RunDir::read_json(&path) } else { tpsctl_controller::rebuild(&dir) };
    let result: RunResult = result.map_err(super::failure)?;
    tpsctl_controller::write_report(&dir, &result).map_err(super::failure)?;
    if args.json {
        output::json(&result)?;
    } else {
        let colour = render::wants_colour(color, std::io::stdout().is_terminal());
        let directory = dir.root().display().to_string();
        output::data(&tpsctl_report::summary(&result, &directory, colour))?;
    }
    Ok(exit::DONE)
}
