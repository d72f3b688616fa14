//! The suite on the embedded node, on neard where there is one, and on servers that answer wrongly.

#![expect(clippy::print_stdout, reason = "what was skipped, and why")]

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use axum::{Router, body::Bytes, http::StatusCode, routing::post};
use fs_err as fs;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tpsctl_conformance::{Addresses, Check, Outcome, Report, Subject, check};
use tpsctl_localchain::{RunOptions, run};
use tpsctl_testports::free_addr;

/// Time for a network to begin.
const PATIENCE: Duration = Duration::from_mins(2);
/// Where a real neard is.
const NEARD: &str = "TPSCTL_TEST_NEARD";

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/neard")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("folder");
    for entry in fs::read_dir(from).expect("folder") {
        let path = entry.expect("entry").path();
        let target = to.join(path.file_name().expect("name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("copy");
        }
    }
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("file")).expect("JSON")
}

/// Copies of recorded homes with ports of their own; the second node dials the first.
fn homes(folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    let mut boot = String::new();
    let mut homes = Vec::new();
    for name in names {
        let home = folder.join(name);
        copy(&testdata().join("home").join(name), &home);
        let path = home.join("config.json");
        let mut config = read(&path);
        let p2p = free_addr();
        let key = read(&home.join("node_key.json"));
        let own = format!("{}@{p2p}", key["public_key"].as_str().expect("key"));
        config["rpc"]["addr"] = json!(free_addr().to_string());
        config["network"]["addr"] = json!(p2p.to_string());
        config["network"]["boot_nodes"] = json!(boot);
        config["network"]["public_addrs"] = json!([own]);
        fs::write(&path, config.to_string()).expect("config");
        if boot.is_empty() {
            boot = own;
        }
        homes.push(home);
    }
    homes
}

fn subject(home: &Path) -> Subject {
    Subject::of_home(home, Addresses::default(), &[]).expect("a home")
}

/// Waits until the node of a home has made some blocks.
async fn begin(home: &Path) {
    let config = read(&home.join("config.json"));
    let url = format!("http://{}/status", config["rpc"]["addr"].as_str().expect("address"));
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().expect("client");
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Ok(answer) = client.get(&url).send().await {
            let status: Value = answer.json().await.unwrap_or_default();
            if status["sync_info"]["latest_block_height"].as_u64() >= Some(8) {
                return;
            }
        }
        assert!(Instant::now() < deadline, "no blocks at {url}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What the embedded node does not do as neard does: a list that may only shrink.
const NOT_YET: &[&str] = &[];

fn assert_conforms(report: &Report, but_for: &[&str]) {
    println!("{report}");
    let is_known = |check: &&Check| but_for.contains(&check.name.as_str());
    let failed: Vec<String> =
        report.failed().filter(|check| !is_known(check)).map(Check::to_string).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let passed = report.checks.iter().filter(|check| check.outcome == Outcome::Pass).count();
    assert!(passed >= 40, "{passed} passed: not much was looked at");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_the_embedded_node_conforms() {
    let folder = tempfile::tempdir().expect("folder");
    let homes = homes(folder.path(), &["node0", "node1"]);
    let cancel = CancellationToken::new();
    let mut nodes = JoinSet::new();
    for home in &homes {
        nodes.spawn(run(RunOptions { home: home.clone() }, cancel.clone()));
    }
    begin(&homes[0]).await;
    let report = check(&subject(&homes[0])).await;
    cancel.cancel();
    while let Some(ended) = nodes.join_next().await {
        ended.expect("no panic").expect("an ordinary end");
    }
    assert_conforms(&report, NOT_YET);
}

/// Processes that end with the test.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that ended by itself has nothing to be ended.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_a_real_neard_conforms() {
    let Some(neard) = std::env::var_os(NEARD) else {
        println!("skipped: no neard ({NEARD} is not set)");
        return;
    };
    let folder = tempfile::tempdir().expect("folder");
    let homes = homes(folder.path(), &["node0", "node1"]);
    let mut nodes = Processes(Vec::new());
    for home in &homes {
        let mut command = Command::new(&neard);
        command.arg("--home").arg(home).arg("run").stdout(Stdio::null()).stderr(Stdio::null());
        nodes.0.push(command.spawn().expect("neard starts"));
    }
    begin(&homes[0]).await;
    let report = check(&subject(&homes[0])).await;
    drop(nodes);
    assert_conforms(&report, &[]);
}

/// A home whose node is a server that gives every request this answer.
async fn liar(answer: (StatusCode, Value), tasks: &mut JoinSet<()>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("folder");
    let home = homes(folder.path(), &["node0"]).remove(0);
    let config = read(&home.join("config.json"));
    let addr = config["rpc"]["addr"].as_str().expect("address").to_owned();
    let listener = tokio::net::TcpListener::bind(addr).await.expect("the port is free");
    let respond = move |_: Bytes| async move { (answer.0, answer.1.to_string()) };
    let app = Router::new().route("/", post(respond));
    tasks.spawn(async move { axum::serve(listener, app).await.expect("serves") });
    (folder, home)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lies_does_not_conform() {
    let mut tasks = JoinSet::new();
    let recorded = read(&testdata().join("rpc/status.json"));
    let mut right = recorded.clone();
    right["id"] = json!("conformance");
    let mut poor = right.clone();
    poor["result"]["sync_info"] = json!(null);
    let lies = [
        (StatusCode::OK, json!({"jsonrpc": "2.0", "id": "conformance", "result": {}})),
        (StatusCode::OK, json!("hello")),
        (StatusCode::INTERNAL_SERVER_ERROR, right.clone()),
        (StatusCode::OK, poor),
    ];
    for lie in lies {
        let shown = lie.1.to_string();
        let (_folder, home) = liar(lie, &mut tasks).await;
        let report = check(&subject(&home)).await;
        assert!(!report.passes());
        let passed: Vec<&str> = report
            .checks
            .iter()
            .filter(|check| check.outcome == Outcome::Pass && !check.name.starts_with("home/"))
            .map(|check| check.name.as_str())
            .collect();
        assert!(passed.is_empty(), "{passed:?} of {shown}");
    }
    // One true answer to everything passes where it is the answer, and nowhere else.
    let (_folder, home) = liar((StatusCode::OK, right), &mut tasks).await;
    let report = check(&subject(&home)).await;
    let passes =
        |name: &str| report.checks.iter().any(|check| check.name == name && check.outcome == Outcome::Pass);
    assert!(passes("rpc/status") && passes("home/node_key"), "{report}");
    for wrong in
        ["rpc/block", "rpc/chunk", "rpc/validators", "rpc/method_unknown", "rpc/batch_refused", "tx/garbage"]
    {
        assert!(!passes(wrong), "{wrong}: {report}");
    }
    tasks.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_there_does_not_conform() {
    let folder = tempfile::tempdir().expect("folder");
    let home = homes(folder.path(), &["node0"]).remove(0);
    let report = check(&subject(&home)).await;
    assert!(!report.passes());
    assert!(
        report.checks.iter().any(|check| check.name == "home/genesis_sums" && check.outcome == Outcome::Pass)
    );
}

#[test]
fn no_home_is_an_error_in_words() {
    let folder = tempfile::tempdir().expect("folder");
    let error = Subject::of_home(folder.path(), Addresses::default(), &[]).expect_err("no home").to_string();
    assert_eq!(error, "open a file of the home directory");
}
