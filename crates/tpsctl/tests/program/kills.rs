//! `kill -9` of the controller wherever its journal has a line, and of each kind of node; then `down`: nothing is left.

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::{
    localnode::{read, wait},
    support::{Bench, pid},
};

/// A run of a minute at most, at a rate that any machine bears.
const RUN: &[&str] = &[
    "scenario",
    "run",
    "quickstart",
    "--set=chain.shards=2",
    "--set=chain.accounts_per_shard=50",
    "--set=trial.warmup=500ms",
    "--set=trial.window=1s",
    "--set=search.start=10tps",
    "--set=search.max=10tps",
    "--set=goal.block_time_ratio_max=100",
    "--set=goal.missed_slots_max=90%",
    "--set=trial.send_lag_p99_max=1s",
    "--set=trial.unsent_max=10%",
    "--set=load.catch_up=1s",
];

/// A line of the journal: its event, its stage where it has one, and how many such lines there are up to it.
type Boundary = (&'static str, Option<&'static str>, usize);

/// Every line at which a run goes from one thing to the next, but for those after the network is gone.
const BOUNDARIES: &[Boundary] = &[
    ("run_started", None, 1),
    ("stage_started", Some("plan"), 1),
    ("stage_done", Some("plan"), 1),
    ("stage_started", Some("genesis"), 1),
    ("stage_done", Some("genesis"), 1),
    ("stage_started", Some("provision"), 1),
    ("node_started", None, 1),
    ("node_started", None, 2),
    ("node_started", None, 3),
    ("stage_done", Some("provision"), 1),
    ("trial_started", None, 1),
    ("trial_done", None, 1),
    ("stage_done", Some("search"), 1),
    ("stage_started", Some("teardown"), 1),
];

/// The run's directory, once it is there.
fn run_of(bench: &Bench) -> Option<std::path::PathBuf> {
    let mut runs = fs_err::read_dir(bench.dir.path().join("runs")).ok()?;
    Some(runs.next()?.expect("entry").path())
}

/// Lines of the journal that are like this one. The last may be half written.
fn lines_like(bench: &Bench, (event, stage, _): Boundary) -> usize {
    let journal = run_of(bench).and_then(|run| fs_err::read_to_string(run.join("journal.ndjson")).ok());
    let is_like = |line: &str| {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { return false };
        entry["event"]["event"] == event && stage.is_none_or(|stage| entry["event"]["stage"] == stage)
    };
    journal.unwrap_or_default().lines().filter(|line| is_like(line)).count()
}

fn assert_nothing_is_left(bench: &Bench, what: &str) {
    assert_eq!(bench.processes(), Vec::<u32>::new(), "{what}");
    let run = bench.only_run();
    for node in fs_err::read_dir(run.join("nodes")).into_iter().flatten() {
        let home = node.expect("entry").path().join("home");
        assert!(!home.exists(), "{what}: {}", home.display());
    }
    let ledger = read(&run.join("ledger.json"));
    for entry in ledger["entries"].as_array().expect("entries") {
        assert!(entry["state"]["ended"].is_object(), "{what}: {entry}");
    }
}

fn down(bench: &Bench, what: &str) {
    let down = bench.run(&["down"]);
    let stderr = String::from_utf8_lossy(&down.stderr);
    assert_eq!(down.status.code(), Some(0), "{what}: {stderr}");
    assert_nothing_is_left(bench, what);
}

fn kill_controller_at(boundary: Boundary, may_be_over: bool) {
    let bench = Bench::new();
    let running = bench.start(RUN);
    let what = format!("{boundary:?}");
    wait(&what, || lines_like(&bench, boundary) >= boundary.2);
    running.signal(Signal::KILL);
    let (code, ..) = running.finish();
    assert!(code.is_none() || may_be_over, "{what}: it was killed, not ended by itself");
    down(&bench, &what);
}

#[test]
fn slow_kill_9_of_the_controller_before_its_network_runs() {
    for boundary in &BOUNDARIES[..9] {
        kill_controller_at(*boundary, false);
    }
}

#[test]
fn slow_kill_9_of_the_controller_with_its_network() {
    for boundary in &BOUNDARIES[9..] {
        // From the last trial on the end is near: on a fast machine it comes before the kill.
        let may_be_over = boundary.1.is_some_and(|stage| stage != "provision");
        kill_controller_at(*boundary, may_be_over);
    }
}

#[test]
fn slow_kill_9_of_each_kind_of_node_then_down() {
    let bench = Bench::new();
    let mut up = vec!["up", "quickstart"];
    up.extend(RUN.iter().filter(|set| set.starts_with("--set=chain")));
    let made = bench.run(&up);
    assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
    let deployment = read(&bench.only_run().join("deployment.json"));
    let mut kinds = std::collections::BTreeMap::new();
    for node in deployment["nodes"].as_array().expect("nodes") {
        let role = match &node["role"] {
            Value::String(role) => role.clone(),
            role => role.as_object().and_then(|role| role.keys().next().cloned()).expect("a role"),
        };
        kinds.entry(role).or_insert_with(|| node["pid"].as_u64().expect("a pid"));
    }
    assert!(kinds.len() >= 2, "producers and RPC nodes at least: {kinds:?}");
    let before = bench.processes().len();
    for process in kinds.values() {
        kill_process(pid(u32::try_from(*process).expect("a pid")), Signal::KILL).expect("a node");
    }
    wait("the killed nodes are gone", || bench.processes().len() == before - kinds.len());
    down(&bench, "nodes killed");
}
