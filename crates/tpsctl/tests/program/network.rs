//! Whole networks of the embedded node, driven by the program as people drive it. Each test ends what it started, by
//! pid, and checks that nothing is left.

use std::{path::Path, process::Command, time::Duration};

use crate::support::{Bench, free_ports, home_with_ports, pid, testdata};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A small network and short trials, at a rate and with a goal that any machine bears, however busy it is: these tests
/// are about what the program does, not about what the machine can. The search ends at its own bound.
pub(crate) const SMALL: &[&str] = &[
    "--set=chain.shards=2",
    "--set=chain.accounts_per_shard=200",
    "--set=trial.warmup=500ms",
    "--set=trial.window=2s",
    "--set=search.start=20tps",
    "--set=search.max=20tps",
    "--set=goal.block_time_ratio_max=100",
    "--set=goal.missed_slots_max=90%",
    "--set=trial.send_lag_p99_max=1s",
    "--set=trial.unsent_max=10%",
    "--set=load.catch_up=1s",
];

fn with<'a>(head: &[&'a str], tail: &[&'a str]) -> Vec<&'a str> {
    [head, tail].concat()
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&fs_err::read_to_string(path).expect("artefact")).expect("JSON")
}

fn sum(value: &Value) -> i64 {
    value.as_object().expect("counts by cause").values().map(|count| count.as_i64().expect("a count")).sum()
}

/// The two identities that every trial must keep, over all shards and within each.
pub(crate) fn assert_accounts_add_up(trial: &Value) {
    let number = |key: &str| trial[key].as_i64().unwrap_or_else(|| panic!("{key} in {trial}"));
    assert_eq!(number("intended"), number("sent") + sum(&trial["unsent"]), "{trial}");
    let explained = number("included") + number("pending") + sum(&trial["lost"]) + number("difference");
    assert_eq!(number("sent"), explained, "{trial}");
    if trial["verdict"] != "invalid" {
        assert_eq!(number("difference"), 0, "{trial}");
    }
    for shard in trial["shards"].as_array().expect("shards") {
        let number = |key: &str| shard[key].as_i64().expect("a number");
        assert_eq!(number("intended"), number("sent") + sum(&shard["unsent"]), "{shard}");
    }
}

#[test]
fn slow_quickstart_finds_a_limit_and_leaves_nothing() {
    // A machine that is busy with other work can make the search inconclusive, or the idle network miss the goal; that is
    // said, and never a wrong number. A second try, with all the time it needs, must find the limit.
    if !finds_a_limit(&[]) {
        assert!(finds_a_limit(&["--set=search.time_budget=8m"]), "the machine is too busy to measure on");
    }
}

fn finds_a_limit(more: &[&str]) -> bool {
    let bench = Bench::new();
    let output = bench.run(&with(&["scenario", "run", "quickstart", "--json"], more));
    let stderr = String::from_utf8_lossy(&output.stderr);
    let run: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    assert_eq!(run["schema"], "tpsctl.run/1");
    assert_eq!(run["processes_left"], 0);
    assert_eq!(run["accounting"]["closed"], true, "{stderr}");
    let trials = run["trials"].as_array().expect("trials");
    trials.iter().for_each(assert_accounts_add_up);
    match output.status.code() {
        Some(0) => assert_interval_is_earned(&run, &stderr),
        Some(3) => assert_eq!(run["outcome"]["kind"], "goal_not_met"),
        Some(4) => assert_eq!(run["outcome"]["kind"], "inconclusive"),
        other => panic!("exit code {other:?}: {stderr}"),
    }
    assert_eq!(bench.processes(), Vec::<u32>::new());
    let dir = bench.only_run();
    for artefact in [
        "scenario.resolved.yaml",
        "plan.json",
        "ledger.json",
        "journal.ndjson",
        "search.json",
        "run.json",
        "report.html",
        "genesis/genesis.json",
        "trials/00/verdict.json",
        "trials/01/inject.json",
        "trials/01/samples.ndjson",
    ] {
        assert!(dir.join(artefact).is_file(), "{artefact}");
    }
    assert_eq!(read_json(&dir.join("run.json")), run);
    output.status.success()
}

/// Both ends have the verdicts that the scenario asks for, and something stopped the network.
fn assert_interval_is_earned(run: &Value, stderr: &str) {
    let trials = run["trials"].as_array().expect("trials");
    let verdicts = |rate: u64, verdict: &str| {
        trials.iter().filter(|trial| trial["rate_per_shard"] == rate && trial["verdict"] == verdict).count()
    };
    let low = run["knee"]["per_shard_low"].as_u64().expect("a lower end");
    assert!(verdicts(low, "pass") >= 2, "{stderr}");
    if let Some(high) = run["knee"]["per_shard_high"].as_u64() {
        assert!(low < high && verdicts(high, "fail") >= 2, "{stderr}");
    }
    let limited_by = run["limited_by"].as_str().expect("text");
    assert!(
        ["missed_chunks", "block_time", "backlog", "bound_reached"].contains(&limited_by),
        "{limited_by}"
    );
}

#[test]
fn slow_one_seed_gives_one_genesis_and_one_stream() {
    let fingerprints = |seed: &str| {
        let bench = Bench::new();
        let seed = format!("seed={seed}");
        let output = bench.run(&with(&["scenario", "run", "quickstart", "--json", "--set", &seed], SMALL));
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let run: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(run["limited_by"], "bound_reached");
        run["trials"].as_array().expect("trials").iter().for_each(assert_accounts_add_up);
        run["fingerprints"].clone()
    };
    let (one, again, other) = (fingerprints("7"), fingerprints("7"), fingerprints("8"));
    assert_eq!(one, again);
    for part in ["genesis", "keys", "stream"] {
        assert_eq!(one[part].as_str().map(str::len), Some(64), "{part}");
        assert_ne!(one[part], other[part], "{part}");
    }
}

#[test]
fn slow_kill_9_in_mid_trial_then_down_leaves_nothing() {
    let bench = Bench::new();
    let mut running = bench.start(&with(&["scenario", "run", "quickstart"], SMALL));
    running.wait_for("trial  0", 60);
    assert_eq!(bench.processes().len(), 3);
    running.signal(Signal::KILL);
    running.finish();
    assert_eq!(bench.processes().len(), 3, "the nodes outlive their controller");
    let dry = bench.run(&["down", "--dry-run"]);
    assert_eq!((dry.status.code(), bench.processes().len()), (Some(0), 3));
    let down = bench.run(&["down"]);
    assert_eq!(down.status.code(), Some(0), "{}", String::from_utf8_lossy(&down.stderr));
    assert_eq!(bench.processes(), Vec::<u32>::new());
    let report = bench.run(&["report", "--json"]);
    let rebuilt: Value = serde_json::from_slice(&report.stdout).expect("what was judged is not lost");
    assert_eq!(rebuilt["trials"].as_array().map(Vec::len), Some(1), "{rebuilt}");
    let nodes = bench.only_run().join("nodes");
    assert!(nodes.join("node0/log").is_file() && !nodes.join("node0/home").exists());
    assert_eq!(bench.run(&["down"]).status.code(), Some(0), "again is no error");
}

#[test]
fn slow_ctrl_c_stops_the_load_and_still_reports() {
    // A terminal that goes away, and a service manager, ask for the same.
    for signal in [Signal::INT, Signal::HUP, Signal::TERM] {
        let bench = Bench::new();
        let mut running = bench.start(&with(&["scenario", "run", "quickstart"], SMALL));
        running.wait_for("trial  0", 60);
        running.signal(signal);
        let (code, _, stderr) = running.finish();
        assert_eq!(code, Some(130), "{signal:?}: {stderr}");
        assert_eq!(bench.processes(), Vec::<u32>::new());
        let dir = bench.only_run();
        let run = read_json(&dir.join("run.json"));
        assert_eq!(run["outcome"]["kind"], "interrupted");
        assert!(dir.join("report.html").is_file());
    }
}

#[test]
fn slow_down_asks_a_live_controller_to_end_its_run() {
    let bench = Bench::new();
    let mut running = bench.start(&with(&["scenario", "run", "quickstart"], SMALL));
    running.wait_for("trial  0", 60);
    let down = bench.run(&["down"]);
    assert_eq!(down.status.code(), Some(0), "{}", String::from_utf8_lossy(&down.stderr));
    let (code, _, stderr) = running.finish();
    assert_eq!(code, Some(130), "{stderr}");
    assert_eq!(bench.processes(), Vec::<u32>::new());
    assert_eq!(read_json(&bench.only_run().join("run.json"))["outcome"]["kind"], "interrupted");
}

#[test]
fn slow_down_ends_a_run_whose_ledger_is_damaged() {
    let bench = Bench::new();
    let up = bench.run(&with(&["up", "quickstart"], SMALL));
    assert_eq!(up.status.code(), Some(0), "{}", String::from_utf8_lossy(&up.stderr));
    fs_err::write(bench.only_run().join("ledger.json"), "{ torn").expect("damage");
    assert_eq!(bench.processes().len(), 3);
    let down = bench.run(&["down"]);
    assert_eq!(down.status.code(), Some(6), "{}", String::from_utf8_lossy(&down.stderr));
    assert!(String::from_utf8_lossy(&down.stderr).contains("what helps:"), "the hint is shown");
    assert_eq!(bench.processes(), Vec::<u32>::new());
}

/// Runs a small scenario with `extra` and gives its exit code, its run.json and its stderr.
fn outcome(extra: &[&str]) -> (Option<i32>, Value, String) {
    let bench = Bench::new();
    let output = bench.run(&with(&with(&["scenario", "run", "quickstart"], SMALL), extra));
    assert_eq!(bench.processes(), Vec::<u32>::new());
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), read_json(&bench.only_run().join("run.json")), stderr)
}

#[test]
fn slow_each_way_to_end_has_its_exit_code() {
    let (code, run, stderr) = outcome(&["--set", "goal.block_time_ratio_max=1"]);
    assert_eq!((code, &run["outcome"]["kind"]), (Some(3), &Value::from("goal_not_met")), "{stderr}");
    // The idle trial, and its confirmation.
    assert_eq!(
        (run["trials"].as_array().map(Vec::len), &run["limited_by"]),
        (Some(2), &Value::from("block_time"))
    );

    let (code, run, stderr) = outcome(&["--set", "search.time_budget=1s"]);
    assert_eq!((code, &run["outcome"]["kind"]), (Some(4), &Value::from("inconclusive")), "{stderr}");

    // No block comes before the network has to be ready.
    let (code, run, stderr) = outcome(&[
        "--set=node.ready_timeout=1s",
        "--set=chain={shards: 2, block_time_min: 20s, block_time_max: 40s, block_wait_max: 60s}",
        "--set=trial={window: 60s, idle_timeout: 10m}",
    ]);
    assert_eq!((code, &run["outcome"]["kind"]), (Some(6), &Value::from("provider_failed")), "{stderr}");
}

#[test]
fn slow_a_stopped_generator_makes_the_trial_invalid_and_never_the_chain_fail() {
    let bench = Bench::new();
    let mut running = bench.start(&with(
        &with(&["scenario", "run", "quickstart"], SMALL),
        &["--set=trial.invalid_retries=0", "--set=load.catch_up=50ms", "--set=trial.window=8s"],
    ));
    running.wait_for("next  20/s per shard", 60);
    // The load runs for 8 s; a stop of the whole controller in it is what an overloaded host does to a generator.
    running.stall(Duration::from_secs(3), Duration::from_millis(1_500));
    let (code, _, stderr) = running.finish();
    assert_eq!(code, Some(5), "{stderr}");
    let run = read_json(&bench.only_run().join("run.json"));
    let trial = &run["trials"].as_array().expect("trials")[1];
    assert_eq!(trial["verdict"], "invalid", "{trial}");
    assert!(trial["cause"].as_str().expect("text").contains("generator"), "{trial}");
    assert_eq!(run["limited_by"], "generator");
    assert_eq!(bench.processes(), Vec::<u32>::new());
}

/// The process of `node` by the newest entry of the run's ledger.
fn pid_of(bench: &Bench, node: &str) -> Pid {
    let ledger = read_json(&bench.only_run().join("ledger.json"));
    let entries = ledger["entries"].as_array().expect("entries").iter().rev();
    let entry = entries.into_iter().find(|entry| entry["node"] == node).expect("an entry");
    let raw = entry["state"]["running"]["process"]["pid"].as_u64().unwrap_or_else(|| panic!("{entry} runs"));
    pid(u32::try_from(raw).expect("a pid"))
}

#[test]
fn slow_second_ctrl_c_says_what_is_left() {
    let bench = Bench::new();
    let mut running = bench.start(&with(&["scenario", "run", "quickstart"], SMALL));
    running.wait_for("trial  0", 60);
    // A stopped process cannot end on SIGINT, so teardown has something to wait for.
    kill_process(pid_of(&bench, "node1"), Signal::STOP).expect("node1");
    running.signal(Signal::INT);
    running.wait_for("interrupted", 60);
    running.signal(Signal::INT);
    let (code, _, stderr) = running.finish();
    assert_eq!(code, Some(130), "{stderr}");
    assert!(stderr.contains("still running: ") && stderr.contains("node1"), "{stderr}");
    let down = bench.run(&["down"]);
    assert_eq!(down.status.code(), Some(0), "{}", String::from_utf8_lossy(&down.stderr));
    assert_eq!(bench.processes(), Vec::<u32>::new());
}

#[test]
fn slow_a_node_ended_from_outside_makes_the_trial_invalid_and_moves_no_bound() {
    // On SIGTERM a node ends well, with exit code 0: still nobody asked the network to lose it.
    for signal in [Signal::KILL, Signal::TERM] {
        end_a_node_in_mid_trial(signal);
    }
}

fn end_a_node_in_mid_trial(signal: Signal) {
    let bench = Bench::new();
    let mut running = bench.start(&with(&["scenario", "run", "quickstart"], SMALL));
    running.wait_for("trial  0", 60);
    running.wait_for("next", 60);
    kill_process(pid_of(&bench, "node1"), signal).expect("node1");
    let (code, _, stderr) = running.finish();
    assert_eq!(code, Some(0), "{stderr}");
    let run = read_json(&bench.only_run().join("run.json"));
    let invalid: Vec<_> = run["trials"]
        .as_array()
        .expect("trials")
        .iter()
        .filter(|trial| trial["verdict"] == "invalid")
        .collect();
    assert!(!invalid.is_empty(), "{stderr}");
    assert!(
        invalid[0]["cause"].as_str().expect("text").contains("node1 was ended from outside"),
        "{}",
        invalid[0]
    );
    assert_eq!(run["knee"]["per_shard_low"], 20, "the bound was reached all the same");
    assert_eq!(bench.processes(), Vec::<u32>::new());
}

#[test]
fn slow_a_full_pool_drops_and_the_accounts_still_close() {
    let bench = Bench::new();
    // A pool of 20 kB holds about a hundred transfers: at this rate the node drops most of what it is sent.
    let tight = [
        "--set",
        "chain.pool_size_limit=20KB",
        "--set",
        "search.start=600tps",
        "--set",
        "search.max=600tps",
        "--set",
        "goal.settled_min=1%",
    ];
    let output = bench.run(&with(&with(&["scenario", "run", "quickstart", "--json"], SMALL), &tight));
    let run: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let trials = run["trials"].as_array().expect("trials");
    trials.iter().for_each(assert_accounts_add_up);
    assert_eq!(run["accounting"]["closed"], true, "{}", String::from_utf8_lossy(&output.stderr));
    assert!(trials.iter().any(|trial| trial["lost"]["pool_full"].as_u64().unwrap_or(0) > 100), "{run}");
}

#[test]
fn slow_a_node_that_dies_by_itself_twice_at_one_rate_ends_the_search() {
    let bench = Bench::new();
    let mut running = bench.start(&with(&["scenario", "run", "quickstart"], SMALL));
    running.wait_for("trial  0", 60);
    for _ in 0..2 {
        running.wait_for("next", 60);
        // SIGABRT is what a node that panics does to itself.
        kill_process(pid_of(&bench, "node1"), Signal::ABORT).expect("node1");
    }
    let (code, _, stderr) = running.finish();
    assert_eq!(code, Some(6), "{stderr}");
    let run = read_json(&bench.only_run().join("run.json"));
    assert_eq!(run["limited_by"], "node_crashed", "{stderr}");
    let crashed = run["trials"].as_array().expect("trials").iter().filter(|trial| trial["verdict"] == "fail");
    assert_eq!(crashed.count(), 2, "{stderr}");
    assert_eq!(bench.processes(), Vec::<u32>::new());
}

#[test]
fn slow_the_report_opens_in_a_browser() {
    let bench = Bench::new();
    let output = bench.run(&with(&["scenario", "run", "quickstart", "--quiet"], SMALL));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let page = bench.only_run().join("report.html");
    let picture = bench.dir.path().join("report.png");
    let opened = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", bench.dir.path().join("browser").display()))
        .arg(format!("--screenshot={}", picture.display()))
        .args(["--window-size=1100,1600", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium (see .ci/run)");
    let dom = String::from_utf8_lossy(&opened.stdout);
    assert!(dom.contains("at least 20 transfers/s per shard") && dom.contains("<svg"), "{dom}");
    assert!(dom.contains("embedded node: not a measurement of neard"));
    assert!(fs_err::metadata(picture).expect("a screenshot").len() > 20_000);
}

#[test]
fn slow_up_inject_status_down() {
    let bench = Bench::new();
    let up = bench.run(&with(&["up", "quickstart"], SMALL));
    assert_eq!(up.status.code(), Some(0), "{}", String::from_utf8_lossy(&up.stderr));
    let run = bench.only_run();
    let id = run.file_name().expect("named").to_string_lossy().into_owned();
    for _ in 0..2 {
        let inject = bench.run(&["inject", &id, "--rate", "30tps", "--duration", "2s", "--json"]);
        let trial: Value = serde_json::from_slice(&inject.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&inject.stderr)));
        assert_accounts_add_up(&trial);
        assert_eq!(
            (&trial["intended"], &trial["included"]),
            (&Value::from(120), &Value::from(120)),
            "{trial}"
        );
    }
    let status = bench.run(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).expect("JSON");
    assert_eq!(status["nodes"].as_array().map(Vec::len), Some(3), "{status}");
    assert_eq!(bench.run(&["down"]).status.code(), Some(0));
    assert_eq!(bench.processes(), Vec::<u32>::new());
}

#[test]
fn slow_an_independent_client_injects_into_neards_own_home_directories() {
    let bench = Bench::new();
    let [rpc0, p2p0, rpc1, p2p1] = free_ports::<4>();
    let ports = [("[::1]:47190", rpc0), ("[::1]:53270", p2p0), ("[::1]:31538", rpc1), ("[::1]:54423", p2p1)];
    let mut nodes = Vec::new();
    for node in ["node0", "node1"] {
        let home = bench.dir.path().join(node);
        home_with_ports(&home, node, &ports);
        nodes.push(bench.start(&["localnode", "run", "--home", home.to_str().expect("text")]));
    }
    let url = format!("http://[::1]:{rpc0}");
    wait_for_height(&url, 3);
    let probe = Command::new("python3")
        .arg(testdata("p2p_probe.py"))
        .args([
            "--rpc",
            &url,
            "--p2p",
            &format!("::1:{p2p0}"),
            "--to",
            "000_user_1",
            "--count",
            "50",
            "--key",
        ])
        .arg(testdata("home/user-key-000_user_0.json"))
        .output()
        .expect("python3 with pynacl and base58 (see .ci/run)");
    let said = String::from_utf8_lossy(&probe.stdout);
    assert!(said.contains("included 50"), "{said}{}", String::from_utf8_lossy(&probe.stderr));
    for node in nodes {
        node.signal(Signal::INT);
        let (code, _, stderr) = node.finish();
        assert_eq!(code, Some(0), "{stderr}");
    }
}

/// Asks until the node's head is at `height`; the test's own time limit ends a wait that is in vain.
fn wait_for_height(url: &str, height: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async {
        let client = reqwest::Client::builder().no_proxy().build().expect("client");
        let mut every = tokio::time::interval(Duration::from_millis(200));
        loop {
            every.tick().await;
            let Ok(answer) = client.get(format!("{url}/status")).send().await else { continue };
            let status: Value = answer.json().await.expect("JSON");
            if status["sync_info"]["latest_block_height"].as_u64().is_some_and(|head| head >= height) {
                break;
            }
        }
    });
}
