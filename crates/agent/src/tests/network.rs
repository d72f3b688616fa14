//! The whole agent against fake nodes over real sockets. Counts are asserted, never times.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tpsctl_model::{
    Millis, ShardId, Tps,
    load::{InjectReport, InjectTick, LoadOrder, ShardInject, UnsentCause},
    plan::{KeyKind, RunPlan, Signing},
};
use tpsctl_near::KeyPair;
use tpsctl_rpc::P2pError;
use tpsctl_workload::Keyring;

use super::{
    assert_adds_up,
    fake_node::{FakeNode, Manner, assert_valid},
    plan,
};
use crate::{AgentError, LoadAgent, LoadTarget, LocalAgent, clock::unix_now_ns};

/// Longer than any stall of a busy host, so that nothing is late where a test counts on that.
const NEVER_LATE_MS: u64 = 60_000;

fn agent(plan: &RunPlan) -> LocalAgent {
    let keyring = Keyring::build(plan).expect("keys");
    LocalAgent::new(Arc::new(plan.clone()), Arc::new(keyring))
}

fn order(rate: u64, duration_ms: u64) -> LoadOrder {
    LoadOrder {
        trial: 3,
        rate_per_shard: Tps(rate),
        duration_ms: Millis(duration_ms),
        start_unix_ns: unix_now_ns() + 20_000_000,
    }
}

async fn run(agent: &mut LocalAgent, order: LoadOrder) -> InjectReport {
    let (ticks, _none) = mpsc::channel(1);
    let report = agent.run(order, ticks, CancellationToken::new()).await.expect("a report");
    report.shards.iter().for_each(assert_adds_up);
    assert_eq!(report.trial, 3);
    assert!(!report.stream_fingerprint.is_empty());
    report
}

fn is_pushed_back(shard: &ShardInject) -> bool {
    shard.unsent.get(&UnsentCause::BackPressure).is_some_and(|count| *count > 0)
}

/// Repeats a heavy load until `is_shown`, and says what was sent to each shard in all. On a host so busy that the agent
/// itself is late, which it says, a node shows nothing.
async fn load_until(agent: &mut LocalAgent, is_shown: impl Fn(&InjectReport) -> bool) -> Vec<u64> {
    let mut sent = Vec::new();
    for _ in 0..20 {
        // After a load that was cut, the node has its time.
        agent.all_connected(Duration::from_mins(1)).await.expect("connected, still or again");
        let report = run(agent, order(20_000, 3_000)).await;
        sent.resize(report.shards.len(), 0);
        report.shards.iter().zip(&mut sent).for_each(|(shard, sent)| *sent += shard.sent);
        if is_shown(&report) {
            return sent;
        }
    }
    panic!("never shown; sent: {sent:?}")
}

fn targets(nodes: &[&FakeNode]) -> Vec<LoadTarget> {
    nodes.iter().map(|node| node.target.clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_exact_at_every_rate() {
    let plan = plan(1, 1, NEVER_LATE_MS);
    let node = FakeNode::start("cp0-0", 0, Manner::Reads).await;
    let mut agent = agent(&plan);
    let prepared = agent.prepare(targets(&[&node])).await.expect("prepared");
    assert_eq!((prepared.connections, prepared.accounts), (1, 50));
    let mut total = 0;
    for (rate, duration_ms, count) in
        [(0, 50, 0), (1, 1_000, 1), (7, 300, 2), (333, 500, 166), (20_000, 301, 6_020)]
    {
        let report = run(&mut agent, order(rate, duration_ms)).await;
        let shard = &report.shards[0];
        assert_eq!((shard.intended, shard.sent), (count, count), "{rate}");
        assert_eq!((shard.send_lag_ms.count, shard.accepted), (count, None));
        assert_eq!(report.send_lag_ms.count, count);
        total += count;
    }
    // Nonces rise across orders: the node got all in the order of sending.
    let got = node.got_at_least(total).await;
    assert_eq!(got.len() as u64, total);
    assert_valid(&got, prepared.base_height * 1_000_000);
    agent.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producers_of_a_shard_take_turns_and_share_no_key() {
    let mut plan = plan(2, 2, NEVER_LATE_MS);
    plan.accounts.keys = KeyKind::Seed;
    plan.load.signing = Signing::Rfc8032;
    let mut nodes = Vec::new();
    for (number, shard) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        nodes.push(FakeNode::start(&format!("cp{number}-{shard}"), shard, Manner::Reads).await);
    }
    let mut agent = agent(&plan);
    agent.prepare(targets(&nodes.iter().collect::<Vec<_>>())).await.expect("prepared");
    let report = run(&mut agent, order(1_001, 1_000)).await;
    let again = run(&mut agent, order(1_001, 1_000)).await;
    assert_ne!(report.stream_fingerprint, again.stream_fingerprint);
    for shard in report.shards.iter().chain(&again.shards) {
        assert_eq!((shard.intended, shard.sent), (1_001, 1_001));
        assert!(shard.sent_to[&ShardId(0)].abs_diff(shard.sent_to[&ShardId(1)]) <= 3, "{shard:?}");
    }
    let mut keys = BTreeSet::new();
    for node in &nodes {
        let got = node.got_at_least(1_001).await;
        assert_eq!(got.len(), 1_001, "two orders of 1 001, in turns");
        assert_valid(&got, 0);
        let own: BTreeSet<_> = got.iter().map(|signed| signed.transaction.public_key).collect();
        assert_eq!(own.len(), 25);
        keys.extend(own);
    }
    assert_eq!(keys.len(), 100);
    agent.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_seeds_send_equal_streams() {
    let mut fingerprints = Vec::new();
    for _ in 0..2 {
        let plan = plan(1, 1, NEVER_LATE_MS);
        let node = FakeNode::start("cp0-0", 0, Manner::Reads).await;
        let mut agent = agent(&plan);
        agent.prepare(targets(&[&node])).await.expect("prepared");
        fingerprints.push(run(&mut agent, order(500, 200)).await.stream_fingerprint);
    }
    assert_eq!(fingerprints[0], fingerprints[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_read_holds_up_nobody_else() {
    let plan = plan(2, 1, 500);
    let stuck = FakeNode::start("cp0-0", 0, Manner::NeverReads).await;
    let well = FakeNode::start("cp0-1", 1, Manner::Reads).await;
    let mut agent = agent(&plan);
    agent.prepare(targets(&[&stuck, &well])).await.expect("prepared");
    let sent = load_until(&mut agent, |report| {
        is_pushed_back(&report.shards[0]) && !is_pushed_back(&report.shards[1])
    })
    .await;
    assert_eq!(well.got_at_least(sent[1]).await.len() as u64, sent[1]);
    // Ends at once, though a node does not read.
    timeout(Duration::from_mins(1), agent.close()).await.expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_reads_after_the_flush_deadline_gets_all_that_was_sent() {
    let plan = plan(1, 1, 500);
    let node = FakeNode::start("cp0-0", 0, Manner::ReadsLater).await;
    let mut agent = agent(&plan);
    agent.prepare(targets(&[&node])).await.expect("prepared");
    let sent = load_until(&mut agent, |report| {
        assert_eq!(report.shards[0].on_broken_connection, 0);
        is_pushed_back(&report.shards[0])
    })
    .await[0];
    // The deadline is over, most likely in the middle of a frame: what was written whole is on its way all the same.
    node.read_on();
    let got = node.got_at_least(sent).await;
    assert_eq!(got.len() as u64, sent);
    assert_valid(&got, 0);
    agent.all_connected(Duration::from_mins(1)).await.expect("connected, still or again");
    assert_eq!(agent.broken_since().await.expect("prepared"), [].into());
    let next = run(&mut agent, order(100, 200)).await;
    assert_eq!((next.shards[0].intended, next.shards[0].on_broken_connection), (20, 0));
    let sent = sent + next.shards[0].sent;
    assert_eq!(node.got_at_least(sent).await.len() as u64, sent);
    agent.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_closes_is_made_again() {
    for manner in [Manner::ClosesAfter(300), Manner::Garbles] {
        let plan = plan(1, 1, NEVER_LATE_MS);
        let node = FakeNode::start("cp0-0", 0, manner).await;
        let mut agent = agent(&plan);
        agent.prepare(targets(&[&node])).await.expect("prepared");
        let report = run(&mut agent, order(1_000, 3_000)).await;
        let shard = &report.shards[0];
        assert_eq!((shard.intended, shard.reconnects), (3_000, 1), "{manner:?}: {shard:?}");
        assert!(shard.sent > 300, "{manner:?}: load goes on after the break: {shard:?}");
        assert!(
            shard.unsent.keys().all(|cause| *cause == UnsentCause::NotConnected),
            "{manner:?}: {shard:?}"
        );
        let got = node.got_at_least(shard.sent - shard.on_broken_connection).await;
        let unread = shard.sent - got.len() as u64;
        assert!(unread <= shard.on_broken_connection, "{manner:?}: {unread} unread, {shard:?}");
        assert_valid(&got, 0);
        agent.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_load_reports_what_had_fallen_due() {
    let plan = plan(1, 1, NEVER_LATE_MS);
    let node = FakeNode::start("cp0-0", 0, Manner::Reads).await;
    let mut agent = agent(&plan);
    agent.prepare(targets(&[&node])).await.expect("prepared");
    let (ticks_in, mut ticks) = mpsc::channel::<InjectTick>(16);
    let cancel = CancellationToken::new();
    let watch = async {
        while let Some(tick) = ticks.recv().await {
            assert!(tick.sent + tick.unsent <= tick.intended);
            if tick.sent > 0 {
                break;
            }
        }
        cancel.cancel();
        ticks
    };
    let (report, _ticks) = tokio::join!(agent.run(order(1_000, 3_600_000), ticks_in, cancel.clone()), watch);
    let report = report.expect("a report");
    let shard = &report.shards[0];
    assert_adds_up(shard);
    assert!(shard.sent > 0 && shard.intended < 3_600_000);
    assert!(shard.unsent.keys().all(|cause| *cause == UnsentCause::Stopped), "{shard:?}");
    // Cancelled before its start, an order ends with nothing intended.
    let late = LoadOrder { start_unix_ns: unix_now_ns() + 3_600_000_000_000, ..order(1_000, 1_000) };
    let (ticks, _none) = mpsc::channel(1);
    let report = agent.run(late, ticks, cancel).await.expect("a report");
    assert_eq!((report.shards[0].intended, report.shards[0].sent), (0, 0));
    agent.close().await;
}

#[tokio::test]
async fn what_cannot_be_prepared_or_run_is_said() {
    let mut plan = plan(1, 1, 100);
    plan.node.ready_timeout_ms = Millis(200);
    let node = FakeNode::start("cp0-0", 0, Manner::Reads).await;
    let mut agent = agent(&plan);
    assert_eq!(agent.hello().await.expect("local").contract, crate::CONTRACT);
    let attempt = |order: LoadOrder| (order, mpsc::channel(1).0, CancellationToken::new());
    let (now, ticks, cancel) = attempt(order(1, 1));
    let unprepared = agent.run(now, ticks, cancel).await.expect_err("not prepared");
    assert!(matches!(unprepared, AgentError::NotPrepared) && !unprepared.is_node());
    let nowhere = agent.prepare(Vec::new()).await.expect_err("no target");
    assert!(matches!(nowhere, AgentError::NoTarget { .. }) && !nowhere.is_node());

    let impostor = LoadTarget { peer_id: KeyPair::from_seed([9; 32]).public(), ..node.target.clone() };
    let refused = agent.prepare(vec![impostor]).await.expect_err("another key");
    assert!(
        matches!(&refused, AgentError::Connect { source, .. } if matches!(**source, P2pError::Refused { .. })),
        "{refused:?}"
    );
    assert!(refused.is_node());
    let gone = FakeNode::start("cp0-0", 0, Manner::Reads).await.target.clone();
    let silent = agent.prepare(vec![gone]).await.expect_err("nobody listens");
    assert!(matches!(silent, AgentError::Status { .. }) && silent.is_node(), "{silent:?}");
    let still = FakeNode::start("cp0-0", 0, Manner::StandsStill).await;
    let stalled = agent.prepare(targets(&[&still])).await.expect_err("no progress");
    assert!(matches!(stalled, AgentError::HeadStalled { height: 40, wanted: 41, .. }), "{stalled:?}");
    assert!(stalled.is_node());

    agent.prepare(targets(&[&node])).await.expect("prepared");
    let past = LoadOrder { start_unix_ns: unix_now_ns() - 2_000_000_000, ..order(1, 1) };
    let (past, ticks, cancel) = attempt(past);
    assert!(matches!(
        agent.run(past, ticks, cancel).await,
        Err(AgentError::StartInPast { late_ms: 2_000.. })
    ));
    // A refused order leaves the agent ready for the next one.
    assert_eq!(run(&mut agent, order(100, 100)).await.shards[0].intended, 10);
    agent.close().await;
}

#[tokio::test]
async fn keys_are_used_on_their_own_chain_only() {
    let mut plan = plan(1, 1, 100);
    "othernet".clone_into(&mut plan.chain.chain_id);
    let node = FakeNode::start("cp0-0", 0, Manner::Reads).await;
    let refused = agent(&plan).prepare(targets(&[&node])).await.expect_err("another chain");
    assert!(
        matches!(&refused, AgentError::OtherChain { chain_id, .. } if *chain_id == node.identity.chain_id)
    );
    assert!(refused.is_node());
}

/// What is on connections that broke, as soon as there is any.
async fn broken_soon(agent: &LocalAgent) -> BTreeMap<ShardId, u64> {
    let look = async {
        loop {
            let broken = agent.broken_since().await.expect("prepared");
            if !broken.is_empty() {
                return broken;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_mins(1), look).await.expect("a break is noticed")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_break_between_loads_is_told_and_mended() {
    let plan = plan(2, 1, NEVER_LATE_MS);
    let well = FakeNode::start("cp0-0", 0, Manner::Reads).await;
    let breaking = FakeNode::start("cp0-1", 1, Manner::Reads).await;
    let mut agent = agent(&plan);
    assert!(matches!(agent.broken_since().await, Err(AgentError::NotPrepared)));
    agent.prepare(targets(&[&well, &breaking])).await.expect("prepared");
    agent.all_connected(Duration::ZERO).await.expect("prepared means connected");
    assert_eq!(run(&mut agent, order(100, 200)).await.shards[1].on_broken_connection, 0);
    assert_eq!(agent.broken_since().await.expect("prepared"), [].into());

    breaking.hang_up();
    // All 20, unless this test was not scheduled for most of a second within the load.
    let broken = broken_soon(&agent).await;
    assert!(matches!(broken.get(&ShardId(1)), Some(1..=20)) && broken.len() == 1, "{broken:?}");
    agent.all_connected(Duration::from_mins(1)).await.expect("connected again");
    let next = run(&mut agent, order(100, 200)).await;
    assert_eq!((next.shards[1].sent, next.shards[1].reconnects), (20, 0));
    assert_eq!(agent.broken_since().await.expect("prepared"), [].into());

    let name = breaking.target.producer.clone();
    drop(breaking);
    broken_soon(&agent).await;
    let missing = agent.all_connected(Duration::from_millis(100)).await.expect_err("nobody listens");
    assert!(
        matches!(&missing, AgentError::NotReconnected { producer, deadline_ms: 100 } if *producer == name),
        "{missing:?}"
    );
    assert!(missing.is_node());
    agent.close().await;
}
