//! What can go wrong between the stages, and whose fault it is. Messages read after "failed to".

use std::path::PathBuf;

use tpsctl_provider::ProviderError;

/// Whose fault an error is; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// The input cannot be used.
    BadInput,
    /// Our side failed.
    Ours,
    /// The provider or a node failed.
    Provider,
    /// Ctrl-C.
    Interrupted,
}

/// A stage could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The run directory could not be made or opened.
    #[error("use the run directory `{}`", path.display())]
    RunDirectory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is nothing to choose the newest from.
    #[error("find a run below `{}`: start one with `tpsctl up` or `tpsctl scenario run`, or name `--runs-dir`", runs.display())]
    NoRuns {
        /// Where was looked.
        runs: PathBuf,
    },
    /// A directory without a ledger.
    #[error("open the run `{}`: it holds no ledger.json", path.display())]
    NotARun {
        /// Which.
        path: PathBuf,
    },
    /// An artefact could not be written.
    #[error("write `{}`", path.display())]
    WriteArtefact {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// An artefact could not be read.
    #[error("read `{}`", path.display())]
    ReadArtefact {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A value could not be written as JSON.
    #[error("encode `{}`", path.display())]
    Encode {
        /// For which file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// An artefact is not what this version writes.
    #[error("understand `{}`: it is damaged or of another version", path.display())]
    Decode {
        /// Which.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The plan has faults.
    #[error("plan the scenario")]
    Plan {
        /// All of them.
        source: tpsctl_plan::PlanError,
    },
    /// Keys could not be made.
    #[error("make the load accounts' keys")]
    Keys {
        /// Why.
        source: tpsctl_workload::WorkloadError,
    },
    /// Genesis could not be written.
    #[error("write genesis")]
    Genesis {
        /// Why.
        source: tpsctl_genesis::GenesisError,
    },
    /// The index of genesis could not be made.
    #[error("index genesis for the embedded nodes")]
    IndexGenesis {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The network could not be made, kept or ended.
    #[error("make or keep the network")]
    Provider {
        /// Why.
        source: Box<ProviderError>,
    },
    /// The injector failed.
    #[error("inject")]
    Agent {
        /// Why.
        source: Box<tpsctl_agent::AgentError>,
    },
    /// A node did not answer.
    #[error("ask node `{node}`")]
    Ask {
        /// Which.
        node: String,
        /// Why.
        source: Box<tpsctl_rpc::RpcError>,
    },
    /// The run's network is not up.
    #[error("load run `{run}`: its network is not running; `tpsctl up` makes one")]
    NotUp {
        /// Which.
        run: String,
    },
    /// The network was not proven idle in time, so that a next trial would count this one's transfers.
    #[error(
        "see the network idle within {} s: {pending} transfers pending, {quiet_blocks} quiet blocks{}; raise \
         `trial.idle_timeout`, or look at the nodes' logs",
        timeout.as_secs_f64(),
        unread_in_words(unread)
    )]
    NotIdle {
        /// How long was waited.
        timeout: std::time::Duration,
        /// In pools and queues.
        pending: u64,
        /// Last blocks in a row without gas.
        quiet_blocks: u32,
        /// Producers whose metrics could not be read: then the fault is ours.
        unread: Vec<String>,
    },
    /// A node ended while the network recovered from the end of a node.
    #[error("recover the network: {node} ended as well ({exit})")]
    NodeLost {
        /// Which.
        node: String,
        /// How.
        exit: tpsctl_model::observation::ExitKind,
    },
    /// No final block came.
    #[error("see a final block within {} s", timeout.as_secs_f64())]
    NoBlocks {
        /// How long was waited.
        timeout: std::time::Duration,
    },
    /// One of our own threads or tasks failed.
    #[error("finish our own task `{part}`")]
    Task {
        /// Which.
        part: &'static str,
        /// Why.
        source: tokio::task::JoinError,
    },
    /// Our own code panicked; the message stands on stderr.
    #[error("go on: this program panicked, which is a mistake of ours; please report it")]
    Panicked,
    /// The run has not come to a result.
    #[error("find the result of run `{run}`: it has no run.json yet; `tpsctl status {run}` says what it is")]
    NoResult {
        /// Which.
        run: String,
    },
    /// The process that drives the run has not come to its end.
    #[error(
        "report run `{run}`: it is still being measured, and writes its report at its end; `tpsctl status {run}` says \
         what runs"
    )]
    StillMeasured {
        /// Which.
        run: String,
    },
    /// Another process loads or drives the run.
    #[error("load run `{run}`: {why}")]
    Busy {
        /// Which.
        run: String,
        /// By whom.
        why: String,
    },
    /// The follower and the scraper ended by themselves, or no producer answered.
    #[error("go on observing: the observers ended")]
    ObserversEnded,
    /// The report could not be rendered.
    #[error("render the report")]
    Report {
        /// Why.
        source: tpsctl_report::ReportError,
    },
    /// Ctrl-C before there was anything to report.
    #[error("go on: interrupted")]
    Interrupted,
}

impl ControllerError {
    /// Whose fault it is.
    pub fn category(&self) -> Category {
        match self {
            Self::NoRuns { .. }
            | Self::RunDirectory { .. }
            | Self::NotARun { .. }
            | Self::Plan { .. }
            | Self::IndexGenesis { .. }
            | Self::Keys { .. }
            | Self::NotUp { .. }
            | Self::NoResult { .. }
            | Self::StillMeasured { .. }
            | Self::Busy { .. } => Category::BadInput,
            Self::Provider { source } if matches!(**source, ProviderError::Cancelled) => {
                Category::Interrupted
            }
            Self::Provider { source } if matches!(**source, ProviderError::NoRun { .. }) => {
                Category::BadInput
            }
            Self::Provider { .. } | Self::Ask { .. } | Self::NodeLost { .. } | Self::NoBlocks { .. } => {
                Category::Provider
            }
            Self::Agent { source } if source.is_node() => Category::Provider,
            Self::Interrupted => Category::Interrupted,
            _ => Category::Ours,
        }
    }
}

impl ControllerError {
    /// What the user can do, as a sentence without its full stop. None where the message or a cause says it.
    pub fn hint(&self) -> Option<String> {
        if is_disk_full(self) {
            let text = "free space on the disk of the run directory, or name another with `--runs-dir`";
            return Some(text.to_owned());
        }
        match self {
            Self::RunDirectory { .. } => {
                Some("name a directory that can be written to, with `--runs-dir`".to_owned())
            }
            Self::NotARun { .. } => {
                Some("`tpsctl status` names the newest run; runs are below `--runs-dir`".to_owned())
            }
            Self::WriteArtefact { .. } => {
                Some("see to it that the run directory can be written to".to_owned())
            }
            Self::ReadArtefact { path, .. } | Self::Decode { path, .. } => Some(format!(
                "`{}` cannot be made again from the other files: restore it, or run the scenario once more",
                path.file_name().unwrap_or_default().to_string_lossy()
            )),
            Self::Ask { .. } | Self::NoBlocks { .. } | Self::ObserversEnded => Some(
                "`tpsctl status` says which nodes still run; their logs are in the run's `nodes/`".to_owned(),
            ),
            Self::Provider { source } => source.hint(),
            _ => None,
        }
    }
}

/// Whether a cause is a disk without room.
fn is_disk_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(own) = cause {
        let kind = own.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if matches!(kind, Some(std::io::ErrorKind::StorageFull | std::io::ErrorKind::FileTooLarge)) {
            return true;
        }
        cause = own.source();
    }
    false
}

fn unread_in_words(unread: &[String]) -> String {
    if unread.is_empty() { String::new() } else { format!(", no metrics from {}", unread.join(", ")) }
}

impl From<ProviderError> for ControllerError {
    fn from(source: ProviderError) -> Self {
        Self::Provider { source: Box::new(source) }
    }
}

impl From<tpsctl_agent::AgentError> for ControllerError {
    fn from(source: tpsctl_agent::AgentError) -> Self {
        Self::Agent { source: Box::new(source) }
    }
}

impl From<tpsctl_report::ReportError> for ControllerError {
    fn from(source: tpsctl_report::ReportError) -> Self {
        Self::Report { source }
    }
}
