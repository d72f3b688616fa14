//! One node's process: started apart from the terminal, watched, stopped with a deadline.

use std::{
    ffi::OsString,
    io::{self, Read, Seek, SeekFrom},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    pin::pin,
    process::{ExitStatus, Stdio},
    task::{Context, Poll},
    time::Duration,
};

use fs_err as fs;
use rustix::process::Signal;
use tokio::{
    process::{Child, Command},
    time::{Instant, timeout_at},
};
use tpsctl_model::{NodeName, observation::ExitKind};

use crate::{
    ProcessIdentity, ProviderError,
    identity::{MARKER_NODE, MARKER_RUN},
};

/// After SIGKILL the kernel ends a process at once, unless it hangs in the kernel itself: then this is enough waiting.
pub(crate) const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// The last part of a log in which its last lines are looked for.
const TAIL_BYTES_MAX: u64 = 64 * 1024;

/// How a node is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCommand {
    /// The node.
    pub node: NodeName,
    /// Its program.
    pub program: PathBuf,
    /// The program's arguments.
    pub arguments: Vec<OsString>,
    /// Scheduling priority, 0 to 19.
    pub nice: u8,
    /// The run that it belongs to, as a canonical path: its marker.
    pub run_directory: PathBuf,
    /// Where its output is appended.
    pub log: PathBuf,
}

/// How a node's process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEnded {
    /// The node.
    pub node: NodeName,
    /// The process that it was.
    pub pid: u32,
    /// How it ended.
    pub exit: ExitKind,
    /// Whether we asked for it. If not, the node failed or someone else ended it.
    pub is_asked_for: bool,
}

/// A node's process that we started. Dropping the handle does not end the process: a network may be left running.
#[derive(Debug)]
pub struct NodeHandle {
    command: NodeCommand,
    process: ProcessIdentity,
    child: Child,
    log_start: u64,
    is_asked_to_end: bool,
    exit: Option<ExitKind>,
}

impl NodeHandle {
    /// Starts a node in a process group of its own, so that the terminal's Ctrl-C does not reach it, with nothing to read
    /// and with its output appended to its log. Second is a warning when its priority could not be set.
    pub(crate) fn spawn(command: NodeCommand) -> Result<(Self, Option<String>), ProviderError> {
        let fault = |source| ProviderError::Spawn {
            node: command.node.clone(),
            program: command.program.clone(),
            source,
        };
        let (log, log_start) = open_log(&command.log).map_err(fault)?;
        let (mut child, warning) = spawn_nicely(&command, &log).map_err(fault)?;
        // The child is not reaped yet, so its pid is its own, even if it has already ended.
        let pid = child.id().unwrap_or_default();
        match ProcessIdentity::of(pid) {
            Ok(process) => {
                let (is_asked_to_end, exit) = (false, None);
                Ok((Self { command, process, child, log_start, is_asked_to_end, exit }, warning))
            }
            Err(error) => {
                // Without its start time it cannot be told from a later process: better none at all.
                child.start_kill().map_err(fault)?;
                Err(fault(error))
            }
        }
    }

    /// The node.
    pub fn node(&self) -> &NodeName {
        &self.command.node
    }

    /// How it was started.
    pub fn command(&self) -> &NodeCommand {
        &self.command
    }

    /// Its process.
    pub fn process(&self) -> &ProcessIdentity {
        &self.process
    }

    /// How it ended, if that has been seen by [`Self::exited`] or [`Self::poll_exited`].
    pub fn exit(&self) -> Option<ExitKind> {
        self.exit
    }

    /// Waits until the process has ended, and reaps it. Nothing is lost when this is dropped; it answers the same again.
    pub async fn exited(&mut self) -> Result<NodeEnded, ProviderError> {
        std::future::poll_fn(|context| self.poll_exited(context)).await
    }

    /// [`Self::exited`] for those who wait for several at once.
    pub fn poll_exited(&mut self, context: &mut Context<'_>) -> Poll<Result<NodeEnded, ProviderError>> {
        let exit = match self.exit {
            Some(exit) => exit,
            None => match pin!(self.child.wait()).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(status)) => exit_kind(status),
                Poll::Ready(Err(source)) => {
                    return Poll::Ready(Err(ProviderError::Wait { node: self.command.node.clone(), source }));
                }
            },
        };
        self.exit = Some(exit);
        Poll::Ready(Ok(NodeEnded {
            node: self.command.node.clone(),
            pid: self.process.pid,
            exit,
            is_asked_for: self.is_asked_to_end,
        }))
    }

    /// Ends the process: SIGINT, and SIGKILL if it is still there after `grace`.
    pub async fn stop(&mut self, grace: Duration) -> Result<NodeEnded, ProviderError> {
        self.interrupt()?;
        self.ended_by(Instant::now() + grace).await
    }

    /// Sends SIGINT, unless the process has ended.
    pub(crate) fn interrupt(&mut self) -> Result<(), ProviderError> {
        self.send(Signal::INT)
    }

    /// Waits until `deadline`, then sends SIGKILL and waits for that.
    pub(crate) async fn ended_by(&mut self, deadline: Instant) -> Result<NodeEnded, ProviderError> {
        if let Ok(ended) = timeout_at(deadline, self.exited()).await {
            return ended;
        }
        self.send(Signal::KILL)?;
        match timeout_at(Instant::now() + KILL_TIMEOUT, self.exited()).await {
            Ok(ended) => ended,
            Err(_) => {
                Err(ProviderError::CannotEnd { node: self.command.node.clone(), pid: self.process.pid })
            }
        }
    }

    /// The last `lines` lines that this process wrote, without those of earlier ones in the same log; empty if the log
    /// cannot be read, for it is only ever asked for to explain something else.
    pub fn log_tail(&self, lines: usize) -> String {
        log_tail(&self.command.log, self.log_start, lines).unwrap_or_default()
    }

    fn send(&mut self, signal: Signal) -> Result<(), ProviderError> {
        if self.exit.is_some() {
            return Ok(());
        }
        match self.process.signal(signal) {
            Ok(is_sent) => {
                // One that was already gone when we asked ended by itself.
                self.is_asked_to_end |= is_sent;
                Ok(())
            }
            Err(source) => Err(ProviderError::Wait { node: self.command.node.clone(), source }),
        }
    }
}

/// Starts the command under `nice`, which then becomes the program, so that the pid stays; without it where it is
/// missing.
fn spawn_nicely(command: &NodeCommand, log: &fs::File) -> io::Result<(Child, Option<String>)> {
    if command.nice == 0 {
        return Ok((spawn_as(Command::new(&command.program), command, log)?, None));
    }
    let mut nice = Command::new("nice");
    nice.arg("-n").arg(command.nice.to_string()).arg(&command.program);
    match spawn_as(nice, command, log) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            let child = spawn_as(Command::new(&command.program), command, log)?;
            let node = &command.node;
            let warning = format!(
                "the program `nice` cannot be run ({error}): {node} runs at normal priority and may starve the load generator"
            );
            Ok((child, Some(warning)))
        }
        other => Ok((other?, None)),
    }
}

fn spawn_as(mut start: Command, command: &NodeCommand, log: &fs::File) -> io::Result<Child> {
    start
        .args(&command.arguments)
        .env(MARKER_RUN, &command.run_directory)
        .env(MARKER_NODE, &command.node.0)
        .process_group(0)
        .kill_on_drop(false)
        .stdin(Stdio::null())
        .stdout(log.file().try_clone()?)
        .stderr(log.file().try_clone()?)
        .spawn()
}

fn open_log(path: &Path) -> io::Result<(fs::File, u64)> {
    let log = fs::OpenOptions::new().create(true).append(true).open(path)?;
    let start = log.metadata()?.len();
    Ok((log, start))
}

fn log_tail(path: &Path, log_start: u64, lines: usize) -> io::Result<String> {
    let mut log = fs::File::open(path)?;
    let from = log.metadata()?.len().saturating_sub(TAIL_BYTES_MAX).max(log_start);
    log.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    log.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<_> = text.lines().collect();
    Ok(all[all.len().saturating_sub(lines)..].join("\n"))
}

/// A process that was waited for has ended with a code or by a signal, nothing else (wait(2)).
fn exit_kind(status: ExitStatus) -> ExitKind {
    match status.signal() {
        Some(signal) => ExitKind::Signal(signal),
        None => ExitKind::Code(status.code().unwrap_or_default()),
    }
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
