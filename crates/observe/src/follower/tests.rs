//! Against nodes that are real HTTP servers with a made-up chain. Waits are for the thing itself, with a deadline.

use std::sync::{Arc, Mutex};

use axum::{Router, body::Bytes, http::StatusCode, routing::post};
use serde_json::{Value, json};
use tokio::{runtime::Runtime, time::timeout};
use tpsctl_near::CryptoHash;

use super::*;

const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Up,
    Garbage,
    Silent,
}

#[derive(Debug)]
struct Chain {
    name: &'static str,
    heights: Vec<u64>,
    /// Index in `heights` of the final head; the head is two further.
    final_index: usize,
    mode: Mode,
    asked_for: Vec<u64>,
    /// A block that the node does not have although others follow it.
    lost: Option<u64>,
}

impl Chain {
    fn hash(&self, height: u64) -> CryptoHash {
        CryptoHash::of(format!("{} {height}", self.name).as_bytes())
    }

    fn block(&self, index: usize) -> Value {
        let height = self.heights[index];
        let prev_height = if index == 0 { height - 1 } else { self.heights[index - 1] };
        // Shard 1 misses its chunk at odd heights.
        let mask = [true, height.is_multiple_of(2)];
        let chunk = |shard: usize, id: u64| json!({ "shard_id": id, "gas_used": height, "height_included": if mask[shard] { height } else { 1 } });
        json!({
            "author": "node0",
            "header": {
                "height": height, "prev_height": prev_height,
                "hash": self.hash(height), "prev_hash": self.hash(prev_height),
                "timestamp_nanosec": (height * 1_000).to_string(), "chunk_mask": mask,
                "last_final_block": self.hash(1), "gas_price": "1000000000",
            },
            "chunks": [chunk(0, 5), chunk(1, 3)],
        })
    }

    fn answer(&mut self, request: &Value) -> Value {
        if request["method"] == "status" {
            let head = self.heights[(self.final_index + 2).min(self.heights.len() - 1)];
            return json!({ "result": {
                "version": { "version": "fake", "build": "" }, "chain_id": "fake", "protocol_version": 86,
                "genesis_hash": self.hash(0), "validator_account_id": null,
                "node_public_key": "ed25519:7PGseFbWxvYVgZ89K1uTJKYoKetWs7BJtbyXDzfbAcqX",
                "sync_info": { "latest_block_hash": self.hash(head), "latest_block_height": head, "syncing": false },
            } });
        }
        let index = match request["params"]["block_id"].as_u64() {
            Some(height) => {
                self.asked_for.push(height);
                self.heights.iter().position(|own| *own == height && Some(height) != self.lost)
            }
            None => Some(self.final_index),
        };
        match index {
            Some(index) => json!({ "result": self.block(index) }),
            None => json!({ "error": { "name": "HANDLER_ERROR", "cause": { "name": "UNKNOWN_BLOCK" } } }),
        }
    }
}

#[derive(Debug, Clone)]
struct Fake(Arc<Mutex<Chain>>);

impl Fake {
    fn new(name: &'static str, heights: impl IntoIterator<Item = u64>) -> Self {
        let heights = heights.into_iter().collect();
        Self(Arc::new(Mutex::new(Chain {
            name,
            heights,
            final_index: 0,
            mode: Mode::Up,
            asked_for: Vec::new(),
            lost: None,
        })))
    }

    fn change(&self, change: impl FnOnce(&mut Chain)) {
        change(&mut self.0.lock().expect("no panic"));
    }

    fn finalize(&self, final_index: usize) {
        self.change(|chain| chain.final_index = final_index);
    }

    async fn answer(self, body: Bytes) -> (StatusCode, Vec<u8>) {
        let mode = self.0.lock().expect("no panic").mode;
        match mode {
            Mode::Silent => std::future::pending().await,
            Mode::Garbage => (StatusCode::OK, b"\xff<html>".to_vec()),
            Mode::Up => {
                let request = serde_json::from_slice(&body).expect("a request");
                let answer = self.0.lock().expect("no panic").answer(&request);
                (StatusCode::OK, answer.to_string().into_bytes())
            }
        }
    }
}

/// A server in a runtime of its own: ending that ends its connections too, like the death of a process.
struct Node {
    runtime: Option<Runtime>,
    endpoint: Endpoint,
}

impl Node {
    fn start(name: &str, fake: &Fake) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("runtime");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("port 0");
        listener.set_nonblocking(true).expect("socket option");
        let addr = listener.local_addr().expect("bound");
        let fake = fake.clone();
        let app = Router::new().route("/", post(move |body: Bytes| fake.clone().answer(body)));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("listener");
            axum::serve(listener, app).await.expect("serve");
        });
        Self { runtime: Some(runtime), endpoint: Endpoint { node: NodeName(name.to_owned()), addr } }
    }

    fn die(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.die();
    }
}

/// A follower at work.
struct Following {
    blocks: mpsc::Receiver<BlockFact>,
    progress: watch::Receiver<FollowProgress>,
    cancel: CancellationToken,
    tasks: JoinSet<Vec<Gap>>,
}

impl Following {
    fn start(nodes: &[&Node], room: usize) -> Self {
        let endpoints: Vec<_> = nodes.iter().map(|node| node.endpoint.clone()).collect();
        let follower = BlockFollower::new(&endpoints).expect("follower");
        let (sender, blocks) = mpsc::channel(room);
        let (shower, progress) = watch::channel(FollowProgress::default());
        let cancel = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(follower.run(WallClock::start(), sender, shower, cancel.clone()));
        Self { blocks, progress, cancel, tasks }
    }

    async fn next(&mut self) -> BlockFact {
        timeout(PATIENCE, self.blocks.recv()).await.expect("a block in time").expect("still following")
    }

    async fn heights(&mut self, count: usize) -> Vec<u64> {
        let mut heights = Vec::new();
        for _ in 0..count {
            heights.push(self.next().await.height);
        }
        heights
    }

    async fn until(&mut self, reached: impl FnMut(&FollowProgress) -> bool) -> FollowProgress {
        timeout(PATIENCE, self.progress.wait_for(reached))
            .await
            .expect("in time")
            .expect("still following")
            .clone()
    }

    async fn end(mut self) -> Vec<Gap> {
        self.cancel.cancel();
        timeout(PATIENCE, self.tasks.join_next())
            .await
            .expect("in time")
            .expect("one task")
            .expect("no panic")
    }
}

/// Whether a gap only says that the host was busy: nothing answered, or nothing was asked, in time.
fn is_slowness(gap: &Gap) -> bool {
    gap.cause == "no reading ended in this time" || gap.cause.contains("within 1s")
}

/// No gap but by the node that was made to fail. How long a change of nodes takes is the host's affair; without one the
/// test would not come to its blocks.
fn assert_only_by(node: &str, gaps: &[Gap]) {
    let provoked = format!("read blocks from {node}: ");
    assert!(gaps.iter().all(|gap| is_slowness(gap) || gap.cause.starts_with(&provoked)), "{gaps:?}");
}

#[tokio::test]
async fn every_final_block_comes_once_and_in_order() {
    let fake = Fake::new("main", [10, 11, 14, 15, 16, 17]);
    let node = Node::start("node0", &fake);
    let mut following = Following::start(&[&node], 16);
    let first = following.next().await;
    assert_eq!((first.height, first.timestamp_unix_ns, first.author.as_str()), (10, 10_000, "node0"));
    fake.finalize(1);
    let second = following.next().await;
    assert_eq!((second.height, second.prev_height), (11, 10));
    let chunk = |shard, included| ChunkFact { shard: ShardId(shard), included, gas_used: 11 };
    assert_eq!(second.chunks, [chunk(5, true), chunk(3, false)]);
    assert_eq!(second.hash, CryptoHash::of(b"main 11").to_string());
    fake.finalize(4);
    let third = following.next().await;
    assert_eq!((third.height, third.prev_height), (14, 11), "12 and 13 were skipped");
    assert_eq!(following.heights(2).await, [15, 16]);
    let progress = following.until(|progress| progress.optimistic_height == 17).await;
    assert_eq!(progress.final_height, 16);
    assert_only_by("nobody", &following.end().await);
    fake.change(|chain| assert_eq!(chain.asked_for, [15, 14], "the final head brings itself"));
}

#[tokio::test]
async fn another_node_takes_over_from_one_that_died() {
    let fake = Fake::new("main", 10..30);
    let (mut first, second) = (Node::start("node0", &fake), Node::start("node1", &fake));
    let mut following = Following::start(&[&first, &second], 16);
    assert_eq!(following.heights(1).await, [10]);
    first.die();
    fake.finalize(3);
    assert_eq!(following.heights(3).await, [11, 12, 13]);
    fake.finalize(4);
    assert_eq!(following.heights(1).await, [14]);
    assert_only_by("node0", &following.end().await);
}

#[tokio::test]
async fn a_node_that_stalls_is_left() {
    let (stalled, advancing) = (Fake::new("main", 10..30), Fake::new("main", 10..30));
    let nodes = [Node::start("node0", &stalled), Node::start("node1", &advancing)];
    let mut following = Following::start(&[&nodes[0], &nodes[1]], 16);
    assert_eq!(following.heights(1).await, [10]);
    advancing.finalize(5);
    assert_eq!(following.heights(5).await, [11, 12, 13, 14, 15]);
    assert_eq!(following.until(|progress| progress.optimistic_height == 17).await.final_height, 15);
    assert_only_by("node0", &following.end().await);
}

#[tokio::test]
async fn a_silent_node_costs_one_deadline() {
    let fake = Fake::new("main", 10..30);
    let silent = Fake::new("main", 10..30);
    let nodes = [Node::start("node0", &silent), Node::start("node1", &fake)];
    let mut following = Following::start(&[&nodes[0], &nodes[1]], 16);
    assert_eq!(following.heights(1).await, [10]);
    silent.change(|chain| chain.mode = Mode::Silent);
    fake.finalize(2);
    assert_eq!(following.heights(2).await, [11, 12]);
    assert_only_by("node0", &following.end().await);
}

async fn outage_of_two_seconds(mode: Mode, cause: &str) {
    let fake = Fake::new("main", 10..30);
    let node = Node::start("node0", &fake);
    let mut following = Following::start(&[&node], 16);
    assert_eq!(following.heights(1).await, [10]);
    fake.change(|chain| chain.mode = mode);
    let two_seconds = |gap: &Gap| gap.to_unix_ns - gap.from_unix_ns >= 2_000_000_000;
    let is_provoked = |gap: &Gap| {
        two_seconds(gap) && gap.cause.starts_with("read blocks from node0: ") && gap.cause.contains(cause)
    };
    following.until(|progress| progress.gaps.iter().any(is_provoked)).await;
    fake.change(|chain| {
        chain.mode = Mode::Up;
        chain.final_index = 2;
    });
    assert_eq!(following.heights(2).await, [11, 12]);
    let gaps = following.end().await;
    let provoked: Vec<&Gap> = gaps.iter().filter(|gap| is_provoked(gap)).collect();
    assert_eq!(provoked.len(), 1, "{gaps:?}");
    assert_eq!(provoked[0].source, GAP_SOURCE);
    assert!(gaps.iter().all(|gap| is_provoked(gap) || is_slowness(gap)), "{gaps:?}");
}

#[tokio::test]
async fn two_seconds_of_garbage_are_one_gap() {
    outage_of_two_seconds(Mode::Garbage, "read the answer to `block`").await;
}

#[tokio::test]
async fn two_seconds_of_silence_are_one_gap() {
    outage_of_two_seconds(Mode::Silent, "within 1s").await;
}

#[tokio::test]
async fn a_block_that_does_not_link_is_never_handed_on() {
    for (heights, at) in [(10..30, 3), (10..30, 1)] {
        let fake = Fake::new("main", heights);
        let node = Node::start("node0", &fake);
        let mut following = Following::start(&[&node], 16);
        assert_eq!(following.heights(1).await, [10]);
        fake.change(|chain| {
            chain.name = "other";
            chain.final_index = at;
        });
        let is_linking = |gap: &Gap| gap.cause.contains("link block 11 of node0 to the chain");
        let progress = following.until(|progress| progress.gaps.iter().any(is_linking)).await;
        assert_eq!(progress.final_height, 10);
        fake.change(|chain| chain.name = "main");
        assert_eq!(following.heights(at).await[0], 11, "the chain that links is taken up again");
    }
}

#[tokio::test]
async fn missing_blocks_do_not_pass_for_skipped_heights() {
    let fake = Fake::new("main", [10, 11, 12, 13]);
    let node = Node::start("node0", &fake);
    let mut following = Following::start(&[&node], 16);
    assert_eq!(following.heights(1).await, [10]);
    // As after a restart that kept recent blocks only.
    fake.change(|chain| {
        chain.lost = Some(12);
        chain.final_index = 3;
    });
    let is_missing = |gap: &Gap| gap.cause.ends_with("the node answered UNKNOWN_BLOCK");
    let progress = following.until(|progress| progress.gaps.iter().any(is_missing)).await;
    assert_eq!(progress.final_height, 10);
    fake.change(|chain| chain.lost = None);
    assert_eq!(following.heights(3).await, [11, 12, 13]);
}

#[tokio::test]
async fn it_ends_when_cancelled_before_a_full_channel_or_unheard() {
    let fake = Fake::new("main", 10..30);
    let node = Node::start("node0", &fake);
    let mut following = Following::start(&[&node], 1);
    following.until(|progress| progress.final_height == 10).await;
    fake.finalize(9);
    following.until(|progress| progress.final_height == 19).await;
    following.end().await;
    let mut following = Following::start(&[&node], 1);
    assert_eq!(following.heights(1).await, [19]);
    following.blocks.close();
    fake.finalize(10);
    let ended = timeout(PATIENCE, following.tasks.join_next()).await.expect("in time").expect("one task");
    assert_only_by("nobody", &ended.expect("no panic"));
}
