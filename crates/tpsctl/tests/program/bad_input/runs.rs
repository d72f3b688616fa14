//! Run directories that are none, or that something damaged, and networks that do not answer.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, atomic::AtomicBool, atomic::Ordering},
    thread::JoinHandle,
    time::Duration,
};

use serde_json::json;
use tokio::net::TcpSocket;
use tpsctl_model::plan::RunPlan;
use tpsctl_near::KeyPair;
use tpsctl_provider::{
    DeployedNode, Deployment, Ledger, LedgerHeader, ProcessIdentity, deployment::DeploymentSchema,
    ledger::NodeIntent,
};

use super::{BAD_INPUT, OURS, PROVIDER, assert_helpful, assert_refused};
use crate::{network::SMALL, support::Bench};

/// A process that stands for a node: it runs, and does nothing.
struct Idler(Child);

impl Idler {
    fn start() -> Self {
        let mut command = Command::new("sleep");
        Self(command.arg("600").stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("sleep"))
    }
}

impl Drop for Idler {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The directory of a run whose controller is gone; its nodes are `process`, if any, at `rpc` and `p2p`.
fn made_run(bench: &Bench, process: Option<&Idler>, rpc: SocketAddr, p2p: SocketAddr) -> PathBuf {
    let planned = bench.run(&[
        "scenario",
        "plan",
        "quickstart",
        "--json",
        "--set",
        "chain={shards: 1, rpc_nodes: 0, accounts_per_shard: 100}",
        "--set",
        "search.max=1000tps",
    ]);
    let plan: RunPlan = serde_json::from_slice(&planned.stdout).expect("a plan");
    let root = bench.dir.path().canonicalize().expect("exists").join("runs/made");
    fs_err::create_dir_all(&root).expect("create");
    let gone = ProcessIdentity { pid: 1, start_time_ticks: 0, boot_id: "of another boot".to_owned() };
    let header = LedgerHeader {
        run_id: "made".to_owned(),
        scenario: plan.scenario.clone(),
        run_directory: root.clone(),
        controller: gone,
        created_unix_ms: 1_800_000_000_000,
        is_kept: true,
    };
    let mut ledger = Ledger::create(&root, header).expect("a ledger");
    let node = &plan.nodes[0];
    let home = root.join("nodes/node0/home");
    let intent = NodeIntent { node: node.name.clone(), home: home.clone(), p2p, rpc };
    let id = ledger.intend(intent).expect("an entry");
    if let Some(Idler(child)) = process {
        ledger.record_running(id, ProcessIdentity::of(child.id()).expect("own child")).expect("a record");
    }
    let deployed = DeployedNode {
        name: node.name.clone(),
        role: node.role.clone(),
        p2p,
        rpc,
        pid: process.map_or(1, |Idler(child)| child.id()),
        public_key: KeyPair::from_seed([1; 32]).public(),
        home,
        log: root.join("nodes/node0/log"),
    };
    let deployment = Deployment {
        schema: DeploymentSchema::V1,
        chain_id: plan.chain.chain_id.clone(),
        nodes: vec![deployed],
    };
    let write = |name: &str, value: serde_json::Value| {
        fs_err::write(root.join(name), value.to_string()).expect("write");
    };
    write("plan.json", serde_json::to_value(&plan).expect("JSON"));
    write("deployment.json", serde_json::to_value(&deployment).expect("JSON"));
    root
}

/// Addresses at which nobody listens: sockets that have them and do not.
fn dead() -> [TcpSocket; 2] {
    [(); 2].map(|()| {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
        socket
    })
}

fn addresses(sockets: &[TcpSocket; 2]) -> (SocketAddr, SocketAddr) {
    let [rpc, p2p] = sockets.each_ref().map(|socket| socket.local_addr().expect("bound"));
    (rpc, p2p)
}

const INJECT: &[&str] = &["inject", "made", "--rate", "5tps", "--duration", "1s"];

#[test]
fn directories_that_are_no_runs() {
    let bench = Bench::new();
    fs_err::create_dir_all(bench.dir.path().join("runs/empty")).expect("create");
    fs_err::write(bench.dir.path().join("file"), "x").expect("write");
    for which in ["empty", "runs/empty", "file", "no-such-run", "..", "/", "/etc"] {
        for args in [
            &["down", which][..],
            &["status", which],
            &["report", which],
            &["inject", which, "--rate", "5tps", "--duration", "1s"],
        ] {
            assert_refused(&bench, args, BAD_INPUT, &["failed to open the run", "ledger.json", "what helps"]);
        }
    }
    assert_refused(&bench, &["status"], BAD_INPUT, &["find a run below `runs`", "tpsctl up"]);
    let says = &["find a run below `nowhere`"];
    assert_refused(&bench, &["--runs-dir", "nowhere", "down"], BAD_INPUT, says);
}

#[test]
fn a_ledger_that_is_damaged() {
    for text in ["", "{ torn", "[]", "{}", "\u{0}", "{\"schema\": \"tpsctl.ledger/9\"}"] {
        let bench = Bench::new();
        let root = bench.dir.path().join("runs/broken");
        fs_err::create_dir_all(&root).expect("create");
        fs_err::write(root.join("ledger.json"), text).expect("write");
        let says = &["understand the ledger", "broken/ledger.json", "what helps: `tpsctl down`"];
        assert_refused(&bench, &["status"], PROVIDER, says);
        assert_refused(&bench, &["report"], PROVIDER, says);
        assert_refused(&bench, &["inject", "broken", "--rate", "5tps", "--duration", "1s"], PROVIDER, says);
        let down = bench.run(&["down"]);
        assert_eq!(down.status.code(), Some(PROVIDER));
        assert_helpful(&String::from_utf8_lossy(&down.stderr), says);
    }
}

#[test]
fn artefacts_that_are_damaged() {
    let bench = Bench::new();
    let dead = dead();
    let (rpc, p2p) = addresses(&dead);
    let root = made_run(&bench, None, rpc, p2p);
    let report = |says: &[&str]| assert_refused(&bench, &["report"], OURS, says);
    assert_refused(&bench, &["report"], OURS, &["read `", "fingerprints.json", "what helps"]);
    for text in ["", "{", "[]", "{\"schema\": \"tpsctl.run/9\"}"] {
        fs_err::write(root.join("run.json"), text).expect("write");
        report(&[
            "understand `",
            "run.json",
            "damaged or of another version",
            "what helps: `run.json` cannot",
        ]);
    }
    fs_err::remove_file(root.join("run.json")).expect("own file");
    for text in ["", "{\"schema\": 1}"] {
        fs_err::write(root.join("plan.json"), text).expect("write");
        report(&["understand `", "plan.json", "what helps: `plan.json` cannot"]);
    }
    fs_err::remove_file(root.join("plan.json")).expect("own file");
    report(&["read `", "plan.json", "what helps"]);
}

#[test]
fn a_run_that_is_still_being_measured_has_no_report_yet() {
    let bench = Bench::new();
    let dead = dead();
    let (rpc, p2p) = addresses(&dead);
    let root = made_run(&bench, None, rpc, p2p);
    let controller = Idler::start();
    let path = root.join("ledger.json");
    let text = fs_err::read_to_string(&path).expect("a ledger");
    let mut ledger: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let lives = ProcessIdentity::of(controller.0.id()).expect("own child");
    ledger["header"]["controller"] = serde_json::to_value(lives).expect("JSON");
    fs_err::write(&path, ledger.to_string()).expect("write");
    let says = &["report run `made`", "still being measured", "`tpsctl status made`"];
    assert_refused(&bench, &["report"], BAD_INPUT, says);
    assert!(String::from_utf8_lossy(&bench.run(&["status"]).stdout).contains("being measured"));
    drop(controller);
    assert_refused(&bench, &["report"], OURS, &["fingerprints.json"]);
}

#[test]
fn a_network_that_is_gone() {
    let bench = Bench::new();
    let dead = dead();
    let (rpc, p2p) = addresses(&dead);
    made_run(&bench, None, rpc, p2p);
    assert_refused(&bench, INJECT, BAD_INPUT, &["load run `made`", "not running", "`tpsctl up`"]);
    let status = bench.run(&["status"]);
    assert_eq!(status.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&status.stdout).contains("ended"));
    assert_eq!(bench.run(&["down"]).status.code(), Some(0));
}

/// Removes what `inject` makes before it asks the nodes: a folder for its trial, the lock, the journal.
fn assert_inject_fails(bench: &Bench, root: &Path, says: &[&str]) {
    let output = bench.run(INJECT);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(PROVIDER), "{message}");
    assert!(output.stdout.is_empty());
    assert_helpful(&message, says);
    assert!(!root.join("run.json").exists());
}

#[test]
fn a_node_that_runs_and_does_not_listen() {
    let bench = Bench::new();
    let idler = Idler::start();
    let dead = dead();
    let (rpc, p2p) = addresses(&dead);
    let root = made_run(&bench, Some(&idler), rpc, p2p);
    let address = rpc.to_string();
    assert_inject_fails(
        &bench,
        &root,
        &["error: failed to ask node", &address, "what helps: `tpsctl status`"],
    );
}

/// A server that gives one answer to whatever it is sent, until it is dropped.
struct Fake {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    fn start(answer: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let Ok(mut stream) = stream else { continue };
                stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
                let mut request = [0; 4_096];
                // Whoever goes away early is no matter.
                if stream.read(&mut request).is_ok_and(|len| len > 0) {
                    stream.write_all(answer).ok();
                }
            }
        });
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        std::net::TcpStream::connect(self.address).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server");
        }
    }
}

#[test]
fn a_node_that_answers_nonsense() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>no</html>"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 52\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\"gas_price\":-1}}",
        b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\xff\xfe\xfd\xfc",
        b"\x00\x01\x02\x03 not HTTP at all",
        b"",
    ] {
        let bench = Bench::new();
        let (idler, node) = (Idler::start(), Fake::start(answer));
        let root = made_run(&bench, Some(&idler), node.address, node.address);
        let address = node.address.to_string();
        assert_inject_fails(&bench, &root, &["error: failed to ", &address, "what helps"]);
    }
}

#[test]
fn a_second_injection_beside_the_first() {
    let bench = Bench::new();
    let idler = Idler::start();
    let dead = dead();
    let (rpc, p2p) = addresses(&dead);
    let root = made_run(&bench, Some(&idler), rpc, p2p);
    let lock = fs_err::File::create(root.join("inject.lock")).expect("create");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
    assert_refused(&bench, INJECT, BAD_INPUT, &["load run `made`", "another `tpsctl inject` is loading it"]);
}

/// A file of a version that does not exist yet is not understood wrongly.
#[test]
fn a_deployment_of_another_version() {
    let bench = Bench::new();
    let idler = Idler::start();
    let dead = dead();
    let (rpc, p2p) = addresses(&dead);
    let root = made_run(&bench, Some(&idler), rpc, p2p);
    fs_err::write(root.join("deployment.json"), json!({ "schema": "tpsctl.deployment/9" }).to_string())
        .expect("write");
    let output = bench.run(INJECT);
    assert_eq!(output.status.code(), Some(OURS));
    assert_helpful(
        &String::from_utf8_lossy(&output.stderr),
        &["understand `", "deployment.json", "another version"],
    );
}

/// A report is made again from what is sound; what is damaged is named.
#[test]
fn slow_a_finished_run_that_was_damaged() {
    let bench = Bench::new();
    let run = bench.run(&[&["scenario", "run", "quickstart", "--quiet"], SMALL].concat());
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    let root = bench.only_run();
    // Each report writes the result again.
    let damage = |name: &str, text: &str| {
        fs_err::remove_file(root.join("run.json")).ok();
        fs_err::write(root.join(name), text).expect("write");
    };
    damage("journal.ndjson", "\u{0}garbage\n{}\n");
    let report = bench.run(&["report", "--json"]);
    let rebuilt: serde_json::Value = serde_json::from_slice(&report.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&report.stderr)));
    assert!(rebuilt["trials"].as_array().is_some_and(|trials| trials.len() > 1), "{rebuilt}");
    assert!(rebuilt["warnings"].to_string().contains("line 1 of"), "{rebuilt}");
    damage("scenario.resolved.yaml", "name: [");
    assert_eq!(bench.run(&["report"]).status.code(), Some(0), "the scenario only decorates a report");
    damage("trials/01/verdict.json", "{ torn");
    let says = &["understand `", "trials/01/verdict.json", "what helps: `verdict.json` cannot"];
    assert_refused(&bench, &["report"], OURS, says);
    damage("genesis/fingerprints.json", "[]");
    assert_refused(&bench, &["report"], OURS, &["fingerprints.json"]);
    damage("ledger.json", "");
    assert_refused(&bench, &["report"], PROVIDER, &["understand the ledger"]);
}
