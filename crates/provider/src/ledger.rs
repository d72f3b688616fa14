//! `ledger.json`: everything a run created outside its own memory, written down before it was created.
//!
//! The order is always [`Ledger::intend`], then the effect, then [`Ledger::record_running`], then, once it is gone,
//! [`Ledger::record_ended`]. Each call has made its change durable when it returns, and has changed nothing, neither in
//! memory nor on disk, when it fails.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};
use tpsctl_model::{NodeName, observation::ExitKind};

use crate::{ProcessIdentity, ProviderError, durable, hold::hold};

/// The ledger's name in a run directory.
pub const LEDGER_FILE: &str = "ledger.json";

/// The version of the ledger's format. A file of another version is not understood, rather than understood wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LedgerSchema {
    /// The first.
    #[serde(rename = "tpsctl.ledger/1")]
    V1,
}

/// Who made the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerHeader {
    /// The run's id.
    pub run_id: String,
    /// The scenario's name.
    pub scenario: String,
    /// The canonical path of the run directory when the run was made: what its processes carry as marker.
    pub run_directory: PathBuf,
    /// The process that drives the run.
    pub controller: ProcessIdentity,
    /// When the run was made, milliseconds since the Unix epoch.
    pub created_unix_ms: u64,
    /// The network was left running on purpose (`tpsctl up`): [`crate::sweep`] passes it by.
    pub is_kept: bool,
}

/// What kind of thing an entry speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A node's process on this host.
    NodeProcess,
}

/// How far an entry's thing has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EntryState {
    /// About to be created: it may or may not exist.
    Intended,
    /// It was created and is this process.
    Running {
        /// The process.
        process: ProcessIdentity,
        /// When that was recorded, milliseconds since the Unix epoch.
        recorded_unix_ms: u64,
    },
    /// It is gone.
    Ended {
        /// The process that it was; none if it never came to be or was found by its marker only.
        process: Option<ProcessIdentity>,
        /// How it ended, if we were there to see.
        exit: Option<ExitKind>,
        /// When that was recorded, milliseconds since the Unix epoch.
        recorded_unix_ms: u64,
    },
}

/// A node's process that is about to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeIntent {
    /// The node.
    pub node: NodeName,
    /// Its home directory.
    pub home: PathBuf,
    /// Where it will listen for peers.
    pub p2p: SocketAddr,
    /// Where it will answer JSON-RPC.
    pub rpc: SocketAddr,
}

/// One thing that was created or is about to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerEntry {
    /// Unique in this ledger; in the order of creation.
    pub id: u64,
    /// What it is.
    pub kind: EntryKind,
    /// The node that it belongs to.
    pub node: NodeName,
    /// Its home directory.
    pub home: PathBuf,
    /// Where it listens for peers.
    pub p2p: SocketAddr,
    /// Where it answers JSON-RPC.
    pub rpc: SocketAddr,
    /// When it was intended, milliseconds since the Unix epoch.
    pub intended_unix_ms: u64,
    /// How far it has come.
    pub state: EntryState,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    schema: LedgerSchema,
    header: LedgerHeader,
    entries: Vec<LedgerEntry>,
}

/// A run's ledger, in memory and on disk alike.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    contents: Contents,
    /// By whoever made the run, as long as it may start processes.
    _held: Option<fs::File>,
}

impl LedgerHeader {
    /// The header of a run that this process drives. `run_directory` must exist.
    pub fn of_this_process(
        run_directory: &Path,
        run_id: &str,
        scenario: &str,
        created_unix_ms: u64,
    ) -> Result<Self, ProviderError> {
        Ok(Self {
            run_id: run_id.to_owned(),
            scenario: scenario.to_owned(),
            run_directory: canonical(run_directory)?,
            controller: ProcessIdentity::current().map_err(|source| ProviderError::Processes { source })?,
            created_unix_ms,
            is_kept: false,
        })
    }
}

impl LedgerEntry {
    /// The process while it may still run; none for what has ended, and for what is only known by its marker.
    pub fn process(&self) -> Option<&ProcessIdentity> {
        match &self.state {
            EntryState::Running { process, .. } => Some(process),
            EntryState::Intended | EntryState::Ended { .. } => None,
        }
    }

    /// Whether it is recorded as gone.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, EntryState::Ended { .. })
    }
}

impl Ledger {
    /// Starts the ledger of a new run. Fails if the directory has one already: a run is made once.
    pub fn create(run_directory: &Path, header: LedgerHeader) -> Result<Self, ProviderError> {
        let path = canonical(run_directory)?.join(LEDGER_FILE);
        if path.exists() {
            let source =
                io::Error::new(io::ErrorKind::AlreadyExists, "a run was already made in this directory");
            return Err(ProviderError::Write { path, source });
        }
        let held = hold(run_directory);
        let contents = Contents { schema: LedgerSchema::V1, header, entries: Vec::new() };
        save(&path, &contents)?;
        Ok(Self { path, contents, _held: held })
    }

    /// Reads the ledger of a run.
    pub fn open(run_directory: &Path) -> Result<Self, ProviderError> {
        let path = run_directory.join(LEDGER_FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ProviderError::NoRun { directory: run_directory.to_owned() });
            }
            Err(source) => return Err(ProviderError::Read { path, source }),
        };
        match serde_json::from_slice(&bytes) {
            Ok(contents) => Ok(Self { path, contents, _held: None }),
            Err(source) => Err(ProviderError::LedgerGarbled { path, source }),
        }
    }

    /// Who made the run.
    pub fn header(&self) -> &LedgerHeader {
        &self.contents.header
    }

    /// Everything that was created or intended, in that order.
    pub fn entries(&self) -> &[LedgerEntry] {
        &self.contents.entries
    }

    /// Entries whose process still runs, or may: those that are only intended need a look at the markers.
    pub fn open_entries(&self) -> impl Iterator<Item = &LedgerEntry> {
        self.contents.entries.iter().filter(|entry| !entry.has_ended())
    }

    /// Writes down that a node's process is about to be started; its id.
    pub fn intend(&mut self, intent: NodeIntent) -> Result<u64, ProviderError> {
        let id = self.contents.entries.last().map_or(1, |last| last.id + 1);
        let NodeIntent { node, home, p2p, rpc } = intent;
        let intended_unix_ms = crate::unix_ms();
        let (kind, state) = (EntryKind::NodeProcess, EntryState::Intended);
        let entry = LedgerEntry { id, kind, node, home, p2p, rpc, intended_unix_ms, state };
        self.change(|contents| {
            contents.entries.push(entry);
            Ok(id)
        })
    }

    /// Writes down which process entry `id` became.
    pub fn record_running(&mut self, id: u64, process: ProcessIdentity) -> Result<(), ProviderError> {
        let recorded_unix_ms = crate::unix_ms();
        self.change(|contents| {
            entry_of(contents, id)?.state = EntryState::Running { process, recorded_unix_ms };
            Ok(())
        })
    }

    /// Writes down that the things of these entries are gone, and how if that was seen. Those that have ended stay as
    /// they are.
    pub fn record_ended(&mut self, ended: &[(u64, Option<ExitKind>)]) -> Result<(), ProviderError> {
        let recorded_unix_ms = crate::unix_ms();
        self.change(|contents| {
            for (id, exit) in ended {
                let entry = entry_of(contents, *id)?;
                if !entry.has_ended() {
                    let process = entry.process().cloned();
                    entry.state = EntryState::Ended { process, exit: *exit, recorded_unix_ms };
                }
            }
            Ok(())
        })
    }

    /// Writes down that the network is left running on purpose.
    pub fn keep(&mut self) -> Result<(), ProviderError> {
        self.change(|contents| {
            contents.header.is_kept = true;
            Ok(())
        })
    }

    /// Applies `change` to a copy, makes the copy durable, and only then takes it over.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Contents) -> Result<T, ProviderError>,
    ) -> Result<T, ProviderError> {
        let mut contents = self.contents.clone();
        let value = change(&mut contents)?;
        if contents != self.contents {
            save(&self.path, &contents)?;
            self.contents = contents;
        }
        Ok(value)
    }
}

/// The directory's canonical path; it must exist.
pub(crate) fn canonical(directory: &Path) -> Result<PathBuf, ProviderError> {
    fs::canonicalize(directory).map_err(|source| ProviderError::Read { path: directory.to_owned(), source })
}

fn entry_of(contents: &mut Contents, id: u64) -> Result<&mut LedgerEntry, ProviderError> {
    contents.entries.iter_mut().find(|entry| entry.id == id).ok_or(ProviderError::UnknownEntry { id })
}

fn save(path: &Path, contents: &Contents) -> Result<(), ProviderError> {
    serde_json::to_vec_pretty(contents)
        .map_err(io::Error::from)
        .and_then(|bytes| durable::replace(path, &bytes))
        .map_err(|source| ProviderError::Write { path: path.to_owned(), source })
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
