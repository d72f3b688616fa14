//! One module a command; each returns its exit code.

pub(crate) mod inject;
pub(crate) mod localnode;
pub(crate) mod network;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod scenario;

use std::{future::Future, process::ExitCode};

use anyhow::Context;
use tokio::sync::mpsc;
use tpsctl_controller::ControllerError;
use tpsctl_model::event::RunEvent;

use crate::{
    cli::Color,
    exit::{self, Failure},
    render::Renderer,
    signals::Interrupts,
};

/// Events wait here while the terminal is written; live ones are dropped when it is full, since the next supersedes
/// them.
const EVENTS_WAITING_MAX: usize = 256;

/// Help and version are data; a mistyped command is bad input.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let code = if error.use_stderr() { exit::BAD_INPUT } else { exit::DONE };
    let printed = error.print();
    drop(printed);
    ExitCode::from(code)
}

/// The exit code of a controller's error.
fn failure(error: ControllerError) -> Failure {
    let code = match error.category() {
        tpsctl_controller::Category::BadInput => exit::BAD_INPUT,
        tpsctl_controller::Category::Ours => exit::INVALID,
        tpsctl_controller::Category::Provider => exit::PROVIDER_FAILED,
    };
    Failure::new(code, error)
}

/// A runtime for the controller: two workers, since its work is waiting; the injector has threads of its own.
pub(crate) fn runtime(workers: usize) -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .context("cannot start the async runtime")
        .map_err(|error| Failure::new(exit::PROVIDER_FAILED, error))
}

/// Drives `work` with signals heard and events rendered; none when the second Ctrl-C ended the waiting.
pub(crate) fn drive<T, F>(
    color: Color,
    quiet: bool,
    work: impl FnOnce(mpsc::Sender<RunEvent>, Interrupts) -> F,
) -> Result<Option<T>, Failure>
where
    F: Future<Output = T>,
{
    let runtime = runtime(2)?;
    let interrupts = Interrupts::new();
    let (sender, mut receiver) = mpsc::channel(EVENTS_WAITING_MAX);
    let work = work(sender, interrupts.clone());
    runtime.block_on(async {
        let mut renderer = Renderer::new(color, quiet);
        let listen = interrupts.listen();
        tokio::pin!(work, listen);
        let mut listening = true;
        let done = loop {
            tokio::select! {
                biased;
                () = interrupts.second.cancelled() => break None,
                Some(event) = receiver.recv() => renderer.event(&event),
                heard = &mut listen, if listening => {
                    listening = false;
                    if let Err(error) = heard {
                        crate::output::talk(&format!("warning: Ctrl-C will not be heard: {error}"));
                    }
                }
                done = &mut work => break Some(done),
            }
        };
        while let Ok(event) = receiver.try_recv() {
            renderer.event(&event);
        }
        renderer.finish();
        Ok(done)
    })
}

/// After the second Ctrl-C: what the newest run's ledger still holds, and how to end it.
pub(crate) fn left_behind(runs_dir: &std::path::Path) -> u8 {
    let Ok(dir) = tpsctl_controller::RunDir::open(runs_dir, None) else { return exit::INTERRUPTED };
    if let Ok(status) = tpsctl_controller::status(&dir) {
        let alive: Vec<_> =
            status.nodes.iter().filter(|node| node.alive).map(|node| node.name.to_string()).collect();
        crate::output::talk(&format!(
            "stopped waiting; still running: {}. `tpsctl down {}` ends them",
            if alive.is_empty() { "nothing".to_owned() } else { alive.join(", ") },
            dir.id()
        ));
    }
    exit::INTERRUPTED
}
