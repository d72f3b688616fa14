//! One trial: load, drain, idle proof; what was sent and what was seen, then counted and judged.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Serialize;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;
use tpsctl_agent::{AgentError, LoadAgent, LoadTarget, LocalAgent};
use tpsctl_model::{
    Millis, NodeName, Tps,
    event::{RunEvent, TrialPhase},
    load::{InjectReport, InjectTick, LoadOrder, QuantilesMs, ShardInject},
    observation::{BlockFact, ExitKind, Gap, MetricsSample, NodeExit, Observation},
    plan::{NodeRole, RunPlan},
    result::{TrialCounts, TrialRecord},
    verdict::{BrokenCriterion, InvalidCause, Verdict},
};
use tpsctl_provider::{DeployedNode, Deployment};
use tpsctl_search::JudgedLoad;

use crate::{
    RunDir, clock,
    error::ControllerError,
    events::Events,
    network::chain,
    nodes::Nodes,
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
    pub(crate) targets: Vec<LoadTarget>,
    pub(crate) nodes: Nodes<'a>,
    pub(crate) watch: &'a mut Watch,
    pub(crate) agent: &'a mut LocalAgent,
    pub(crate) events: &'a mut Events,
    pub(crate) interrupt: &'a CancellationToken,
}

/// Every producer of a deployment, for each of its shards, as the injector needs to know it.
pub(crate) fn targets(deployment: &Deployment) -> Vec<LoadTarget> {
    let target = |node: &DeployedNode, shard| LoadTarget {
        shard,
        producer: node.name.clone(),
        peer_id: node.public_key,
        p2p: node.p2p,
        rpc: node.rpc,
    };
    let of_node = |node: &DeployedNode| match &node.role {
        NodeRole::Producer { shards, .. } => {
            shards.iter().map(|shard| target(node, *shard)).collect::<Vec<_>>()
        }
        NodeRole::ChunkValidator { .. } | NodeRole::Rpc => Vec::new(),
    };
    deployment.nodes.iter().flat_map(of_node).collect()
}

impl Bench<'_> {
    /// Connects the injector to every producer, anew. Ctrl-C ends the waiting.
    pub(crate) async fn connect(&mut self) -> Result<(), ControllerError> {
        tokio::select! {
            prepared = self.agent.prepare(self.targets.clone()) => prepared.map(drop).map_err(Into::into),
            () = self.interrupt.cancelled() => Err(ControllerError::Interrupted),
        }
    }
}

/// What a trial leaves to be put right before the next one.
#[derive(Debug, Default)]
pub(crate) struct Aftermath {
    /// Nodes that ended.
    pub(crate) ended: Vec<NodeName>,
    /// The injector failed and must be prepared again.
    pub(crate) is_agent_lost: bool,
    /// The wall clock was stepped: whoever compares times must begin anew.
    pub(crate) is_clock_stepped: bool,
}

/// What one trial's load and drain left to be judged.
struct Ran {
    /// None where the injector failed: then there are no counts to judge.
    report: Result<InjectReport, AgentError>,
    exits: Vec<NodeExit>,
    drained_unix_ns: u64,
    is_idle: bool,
}

/// Runs one trial and writes its artefacts.
pub(crate) async fn run(
    bench: &mut Bench<'_>,
    order: &TrialOrder,
) -> Result<(TrialRecord, Aftermath), ControllerError> {
    let load_ms = Millis(order.warmup_ms.0.saturating_add(order.window_ms.0));
    let started = RunEvent::TrialStarted {
        trial: order.trial,
        rate_per_shard: order.rate_per_shard,
        load_ms: load_ms.0,
        why: order.why.clone(),
    };
    bench.events.tell(started).await;
    bench.watch.begin_trial(bench.plan.node.ready_timeout_ms.as_duration(), bench.interrupt).await?;
    let load = LoadOrder {
        trial: order.trial,
        rate_per_shard: Tps(order.rate_per_shard),
        duration_ms: load_ms,
        start_unix_ns: clock::unix_ns() + u64::try_from(START_DELAY.as_nanos()).unwrap_or(0),
    };
    let ran = load_and_drain(bench, load).await?;
    let mut aftermath =
        Aftermath { ended: ran.exits.iter().map(|exit| exit.node.clone()).collect(), ..Aftermath::default() };
    let mut report = match ran.report {
        Ok(report) => report,
        Err(error) => {
            aftermath.is_agent_lost = true;
            let record = lost(order, &error, &ran.exits);
            if let Err(fault) = RunDir::write_json(&order.folder.join("verdict.json"), &record) {
                bench.events.warn(format!("failed to {}", chain(&fault))).await;
            }
            return Ok((record, aftermath));
        }
    };
    for (shard, broken) in bench.agent.broken_since().await? {
        let own = report.shards.iter_mut().filter(|own| own.shard == shard);
        own.for_each(|own| own.on_broken_connection += broken);
    }
    aftermath.is_clock_stepped = report.clock_stepped;
    let after =
        |from_unix_ns: u64, time_ms: Millis| from_unix_ns.saturating_add(time_ms.0.saturating_mul(1_000_000));
    let window_from_unix_ns = after(report.started_unix_ns, order.warmup_ms);
    let window = window_from_unix_ns..after(window_from_unix_ns, order.window_ms);
    let ending =
        Ending { window, drained_unix_ns: ran.drained_unix_ns, is_idle: ran.is_idle, exits: ran.exits };
    let observation = bench.watch.observation(bench.plan, &report, ending).await;
    let record = judged(bench, order, &report, &observation);
    // What was measured is kept in memory and in run.json, also where the disk takes no more artefacts.
    if let Err(fault) = write_artefacts(&order.folder, &record, &report, &observation) {
        bench
            .events
            .warn(format!("trial {} has no artefacts: failed to {}", order.trial, chain(&fault)))
            .await;
    }
    Ok((record, aftermath))
}

/// The record of a trial whose injector failed: nothing is known of what it sent. A node that died by itself is the
/// reason all the same, and a fail.
fn lost(order: &TrialOrder, error: &AgentError, exits: &[NodeExit]) -> TrialRecord {
    let by_itself = exits.iter().filter(|exit| exit.exit.is_self_inflicted());
    let criteria: Vec<_> = by_itself
        .map(|exit| BrokenCriterion::NodeCrashed { node: exit.node.clone(), exit: exit.exit })
        .collect();
    let verdict = if criteria.is_empty() {
        let ended =
            exits.iter().map(|exit| InvalidCause::NodeEnded { node: exit.node.clone(), exit: exit.exit });
        let lost = InvalidCause::AgentLost { error: chain(error) };
        Verdict::Invalid { causes: ended.chain([lost]).collect() }
    } else {
        Verdict::Fail { criteria }
    };
    TrialRecord {
        trial: order.trial,
        rate_per_shard: order.rate_per_shard,
        why: order.why.clone(),
        cause: verdict.cause(),
        verdict,
        counts: TrialCounts::default(),
        block_time_ms: QuantilesMs::default(),
        send_lag_ms: QuantilesMs::default(),
        shards: Vec::new(),
        skipped_heights: 0,
        load_seconds: 0.0,
        drain_seconds: 0.0,
    }
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
    let mut loaded = None;
    let mut drained_unix_ns = None;
    let (report, is_idle) = loop {
        tokio::select! {
            report = &mut running, if loaded.is_none() => {
                bench.watch.load_ended(clock::unix_ns());
                loaded = Some((report, Instant::now()));
            }
            Some(newer) = tick_receiver.recv(), if loaded.is_none() => tick = newer,
            seen = bench.watch.next() => seen?,
            ended = bench.nodes.next_exit() => {
                exits.push(note_exit(ended?, bench.events).await);
                stop.cancel();
            }
            _ = look.tick() => {}
        }
        let progress = bench.watch.progress();
        if let Some((Ok(report), _)) = &loaded {
            tick = total(report);
        }
        let phase = if loaded.is_none() { TrialPhase::Load } else { TrialPhase::Drain };
        bench.events.live(live(trial, tick, &progress, phase));
        let Some((report, ended_at)) = &loaded else { continue };
        let sent =
            report.as_ref().map_or(u64::MAX, |report| report.shards.iter().map(|shard| shard.sent).sum());
        let is_idle = bench.watch.is_idle();
        let is_over =
            !exits.is_empty() || bench.interrupt.is_cancelled() || ended_at.elapsed() >= idle_timeout;
        if is_idle || is_over || progress.settled >= sent || ended_at.elapsed() >= drain_timeout {
            drained_unix_ns.get_or_insert_with(clock::unix_ns);
        }
        if let Some((report, _)) = loaded.take_if(|_| is_idle || is_over) {
            break (report, is_idle);
        }
    };
    Ok(Ran { report, exits, drained_unix_ns: drained_unix_ns.unwrap_or_else(clock::unix_ns), is_idle })
}

/// A finished load as the last of its live counts.
fn total(report: &InjectReport) -> InjectTick {
    let sum = |count: fn(&ShardInject) -> u64| report.shards.iter().map(count).sum();
    InjectTick {
        intended: sum(|shard| shard.intended),
        sent: sum(|shard| shard.sent),
        unsent: sum(|shard| shard.unsent.values().sum()),
    }
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

/// Tells of a node's end.
pub(crate) async fn note_exit((node, exit): (NodeName, ExitKind), events: &mut Events) -> NodeExit {
    let exit = NodeExit { node, unix_ns: clock::unix_ns(), exit };
    events.tell(RunEvent::NodeEnded { node: exit.node.clone(), exit: exit.exit }).await;
    exit
}

fn judged(
    bench: &Bench<'_>,
    order: &TrialOrder,
    report: &InjectReport,
    observation: &Observation,
) -> TrialRecord {
    let plan = bench.plan;
    let load = JudgedLoad {
        rate_per_shard: Tps(order.rate_per_shard),
        duration_ms: Millis(order.warmup_ms.0.saturating_add(order.window_ms.0)),
        interrupted: bench.interrupt.is_cancelled(),
        report,
    };
    let counted = tpsctl_search::count(&load, observation, plan);
    let verdict = tpsctl_search::judge(&counted, &load, observation, plan);
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
