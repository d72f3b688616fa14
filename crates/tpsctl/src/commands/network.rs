//! `tpsctl up`, `down` and `status`.

use std::path::Path;

use tpsctl_controller::{ControllerError, RunDir, StatusReport};
use tpsctl_provider::DestroyReport;

use super::Driven;
use crate::{
    cli::{Color, DownArgs, StatusArgs, UpArgs},
    exit::{self, Failure},
    output,
};

/// Brings the network up and leaves it.
pub(crate) fn up(runs_dir: &Path, color: Color, args: &UpArgs) -> Result<u8, Failure> {
    let request = super::run::request(runs_dir, &args.scenario)?;
    let done = super::drive(color, false, |events, interrupts| {
        tpsctl_controller::up(request, events, interrupts.first)
    })?;
    let result = match done {
        Driven::Done(result) => result,
        Driven::Abandoned(directory) => return Ok(super::left_behind(directory.as_deref())),
    };
    let status = result.map_err(super::failure)?;
    if args.json {
        output::json(&status)?;
    } else {
        output::data(&render_nodes(&status))?;
        output::talk(&format!(
            "left running; load it: tpsctl inject {id} --rate 500tps --duration 30s; end it: tpsctl down {id}",
            id = status.run_id
        ));
    }
    Ok(exit::DONE)
}

/// Ends what ledgers hold.
pub(crate) fn down(runs_dir: &Path, args: &DownArgs) -> Result<u8, Failure> {
    let dirs = if args.all {
        match RunDir::all(runs_dir) {
            Err(ControllerError::NoRuns { .. }) => Vec::new(),
            found => found.map_err(super::failure)?,
        }
    } else {
        vec![RunDir::open(runs_dir, args.run.as_deref()).map_err(super::failure)?]
    };
    let runtime = super::runtime(1)?;
    let mut code = exit::DONE;
    for dir in dirs {
        // A ledger that cannot be read does not keep `down` from ending what carries the run's marker.
        match tpsctl_controller::status(&dir) {
            Ok(status) if args.dry_run => {
                output::data(&format!("would end:\n{}", render_status(&status)))?;
                continue;
            }
            Ok(status) if status.controller_alive => {
                output::talk(&format!("the process that drives {} is asked to end it first", dir.id()));
            }
            Ok(_) => {}
            Err(error) => {
                output::fault(&super::failure(error));
                code = exit::PROVIDER_FAILED;
                if args.dry_run {
                    continue;
                }
            }
        }
        match runtime.block_on(tpsctl_controller::down(&dir)) {
            Ok(report) => code = code.max(say_down(&dir, &report)?),
            Err(error) => {
                output::fault(&super::failure(error));
                code = exit::PROVIDER_FAILED;
            }
        }
    }
    Ok(code)
}

/// What `down` did to one run; the exit code that it is worth.
fn say_down(dir: &RunDir, report: &DestroyReport) -> Result<u8, Failure> {
    output::data(&format!(
        "{}: {} processes ended, {} left; results and logs are in {}\n",
        dir.id(),
        report.ended.len(),
        report.left.len(),
        dir.root().display()
    ))?;
    for left in &report.left {
        output::talk(&format!("left: {} (process {})", left.node, left.pid));
    }
    Ok(if report.left.is_empty() { exit::DONE } else { exit::PROVIDER_FAILED })
}

/// Says what a run is and what of it still runs.
pub(crate) fn status(runs_dir: &Path, args: &StatusArgs) -> Result<u8, Failure> {
    let dir = RunDir::open(runs_dir, args.run.as_deref()).map_err(super::failure)?;
    let status = tpsctl_controller::status(&dir).map_err(super::failure)?;
    if args.json {
        output::json(&status)?;
    } else {
        output::data(&render_status(&status))?;
    }
    Ok(exit::DONE)
}

fn render_status(status: &StatusReport) -> String {
    format!(
        "run {} (scenario {}), {}\n{}",
        status.run_id,
        status.scenario,
        state(status),
        render_nodes(status)
    )
}

/// How a run stands, in words.
fn state(status: &StatusReport) -> String {
    let runs = status.nodes.iter().any(|node| node.alive);
    match (status.is_kept, runs, status.has_result) {
        _ if status.controller_alive => "being measured".to_owned(),
        (true, true, _) => "left running by `tpsctl up`, no process drives it".to_owned(),
        (true, false, _) | (_, false, true) => "ended".to_owned(),
        (false, true, _) => format!("the run was cut off; `tpsctl down {}` ends its nodes", status.run_id),
        (false, false, false) => "the run was cut off; none of its nodes runs".to_owned(),
    }
}

fn render_nodes(status: &StatusReport) -> String {
    let mut text = String::new();
    for node in &status.nodes {
        let process = match node.pid {
            Some(pid) if node.alive => format!("process {pid}"),
            _ => "ended".to_owned(),
        };
        text.push_str(&format!(
            "  {:<10} {:<16} rpc {:<22} p2p {}\n",
            node.name, process, node.rpc, node.p2p
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use tpsctl_controller::NodeStatus;
    use tpsctl_model::NodeName;

    use super::*;

    fn said(is_kept: bool, alive: bool, has_result: bool) -> String {
        let node = NodeStatus {
            name: NodeName("node0".to_owned()),
            pid: Some(4_711),
            alive,
            rpc: "127.0.0.1:1".to_owned(),
            p2p: "127.0.0.1:2".to_owned(),
        };
        let (run_id, scenario) = ("a".to_owned(), "quickstart".to_owned());
        state(&StatusReport {
            run_id,
            scenario,
            controller_alive: false,
            is_kept,
            has_result,
            nodes: vec![node],
        })
    }

    #[test]
    fn a_run_that_was_cut_off_is_not_said_to_be_a_network_that_was_left_on_purpose() {
        assert_eq!(said(true, true, false), "left running by `tpsctl up`, no process drives it");
        assert_eq!(said(false, true, false), "the run was cut off; `tpsctl down a` ends its nodes");
        assert_eq!(said(false, false, false), "the run was cut off; none of its nodes runs");
        assert_eq!(said(false, false, true), "ended");
        assert_eq!(said(true, false, false), "ended");
    }
}
