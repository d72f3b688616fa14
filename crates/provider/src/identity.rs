//! Which process is meant: a pid alone is not enough, for the kernel gives it to someone else later.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use fs_err as fs;
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};
use serde::{Deserialize, Serialize};
use tpsctl_model::NodeName;

/// Environment variable of every node process: its run's directory, as a canonical path.
pub const MARKER_RUN: &str = "TPSCTL_RUN";
/// Environment variable of every node process: its node's name.
pub const MARKER_NODE: &str = "TPSCTL_NODE";

/// One process, told from every other that has or will have its pid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessIdentity {
    /// Its pid.
    pub pid: u32,
    /// When it was started, clock ticks since boot (field 22 of `/proc/<pid>/stat`).
    pub start_time_ticks: u64,
    /// The host's boot (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
}

/// A process that carries a run's marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MarkedProcess {
    pub(crate) process: ProcessIdentity,
    pub(crate) run_directory: PathBuf,
    pub(crate) node: NodeName,
}

/// One look at the markers of all processes.
#[derive(Debug, Default)]
pub(crate) struct Markers {
    /// The running processes that carry one, of whichever run.
    pub(crate) marked: Vec<MarkedProcess>,
    /// False when a process was just becoming another program (execve): for that moment its environment is empty, and
    /// whether it is marked is only seen at the next look.
    pub(crate) is_settled: bool,
}

/// What `/proc/<pid>/stat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    has_ended: bool,
    /// It has no environment yet, although it is no thread of the kernel.
    is_in_exec: bool,
    start_time_ticks: u64,
}

impl ProcessIdentity {
    /// The process that has `pid` now, also one that has ended and was not reaped yet.
    pub fn of(pid: u32) -> io::Result<Self> {
        let stat =
            stat(pid)?.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no process {pid}")))?;
        Ok(Self { pid, start_time_ticks: stat.start_time_ticks, boot_id: boot_id()? })
    }

    /// This very process.
    pub fn current() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// Whether this process, and no other of its pid, still runs. One that has ended and was not reaped does not.
    pub fn is_alive(&self) -> io::Result<bool> {
        if boot_id()? != self.boot_id {
            return Ok(false);
        }
        Ok(stat(self.pid)?
            .is_some_and(|stat| !stat.has_ended && stat.start_time_ticks == self.start_time_ticks))
    }

    /// Sends `signal` to this process and never to another: the pid is held by a file descriptor while the start time
    /// is compared. False when it does not run any more.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<bool> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(false) };
        let held = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(held) => Some(held),
            Err(Errno::SRCH) => return Ok(false),
            // Kernels before 5.3, and sandboxes: between comparing and sending, the pid could be reused.
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => None,
            Err(error) => return Err(error.into()),
        };
        if !self.is_alive()? {
            return Ok(false);
        }
        let sent = match held {
            Some(held) => pidfd_send_signal(held, signal),
            None => kill_process(pid, signal),
        };
        match sent {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Looks at the markers of all processes. Those of other users cannot be looked into: no node of ours is among them.
pub(crate) fn markers() -> io::Result<Markers> {
    let mut markers = Markers { marked: Vec::new(), is_settled: true };
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if pid == std::process::id() {
            continue;
        }
        // Any of these can end while we look: then it is none that has to be found.
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { continue };
        if environment.is_empty() {
            markers.is_settled &= !stat(pid)?.is_some_and(|stat| stat.is_in_exec);
        }
        let (Some(run), Some(node)) =
            (variable(&environment, MARKER_RUN), variable(&environment, MARKER_NODE))
        else {
            continue;
        };
        let Ok(process) = ProcessIdentity::of(pid) else { continue };
        if process.is_alive()? {
            let node = NodeName(String::from_utf8_lossy(node).into_owned());
            let run_directory = Path::new(OsStr::from_bytes(run)).to_owned();
            markers.marked.push(MarkedProcess { process, run_directory, node });
        }
    }
    Ok(markers)
}

/// The value of `name` among NUL-separated `NAME=value` entries.
fn variable<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut entries = environment.split(|byte| *byte == 0);
    entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn stat(pid: u32) -> io::Result<Option<Stat>> {
    stat_of(pid, fs::read(format!("/proc/{pid}/stat")))
}

/// Of a process that ends between open and read, the kernel says ESRCH, a number that the path added to the error hides.
/// So whoever cannot be read and is no longer there has ended.
fn stat_of(pid: u32, read: io::Result<Vec<u8>>) -> io::Result<Option<Stat>> {
    match read {
        Ok(bytes) => parse_stat(&String::from_utf8_lossy(&bytes)).map(Some).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("`/proc/{pid}/stat` is not as proc(5) says"))
        }),
        Err(_) if !Path::new(&format!("/proc/{pid}")).exists() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The bit in the flags of `/proc/<pid>/stat` that marks a thread of the kernel (PF_KTHREAD, include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// proc(5): `pid (name) state ...`, flags in field 9, the start time in field 22, the end of the environment in field 51
/// (0 until execve has laid it out). The name may itself hold spaces and parentheses.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let has_ended = matches!(field(3)?, "Z" | "X" | "x");
    let flags: u64 = field(9)?.parse().ok()?;
    let is_in_exec = !has_ended && flags & KERNEL_THREAD == 0 && field(51) == Some("0");
    Some(Stat { has_ended, is_in_exec, start_time_ticks: field(22)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// A line of proc(5) with a nasty name and these fields.
    fn line(state: &str, flags: u64, env_end: u64) -> String {
        let middle = "1 0 0 0 0 0 0 0 20 0 1 0 987654";
        let rest = ["7"; 28].join(" ");
        format!("4711 (a) Z (b) {state} 1 4711 4711 0 -1 {flags} {middle} {rest} {env_end} 0\n")
    }

    #[test]
    fn a_process_that_ends_between_open_and_read_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        let (pid, mut bytes) = (child.id(), Vec::new());
        let mut file = fs::File::open(format!("/proc/{pid}/stat")).expect("opened while it runs");
        child.kill().and_then(|()| child.wait()).expect("ended");
        let read = file.read_to_end(&mut bytes).map(|_| bytes);
        assert_eq!(read.as_ref().map_err(io::Error::raw_os_error), Err(None), "the number is hidden");
        assert_eq!(stat_of(pid, read).expect("no error"), None);
        let own = stat_of(std::process::id(), Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(own.expect_err("it is there").kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn stat_of_a_process_with_a_nasty_name() {
        let running = Stat { has_ended: false, is_in_exec: false, start_time_ticks: 987_654 };
        assert_eq!(parse_stat(&line("S", 4_194_304, 140_000)), Some(running));
        assert_eq!(parse_stat(&line("Z", 4_194_304, 0)), Some(Stat { has_ended: true, ..running }));
        assert_eq!(parse_stat(&line("R", 4_194_304, 0)), Some(Stat { is_in_exec: true, ..running }));
        assert_eq!(parse_stat(&line("S", 4_194_304 | KERNEL_THREAD, 0)), Some(running));
        assert_eq!(parse_stat("4711 (x) S 1"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn variables_match_by_their_whole_name() {
        let environment = b"XTPSCTL_RUN=/a\0TPSCTL_RUNS=/b\0TPSCTL_RUN=/c d\0TPSCTL_NODE=\0";
        assert_eq!(variable(environment, MARKER_RUN), Some(&b"/c d"[..]));
        assert_eq!(variable(environment, MARKER_NODE), Some(&b""[..]));
        assert_eq!(variable(b"", MARKER_RUN), None);
    }

    #[test]
    fn this_process_is_alive_and_its_namesakes_are_not() {
        let own = ProcessIdentity::current().expect("proc");
        assert!(own.is_alive().expect("proc"));
        let later = ProcessIdentity { start_time_ticks: own.start_time_ticks + 1, ..own.clone() };
        assert!(!later.is_alive().expect("proc"));
        let other_boot = ProcessIdentity { boot_id: "of last week".to_owned(), ..own.clone() };
        assert!(!other_boot.is_alive().expect("proc"));
        assert!(!later.signal(Signal::KILL).expect("we live on"));
        assert!(!other_boot.signal(Signal::KILL).expect("we live on"));
        let nobody = ProcessIdentity { pid: u32::MAX, ..own };
        assert!(!nobody.is_alive().expect("proc"));
        assert!(!nobody.signal(Signal::KILL).expect("nobody there"));
    }
}
