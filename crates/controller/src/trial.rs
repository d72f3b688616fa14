//! One trial: load, drain, idle proof; what was sent and what was seen, then counted and judged.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::Serialize;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;
use tpsctl_agent::{LoadAgent, LoadTarget, LocalAgent};
use tpsctl_model::{
    Millis, NodeName, Tps,
    event::{RunEvent, TrialPhase},
    load::{InjectReport, InjectTick, LoadOrder},
    observation::{BlockFact, Gap, MetricsSample, NodeExit, Observation},
    plan::{NodeRole, RunPlan},
    result::TrialRecord,
};
use tpsctl_provider::{Deployment, Ledger, Network, NodeEnded};
use tpsctl_workload::Keyring;

use crate::{
    RunDir, clock,
    error::ControllerError,
    events::Events,
    network::{BlocksAdvance, wait_until_ready},
    watch::{Ending, Progress, Watch},
};

/// From order to start: time for the agent to have the order and be ready.
const START_DELAY: Duration = Duration::from_millis(300);
/// From one live figure to the next; also how often the drain is looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// Ticks of the injector that may wait: each supersedes the one before, so few are enough.
const TICKS_WAITING_MAX: usize = 16;

/// What a trial is to do.
#[derive(Debug, Clone)]
pub(crate) struct TrialOrder {
    pub(crate) trial: u32,
    pub(crate) rate_per_shard: u64,
    pub(crate) why: String,
    pub(crate) warmup_ms: Millis,
    pub(crate) window_ms: Millis,
    /// Where its artefacts go.
    pub(crate) folder: PathBuf,
}

/// What trials are run on.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) plan: &'a RunPlan,
    /// The network and its ledger, where this process made them; none where it only loads a network.
    pub(crate) network: Option<(&'a mut Network, &'a mut Ledger)>,
    pub(crate) watch: &'a mut Watch,
    pub(crate) agent: &'a mut LocalAgent,
    pub(crate) events: &'a mut Events,
    pub(crate) interrupt: &'a CancellationToken,
}

/// An injector for every producer of `plan`, connected.
pub(crate) async fn agent(
    plan: &Arc<RunPlan>,
    keyring: &Arc<Keyring>,
    deployment: &Deployment,
) -> Result<LocalAgent, ControllerError> {
    let targets = deployment
        .nodes
        .iter()
        .filter_map(|node| match node.role {
            NodeRole::Producer { shard, .. } => Some(LoadTarget {
                shard,
                producer: node.name.clone(),
                peer_id: node.public_key,
                p2p: node.p2p,
                rpc: node.rpc,
            }),
            NodeRole::Rpc => None,
        })
        .collect();
    let mut agent = LocalAgent::new(Arc::clone(plan), Arc::clone(keyring));
    agent.prepare(targets).await?;
    Ok(agent)
}

/// What one trial's load and drain left to be judged.
struct Ran {
    report: InjectReport,
    exits: Vec<NodeExit>,
    drained_unix_ns: u64,
    is_idle: bool,
}

/// Runs one trial and writes its artefacts.
pub(crate) async fn run(
    bench: &mut Bench<'_>,
    order: &TrialOrder,
) -> Result<(TrialRecord, Vec<NodeName>), ControllerError> {
    let load_ms = Millis(order.warmup_ms.0 + order.window_ms.0);
    bench
        .events
        .tell(RunEvent::TrialStarted {
            trial: order.trial,
            rate_per_shard: order.rate_per_shard,
            load_ms: load_ms.0,
            why: order.why.clone(),
        })
        .await?;
    bench.watch.begin_trial().await?;
    let start_unix_ns = clock::unix_ns() + u64::try_from(START_DELAY.as_nanos()).unwrap_or(0);
    let load = LoadOrder {
        trial: order.trial,
        rate_per_shard: Tps(order.rate_per_shard),
        duration_ms: load_ms,
        start_unix_ns,
    };
    let ran = load_and_drain(bench, load).await?;
    let window_from_unix_ns = ran.report.started_unix_ns + order.warmup_ms.0 * 1_000_000;
    let window = window_from_unix_ns..window_from_unix_ns + order.window_ms.0 * 1_000_000;
    let ended = ran.exits.iter().map(|exit| exit.node.clone()).collect();
    let ending =
        Ending { window, drained_unix_ns: ran.drained_unix_ns, is_idle: ran.is_idle, exits: ran.exits };
    let observation = bench.watch.observation(bench.plan, &ran.report, ending).await;
    let record = judged(bench, order, &ran.report, &observation);
    write_artefacts(&order.folder, &record, &ran.report, &observation)?;
    Ok((record, ended))
}

/// Runs the load, then waits until the network is idle or the deadline for that has come. A node's end stops the load:
/// the trial is decided, and going on would only make more to drain.
async fn load_and_drain(bench: &mut Bench<'_>, load: LoadOrder) -> Result<Ran, ControllerError> {
    let plan = &bench.plan.trial;
    let (drain_timeout, idle_timeout) =
        (plan.drain_timeout_ms.as_duration(), plan.idle_timeout_ms.as_duration());
    let trial = load.trial;
    let stop = bench.interrupt.child_token();
    let (ticks, mut tick_receiver) = mpsc::channel(TICKS_WAITING_MAX);
    let running = bench.agent.run(load, ticks, stop.clone());
    tokio::pin!(running);
    let mut look = tokio::time::interval(LOOK_PERIOD);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut tick = InjectTick::default();
    let mut exits = Vec::new();
    let mut loaded: Option<(InjectReport, Instant)> = None;
    let mut drained_unix_ns = None;
    let (report, is_idle) = loop {
        tokio::select! {
            report = &mut running, if loaded.is_none() => {
                let report = report?;
                bench.watch.load_ended(clock::unix_ns());
                loaded = Some((report, Instant::now()));
            }
            Some(newer) = tick_receiver.recv(), if loaded.is_none() => tick = newer,
            seen = bench.watch.next() => seen?,
            ended = next_exit(&mut bench.network) => {
                exits.push(note_exit(ended?, bench.events).await?);
                stop.cancel();
            }
            _ = look.tick() => {}
        }
        let progress = bench.watch.progress();
        let phase = if loaded.is_none() { TrialPhase::Load } else { TrialPhase::Drain };
        bench.events.live(live(trial, tick, &progress, phase));
        let Some((report, ended_at)) = &loaded else { continue };
        let sent: u64 = report.shards.iter().map(|shard| shard.sent).sum();
        let is_over = !exits.is_empty() || bench.interrupt.is_cancelled();
        if drained_unix_ns.is_none()
            && (progress.settled >= sent || ended_at.elapsed() >= drain_timeout || is_over)
        {
            drained_unix_ns = Some(clock::unix_ns());
        }
        let is_idle = drained_unix_ns.is_some() && bench.watch.is_idle();
        if is_idle || is_over || ended_at.elapsed() >= idle_timeout {
            break (report.clone(), is_idle);
        }
    };
    Ok(Ran { report, exits, drained_unix_ns: drained_unix_ns.unwrap_or_else(clock::unix_ns), is_idle })
}

fn live(trial: u32, inject: InjectTick, progress: &Progress, phase: TrialPhase) -> RunEvent {
    RunEvent::Live {
        trial,
        inject,
        height: progress.height,
        settled: progress.settled,
        missed_chunk_slots: progress.missed_chunk_slots,
        phase,
    }
}

async fn note_exit(ended: NodeEnded, events: &mut Events) -> Result<NodeExit, ControllerError> {
    let exit = NodeExit { node: ended.node, unix_ns: clock::unix_ns(), exit: ended.exit };
    events.tell(RunEvent::NodeEnded { node: exit.node.clone(), exit: exit.exit }).await?;
    Ok(exit)
}

fn judged(
    bench: &Bench<'_>,
    order: &TrialOrder,
    report: &InjectReport,
    observation: &Observation,
) -> TrialRecord {
    let plan = bench.plan;
    let counted = tpsctl_search::count(report, observation, plan);
    let verdict = tpsctl_search::judge(&counted, report, observation, plan, bench.interrupt.is_cancelled());
    TrialRecord {
        trial: order.trial,
        rate_per_shard: order.rate_per_shard,
        why: order.why.clone(),
        cause: verdict.cause(),
        verdict,
        counts: counted.counts,
        block_time_ms: counted.block_time_ms,
        send_lag_ms: report.send_lag_ms,
        shards: counted.shards,
        skipped_heights: counted.skipped_heights,
        load_seconds: counted.load_seconds,
        drain_seconds: counted.drain_seconds,
    }
}

/// The next end of a node that this process made; for ever without one.
async fn next_exit(network: &mut Option<(&mut Network, &mut Ledger)>) -> Result<NodeEnded, ControllerError> {
    match network {
        Some((network, _)) => Ok(network.next_exit().await?),
        None => std::future::pending().await,
    }
}

/// One line of `samples.ndjson`.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    Block(&'a BlockFact),
    Metrics(&'a MetricsSample),
    Gap(&'a Gap),
    Exit(&'a NodeExit),
}

fn write_artefacts(
    folder: &Path,
    record: &TrialRecord,
    report: &InjectReport,
    observation: &Observation,
) -> Result<(), ControllerError> {
    RunDir::write_json(&folder.join("inject.json"), report)?;
    let path = folder.join("samples.ndjson");
    let blocks = observation.blocks.iter().map(Line::Block);
    let metrics = observation.samples.iter().map(Line::Metrics);
    let gaps = observation.gaps.iter().map(Line::Gap);
    let exits = observation.exits.iter().map(Line::Exit);
    let mut text = String::new();
    for line in blocks.chain(metrics).chain(gaps).chain(exits) {
        let line = serde_json::to_string(&line)
            .map_err(|source| ControllerError::Encode { path: path.clone(), source })?;
        text.push_str(&line);
        text.push('\n');
    }
    RunDir::write_text(&path, &text)?;
    RunDir::write_json(&folder.join("verdict.json"), record)
}

/// After a trial: nodes that ended are started again, and the network must be idle before the next one.
pub(crate) async fn recover(bench: &mut Bench<'_>, ended: &[NodeName]) -> Result<(), ControllerError> {
    if let (Some((network, ledger)), false) = (&mut bench.network, ended.is_empty()) {
        let events = bench.events.sender();
        let on_event = move |event| drop(events.try_send(event));
        for node in ended {
            network.restart(node, ledger, &on_event).await?;
        }
        let timeout = bench.plan.node.ready_timeout_ms.as_duration();
        wait_until_ready(&BlocksAdvance::default(), network.deployment(), timeout).await?;
    }
    bench.watch.load_ended(if ended.is_empty() { bench.watch.load_end() } else { clock::unix_ns() });
    let timeout = bench.plan.trial.idle_timeout_ms.as_duration();
    let deadline = Instant::now() + timeout;
    while !bench.watch.is_idle() {
        tokio::select! {
            seen = bench.watch.next() => seen?,
            () = bench.interrupt.cancelled() => return Ok(()),
            () = tokio::time::sleep_until(deadline) => return Err(ControllerError::NotIdle { timeout }),
        }
    }
    Ok(())
}
