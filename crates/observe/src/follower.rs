//! Following the chain of final blocks, each exactly once and in order, from whichever producer is ahead.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;
use tpsctl_model::{
    NodeName, ShardId,
    observation::{BlockFact, ChunkFact, Gap},
};
use tpsctl_rpc::{
    Client, RpcError,
    jsonrpc::{BlockHeaderView, BlockRef, BlockView, ChunkHeaderView},
};

use crate::{
    Endpoint, WallClock,
    gaps::{GapTracker, error_line},
};

/// Time between two looks at the final head: a fraction of any block time, so that blocks are seen soon.
pub const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Time between two looks at the heads of all producers.
pub const SURVEY_INTERVAL: Duration = Duration::from_millis(500);

/// Time allowed for one call; a node that takes longer is left for another one.
pub const CALL_DEADLINE: Duration = Duration::from_secs(1);

/// A node whose head is this many blocks behind another's is left. Heads one or two apart are ordinary.
pub const BEHIND_MIN: u64 = 3;

/// Most blocks that are read at once to close up to the final head: many hours of them, and some 10 MB.
pub const BACKLOG_LEN_MAX: usize = 50_000;

/// Blocks that may wait for the reader. At two blocks a second, more than eight minutes of not reading.
pub const BLOCKS_CHANNEL_LEN: usize = 1_024;

/// What the name of the source is in [`Gap::source`].
pub const GAP_SOURCE: &str = "blocks";

/// Follows the final blocks; see [`BlockFollower::run`].
#[derive(Debug)]
pub struct BlockFollower {
    sources: Vec<Source>,
    current: usize,
    last: Option<BlockView>,
    /// Final blocks read and not yet handed on, by height: an attempt that fails half-way is taken up where it ended.
    fetched: BTreeMap<u64, BlockView>,
}

/// Where the follower is, for live display and for judging while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FollowProgress {
    /// Highest head seen on any node; such a block may yet be orphaned.
    pub optimistic_height: u64,
    /// Height of the last final block read.
    pub final_height: u64,
    /// Gaps so far, an open one included.
    pub gaps: Vec<Gap>,
}

/// Blocks could not be read from one node. Becomes the cause of a gap where no other node helps.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error("read blocks from {node}")]
    Call {
        node: NodeName,
        #[source]
        source: RpcError,
    },
    #[error(
        "read blocks from {node}: its final head {final_height} is behind block {read_height}, already read"
    )]
    Behind { node: NodeName, final_height: u64, read_height: u64 },
    #[error(
        "link block {height} of {node} to the chain: it follows block {prev_height} {prev_hash}, not block \
         {lower_height} {lower_hash}"
    )]
    Fork {
        node: NodeName,
        height: u64,
        prev_height: u64,
        prev_hash: String,
        lower_height: u64,
        lower_hash: String,
    },
    #[error(
        "read blocks from {node}: more than {BACKLOG_LEN_MAX} between block {read_height} and its final head"
    )]
    Backlog { node: NodeName, read_height: u64 },
    #[error("read blocks: there is no node to read from")]
    NoNode,
}

#[derive(Debug)]
struct Source {
    node: NodeName,
    client: Client,
    /// Its head in the last survey; none when the last call failed.
    head: Option<u64>,
}

/// Status calls in flight, at most one a node, so that a slow node does not hold up the reading of blocks.
struct Survey {
    calls: JoinSet<(usize, Result<u64, RpcError>)>,
    in_flight: BTreeSet<usize>,
    next: Instant,
}

impl BlockFollower {
    /// A follower that reads from `producers`; nothing is read yet.
    pub fn new(producers: &[Endpoint]) -> Result<Self, RpcError> {
        let source = |endpoint: &Endpoint| {
            let client = Client::new(endpoint.addr)?.with_deadline(CALL_DEADLINE);
            Ok(Source { node: endpoint.node.clone(), client, head: None })
        };
        let sources = producers.iter().map(source).collect::<Result<_, _>>()?;
        Ok(Self { sources, current: 0, last: None, fetched: BTreeMap::new() })
    }

    /// Hands on the final block of the moment and every final block after it, in order, until `cancel` fires or the
    /// receiver of `blocks` is gone. Returns the stretches in which no block could be read.
    ///
    /// Heights without a block do not show, except in the next block's `prev_height`. Every block's link to the one
    /// before is checked: what does not fit is never handed on. A reader that lets [`BLOCKS_CHANNEL_LEN`] blocks wait
    /// holds the follower up, which shows as a gap.
    pub async fn run(
        mut self,
        clock: WallClock,
        blocks: mpsc::Sender<BlockFact>,
        progress: watch::Sender<FollowProgress>,
        cancel: CancellationToken,
    ) -> Vec<Gap> {
        let mut gaps = GapTracker::new(GAP_SOURCE, POLL_INTERVAL, clock.unix_ns());
        let mut survey = Survey::new();
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let following = async {
            loop {
                ticks.tick().await;
                survey.turn(&mut self.sources);
                let mut views = Vec::new();
                match self.advance().await {
                    Ok(read) => {
                        gaps.read(clock.unix_ns());
                        views = read;
                    }
                    Err(error) => gaps.failed(error_line(&error)),
                }
                self.show(&progress, &gaps, clock.unix_ns());
                for view in &views {
                    if blocks.send(fact(view)).await.is_err() {
                        return;
                    }
                }
            }
        };
        // Nothing is lost when the loop is dropped at an await: calls in flight, or a block that nobody will read.
        let _ended = cancel.run_until_cancelled(following).await;
        survey.calls.shutdown().await;
        self.show(&progress, &gaps, clock.unix_ns());
        gaps.all(clock.unix_ns())
    }

    fn show(&self, progress: &watch::Sender<FollowProgress>, gaps: &GapTracker, now_unix_ns: u64) {
        let final_height = self.last.as_ref().map_or(0, |last| last.header.height);
        let gaps = gaps.all(now_unix_ns);
        progress.send_if_modified(|shown| {
            let heads = self.sources.iter().filter_map(|source| source.head);
            let optimistic_height = heads.chain([final_height, shown.optimistic_height]).max().unwrap_or(0);
            let new = FollowProgress { optimistic_height, final_height, gaps };
            let changed = *shown != new;
            *shown = new;
            changed
        });
    }

    /// The final blocks since the last call, from the current node or else from the next best that answers.
    async fn advance(&mut self) -> Result<Vec<BlockView>, FollowError> {
        let mut failure = FollowError::NoNode;
        for index in self.by_preference() {
            match self.read_from(index).await {
                Ok(views) => {
                    if self.current != index {
                        tracing::debug!(node = %self.sources[index].node, "blocks are now read from another node");
                    }
                    self.current = index;
                    return Ok(views);
                }
                Err(error) => {
                    tracing::debug!(error = error_line(&error), "blocks could not be read");
                    self.sources[index].head = None;
                    failure = error;
                }
            }
        }
        Err(failure)
    }

    /// The current node first unless it is behind or failed, then the others, the most advanced first.
    fn by_preference(&self) -> Vec<usize> {
        let best = self.sources.iter().filter_map(|source| source.head).max();
        let mut order: Vec<usize> = (0..self.sources.len()).collect();
        order.sort_by_key(|&index| {
            let head = self.sources[index].head;
            let keeps_up = best.is_none_or(|best| head.is_some_and(|head| head + BEHIND_MIN > best));
            (!(index == self.current && keeps_up), std::cmp::Reverse(head))
        });
        order
    }

    /// Walks back from the node's final head to the last block handed on. Each step asks for the height that the block
    /// above names, so a height that the node does not have is an error and never passes for a skipped one.
    async fn read_from(&mut self, index: usize) -> Result<Vec<BlockView>, FollowError> {
        let Source { node, client, .. } = &self.sources[index];
        let call_error = |source| FollowError::Call { node: node.clone(), source };
        let head = client.block(BlockRef::Final).await.map_err(call_error)?;
        let Some(last) = self.last.as_ref().map(|last| last.header.clone()) else {
            self.last = Some(head.clone());
            return Ok(vec![head]);
        };
        let (final_height, read_height) = (head.header.height, last.height);
        if final_height < read_height {
            return Err(FollowError::Behind { node: node.clone(), final_height, read_height });
        }
        if (final_height, head.header.hash) == (read_height, last.hash) {
            return Ok(Vec::new());
        }
        let mut lowest = head.header.clone();
        let mut walked = vec![final_height];
        self.fetched.insert(final_height, head);
        while lowest.prev_height > read_height {
            if walked.len() == BACKLOG_LEN_MAX {
                return Err(FollowError::Backlog { node: node.clone(), read_height });
            }
            let below = if let Some(view) = self.fetched.get(&lowest.prev_height) {
                view.header.clone()
            } else {
                let view = client.block(BlockRef::Height(lowest.prev_height)).await.map_err(call_error)?;
                let header = view.header.clone();
                self.fetched.insert(lowest.prev_height, view);
                header
            };
            check_link(node, &lowest, &below).inspect_err(|_| self.fetched.clear())?;
            walked.push(below.height);
            lowest = below;
        }
        check_link(node, &lowest, &last).inspect_err(|_| self.fetched.clear())?;
        let mut fetched = std::mem::take(&mut self.fetched);
        let views: Vec<_> = walked.iter().rev().filter_map(|height| fetched.remove(height)).collect();
        self.last = views.last().cloned();
        Ok(views)
    }
}

/// Whether `upper` follows `lower` at once.
fn check_link(node: &NodeName, upper: &BlockHeaderView, lower: &BlockHeaderView) -> Result<(), FollowError> {
    let follows = (upper.prev_height, upper.prev_hash) == (lower.height, lower.hash);
    if follows && upper.height > lower.height {
        return Ok(());
    }
    Err(FollowError::Fork {
        node: node.clone(),
        height: upper.height,
        prev_height: upper.prev_height,
        prev_hash: upper.prev_hash.to_string(),
        lower_height: lower.height,
        lower_hash: lower.hash.to_string(),
    })
}

fn fact(view: &BlockView) -> BlockFact {
    let header = &view.header;
    let chunk = |(chunk, included): (&ChunkHeaderView, &bool)| ChunkFact {
        shard: ShardId(chunk.shard_id),
        included: *included,
        gas_used: chunk.gas_used,
    };
    BlockFact {
        height: header.height,
        prev_height: header.prev_height,
        hash: header.hash.to_string(),
        timestamp_unix_ns: header.timestamp_nanosec,
        author: view.author.clone(),
        chunks: view.chunks.iter().zip(&header.chunk_mask).map(chunk).collect(),
    }
}

impl Survey {
    fn new() -> Self {
        Self { calls: JoinSet::new(), in_flight: BTreeSet::new(), next: Instant::now() }
    }

    /// Takes the answers that came and, when it is time, asks every node that owes none.
    fn turn(&mut self, sources: &mut [Source]) {
        while let Some(Ok((index, answer))) = self.calls.try_join_next() {
            self.in_flight.remove(&index);
            sources[index].head = answer.ok();
        }
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + SURVEY_INTERVAL;
        for (index, source) in sources.iter().enumerate() {
            if self.in_flight.insert(index) {
                let client = source.client.clone();
                self.calls.spawn(async move {
                    (index, client.status().await.map(|status| status.sync_info.latest_block_height))
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
