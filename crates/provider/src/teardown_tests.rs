use std::{io::Write, os::unix::fs::symlink};

use tpsctl_model::observation::ExitKind;

use super::*;
use crate::{
    LedgerHeader, NodeHandle,
    durable::temporary_of,
    hold::hold,
    ledger::EntryState,
    test_support::{POLITE, STUBBORN, Stranger, TestRun, intent, is_interrupt_ignored},
};

/// After it whatever is still there is killed: not for tests that assert a polite end.
const GRACE: Duration = Duration::from_millis(300);

/// Starts a node by the book.
fn start(run: &TestRun, ledger: &mut Ledger, name: &str, body: &str) -> NodeHandle {
    let id = ledger.intend(intent(name)).expect("intend");
    let handle = NodeHandle::spawn(run.command(name, body)).expect("spawned").0;
    ledger.record_running(id, handle.process().clone()).expect("running");
    handle
}

fn nodes(report: &DestroyReport) -> Vec<&str> {
    report.ended.iter().map(|ended| &*ended.node.0).collect()
}

#[tokio::test]
async fn everything_ends_and_results_stay() {
    let run = TestRun::new();
    let mut ledger = run.ledger();
    let polite = start(&run, &mut ledger, "a", POLITE);
    let stubborn = start(&run, &mut ledger, "b", STUBBORN);
    while stubborn.log_tail(1).is_empty() {
        sleep(Duration::from_millis(5)).await;
    }
    fs::write(run.path().join("run.json"), "{}").expect("result");

    let report = destroy(&run.path(), GRACE).await.expect("destroyed");
    let pids: Vec<_> = report.ended.iter().map(|ended| ended.pid).collect();
    assert_eq!(pids, [polite.process().pid, stubborn.process().pid]);
    assert_eq!(report.ended[1].by, EndedBy::Kill);
    assert!(report.left.is_empty() && report.ledger_fault.is_none(), "{report:?}");
    assert_eq!(report.homes_removed, [run.path().join("nodes/a/home"), run.path().join("nodes/b/home")]);
    assert!(run.path().join("run.json").exists() && run.path().join("nodes/b/log").exists());
    assert_eq!(Ledger::open(&run.path()).expect("whole").open_entries().count(), 0);

    let again = destroy(&run.path(), GRACE).await.expect("nothing to do");
    assert!(again.ended.is_empty() && again.left.is_empty() && again.homes_removed.is_empty(), "{again:?}");
}

#[tokio::test]
async fn who_ends_at_sigint_is_not_killed() {
    let run = TestRun::new();
    let mut ledger = run.ledger();
    start(&run, &mut ledger, "a", POLITE);
    let is_ignored = is_interrupt_ignored();
    let (grace, by) =
        if is_ignored { (GRACE, EndedBy::Kill) } else { (Duration::from_mins(1), EndedBy::Interrupt) };
    let report = destroy(&run.path(), grace).await.expect("destroyed");
    assert_eq!(report.ended.iter().map(|ended| ended.by).collect::<Vec<_>>(), [by]);
}

#[tokio::test]
async fn a_reused_pid_is_left_alone() {
    let run = TestRun::new();
    let stranger = Stranger::start();
    let mut ledger = run.ledger();
    for (name, ticks, boot) in [("later", 1, ""), ("earlier boot", 0, "x")] {
        let id = ledger.intend(intent(name)).expect("intend");
        let mut process = stranger.process();
        process.start_time_ticks -= ticks;
        process.boot_id.push_str(boot);
        ledger.record_running(id, process).expect("running");
    }
    let report = destroy(&run.path(), GRACE).await.expect("destroyed");
    assert!(report.ended.is_empty() && report.left.is_empty(), "{report:?}");
    assert!(stranger.process().is_alive().expect("proc"), "the stranger lives");
    assert_eq!(Ledger::open(&run.path()).expect("whole").open_entries().count(), 0);
}

#[tokio::test]
async fn a_process_whose_pid_never_reached_the_ledger_is_found() {
    let run = TestRun::new();
    let mut ledger = run.ledger();
    ledger.intend(intent("a")).expect("intend");
    // Here the controller is killed: the process runs, and the ledger says `intended`.
    let handle = NodeHandle::spawn(run.command("a", POLITE)).expect("spawned").0;
    let report = destroy(&run.path(), GRACE).await.expect("destroyed");
    assert_eq!(nodes(&report), ["a"]);
    assert_eq!(report.ended[0].pid, handle.process().pid);
    assert!(!handle.process().is_alive().expect("proc"));
    let ledger = Ledger::open(&run.path()).expect("whole");
    assert!(matches!(ledger.entries()[0].state, EntryState::Ended { process: None, .. }), "{ledger:?}");
}

#[tokio::test]
async fn a_process_that_was_just_forked_is_waited_for() {
    let run = TestRun::new();
    let mut ledger = Ledger::create(&run.path(), run.orphan_header()).expect("ledger");
    ledger.intend(intent("a")).expect("intend");
    drop(ledger);
    // As a child that the controller has forked and that has not become the node yet: it shares the controller's hold of
    // the run directory, and its marker comes with the new program.
    let script = "read go\nexec env TPSCTL_RUN=\"$1\" TPSCTL_NODE=a sleep 600 <&- 2>&-";
    let mut fork = std::process::Command::new("sh");
    fork.args(["-c", script, "sh"]).arg(run.path()).stdin(std::process::Stdio::piped());
    // A child that another test forks just now shares the ledger's hold until it becomes its program.
    let held = loop {
        match hold(&run.path()) {
            Some(held) => break held,
            None => sleep(Duration::from_millis(5)).await,
        }
    };
    fork.stderr(held.into_file());
    let mut child = fork.spawn().expect("forked");
    drop(fork);

    let directory = run.path();
    let mut teardown = std::pin::pin!(destroy(&directory, Duration::from_mins(1)));
    // Time alone does not end the wait.
    tokio::time::timeout(2 * SETTLE, &mut teardown).await.expect_err("it waits");
    child.stdin.take().expect("piped").write_all(b"go\n").expect("told");
    let report = teardown.await.expect("destroyed");
    assert_eq!(report.ended.iter().map(|ended| ended.pid).collect::<Vec<_>>(), [child.id()]);
    child.wait().expect("reaped");
}

#[tokio::test]
async fn what_a_node_started_ends_with_it() {
    let run = TestRun::new();
    let mut ledger = run.ledger();
    let handle = start(&run, &mut ledger, "a", "trap '' INT\nsleep 600 &\necho started\nwait");
    while handle.log_tail(1).is_empty() || run.alive().len() < 2 {
        sleep(Duration::from_millis(5)).await;
    }
    let report = destroy(&run.path(), GRACE).await.expect("destroyed");
    assert_eq!(nodes(&report), ["a", "a"]);
    assert_eq!(run.alive(), []);
}

#[tokio::test]
async fn two_runs_side_by_side_do_not_meet() {
    let (one, other) = (TestRun::new(), TestRun::new());
    let (mut one_ledger, mut other_ledger) = (one.ledger(), other.ledger());
    let gone = start(&one, &mut one_ledger, "a", POLITE);
    let kept = start(&other, &mut other_ledger, "a", POLITE);
    let unrecorded = NodeHandle::spawn(other.command("b", POLITE)).expect("spawned").0;
    let report = destroy(&one.path(), GRACE).await.expect("destroyed");
    assert_eq!(report.ended.iter().map(|ended| ended.pid).collect::<Vec<_>>(), [gone.process().pid]);
    assert!(kept.process().is_alive().expect("proc") && unrecorded.process().is_alive().expect("proc"));
    assert!(other.path().join("nodes/a/home").exists());
    let alive: BTreeSet<_> = other.alive().into_iter().collect();
    assert_eq!(alive, BTreeSet::from([kept.process().clone(), unrecorded.process().clone()]));
}

#[tokio::test]
async fn a_garbled_ledger_does_not_keep_processes_alive() {
    let run = TestRun::new();
    let mut ledger = run.ledger();
    let handle = start(&run, &mut ledger, "a", POLITE);
    let path = run.path().join(LEDGER_FILE);
    let bytes = fs::read(&path).expect("read");
    fs::write(&path, &bytes[..bytes.len() / 2]).expect("tear");
    let report = destroy(&run.path(), GRACE).await.expect("destroyed");
    assert_eq!(nodes(&report), ["a"]);
    assert!(!handle.process().is_alive().expect("proc"));
    assert_eq!(report.homes_removed.len(), 1);
    assert!(matches!(report.ledger_fault, Some(ProviderError::LedgerGarbled { .. })), "{report:?}");
    assert_eq!(fs::read(&path).expect("read").len(), bytes.len() / 2, "evidence is kept");
}

#[tokio::test]
async fn a_full_disk_does_not_keep_processes_alive() {
    let run = TestRun::new();
    let mut ledger = run.ledger();
    let handle = start(&run, &mut ledger, "a", POLITE);
    symlink("/dev/full", temporary_of(&run.path().join(LEDGER_FILE))).expect("link");
    let report = destroy(&run.path(), GRACE).await.expect("destroyed");
    assert!(!handle.process().is_alive().expect("proc"));
    assert!(matches!(report.ledger_fault, Some(ProviderError::Write { .. })), "{report:?}");
    let again = destroy(&run.path(), GRACE).await.expect("destroyed");
    assert!(again.ended.is_empty() && again.ledger_fault.is_none(), "{again:?}");
}

#[tokio::test]
async fn links_out_of_the_run_are_not_followed() {
    let run = TestRun::new();
    let elsewhere = TestRun::new();
    drop(run.ledger());
    fs::create_dir_all(elsewhere.path().join("home")).expect("directory");
    fs::create_dir_all(run.path().join("nodes/b")).expect("directory");
    symlink(elsewhere.path(), run.path().join("nodes/a")).expect("link");
    symlink(elsewhere.path().join("home"), run.path().join("nodes/b/home")).expect("link");
    let report = destroy(&run.path(), GRACE).await.expect("destroyed");
    assert_eq!(report.homes_removed, Vec::<PathBuf>::new());
    assert!(elsewhere.path().join("home").exists());
}

#[tokio::test]
async fn what_is_no_run_is_said_to_be_none() {
    let run = TestRun::new();
    for directory in [run.path(), run.path().join("missing")] {
        let error = destroy(&directory, GRACE).await.expect_err("no run");
        assert!(matches!(error, ProviderError::NoRun { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_moved_run_is_found_and_a_copy_is_refused() {
    let parent = TestRun::new();
    let (first, moved, copy) =
        (parent.path().join("r"), parent.path().join("moved"), parent.path().join("copy"));
    fs::create_dir_all(&first).expect("directory");
    let header = LedgerHeader::of_this_process(&first, "r", "quickstart", 1).expect("header");
    drop(Ledger::create(&first, header).expect("ledger"));
    let mut command = parent.command("a", POLITE);
    command.run_directory.clone_from(&first);
    let handle = NodeHandle::spawn(command).expect("spawned").0;

    fs::create_dir_all(&copy).expect("directory");
    fs::copy(first.join(LEDGER_FILE), copy.join(LEDGER_FILE)).expect("copied");
    let error = destroy(&copy, GRACE).await.expect_err("a copy");
    assert!(matches!(error, ProviderError::CopiedRun { .. }), "{error:?}");
    assert!(handle.process().is_alive().expect("proc"));

    fs::rename(&first, &moved).expect("moved");
    let report = destroy(&moved, GRACE).await.expect("destroyed");
    assert_eq!(report.ended.len(), 1);
    assert!(!handle.process().is_alive().expect("proc"));
}

#[tokio::test]
async fn a_sweep_finds_runs_without_a_controller() {
    let started = TestRun::new();
    let runs = started.path().join("runs");
    assert_eq!(sweep(&runs).expect("none"), Vec::<PathBuf>::new());
    fs::create_dir_all(runs.join("no run")).expect("directory");
    fs::write(runs.join("a file"), "").expect("file");
    let mut handles = Vec::new();
    // orphan: found; driven: its controller lives; kept: on purpose; ended: nothing runs; unrecorded: found by marker;
    // garbled: nobody knows.
    for name in ["orphan", "driven", "kept", "ended", "unrecorded", "garbled"] {
        let directory = runs.join(name);
        fs::create_dir_all(&directory).expect("directory");
        let mut header = if name == "driven" { started.header() } else { started.orphan_header() };
        header.run_directory.clone_from(&directory);
        let mut ledger = Ledger::create(&directory, header).expect("ledger");
        let id = ledger.intend(intent("a")).expect("intend");
        let mut command = started.command(name, POLITE);
        command.run_directory.clone_from(&directory);
        let handle = NodeHandle::spawn(command).expect("spawned").0;
        if name != "unrecorded" {
            ledger.record_running(id, handle.process().clone()).expect("running");
        }
        if name == "kept" {
            ledger.keep().expect("kept");
        }
        handles.push((name, directory, handle));
    }
    let (_, ended_directory, ended) = &mut handles[3];
    ended.stop(Duration::ZERO).await.expect("stopped");
    assert!(matches!(ended.exit(), Some(ExitKind::Signal(_))));
    assert!(ended_directory.ends_with("ended"));
    fs::write(handles[5].1.join(LEDGER_FILE), "{").expect("garbled");

    let found = sweep(&runs).expect("swept");
    let names: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    assert_eq!(names, ["orphan", "unrecorded"]);
    for (_, directory, _) in &handles {
        destroy(directory, GRACE).await.expect("destroyed");
    }
    assert_eq!(sweep(&runs).expect("swept"), Vec::<PathBuf>::new());
    assert!(handles.iter().all(|(_, _, handle)| !handle.process().is_alive().expect("proc")));
}
