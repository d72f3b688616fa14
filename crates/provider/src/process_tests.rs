use super::*;
use crate::test_support::{POLITE, STUBBORN, TestRun, is_interrupt_ignored};

fn spawn(run: &TestRun, name: &str, body: &str) -> NodeHandle {
    NodeHandle::spawn(run.command(name, body)).expect("spawned").0
}

/// Waits until the log holds `text`: the script has come so far.
async fn until_logged(handle: &NodeHandle, text: &str) {
    let wait = async {
        while !handle.log_tail(10).contains(text) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), wait).await.expect("logged in time");
}

#[tokio::test]
async fn exits_are_told_by_kind_and_by_whom() {
    let run = TestRun::new();
    for (name, body, exit) in [
        ("code", "exit 3", ExitKind::Code(3)),
        ("well", "exit 0", ExitKind::Code(0)),
        ("abort", "kill -ABRT $$", ExitKind::Signal(6)),
        ("kill", "kill -KILL $$", ExitKind::Signal(9)),
    ] {
        let mut handle = spawn(&run, name, body);
        let ended = handle.exited().await.expect("reaped");
        assert_eq!((ended.exit, ended.is_asked_for), (exit, false), "{name}");
        assert_eq!(handle.exited().await.expect("the same again"), ended);
        // Asking afterwards does not make it ours.
        assert!(!handle.stop(Duration::ZERO).await.expect("gone").is_asked_for, "{name}");
    }
}

#[tokio::test]
async fn a_polite_node_ends_at_sigint() {
    let run = TestRun::new();
    let mut handle = spawn(&run, "node0", POLITE);
    let (grace, expected) = if is_interrupt_ignored() {
        (Duration::ZERO, ExitKind::Signal(9))
    } else {
        (Duration::from_mins(1), ExitKind::Signal(2))
    };
    let ended = handle.stop(grace).await.expect("stopped");
    assert_eq!((ended.exit, ended.is_asked_for), (expected, true));
    assert!(!handle.process().is_alive().expect("proc"));
}

#[tokio::test]
async fn a_stubborn_node_is_killed_after_its_grace() {
    let run = TestRun::new();
    let mut handle = spawn(&run, "node0", STUBBORN);
    until_logged(&handle, "deaf").await;
    let start = Instant::now();
    let ended = handle.stop(Duration::from_millis(200)).await.expect("stopped");
    assert_eq!((ended.exit, ended.is_asked_for), (ExitKind::Signal(9), true));
    assert!(start.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn a_node_is_apart_from_the_terminal_and_marked_and_nice() {
    let run = TestRun::new();
    let mut command =
        run.command("node0", "echo ready $(nice)\nread line || echo end of input\nexec sleep 600");
    command.nice = 7;
    let (mut handle, warning) = NodeHandle::spawn(command).expect("spawned");
    assert_eq!(warning, None);
    until_logged(&handle, "end of input").await;
    let own_nice: i32 = {
        let output = std::process::Command::new("nice").output().expect("nice");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("number")
    };
    assert!(
        handle.log_tail(10).contains(&format!("ready {}", (own_nice + 7).min(19))),
        "{}",
        handle.log_tail(10)
    );
    let pid = handle.process().pid;
    let group = rustix::process::getpgid(rustix::process::Pid::from_raw(i32::try_from(pid).expect("pid")));
    assert_eq!(
        group.expect("runs").as_raw_nonzero().get(),
        i32::try_from(pid).expect("pid"),
        "its own group"
    );
    assert_eq!(run.alive(), [handle.process().clone()], "found by its marker, under its own pid");
    handle.stop(Duration::ZERO).await.expect("stopped");
    assert_eq!(run.alive(), []);
}

#[tokio::test]
async fn the_tail_is_of_this_start_only() {
    let run = TestRun::new();
    let mut handle = spawn(&run, "node0", "echo old; exit 1");
    handle.exited().await.expect("reaped");
    assert_eq!(handle.log_tail(10), "old");
    let mut again = spawn(&run, "node0", "for i in 1 2 3 4; do echo line $i; done; echo wrong >&2");
    again.exited().await.expect("reaped");
    assert_eq!(again.log_tail(2), "line 4\nwrong");
    assert_eq!(again.log_tail(10), "line 1\nline 2\nline 3\nline 4\nwrong");
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let run = TestRun::new();
    let mut command = run.command("node0", "");
    command.program = run.path().join("not-there");
    let error = NodeHandle::spawn(command).expect_err("missing");
    assert!(error.to_string().contains("not-there"), "{error}");
    assert!(matches!(error, ProviderError::Spawn { .. }), "{error:?}");
}

#[tokio::test]
async fn dropping_a_handle_leaves_its_process() {
    let run = TestRun::new();
    let handle = spawn(&run, "node0", STUBBORN);
    let process = handle.process().clone();
    drop(handle);
    assert!(process.is_alive().expect("proc"));
    process.signal(Signal::KILL).expect("ours");
}
