//! What is seen of the network while trials run: the block follower and the metrics scraper as two tasks, and the facts
//! that they send, kept for the trial that runs.

use std::{collections::BTreeMap, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tpsctl_model::{
    NodeName,
    load::InjectReport,
    observation::{BlockFact, ChunkFact, Gap, MetricsSample, NodeExit, Observation},
    plan::{NodeRole, RunPlan},
};
use tpsctl_observe::{
    BlockFollower, Endpoint, Evidence, FollowProgress, IdleProof, IdleQuestion, MetricsScraper, Producer,
    ScrapeTarget, WallClock, exposition::Role, follower::BLOCKS_CHANNEL_LEN, scraper::SAMPLES_CHANNEL_LEN,
};
use tpsctl_provider::Deployment;
use tpsctl_rpc::{Client, jsonrpc::BlockRef};

use crate::error::ControllerError;

/// The observers and what they have seen since the trial began.
#[derive(Debug)]
pub(crate) struct Watch {
    producers: Vec<Producer>,
    scraper: MetricsScraper,
    clock: WallClock,
    blocks: Vec<BlockFact>,
    samples: Vec<MetricsSample>,
    latest: BTreeMap<NodeName, MetricsSample>,
    block_facts: mpsc::Receiver<BlockFact>,
    metrics: mpsc::Receiver<MetricsSample>,
    follow: watch::Receiver<FollowProgress>,
    scrape_gaps: watch::Receiver<BTreeMap<NodeName, Vec<Gap>>>,
    cancel: CancellationToken,
    tasks: JoinSet<()>,
    trial_from_unix_ns: u64,
    load_ended_unix_ns: u64,
    units_per_transfer: u64,
}

/// Live figures since the trial began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) height: u64,
    pub(crate) settled: u64,
    pub(crate) missed_chunk_slots: u64,
}

/// How a trial's watching ended.
#[derive(Debug)]
pub(crate) struct Ending {
    /// The measured window, nanoseconds since the Unix epoch.
    pub(crate) window: std::ops::Range<u64>,
    pub(crate) drained_unix_ns: u64,
    pub(crate) is_idle: bool,
    pub(crate) exits: Vec<NodeExit>,
}

impl Watch {
    /// Starts following blocks and scraping metrics of every node.
    pub(crate) async fn start(deployment: &Deployment) -> Result<Self, ControllerError> {
        let endpoint = |name: &NodeName, rpc| Endpoint { node: name.clone(), addr: rpc };
        let mut producers = Vec::new();
        let mut followed = Vec::new();
        let mut targets = Vec::new();
        for node in &deployment.nodes {
            let endpoint = endpoint(&node.name, node.rpc);
            let role = match &node.role {
                NodeRole::Producer { shards, .. } => {
                    producers.push(Producer { node: node.name.clone(), shards: shards.clone() });
                    followed.push(endpoint.clone());
                    Role::Producer
                }
                NodeRole::ChunkValidator { .. } | NodeRole::Rpc => Role::Other,
            };
            targets.push(ScrapeTarget { endpoint, role });
        }
        let asked = |source| ControllerError::Ask { node: "producers".to_owned(), source: Box::new(source) };
        let units_per_transfer = units_per_transfer(&followed).await?;
        let follower = BlockFollower::new(&followed).map_err(asked)?;
        let scraper = MetricsScraper::new(&targets).map_err(asked)?;
        let clock = WallClock::start();
        let (block_sender, block_facts) = mpsc::channel(BLOCKS_CHANNEL_LEN);
        let (sample_sender, metrics) = mpsc::channel(SAMPLES_CHANNEL_LEN);
        let (follow_sender, follow) = watch::channel(FollowProgress::default());
        let (gap_sender, scrape_gaps) = watch::channel(BTreeMap::new());
        let cancel = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let stop = cancel.clone();
        tasks.spawn(async move { drop(follower.run(clock, block_sender, follow_sender, stop).await) });
        let (stop, running) = (cancel.clone(), scraper.clone());
        tasks.spawn(async move { drop(running.run(clock, sample_sender, gap_sender, stop).await) });
        Ok(Self {
            producers,
            scraper,
            clock,
            blocks: Vec::new(),
            samples: Vec::new(),
            latest: BTreeMap::new(),
            block_facts,
            metrics,
            follow,
            scrape_gaps,
            cancel,
            tasks,
            trial_from_unix_ns: 0,
            load_ended_unix_ns: 0,
            units_per_transfer,
        })
    }

    /// Ends both observers and waits for them.
    pub(crate) async fn stop(mut self) {
        self.cancel.cancel();
        while self.tasks.join_next().await.is_some() {}
    }

    /// Waits for the next block or sample and keeps it. An observer that ended by itself is an error at once: its
    /// silence must not read as the chain's.
    pub(crate) async fn next(&mut self) -> Result<(), ControllerError> {
        tokio::select! {
            block = self.block_facts.recv() => self.blocks.push(block.ok_or(ControllerError::ObserversEnded)?),
            sample = self.metrics.recv() => {
                let sample = sample.ok_or(ControllerError::ObserversEnded)?;
                self.latest.insert(sample.node.clone(), sample.clone());
                self.samples.push(sample);
            }
        }
        Ok(())
    }

    /// Forgets the trial before: what is kept is the last block, and a sample of every node taken now.
    pub(crate) async fn begin_trial(
        &mut self,
        timeout: Duration,
        interrupt: &CancellationToken,
    ) -> Result<(), ControllerError> {
        let deadline = Instant::now() + timeout;
        while self.blocks.is_empty() {
            tokio::select! {
                seen = self.next() => seen?,
                () = interrupt.cancelled() => return Err(ControllerError::Interrupted),
                () = tokio::time::sleep_until(deadline) => return Err(ControllerError::NoBlocks { timeout }),
            }
        }
        while let Ok(block) = self.block_facts.try_recv() {
            self.blocks.push(block);
        }
        self.blocks.drain(..self.blocks.len() - 1);
        self.samples.clear();
        self.trial_from_unix_ns = self.clock.unix_ns();
        self.load_ended_unix_ns = u64::MAX;
        self.scrape().await;
        Ok(())
    }

    /// The load is over: idleness is proven from here on.
    pub(crate) fn load_ended(&mut self, unix_ns: u64) {
        self.load_ended_unix_ns = unix_ns;
    }

    /// Live figures.
    pub(crate) fn progress(&self) -> Progress {
        let missed = self.chunks().filter(|chunk| !chunk.included).count();
        Progress {
            height: self.follow.borrow().optimistic_height,
            settled: self.settled(),
            missed_chunk_slots: missed as u64,
        }
    }

    /// Chunk entries of the blocks since the trial began.
    fn chunks(&self) -> impl Iterator<Item = &ChunkFact> {
        self.blocks.iter().skip(1).flat_map(|block| &block.chunks)
    }

    /// Whole transfers settled since the trial began, from gas.
    fn settled(&self) -> u64 {
        tpsctl_search::settled_transfers(self.blocks.iter().skip(1), self.units_per_transfer)
    }

    /// Whether nothing is pending anywhere.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle_proof() == IdleProof::Idle
    }

    /// The same with what is missing.
    pub(crate) fn idle_proof(&self) -> IdleProof {
        IdleQuestion {
            blocks: &self.blocks,
            samples: &self.latest,
            producers: &self.producers,
            after_unix_ns: self.load_ended_unix_ns,
        }
        .answer()
    }

    /// Everything seen since the trial began. Scrapes once more, so that counters are as new as the blocks.
    pub(crate) async fn observation(
        &mut self,
        plan: &RunPlan,
        inject: &InjectReport,
        ending: Ending,
    ) -> Observation {
        self.scrape().await;
        let pending = match self.idle_proof() {
            IdleProof::Idle => 0,
            IdleProof::Busy { pending, .. } => pending,
        };
        let dropped = Evidence {
            samples: &self.samples,
            producers: &self.producers,
            inject,
            included: self.settled(),
            pending,
            exits: &ending.exits,
            pool_size_limit_bytes: plan.chain.pool_size_limit_bytes.0,
        }
        .dropped();
        Observation {
            window_from_unix_ns: ending.window.start,
            window_to_unix_ns: ending.window.end,
            drained_unix_ns: ending.drained_unix_ns,
            blocks: self.blocks.clone(),
            units_per_transfer: self.units_per_transfer,
            idle: ending.is_idle,
            pending,
            gaps: self.gaps(),
            exits: ending.exits,
            samples: self.samples.clone(),
            dropped,
        }
    }

    /// Gaps that reach into this trial, cut at its beginning.
    fn gaps(&self) -> Vec<Gap> {
        let follow = self.follow.borrow();
        let scrapes = self.scrape_gaps.borrow();
        let all = follow.gaps.iter().chain(scrapes.values().flatten());
        all.filter(|gap| gap.to_unix_ns > self.trial_from_unix_ns)
            .map(|gap| Gap { from_unix_ns: gap.from_unix_ns.max(self.trial_from_unix_ns), ..gap.clone() })
            .collect()
    }

    /// A sample of every node that answers, taken now. One that does not answer shows as a gap of the scraper.
    async fn scrape(&mut self) {
        for (node, scraped) in self.scraper.scrape_once(self.clock).await {
            match scraped {
                Ok(sample) => {
                    self.latest.insert(node, sample.clone());
                    self.samples.push(sample);
                }
                Err(error) => tracing::debug!(%node, error = crate::network::chain(&error), "not scraped"),
            }
        }
    }
}

/// Gas units that one settled transfer burns on this chain.
async fn units_per_transfer(producers: &[Endpoint]) -> Result<u64, ControllerError> {
    let mut fault = ControllerError::ObserversEnded;
    for producer in producers {
        let asked =
            |source| ControllerError::Ask { node: producer.node.to_string(), source: Box::new(source) };
        match Client::new(producer.addr).map_err(asked)?.block(BlockRef::Final).await {
            Ok(block) => return Ok(tpsctl_near::units_per_transfer(block.header.gas_price)),
            Err(error) => fault = asked(error),
        }
    }
    Err(fault)
}
