//! One module a command; each returns its exit code.

pub(crate) mod inject;
pub(crate) mod localnode;
pub(crate) mod network;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod scenario;

use std::{future::Future, path::Path, process::ExitCode};

use anyhow::Context;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use tokio::sync::mpsc;
use tpsctl_controller::{ControllerError, RunDir};
use tpsctl_model::event::RunEvent;
use tracing_subscriber::EnvFilter;

use crate::{
    cli::Color,
    exit::{self, Failure},
    render::{Renderer, SILENCE_MAX},
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
    let arguments: Vec<String> =
        std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    if let Some(tip) = key_as_flag(error, &arguments) {
        crate::output::talk(&tip);
    }
    ExitCode::from(code)
}

/// The tip for who types a scenario's key as a flag, such as `--shards 2`.
fn key_as_flag(error: &clap::Error, arguments: &[String]) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument
        || !arguments.iter().any(|own| own == "scenario" || own == "up")
    {
        return None;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = flag.split('=').next()?;
    let name = flag.strip_prefix("--")?.replace('-', "_");
    let key = tpsctl_scenario::keys::KEYS.iter().find(|key| key.name == name)?;
    let joined = arguments.iter().find_map(|own| own.strip_prefix(flag)?.strip_prefix('='));
    let next = || arguments.iter().skip_while(|own| *own != flag).nth(1).map(String::as_str);
    let value = joined.or_else(next).filter(|value| !value.starts_with('-')).unwrap_or("VALUE");
    Some(format!("  tip: keys are set with --set {}={value}", key.path))
}

/// The exit code of a controller's error.
fn failure(error: ControllerError) -> Failure {
    let code = match error.category() {
        tpsctl_controller::Category::BadInput => exit::BAD_INPUT,
        tpsctl_controller::Category::Ours => exit::INVALID,
        tpsctl_controller::Category::Provider => exit::PROVIDER_FAILED,
        tpsctl_controller::Category::Interrupted => exit::INTERRUPTED,
    };
    Failure { is_act: true, ..Failure::new(code, error) }
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

/// How driven work ended.
pub(crate) enum Driven<T> {
    /// By itself.
    Done(T),
    /// The second Ctrl-C ended the waiting; the run's directory, if it had one already.
    Abandoned(Option<String>),
}

/// Drives `work` with signals heard and events rendered. Rendering has a thread of its own: a terminal that is stopped
/// holds up nothing else.
pub(crate) fn drive<T, F>(
    color: Color,
    quiet: bool,
    work: impl FnOnce(mpsc::Sender<RunEvent>, Interrupts) -> F,
) -> Result<Driven<T>, Failure>
where
    F: Future<Output = T>,
{
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let runtime = runtime(2)?;
    let interrupts = Interrupts::new();
    let (sender, mut receiver) = mpsc::channel(EVENTS_WAITING_MAX);
    let handle = runtime.handle().clone();
    let renderer = std::thread::spawn(move || {
        let mut renderer = Renderer::new(color, quiet);
        let mut directory = None;
        loop {
            let next = handle.block_on(async { tokio::time::timeout(SILENCE_MAX, receiver.recv()).await });
            match next {
                Ok(None) => break,
                Ok(Some(event)) => {
                    if let RunEvent::RunStarted { directory: named, .. } = &event {
                        directory = Some(named.clone());
                    }
                    renderer.event(&event);
                }
                Err(_) => {}
            }
            renderer.look();
        }
        renderer.finish();
        directory
    });
    let work = work(sender, interrupts.clone());
    let done = runtime.block_on(async move {
        let listen = interrupts.listen();
        tokio::pin!(work, listen);
        let mut listening = true;
        loop {
            tokio::select! {
                biased;
                () = interrupts.second.cancelled() => break None,
                heard = &mut listen, if listening => {
                    listening = false;
                    if let Err(error) = heard {
                        crate::output::talk(&format!("warning: Ctrl-C will not be heard: {error}"));
                    }
                }
                done = &mut work => break Some(done),
            }
        }
    });
    // The work is gone, and its sender with it: the renderer has come to its end or will at once.
    let directory = renderer.join().unwrap_or_default();
    Ok(done.map_or(Driven::Abandoned(directory), Driven::Done))
}

/// After the second Ctrl-C: what the run's ledger still holds, and how to end it.
pub(crate) fn left_behind(directory: Option<&str>) -> u8 {
    let Some(Ok(dir)) = directory.map(|dir| RunDir::open(Path::new(dir), Some(dir))) else {
        return exit::INTERRUPTED;
    };
    if let Ok(status) = tpsctl_controller::status(&dir) {
        let alive: Vec<_> =
            status.nodes.iter().filter(|node| node.alive).map(|node| node.name.to_string()).collect();
        crate::output::talk(&format!(
            "stopped waiting; still running: {}. `tpsctl down {}` ends them",
            if alive.is_empty() { "nothing".to_owned() } else { alive.join(", ") },
            dir.root().display()
        ));
    }
    exit::INTERRUPTED
}
