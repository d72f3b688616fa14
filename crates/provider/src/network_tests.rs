use std::os::unix::fs::symlink;

use tpsctl_model::{observation::ExitKind, plan::NodeRole};
use tpsctl_near::KeyPair;

use super::*;
use crate::{
    durable::temporary_of,
    ledger::{EntryState, LEDGER_FILE},
    ports,
    test_support::{POLITE, STUBBORN, TestRun, intent},
};

const QUIET: OnEvent<'static> = &|_| {};

fn prepared(run: &TestRun, name: &str, body: &str) -> PreparedNode {
    let command = run.command(name, body);
    let ports = ports::reserve(1).expect("ports").remove(0);
    let node = DeployedNode {
        name: command.node.clone(),
        role: NodeRole::Rpc,
        p2p: ports.p2p,
        rpc: ports.rpc,
        pid: 0,
        public_key: KeyPair::from_seed([1; 32]).public(),
        home: run.path().join("nodes").join(name).join("home"),
        log: command.log.clone(),
    };
    PreparedNode { node, command, ports }
}

async fn network(run: &TestRun, ledger: &mut Ledger, nodes: &[(&str, &str)]) -> Network {
    let mut network = Network::new("benchmarknet");
    for (name, body) in nodes {
        network.add(prepared(run, name, body), ledger, QUIET).await.expect("started");
    }
    network
}

fn name(text: &str) -> NodeName {
    NodeName(text.to_owned())
}

#[tokio::test]
async fn the_ledger_follows_each_process() {
    let run = TestRun::new();
    let mut ledger = run.ledger();
    let mut network = network(&run, &mut ledger, &[("a", POLITE), ("b", STUBBORN)]).await;
    for (node, entry) in network.deployment().nodes.iter().zip(ledger.entries()) {
        assert_eq!(Some(node.pid), entry.process().map(|process| process.pid));
        assert_eq!((&node.name, node.p2p, node.rpc), (&entry.node, entry.p2p, entry.rpc));
    }
    let ends = network.stop(&mut ledger, Duration::from_millis(200)).await.expect("stopped");
    assert!(ends.iter().all(|end| end.is_asked_for) && ends.len() == 2, "{ends:?}");
    assert_eq!(Ledger::open(&run.path()).expect("whole").open_entries().count(), 0);
    assert_eq!(run.alive(), []);
}

#[tokio::test]
async fn each_end_is_told_once_in_any_order() {
    let run = TestRun::new();
    let mut ledger = run.ledger();
    let mut network =
        network(&run, &mut ledger, &[("a", POLITE), ("b", "exit 3"), ("c", "kill -KILL $$")]).await;
    let mut told = Vec::new();
    for _ in 0..2 {
        let ended = network.next_exit().await.expect("reaped");
        told.push((ended.node.0, ended.exit, ended.is_asked_for));
    }
    told.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [("b".to_owned(), ExitKind::Code(3), false), ("c".to_owned(), ExitKind::Signal(9), false)];
    assert_eq!(told, expected);
    let nothing = tokio::time::timeout(Duration::from_millis(50), network.next_exit()).await;
    assert!(nothing.is_err(), "the third still runs: {nothing:?}");
    network.stop(&mut ledger, Duration::ZERO).await.expect("stopped");
}

#[tokio::test]
async fn a_node_killed_from_outside_starts_again_where_it_was() {
    let run = TestRun::new();
    let mut ledger = run.ledger();
    let mut network = network(&run, &mut ledger, &[("a", POLITE), ("b", POLITE)]).await;
    let before = network.deployment().clone();
    let still = network.restart(&name("a"), &mut ledger, QUIET).await.expect_err("it runs");
    assert!(matches!(still, ProviderError::StillRunning { .. }), "{still:?}");
    let unknown = network.restart(&name("z"), &mut ledger, QUIET).await.expect_err("none");
    assert!(matches!(unknown, ProviderError::UnknownNode { .. }), "{unknown:?}");

    let process = network.handle(&name("a")).expect("there").process().clone();
    assert!(process.signal(rustix::process::Signal::KILL).expect("sent"));
    let ended = network.next_exit().await.expect("reaped");
    assert_eq!((ended.node, ended.exit, ended.is_asked_for), (name("a"), ExitKind::Signal(9), false));

    let pid = network.restart(&name("a"), &mut ledger, QUIET).await.expect("again");
    let now = network.deployment().node(&name("a")).expect("there");
    assert_eq!(now, &DeployedNode { pid, ..before.nodes[0].clone() });
    let states: Vec<_> = ledger.entries().iter().map(|entry| (&*entry.node.0, entry.has_ended())).collect();
    assert_eq!(states, [("a", true), ("b", false), ("a", false)]);
    network.stop(&mut ledger, Duration::from_millis(200)).await.expect("stopped");
    assert_eq!(run.alive(), []);
}

#[tokio::test]
async fn nothing_starts_that_cannot_be_written_down() {
    let run = TestRun::new();
    let mut ledger = run.ledger();
    let mut network = Network::new("benchmarknet");
    let node = prepared(&run, "a", POLITE);
    symlink("/dev/full", temporary_of(&run.path().join(LEDGER_FILE))).expect("link");
    let error = network.add(node, &mut ledger, QUIET).await.expect_err("full");
    assert!(matches!(error, ProviderError::Write { .. }), "{error:?}");
    assert_eq!(run.alive(), []);
    assert_eq!(Ledger::open(&run.path()).expect("whole").entries(), []);
    assert!(!run.path().join("nodes/a/log").exists(), "the program never ran");
}

#[tokio::test]
async fn a_process_that_cannot_be_recorded_is_ended() {
    let run = TestRun::new();
    let mut ledger = run.ledger();
    ledger.intend(intent("other")).expect("intend");
    // The disk fills up between the two writes: the intent names an entry that the ledger then does not know.
    let node = prepared(&run, "a", POLITE);
    let path = run.path().join(LEDGER_FILE);
    let (handle, _) = NodeHandle::spawn(node.command.clone()).expect("spawned");
    let process = handle.process().clone();
    symlink("/dev/full", temporary_of(&path)).expect("link");
    let error = super::recorded(&mut ledger, 1, handle).await.expect_err("full");
    assert!(matches!(error, ProviderError::Write { .. }), "{error:?}");
    assert!(!process.is_alive().expect("proc"));
    assert!(matches!(ledger.entries()[0].state, EntryState::Intended));
}
