//! Leaving nothing behind, from nothing but a run directory.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use fs_err as fs;
use rustix::process::Signal;
use tokio::time::{Instant, sleep};
use tpsctl_model::NodeName;

use crate::{
    Ledger, ProcessIdentity, ProviderError,
    hold::is_held,
    identity::markers,
    ledger::{LEDGER_FILE, canonical},
    process::KILL_TIMEOUT,
};

/// From one look at the processes to the next.
const POLL: Duration = Duration::from_millis(50);

/// Where the ledger says `intended`, a controller that was killed just now may have forked a process that has neither
/// pid in the ledger nor marker yet. It is waited for as long as it holds the run directory; where that cannot be seen (a
/// file system without locks), that long.
const SETTLE: Duration = Duration::from_millis(500);

/// What a teardown did.
#[derive(Debug, Default)]
pub struct DestroyReport {
    /// Processes that it ended, in order of their node's name.
    pub ended: Vec<EndedProcess>,
    /// Processes that it could not end: not empty means that the run is still there.
    pub left: Vec<LeftProcess>,
    /// Home directories that it removed.
    pub homes_removed: Vec<PathBuf>,
    /// The ledger could not be read or written. Everything that carries the run's marker was ended all the same.
    pub ledger_fault: Option<ProviderError>,
}

/// A process that a teardown ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedProcess {
    /// Its node.
    pub node: NodeName,
    /// Its pid.
    pub pid: u32,
    /// What it took.
    pub by: EndedBy,
}

/// What it took to end a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// SIGINT: it had time to end well.
    Interrupt,
    /// SIGKILL, after SIGINT and its grace.
    Kill,
}

/// A process that a teardown could not end.
#[derive(Debug)]
pub struct LeftProcess {
    /// Its node.
    pub node: NodeName,
    /// Its pid.
    pub pid: u32,
    /// Why it could not be signalled; none if it was and lives on.
    pub fault: Option<io::Error>,
}

/// A run, as far as its processes can be known.
#[derive(Debug)]
struct Run {
    /// Canonical.
    directory: PathBuf,
    /// The directory's name when the processes got their marker: another if it was moved since.
    marker: PathBuf,
    ledger: Option<Ledger>,
    fault: Option<ProviderError>,
}

/// The processes of a run at one look.
#[derive(Debug)]
struct Look {
    alive: BTreeMap<ProcessIdentity, NodeName>,
    is_settled: bool,
}

/// Ends every process of a run and removes the nodes' homes; results and logs stay. Needs neither the provider nor the
/// controller that made it, can be repeated, and never touches a process that is not the run's. A process gets SIGINT, and
/// SIGKILL after `grace`. Where this process itself holds the [`crate::Network`], stop that first: it also reaps.
pub async fn destroy(run_directory: &Path, grace: Duration) -> Result<DestroyReport, ProviderError> {
    let mut run = Run::open(run_directory)?;
    let mut report = DestroyReport::default();
    end_all(&run, grace, &mut report).await?;
    run.remove_homes(&mut report)?;
    if let Err(fault) = run.record(&report) {
        run.fault = Some(fault);
    }
    report.ledger_fault = run.fault;
    Ok(report)
}

/// Asks the process that drives a run to end it (SIGINT, as Ctrl-C does) and waits for its end; after `patience` it gets
/// SIGKILL, or it would go on starting nodes. True if there was one. This very process is never asked.
pub async fn end_controller(run_directory: &Path, patience: Duration) -> Result<bool, ProviderError> {
    let fault = |source| ProviderError::Processes { source };
    let Ok(ledger) = Ledger::open(&canonical(run_directory)?) else { return Ok(false) };
    let controller = &ledger.header().controller;
    if *controller == ProcessIdentity::current().map_err(fault)? {
        return Ok(false);
    }
    let was_alive = controller.signal(Signal::INT).map_err(fault)?;
    let deadline = Instant::now() + patience;
    while was_alive && controller.is_alive().map_err(fault)? {
        if Instant::now() >= deadline {
            controller.signal(Signal::KILL).map_err(fault)?;
        }
        if Instant::now() >= deadline + KILL_TIMEOUT {
            break;
        }
        sleep(POLL).await;
    }
    Ok(was_alive)
}

/// The runs below `runs_directory` that still have processes although their controller is gone, and that were not left
/// running on purpose; sorted. Runs whose ledger cannot be understood are not among them: who drives them is unknown.
pub fn sweep(runs_directory: &Path) -> Result<Vec<PathBuf>, ProviderError> {
    let fault = |source| ProviderError::Read { path: runs_directory.to_owned(), source };
    let mut orphans = Vec::new();
    let entries = match fs::read_dir(runs_directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(orphans),
        Err(source) => return Err(fault(source)),
    };
    for entry in entries {
        let directory = entry.map_err(fault)?.path();
        if !directory.join(LEDGER_FILE).is_file() {
            continue;
        }
        match Run::open(&directory) {
            Ok(run) if run.is_orphaned()? => orphans.push(directory),
            Ok(Run { fault: Some(fault), .. }) | Err(fault) => {
                tracing::warn!(directory = %directory.display(), error = %fault, "passed by a run");
            }
            Ok(_) => {}
        }
    }
    orphans.sort();
    Ok(orphans)
}

impl Run {
    fn open(run_directory: &Path) -> Result<Self, ProviderError> {
        let directory = match canonical(run_directory) {
            Err(ProviderError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Err(ProviderError::NoRun { directory: run_directory.to_owned() });
            }
            other => other?,
        };
        let (ledger, fault) = match Ledger::open(&directory) {
            Ok(ledger) => (Some(ledger), None),
            Err(fault @ ProviderError::LedgerGarbled { .. }) => (None, Some(fault)),
            Err(fault) => return Err(fault),
        };
        let marker = ledger.as_ref().map_or(&directory, |ledger| &ledger.header().run_directory).clone();
        if let Some(ledger) = &ledger
            && marker != directory
            && Ledger::open(&marker).is_ok_and(|other| other.header() == ledger.header())
        {
            return Err(ProviderError::CopiedRun { copy: directory, original: marker });
        }
        Ok(Self { directory, marker, ledger, fault })
    }

    /// The run's processes that are alive now: those of the ledger, and those with its marker whose pid never reached the
    /// ledger, or whom a node started.
    fn look(&self) -> Result<Look, ProviderError> {
        let fault = |source| ProviderError::Processes { source };
        let mut alive = BTreeMap::new();
        for entry in self.ledger.iter().flat_map(Ledger::open_entries) {
            if let Some(process) = entry.process()
                && process.is_alive().map_err(fault)?
            {
                alive.insert(process.clone(), entry.node.clone());
            }
        }
        let markers = markers().map_err(fault)?;
        for marked in markers.marked {
            if marked.run_directory == self.marker || marked.run_directory == self.directory {
                alive.insert(marked.process, marked.node);
            }
        }
        Ok(Look { alive, is_settled: markers.is_settled })
    }

    fn is_orphaned(&self) -> Result<bool, ProviderError> {
        let Some(ledger) = &self.ledger else { return Ok(false) };
        let controller = &ledger.header().controller;
        let is_driven = controller.is_alive().map_err(|source| ProviderError::Processes { source })?;
        Ok(!ledger.header().is_kept && !is_driven && !self.look()?.alive.is_empty())
    }

    /// Whether a process that a dead controller forked has not become a node yet.
    fn is_forking(&self) -> Result<bool, ProviderError> {
        let Some(ledger) = &self.ledger else { return Ok(false) };
        let is_any_intended = ledger.open_entries().any(|entry| entry.process().is_none());
        if !is_any_intended || !is_held(&self.directory) {
            return Ok(false);
        }
        // One that is alive holds it, too, and forks on: nothing to wait for.
        let is_driven = ledger.header().controller.is_alive();
        Ok(!is_driven.map_err(|source| ProviderError::Processes { source })?)
    }

    /// Removes `nodes/*/home`, by the layout and not by what a file says, so that a garbled ledger cannot name another
    /// place. Links are not followed. The home of a process that is left stays.
    fn remove_homes(&self, report: &mut DestroyReport) -> Result<(), ProviderError> {
        let nodes = self.directory.join("nodes");
        if !is_real_directory(&nodes) {
            return Ok(());
        }
        let fault = |source| ProviderError::Read { path: nodes.clone(), source };
        for entry in fs::read_dir(&nodes).map_err(fault)? {
            let node = entry.map_err(fault)?;
            let home = node.path().join("home");
            let is_left = report.left.iter().any(|left| *left.node.0 == *node.file_name());
            if is_left || !is_real_directory(&node.path()) || !is_real_directory(&home) {
                continue;
            }
            match fs::remove_dir_all(&home) {
                Ok(()) => report.homes_removed.push(home),
                // Someone tears down the same run: what counts is that it is gone.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(ProviderError::Write { path: home, source }),
            }
        }
        report.homes_removed.sort();
        Ok(())
    }

    fn record(&mut self, report: &DestroyReport) -> Result<(), ProviderError> {
        let Some(ledger) = &mut self.ledger else { return Ok(()) };
        let ended: Vec<_> = ledger
            .open_entries()
            .filter(|entry| report.left.iter().all(|left| left.node != entry.node))
            .map(|entry| (entry.id, None))
            .collect();
        ledger.record_ended(&ended)
    }
}

/// Looks again after each step: a process may have been started while we looked, by a controller or by a node.
async fn end_all(run: &Run, grace: Duration, report: &mut DestroyReport) -> Result<(), ProviderError> {
    let mut open_entries = run.ledger.iter().flat_map(Ledger::open_entries);
    let is_any_intended = open_entries.any(|entry| entry.process().is_none());
    let settled_from = Instant::now() + if is_any_intended { SETTLE } else { Duration::ZERO };
    let mut ended = BTreeMap::new();
    let mut faults = BTreeMap::new();
    for (signal, by, patience) in
        [(Signal::INT, EndedBy::Interrupt, grace), (Signal::KILL, EndedBy::Kill, KILL_TIMEOUT)]
    {
        let deadline = Instant::now() + patience.max(POLL);
        let mut signalled = BTreeSet::new();
        loop {
            // Asked before looking: what becomes a node in between is seen.
            let is_forking = run.is_forking()?;
            let Look { alive, is_settled } = run.look()?;
            let now = Instant::now();
            let is_done = alive.is_empty() && is_settled && !is_forking && now >= settled_from;
            if is_done || now >= deadline {
                break;
            }
            for (process, node) in alive {
                if !signalled.insert(process.clone()) {
                    continue;
                }
                match process.signal(signal) {
                    Ok(true) => drop(ended.insert(process, (node, by))),
                    // Gone by itself in between.
                    Ok(false) => {}
                    Err(error) => drop(faults.insert(process, error)),
                }
            }
            sleep(POLL).await;
        }
    }
    if run.is_forking()? {
        let directory = run.directory.display();
        tracing::warn!(%directory, "a process of the dead controller still holds the run and may become a node");
    }
    for (process, node) in run.look()?.alive {
        ended.remove(&process);
        let fault = faults.remove(&process);
        report.left.push(LeftProcess { node, pid: process.pid, fault });
    }
    let ended = ended.into_iter().map(|(process, (node, by))| EndedProcess { node, pid: process.pid, by });
    report.ended = ended.collect();
    report.ended.sort_by(|a, b| (&a.node, a.pid).cmp(&(&b.node, b.pid)));
    Ok(())
}

fn is_real_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

#[cfg(test)]
#[path = "teardown_tests.rs"]
mod tests;
