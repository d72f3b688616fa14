//! The task that owns the core: events in, effects out.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tpsctl_near::CryptoHash;

use super::{
    NodeError, clock,
    metrics::{Metrics, SUMMARY_EVERY, Waiting},
    peers::Peers,
};
use crate::core::{
    Block, BlockRef, ChunkRef, Effect, Event, Found, FoundChunk, Job, JobResult, Message, NoChunk, Node, Now,
    Snapshot, To, VerifiedTransaction, View,
};

/// Jobs that run at once.
const THREADS: usize = 2;
/// Peers' messages that may wait: some rounds of votes; readers wait beyond that.
const EVENTS_MAX: usize = 256;
/// Batches of admitted transactions that may wait; admission, and so the senders, wait beyond that.
const BATCHES_MAX: usize = 32;
const QUERIES_MAX: usize = 256;
/// The core is not woken more often than this by its timers (doomslug_step_period of neard).
const STEP: Duration = Duration::from_millis(10);
/// Metrics follow the core this often when nobody asks and it has something to do.
const METRICS_EVERY: Duration = Duration::from_secs(1);

/// A question to the core.
#[derive(Debug)]
pub(super) enum Query {
    Block(BlockRef, oneshot::Sender<Option<Arc<Block>>>),
    Snapshot(BlockRef, oneshot::Sender<Option<Snapshot>>),
    Transaction(CryptoHash, oneshot::Sender<Option<Found>>),
    Chunk(ChunkRef, oneshot::Sender<Result<FoundChunk, NoChunk>>),
    /// Metrics are to follow the core; answered when they do.
    Metrics(oneshot::Sender<()>),
}

/// The ways into the core.
#[derive(Debug, Clone)]
pub(super) struct Inputs {
    pub(super) events: mpsc::Sender<Event>,
    pub(super) transactions: mpsc::Sender<Vec<Arc<VerifiedTransaction>>>,
    pub(super) queries: mpsc::Sender<Query>,
}

/// The other ends, and the core.
#[derive(Debug)]
pub(super) struct Driver {
    node: Node,
    events: mpsc::Receiver<Event>,
    transactions: mpsc::Receiver<Vec<Arc<VerifiedTransaction>>>,
    queries: mpsc::Receiver<Query>,
    peers: Arc<Peers>,
    metrics: Arc<Metrics>,
    view: watch::Sender<Arc<View>>,
    waiting: VecDeque<Job>,
    jobs: JoinSet<JobResult>,
    started: Instant,
    metrics_at: Duration,
    summary_at: Duration,
}

impl Driver {
    pub(super) fn new(
        node: Node,
        peers: Arc<Peers>,
        metrics: Arc<Metrics>,
        view: watch::Sender<Arc<View>>,
    ) -> (Self, Inputs) {
        let (events_in, events) = mpsc::channel(EVENTS_MAX);
        let (transactions_in, transactions) = mpsc::channel(BATCHES_MAX);
        let (queries_in, queries) = mpsc::channel(QUERIES_MAX);
        let inputs = Inputs { events: events_in, transactions: transactions_in, queries: queries_in };
        let driver = Self {
            node,
            events,
            transactions,
            queries,
            peers,
            metrics,
            view,
            waiting: VecDeque::new(),
            jobs: JoinSet::new(),
            started: Instant::now(),
            metrics_at: Duration::ZERO,
            summary_at: Duration::ZERO,
        };
        (driver, inputs)
    }

    pub(super) async fn run(mut self, cancel: CancellationToken) -> Result<(), NodeError> {
        let mut ticked = self.started;
        loop {
            let wake_at = (self.started + self.node.next_deadline()).max(ticked + STEP);
            let event = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                Some(done) = self.jobs.join_next() => Event::Job(done.map_err(NodeError::Task)?),
                Some(event) = self.events.recv() => event,
                () = tokio::time::sleep_until(wake_at) => {
                    ticked = Instant::now();
                    Event::Tick
                }
                () = tokio::time::sleep_until(self.started + self.summary_at) => {
                    self.summarize();
                    continue;
                }
                Some(query) = self.queries.recv() => {
                    self.answer(query);
                    continue;
                }
                Some(transactions) = self.transactions.recv() => Event::Transactions(transactions),
            };
            let now = Now { elapsed: self.started.elapsed(), unix_ns: clock::unix_ns() };
            for effect in self.node.handle(event, now) {
                self.perform(effect)?;
            }
            self.start_jobs();
            if let Some(view) = self.node.take_view() {
                self.view.send_replace(view);
            }
            self.metrics.observe(&self.node.take_observations());
            if now.elapsed >= self.metrics_at + METRICS_EVERY {
                self.metrics_at = now.elapsed;
                self.follow();
            }
        }
        self.waiting.clear();
        // Jobs cannot be interrupted; they are short.
        while self.jobs.join_next().await.is_some() {}
        Ok(())
    }

    /// Brings the metrics to what the core counts.
    fn follow(&self) {
        let validations = self.waiting.iter().filter(|job| job.name() == "validate").count();
        let waiting = Waiting {
            events: self.events.len(),
            transactions: self.transactions.len(),
            queries: self.queries.len(),
            validations,
        };
        self.metrics.follow(self.node.stats(), waiting);
    }

    fn summarize(&mut self) {
        let now = self.started.elapsed();
        self.summary_at = now + SUMMARY_EVERY;
        self.metrics.summarize(&self.node, now);
    }

    fn perform(&mut self, effect: Effect) -> Result<(), NodeError> {
        match effect {
            Effect::Send { to, message } => self.send(&to, &message),
            Effect::Run(job) => self.waiting.push_back(job),
            Effect::Accepted(block) => self.peers.tell_guests(&block),
            Effect::TooFarBehind { needed, earliest } => {
                let error = NodeError::TooFarBehind { needed, earliest };
                return Err(error);
            }
        }
        Ok(())
    }

    fn send(&self, to: &To, message: &Message) {
        self.peers.send(to, &message.frame().into());
    }

    fn start_jobs(&mut self) {
        while self.jobs.len() < THREADS
            && let Some(job) = self.waiting.pop_front()
        {
            self.jobs.spawn_blocking(move || {
                let began = Instant::now();
                job.run(&|| began.elapsed())
            });
        }
    }

    fn answer(&self, query: Query) {
        if matches!(query, Query::Metrics(_)) {
            self.follow();
        }
        query.answer(&self.node);
    }
}

impl Query {
    /// Answers from the node. Whoever asked may have gone away; then there is nobody to tell.
    pub(super) fn answer(self, node: &Node) {
        match self {
            Self::Block(at, answer) => drop(answer.send(node.block(at).cloned())),
            Self::Snapshot(at, answer) => drop(answer.send(node.snapshot(at))),
            Self::Transaction(hash, answer) => drop(answer.send(node.transaction(&hash))),
            Self::Chunk(at, answer) => drop(answer.send(node.find_chunk(at))),
            // What the metrics follow is the driver's; see [`Driver::answer`].
            Self::Metrics(answer) => drop(answer.send(())),
        }
    }
}
