//! The agent in this process.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use sha2::{Digest, Sha256};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tpsctl_model::{
    ShardId,
    load::{InjectReport, InjectTick, LoadOrder},
    plan::RunPlan,
};
use tpsctl_workload::Keyring;

use crate::{
    AgentError, CONTRACT, Hello, LoadAgent, LoadTarget, Prepared,
    clock::{StepWatch, unix_now_ns},
    generator::{Common, Generator, ShardLoad, catch_up, drive},
    lag::Lag,
    outlet::queue_bound,
    session::Session,
    tally::{LinkTally, ShardTally, shard_inject},
};

/// How often live counts are given, and the clocks compared.
const TICK: Duration = Duration::from_millis(200);

/// An order may come this late; what has fallen due meanwhile is subject to the catch-up bound like after any stall.
const START_LATE_MAX_NS: u64 = 1_000_000_000;

/// After the flush deadline a link has only counting left to do; on a busy host that may take until it is scheduled.
const COUNT_DEADLINE: Duration = Duration::from_secs(5);

/// Makes load from this process. One order at a time.
pub struct LocalAgent {
    plan: Arc<RunPlan>,
    keyring: Arc<Keyring>,
    session: Option<Session>,
}

impl LocalAgent {
    /// An agent for the load of `plan`, with the keys that genesis funded.
    pub fn new(plan: Arc<RunPlan>, keyring: Arc<Keyring>) -> Self {
        Self { plan, keyring, session: None }
    }
}

impl fmt::Debug for LocalAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalAgent").field("prepared", &self.session.is_some()).finish_non_exhaustive()
    }
}

impl LoadAgent for LocalAgent {
    async fn hello(&self) -> Result<Hello, AgentError> {
        Ok(Hello { contract: CONTRACT, version: env!("CARGO_PKG_VERSION").to_owned() })
    }

    async fn prepare(&mut self, targets: Vec<LoadTarget>) -> Result<Prepared, AgentError> {
        self.close().await;
        let (session, prepared) = Session::open(&self.plan, &self.keyring, &targets).await?;
        self.session = Some(session);
        Ok(prepared)
    }

    async fn run(
        &mut self,
        order: LoadOrder,
        ticks: mpsc::Sender<InjectTick>,
        cancel: CancellationToken,
    ) -> Result<InjectReport, AgentError> {
        let session = self.session.as_mut().ok_or(AgentError::NotPrepared)?;
        let now = Instant::now();
        let start = start_instant(order.start_unix_ns, unix_now_ns(), now)?;
        let mut loads = session.loads.take().ok_or(AgentError::NotPrepared)?;
        let catch_up = catch_up(&self.plan);
        begin(&mut loads, &order, catch_up)?;
        session.live.reset();
        session.flush_until.send_replace(None);
        let common = Common {
            plan: Arc::clone(&self.plan),
            keyring: Arc::clone(&self.keyring),
            nonces: session.nonces,
            live: Arc::clone(&session.live),
        };
        let generator = Generator::new(common, loads, &order);
        let (generator, clock) = self.generate(generator, start, &ticks, &cancel).await?;
        let ended_unix_ns = unix_now_ns();

        let session = self.session.as_mut().ok_or(AgentError::NotPrepared)?;
        let flush_until = Instant::now() + catch_up;
        session.flush_until.send_replace(Some(flush_until));
        let (loads, generated) = generator.finish();
        let links = settle(&loads, flush_until + COUNT_DEADLINE).await?;
        // A reader that left, or has no room, has no use for it.
        ticks.try_send(session.live.tick()).ok();
        session.loads = Some(loads);
        Ok(self.report(&order, &generated, &links, (ended_unix_ns, clock.stepped())))
    }

    async fn broken_since(&self) -> Result<BTreeMap<ShardId, u64>, AgentError> {
        let outlets = self.session.as_ref().and_then(Session::outlets).ok_or(AgentError::NotPrepared)?;
        let mut broken = BTreeMap::new();
        for (shard, outlet) in outlets {
            *broken.entry(self.plan.chain.shard_ids[shard]).or_insert(0) += outlet.broken_since_finish();
        }
        broken.retain(|_, count| *count > 0);
        Ok(broken)
    }

    async fn all_connected(&self, deadline: Duration) -> Result<(), AgentError> {
        let session = self.session.as_ref().ok_or(AgentError::NotPrepared)?;
        session.all_connected(Instant::now() + deadline).await.map_err(|producer| {
            let deadline_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
            AgentError::NotReconnected { producer, deadline_ms }
        })
    }

    async fn close(&mut self) {
        if let Some(session) = self.session.take() {
            session.close().await;
        }
    }
}

impl LocalAgent {
    /// Waits for the start, then lets the generator run on its own thread while live counts go to `ticks`.
    async fn generate(
        &self,
        generator: Generator,
        start: Instant,
        ticks: &mpsc::Sender<InjectTick>,
        cancel: &CancellationToken,
    ) -> Result<(Generator, StepWatch), AgentError> {
        let session = self.session.as_ref().ok_or(AgentError::NotPrepared)?;
        tokio::select! {
            () = sleep_until(start) => {}
            () = cancel.cancelled() => {}
        }
        let began = Instant::now();
        let drift_ns_max = self.plan.trial.send_lag_p99_max_ms.0.saturating_mul(1_000_000);
        let mut clock = StepWatch::new(unix_now_ns(), 0, drift_ns_max);
        let stop = cancel.child_token();
        // The thread also stops when this future is dropped.
        let _stop_when_dropped = stop.clone().drop_guard();
        let heads = session.heads.clone();
        let mut thread = JoinSet::new();
        thread.spawn_blocking(move || drive(generator, start, &heads, &stop));
        let mut pulse = interval(TICK);
        pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let observe = |clock: &mut StepWatch| {
            let elapsed_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            clock.observe(unix_now_ns(), elapsed_ns);
        };
        loop {
            tokio::select! {
                Some(ended) = thread.join_next() => {
                    observe(&mut clock);
                    let generator = ended.map_err(|source| AgentError::Task { part: "generator", source })?;
                    return Ok((generator, clock));
                }
                _ = pulse.tick() => {
                    observe(&mut clock);
                    ticks.try_send(session.live.tick()).ok();
                }
            }
        }
    }

    fn report(
        &self,
        order: &LoadOrder,
        generated: &[ShardTally],
        links: &[Vec<LinkTally>],
        (ended_unix_ns, clock_stepped): (u64, bool),
    ) -> InjectReport {
        let ids = &self.plan.chain.shard_ids;
        let mut lag = Lag::default();
        for link in links.iter().flatten() {
            lag.add(&link.lag);
        }
        let mut stream = Sha256::new();
        for tally in generated {
            stream.update(tally.stream);
        }
        let parts = ids.iter().zip(generated).zip(links);
        InjectReport {
            trial: order.trial,
            started_unix_ns: order.start_unix_ns,
            ended_unix_ns,
            shards: parts.map(|((id, tally), links)| shard_inject(*id, tally, links, ids)).collect(),
            send_lag_ms: lag.quantiles(),
            clock_stepped,
            stream_fingerprint: hex::encode(stream.finalize()),
        }
    }
}

/// When the load starts on the monotonic clock; up to [`START_LATE_MAX_NS`] ago.
fn start_instant(start_unix_ns: u64, unix_ns: u64, now: Instant) -> Result<Instant, AgentError> {
    match unix_ns.checked_sub(start_unix_ns) {
        None => Ok(now + Duration::from_nanos(start_unix_ns - unix_ns)),
        Some(late_ns) if late_ns > START_LATE_MAX_NS => {
            Err(AgentError::StartInPast { late_ms: late_ns / 1_000_000 })
        }
        // The monotonic clock may be younger than that, just after the host's start.
        Some(late_ns) => Ok(now.checked_sub(Duration::from_nanos(late_ns)).unwrap_or(now)),
    }
}

/// Tells all links that a load begins. They are idle, so there is room in their queues.
fn begin(loads: &mut [ShardLoad], order: &LoadOrder, catch_up: Duration) -> Result<(), AgentError> {
    for load in loads {
        let bound = queue_bound(order.rate_per_shard, load.lanes.len(), catch_up);
        for outlet in load.lanes.iter_mut().map(|lane| &mut lane.outlet) {
            if !outlet.begin(bound, catch_up) {
                return Err(AgentError::LinkLost { producer: outlet.producer.clone() });
            }
        }
    }
    Ok(())
}

/// What became of all that was handed to the links, by shard index and producer.
async fn settle(loads: &[ShardLoad], until: Instant) -> Result<Vec<Vec<LinkTally>>, AgentError> {
    let mut tallies = Vec::with_capacity(loads.len());
    for load in loads {
        let mut of_shard = Vec::with_capacity(load.lanes.len());
        for outlet in load.lanes.iter().map(|lane| &lane.outlet) {
            let finished = timeout_at(until, outlet.finish()).await.ok().flatten();
            of_shard
                .push(finished.ok_or_else(|| AgentError::LinkLost { producer: outlet.producer.clone() })?);
        }
        tallies.push(of_shard);
    }
    Ok(tallies)
}
