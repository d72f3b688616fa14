//! Scraping the metrics of all nodes at an interval.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::MissedTickBehavior,
};
use tokio_util::sync::CancellationToken;
use tpsctl_model::{
    NodeName,
    observation::{Gap, MetricsSample},
};
use tpsctl_rpc::{Client, RpcError};

use crate::{
    Endpoint, WallClock,
    exposition::{PageError, Role, read_page},
    gaps::{GapTracker, error_line},
};

/// Time between two scrapes of a node.
pub const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);

/// Time allowed for one scrape: an overloaded node is slow to gather its page.
pub const SCRAPE_DEADLINE: Duration = Duration::from_secs(2);

/// Samples that may wait for the reader: with 100 nodes, ten seconds of them.
pub const SAMPLES_CHANNEL_LEN: usize = 1_000;

/// A node to scrape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrapeTarget {
    /// Where.
    pub endpoint: Endpoint,
    /// What it does: producers must have more metrics.
    pub role: Role,
}

/// One scrape failed.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// The page could not be fetched.
    #[error("fetch the metrics of {node}")]
    Fetch {
        /// Which node.
        node: NodeName,
        /// Why.
        #[source]
        source: RpcError,
    },
    /// The page lacks what it must have, or cannot be read.
    #[error("read the metrics of {node}")]
    Page {
        /// Which node.
        node: NodeName,
        /// Why.
        #[source]
        source: PageError,
    },
}

/// Scrapes nodes; see [`MetricsScraper::run`].
#[derive(Debug, Clone)]
pub struct MetricsScraper {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone)]
struct Node {
    name: NodeName,
    role: Role,
    client: Client,
}

/// What the loops of all nodes share.
#[derive(Clone)]
struct Shared {
    clock: WallClock,
    samples: mpsc::Sender<MetricsSample>,
    gaps: Arc<watch::Sender<BTreeMap<NodeName, Vec<Gap>>>>,
    cancel: CancellationToken,
}

impl MetricsScraper {
    /// A scraper of `targets`. Nothing is read yet.
    pub fn new(targets: &[ScrapeTarget]) -> Result<Self, RpcError> {
        let node = |target: &ScrapeTarget| {
            let client = Client::new(target.endpoint.addr)?.with_deadline(SCRAPE_DEADLINE);
            Ok(Node { name: target.endpoint.node.clone(), role: target.role, client })
        };
        Ok(Self { nodes: targets.iter().map(node).collect::<Result<_, _>>()? })
    }

    /// Scrapes every node each [`SCRAPE_INTERVAL`] until `cancel` fires or the receiver of `samples` is gone. `gaps`
    /// always shows the gaps of each node so far, open ones included; all of them are returned at the end, by node.
    ///
    /// A reader that lets [`SAMPLES_CHANNEL_LEN`] samples wait holds the scraper up, which shows as gaps.
    pub async fn run(
        self,
        clock: WallClock,
        samples: mpsc::Sender<MetricsSample>,
        gaps: watch::Sender<BTreeMap<NodeName, Vec<Gap>>>,
        cancel: CancellationToken,
    ) -> Vec<Gap> {
        let gaps = Arc::new(gaps);
        let mut loops = JoinSet::new();
        for node in self.nodes {
            let shared =
                Shared { clock, samples: samples.clone(), gaps: Arc::clone(&gaps), cancel: cancel.clone() };
            loops.spawn(node.scrape_on(shared));
        }
        loops.join_all().await;
        let gaps = gaps.borrow();
        gaps.values().flatten().cloned().collect()
    }

    /// Scrapes every node once, all at the same time: for the counters after the network is idle.
    pub async fn scrape_once(
        &self,
        clock: WallClock,
    ) -> BTreeMap<NodeName, Result<MetricsSample, ScrapeError>> {
        let mut scrapes = JoinSet::new();
        for node in self.nodes.clone() {
            scrapes.spawn(async move { (node.name.clone(), node.scrape(clock).await) });
        }
        scrapes.join_all().await.into_iter().collect()
    }
}

impl Node {
    async fn scrape(&self, clock: WallClock) -> Result<MetricsSample, ScrapeError> {
        // Stamped before the request: the values are at least this new.
        let unix_ns = clock.unix_ns();
        let page = self
            .client
            .metrics()
            .await
            .map_err(|source| ScrapeError::Fetch { node: self.name.clone(), source })?;
        let values = read_page(&page, self.role)
            .map_err(|source| ScrapeError::Page { node: self.name.clone(), source })?;
        Ok(MetricsSample { unix_ns, node: self.name.clone(), values })
    }

    async fn scrape_on(self, shared: Shared) {
        let mut tracker = GapTracker::new(self.name.as_ref(), SCRAPE_INTERVAL, shared.clock.unix_ns());
        let mut ticks = tokio::time::interval(SCRAPE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let scraping = async {
            loop {
                ticks.tick().await;
                match self.scrape(shared.clock).await {
                    Ok(sample) => {
                        tracker.read(shared.clock.unix_ns());
                        if shared.samples.send(sample).await.is_err() {
                            return;
                        }
                    }
                    Err(error) => {
                        tracing::debug!(node = %self.name, error = error_line(&error), "a scrape failed");
                        tracker.failed(error_line(&error));
                    }
                }
                self.show(&tracker, &shared);
            }
        };
        // Nothing is lost when the loop is dropped at an await: a scrape in flight or a sample that nobody will read.
        let _ended = shared.cancel.run_until_cancelled(scraping).await;
        self.show(&tracker, &shared);
    }

    fn show(&self, tracker: &GapTracker, shared: &Shared) {
        let gaps = tracker.all(shared.clock.unix_ns());
        shared.gaps.send_if_modified(|shown| {
            let changed = shown.get(&self.name).map_or(!gaps.is_empty(), |old| *old != gaps);
            if changed {
                shown.insert(self.name.clone(), gaps);
            }
            changed
        });
    }
}

#[cfg(test)]
mod tests;
