//! What can go wrong between a plan and a running network, and back.

use std::{io, path::PathBuf, time::Duration};

use tpsctl_model::{NodeName, observation::ExitKind};

/// A provider's failure. `Display` names the act and its object; [`ProviderError::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// There is no ledger in the directory.
    #[error("find a run in `{directory}`: it has no ledger.json", directory = directory.display())]
    NoRun {
        /// The directory that was named.
        directory: PathBuf,
    },
    /// A file could not be written durably; what it held before is still there.
    #[error("write `{path}`", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file could not be read.
    #[error("read `{path}`", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The ledger is no ledger: torn, edited or of another version.
    #[error("understand the ledger `{path}`", path = path.display())]
    LedgerGarbled {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// The run directory is a copy of another: its ledger speaks of the other's processes.
    #[error(
        "tear down `{copy}`: it is a copy of `{original}`, whose processes its ledger names",
        copy = copy.display(), original = original.display()
    )]
    CopiedRun {
        /// The directory that was named.
        copy: PathBuf,
        /// The one that made the ledger.
        original: PathBuf,
    },
    /// A line of the journal in front of the last is no event.
    #[error("understand line {line} of `{path}`", path = path.display())]
    JournalGarbled {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// An entry was asked for that the ledger does not have.
    #[error("find entry {id} in the ledger")]
    UnknownEntry {
        /// Its id.
        id: u64,
    },
    /// The facts of processes could not be read from `/proc`.
    #[error("look at processes in /proc")]
    Processes {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No free ports on the loopback interface.
    #[error("reserve {ports} free ports on 127.0.0.1")]
    Ports {
        /// How many were wanted.
        ports: usize,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The node program is not there or may not be executed.
    #[error("run the node program `{program}`", program = program.display())]
    Program {
        /// Its path.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// neard will not start: it raises its limit of open files to this, and may not.
    #[error("start neard: it needs {needed} open files and the hard limit is {limit}")]
    FileLimit {
        /// What neard sets.
        needed: u64,
        /// The hard limit here.
        limit: u64,
    },
    /// A file of a node's home could not be made.
    #[error("write the home of {node}")]
    Home {
        /// The node.
        node: NodeName,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The plan does not give a node what its home needs.
    #[error("make the files of {node}'s home")]
    Files {
        /// The node.
        node: NodeName,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A node's process could not be started.
    #[error("start {node} with `{program}`", program = program.display())]
    Spawn {
        /// The node.
        node: NodeName,
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A node ended before the network was ready.
    #[error("keep {node} running until the network is ready: it ended with {exit}{tail}", tail = quoted(log_tail))]
    NodeDied {
        /// The node.
        node: NodeName,
        /// How.
        exit: ExitKind,
        /// Where its output is.
        log: PathBuf,
        /// The last lines of it.
        log_tail: String,
    },
    /// The network was not ready in time.
    #[error("see the network ready within {} s: {reason}", after.as_secs_f64())]
    NotReady {
        /// How long was waited.
        after: Duration,
        /// The probe's last answer.
        reason: String,
    },
    /// The run was cancelled while the network was being made; what had been started was ended.
    #[error("make the network: interrupted")]
    Cancelled,
    /// A node's end could not be waited for.
    #[error("wait for the end of {node}")]
    Wait {
        /// The node.
        node: NodeName,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A node lives on after SIGKILL.
    #[error("end {node} (process {pid}): it is still there after SIGKILL")]
    CannotEnd {
        /// The node.
        node: NodeName,
        /// Its process.
        pid: u32,
    },
    /// The network has no node of this name.
    #[error("find a node named {node}")]
    UnknownNode {
        /// The name.
        node: NodeName,
    },
    /// A node that still runs was to be started again.
    #[error("start {node} again: process {pid} still runs")]
    StillRunning {
        /// The node.
        node: NodeName,
        /// Its process.
        pid: u32,
    },
}

/// Exit code of the program when a provider or a node failed.
pub const EXIT_PROVIDER: u8 = 6;
/// Exit code of the program when it was interrupted.
pub const EXIT_INTERRUPTED: u8 = 130;

impl ProviderError {
    /// The exit code that this failure ends the program with: [`EXIT_PROVIDER`], or [`EXIT_INTERRUPTED`].
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Cancelled => EXIT_INTERRUPTED,
            _ => EXIT_PROVIDER,
        }
    }

    /// What the user can do, as a sentence without its full stop. None where the cause says it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoRun { .. } => Some("name a directory below runs/".to_owned()),
            Self::Write { source, .. } | Self::Home { source, .. }
                if source.kind() == io::ErrorKind::StorageFull =>
            {
                Some("free space on the disk of the run directory; nothing was started without a record".to_owned())
            }
            Self::LedgerGarbled { .. } => Some(
                "`tpsctl down` on this run still ends every process that carries its marker; then remove the directory"
                    .to_owned(),
            ),
            Self::CopiedRun { original, .. } => Some(format!("tear down `{}` instead", original.display())),
            Self::Ports { .. } => Some("see `sysctl net.ipv4.ip_local_port_range` and `ulimit -n`".to_owned()),
            Self::Program { .. } => Some("check node.binary and its execute permission".to_owned()),
            Self::FileLimit { needed, .. } => Some(format!("run `ulimit -Hn {needed}` as root first")),
            Self::NodeDied { log, .. } => Some(format!("read `{}`", log.display())),
            Self::NotReady { .. } => {
                Some("read the nodes' logs, or raise node.ready_timeout on a slow host".to_owned())
            }
            Self::CannotEnd { pid, .. } => {
                Some(format!("see /proc/{pid}/stack; a process in state D ends when its I/O does"))
            }
            _ => None,
        }
    }

    /// Whether a node ended because another process had its port.
    pub(crate) fn is_port_taken(&self) -> bool {
        let Self::NodeDied { log_tail, .. } = self else { return false };
        let text = log_tail.to_lowercase();
        ["address already in use", "addrinuse", "os error 98"].iter().any(|sign| text.contains(sign))
    }
}

/// The tail of a log below its error, or nothing.
fn quoted(log_tail: &str) -> String {
    if log_tail.is_empty() {
        return " and wrote nothing".to_owned();
    }
    format!(
        "; its last lines:\n{}",
        log_tail.lines().map(|line| format!("  | {line}")).collect::<Vec<_>>().join("\n")
    )
}
