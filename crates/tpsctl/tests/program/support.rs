//! What the tests of the whole program share: running it, waiting for things, and finding what is left behind.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;
pub(crate) use tpsctl_testports::free_ports;

/// The program under test, in a directory of its own.
pub(crate) struct Bench {
    pub(crate) dir: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("temporary directory") }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tpsctl"));
        command.current_dir(self.dir.path()).args(args).env_remove("NO_COLOR").env_remove("RUST_LOG");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().expect("the program starts")
    }

    /// stdout, stderr and exit code as one text, for snapshots.
    pub(crate) fn transcript(&self, args: &[&str]) -> String {
        let output = self.run(args);
        format!(
            "$ tpsctl {}\nexit code: {}\n--- stdout\n{}--- stderr\n{}",
            args.join(" "),
            output.status.code().unwrap_or(-1),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    }

    /// Starts the program and follows the lines of its stderr.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::of(self.command(args))
    }

    /// The only run below `runs/`.
    pub(crate) fn only_run(&self) -> PathBuf {
        let runs: Vec<_> = fs_err::read_dir(self.dir.path().join("runs"))
            .expect("runs")
            .map(|entry| entry.expect("entry").path())
            .collect();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.into_iter().next().expect("one")
    }

    /// Processes whose environment carries a run directory below this bench: nothing else of ours can be there.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let marker = format!("TPSCTL_RUN={}", self.dir.path().canonicalize().expect("exists").display());
        let mut found = Vec::new();
        for entry in fs_err::read_dir("/proc").expect("/proc").map_while(Result::ok) {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let environment = fs_err::read(entry.path().join("environ")).unwrap_or_default();
            let state = fs_err::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let is_zombie = state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'));
            if !is_zombie
                && environment.split(|byte| *byte == 0).any(|item| item.starts_with(marker.as_bytes()))
            {
                found.push(pid);
            }
        }
        found
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // A test that failed in the middle must not leave its network.
        for left in self.processes() {
            kill_process(pid(left), Signal::KILL).ok();
        }
    }
}

/// A started program.
pub(crate) struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
    reader: Option<std::thread::JoinHandle<()>>,
    seen: Vec<String>,
}

impl Running {
    /// Starts a command and follows the lines of its stderr.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let (sender, lines) = mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let reader = std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines, reader: Some(reader), seen: Vec::new() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads stderr until a line has `text`; fails with everything seen after `seconds` or at the end.
    pub(crate) fn wait_for(&mut self, text: &str, seconds: u64) -> String {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        while let Some(line) = self.next_line(deadline) {
            if line.contains(text) {
                return line;
            }
        }
        panic!("no line with `{text}`; seen:\n{}", self.seen.join("\n"));
    }

    /// The next line of stderr, which is kept among those seen; none at the deadline or the end.
    fn next_line(&mut self, deadline: Instant) -> Option<String> {
        let line = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
        self.seen.push(line.clone());
        Some(line)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(pid(self.child.id()), signal).expect("own child");
    }

    /// After `lead`, stops the whole program for `stall`, then lets it go on. Nothing is waited for: when the fault comes
    /// and how long it lasts is the fault itself.
    pub(crate) fn stall(&mut self, lead: Duration, stall: Duration) {
        let stop_at = Instant::now() + lead;
        while self.next_line(stop_at).is_some() {}
        self.signal(Signal::STOP);
        let go_on_at = Instant::now() + stall;
        while self.next_line(go_on_at).is_some() {}
        self.signal(Signal::CONT);
    }

    /// Waits for the end; exit code (none for a signal), stdout, stderr.
    pub(crate) fn finish(mut self) -> (Option<i32>, String, String) {
        let mut stdout = String::new();
        if let Some(mut pipe) = self.child.stdout.take() {
            std::io::Read::read_to_string(&mut pipe, &mut stdout).expect("text");
        }
        let status = self.child.wait().expect("own child");
        if let Some(reader) = self.reader.take() {
            reader.join().expect("reader");
        }
        self.seen.extend(self.lines.try_iter());
        (status.code(), stdout, self.seen.join("\n"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that failed in the middle must not leave its child; an ended child is no error.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub(crate) fn pid(raw: u32) -> Pid {
    Pid::from_raw(i32::try_from(raw).expect("a pid")).expect("not 0")
}

/// The project's own test data.
pub(crate) fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/neard").join(path)
}

/// A home of the fixtures, with ports of its own so that tests can run beside each other and beside a real node.
pub(crate) fn home_with_ports(to: &Path, node: &str, ports: &[(&str, u16)]) {
    let from = testdata("home").join(node);
    fs_err::create_dir_all(to.join("epoch_configs")).expect("home");
    for file in ["genesis.json", "node_key.json", "validator_key.json", "epoch_configs/86.json"] {
        fs_err::copy(from.join(file), to.join(file)).expect("fixture");
    }
    let mut config = fs_err::read_to_string(from.join("config.json")).expect("fixture");
    for (old, new) in ports {
        config = config.replace(old, &format!("[::1]:{new}"));
    }
    fs_err::write(to.join("config.json"), config).expect("home");
}
