//! A whole run: the stages in order, and teardown whatever happens.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tpsctl_model::{
    event::{RunEvent, Stage},
    result::{Outcome, RunResult},
};
use tpsctl_provider::Network;

use crate::{
    RunDir,
    error::ControllerError,
    events::Events,
    hunt::{self, Hunt},
    network,
    prepare::{self, Prepared, RunRequest},
    summary, teardown,
};

/// A run that came to its end, well or not.
#[derive(Debug)]
pub struct FinishedRun {
    /// Its directory.
    pub dir: RunDir,
    /// What it found.
    pub result: RunResult,
    /// Why the report could not be written; the result is all there is then.
    pub report_fault: Option<ControllerError>,
}

/// Makes the scenario's network, finds its limit, reports, and leaves nothing behind. An error means that there was
/// nothing to report yet: everything after the first process ends in a result, whose outcome says what went wrong.
pub async fn run(
    request: RunRequest,
    events: mpsc::Sender<RunEvent>,
    interrupt: CancellationToken,
) -> Result<FinishedRun, ControllerError> {
    let mut events = Events::new(events);
    teardown::sweep(&request.runs_dir, &mut events).await;
    let mut prepared = prepare::prepare(&request, &mut events).await?;
    let mut network = None;
    let hunt = measure(&request, &mut prepared, &mut network, &mut events, &interrupt).await;
    if interrupt.is_cancelled() {
        events.tell(RunEvent::Interrupted).await;
    }
    let ending = teardown::end(&mut prepared, network, &mut events).await;
    let result = summary::assemble(&request, &prepared, hunt, &ending, events.warnings());
    events.tell(RunEvent::StageStarted { stage: Stage::Report }).await;
    let report_fault = write_report(&prepared.dir, &result).err();
    if report_fault.is_none() {
        let summary = format!("{}", prepared.dir.path("report.html").display());
        events.tell(RunEvent::StageDone { stage: Stage::Report, summary }).await;
    }
    Ok(FinishedRun { dir: prepared.dir, result, report_fault })
}

/// Stages 4 to 8. A failure becomes the outcome: what was measured before it is kept.
async fn measure(
    request: &RunRequest,
    prepared: &mut Prepared,
    network: &mut Option<Network>,
    events: &mut Events,
    interrupt: &CancellationToken,
) -> Hunt {
    let mut hunt = Hunt::default();
    let searched = async {
        let network = network.insert(provision(request, prepared, events, interrupt).await?);
        events.tell(RunEvent::StageStarted { stage: Stage::Search }).await;
        hunt::search(network, prepared, events, interrupt, &mut hunt).await?;
        let summary = format!("{} trials", hunt.trials.len());
        events.tell(RunEvent::StageDone { stage: Stage::Search, summary }).await;
        Ok(())
    };
    match contained(searched).await {
        Ok(()) => {}
        Err(_) if interrupt.is_cancelled() => hunt.outcome = Outcome::Interrupted,
        Err(error) => hunt.outcome = summary::outcome_of(&error, &hunt.trials),
    }
    hunt
}

/// Turns a panic of our own into an error, so that teardown and report still run.
async fn contained<T>(work: impl Future<Output = Result<T, ControllerError>>) -> Result<T, ControllerError> {
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        polled.unwrap_or(Poll::Ready(Err(ControllerError::Panicked)))
    })
    .await
}

/// Stage 4, told.
pub(crate) async fn provision(
    request: &RunRequest,
    prepared: &mut Prepared,
    events: &mut Events,
    interrupt: &CancellationToken,
) -> Result<Network, ControllerError> {
    events.tell(RunEvent::StageStarted { stage: Stage::Provision }).await;
    let network = network::provision(request, prepared, events, interrupt).await?;
    let summary = format!("{} nodes run, blocks advance", network.deployment().nodes.len());
    events.tell(RunEvent::StageDone { stage: Stage::Provision, summary }).await;
    Ok(network)
}

/// Writes `run.json` and `report.html`.
pub fn write_report(dir: &RunDir, result: &RunResult) -> Result<(), ControllerError> {
    RunDir::write_json(&dir.path("run.json"), result)?;
    RunDir::write_text(&dir.path("report.html"), &tpsctl_report::html(result)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_and_not_the_end() {
        let work = async {
            tokio::task::yield_now().await;
            assert!(std::hint::black_box(false), "on purpose");
            Ok(())
        };
        assert!(matches!(contained(work).await, Err(ControllerError::Panicked)));
        assert!(contained(async { Ok(1) }).await.is_ok());
    }
}
