//! The host that the injector and local nodes run on.

use tpsctl_model::result::HostInfo;
use tpsctl_plan::Capabilities;

/// Processors that this process may use, and the host's memory.
pub(crate) fn host_info() -> HostInfo {
    let cores = std::thread::available_parallelism()
        .map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX));
    HostInfo { cores, memory_bytes: memory_bytes() }
}

/// `MemTotal` of /proc/meminfo, in bytes; 0 where it cannot be read.
fn memory_bytes() -> u64 {
    let text = fs_err::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.map_or(0, |kib: u64| kib * 1024)
}

/// What the local provider can do on this host.
pub fn local_capabilities() -> Capabilities {
    let host = host_info();
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    Capabilities {
        name: "local".to_owned(),
        nodes_max: None,
        cores: host.cores,
        memory_bytes: host.memory_bytes,
        files_max: files.current.unwrap_or(u64::MAX),
        files_hard_max: files.maximum.unwrap_or(u64::MAX),
    }
}
