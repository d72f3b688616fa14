//! Nodes as processes of this host.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use fs_err as fs;
use rustix::{
    fs::{Access, access},
    process::{Resource, getrlimit},
};
use tokio::time::{Instant, sleep, sleep_until};
use tpsctl_model::{event::RunEvent, plan::NodeBinary};

use crate::{
    Capabilities, Deployment, Network, NodeEnded, Provider, ProviderError, Provision, ReadyProbe, Task,
    homes, ports,
};

/// neard raises its limit of open files to this, or does not start (seen on neard f0c7706f).
const NEARD_OPEN_FILES: u64 = 65_535;
/// Networks that are tried when ports are taken between their reservation and the node's own bind.
const PORT_ATTEMPTS_MAX: u32 = 3;
/// From one look at readiness to the next.
const READY_POLL: Duration = Duration::from_millis(100);
/// Lines of a log that an error quotes.
const LOG_TAIL_LINES: usize = 20;

/// Makes networks of processes on this host, all listening on 127.0.0.1.
#[derive(Debug, Clone)]
pub struct LocalProvider {
    /// This very program: it runs embedded nodes as `<program> localnode run --home <home>`.
    pub own_program: PathBuf,
    /// The run's directory; homes and logs are below it.
    pub run_directory: PathBuf,
}

impl Provider for LocalProvider {
    fn capabilities(&self) -> Result<Capabilities, ProviderError> {
        let processes = |source| ProviderError::Processes { source };
        let cores = std::thread::available_parallelism().map_err(processes)?.get();
        let memory_bytes = memory_bytes(&fs::read_to_string("/proc/meminfo").map_err(processes)?)
            .ok_or_else(|| {
                processes(io::Error::new(io::ErrorKind::InvalidData, "/proc/meminfo has no MemTotal"))
            })?;
        Ok(Capabilities { cores, memory_bytes })
    }

    fn provision<'a>(&'a self, request: Provision<'a>) -> Task<'a, Result<Network, ProviderError>> {
        Box::pin(self.provision_on_free_ports(request))
    }
}

impl LocalProvider {
    async fn provision_on_free_ports(&self, mut request: Provision<'_>) -> Result<Network, ProviderError> {
        self.check_host(&request.plan.node.binary)?;
        let mut attempt = 1;
        loop {
            match self.provision_once(&mut request).await {
                Err(error) if error.is_port_taken() && attempt < PORT_ATTEMPTS_MAX => {
                    attempt += 1;
                    let text = format!(
                        "a port was taken before its node could bind it: attempt {attempt} on others"
                    );
                    (request.on_event)(RunEvent::Warning { text });
                }
                result => return result,
            }
        }
    }

    /// What would otherwise only be seen in the nodes' logs.
    fn check_host(&self, binary: &NodeBinary) -> Result<(), ProviderError> {
        let program = self.program(binary);
        access(&program, Access::EXEC_OK)
            .map_err(|error| ProviderError::Program { program, source: error.into() })?;
        // None is unlimited.
        match (binary, getrlimit(Resource::Nofile).maximum) {
            (NodeBinary::Neard(_), Some(limit)) if limit < NEARD_OPEN_FILES => {
                Err(ProviderError::FileLimit { needed: NEARD_OPEN_FILES, limit })
            }
            _ => Ok(()),
        }
    }

    /// One network on one set of ports; what it started is ended when it fails.
    async fn provision_once(&self, request: &mut Provision<'_>) -> Result<Network, ProviderError> {
        let mut network = Network::new(&request.plan.chain.chain_id);
        let Err(error) = self.start_all(&mut network, request).await else { return Ok(network) };
        // A failure to end or record is not told here: the ledger still holds what is left, and the first fault is the
        // one to act on.
        network.stop(request.ledger, request.plan.node.stop_timeout_ms.as_duration()).await.ok();
        Err(error)
    }

    async fn start_all(
        &self,
        network: &mut Network,
        request: &mut Provision<'_>,
    ) -> Result<(), ProviderError> {
        let run_directory = crate::ledger::canonical(&self.run_directory)?;
        let ports = ports::reserve(request.plan.nodes.len())?;
        let command_of = |home: &Path| self.command(&request.plan.node.binary, home);
        for node in homes::prepare(&run_directory, request.plan, request.bundle, ports, &command_of)? {
            if request.cancel.is_cancelled() {
                return Err(ProviderError::Cancelled);
            }
            network.add(node, request.ledger, request.on_event).await?;
        }
        wait_ready(network, request).await
    }

    fn program(&self, binary: &NodeBinary) -> PathBuf {
        match binary {
            NodeBinary::Embedded => self.own_program.clone(),
            NodeBinary::Neard(path) => PathBuf::from(path),
        }
    }

    /// The program and arguments that run a node in `home`.
    fn command(&self, binary: &NodeBinary, home: &Path) -> (PathBuf, Vec<OsString>) {
        let home = home.as_os_str();
        let arguments: &[&std::ffi::OsStr] = match binary {
            NodeBinary::Embedded => &["localnode".as_ref(), "run".as_ref(), "--home".as_ref(), home],
            NodeBinary::Neard(_) => &["--home".as_ref(), home, "run".as_ref()],
        };
        (self.program(binary), arguments.iter().map(|argument| (*argument).to_owned()).collect())
    }
}

/// Waits until the probe is content. A node's end, the plan's deadline and cancellation end the waiting.
async fn wait_ready(network: &mut Network, request: &Provision<'_>) -> Result<(), ProviderError> {
    let deployment = network.deployment().clone();
    let after = request.plan.node.ready_timeout_ms.as_duration();
    let deadline = Instant::now() + after;
    let mut reason = "the nodes have not answered yet".to_owned();
    tokio::select! {
        biased;
        () = request.cancel.cancelled() => Err(ProviderError::Cancelled),
        ended = network.next_exit() => Err(node_died(network, request, ended?)),
        () = look_until_ready(request.probe, &deployment, &mut reason) => Ok(()),
        () = sleep_until(deadline) => Err(ProviderError::NotReady { after, reason }),
    }
}

async fn look_until_ready(probe: &dyn ReadyProbe, deployment: &Deployment, reason: &mut String) {
    while let Err(missing) = probe.look(deployment).await {
        *reason = missing;
        sleep(READY_POLL).await;
    }
}

fn node_died(network: &Network, request: &Provision<'_>, ended: NodeEnded) -> ProviderError {
    let NodeEnded { node, exit, .. } = ended;
    (request.on_event)(RunEvent::NodeEnded { node: node.clone(), exit });
    let handle = network.handle(&node);
    let log = handle.map(|handle| handle.command().log.clone()).unwrap_or_default();
    let log_tail = handle.map(|handle| handle.log_tail(LOG_TAIL_LINES)).unwrap_or_default();
    ProviderError::NodeDied { node, exit, log, log_tail }
}

/// `MemTotal` of `/proc/meminfo`, which counts in KiB.
fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
