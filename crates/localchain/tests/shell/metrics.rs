//! `/metrics` is neard's: names, types, labels, bounds, and what they count.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fs_err as fs;
use prometheus_parse::{Sample, Scrape, Value};
use serde_json::json;
use tokio::time::Instant;

use super::{
    cluster::{Cluster, PATIENCE, testdata},
    load::inject,
};

/// What every node is to have, as soon as what it tells of has happened.
const NAMES: [&str; 41] = [
    "near_block_height_head",
    "near_final_block_height",
    "near_gas_used",
    "near_chunk_skipped_total",
    "near_chunk_transactions_total",
    "near_transaction_processed_total",
    "near_transaction_processed_successfully_total",
    "near_transaction_pool_entries",
    "near_transaction_pool_size",
    "near_transaction_received_validator",
    "near_produce_chunk_transactions_limited_by",
    "near_prepare_tx_rejected",
    "near_delayed_receipts_count",
    "near_congestion_level",
    "near_applying_chunks_time",
    "near_produce_chunk_time",
    "near_block_processing_time",
    "near_chunk_state_witness_total_size",
    "near_chunk_state_witness_validation_time",
    "near_block_producer_excluded_chunks_count",
    "near_block_producer_endorsed_stake_ratio",
    "near_block_producer_missing_endorsement_count",
    "near_chunk_endorsements_accepted",
    "near_validators_chunks_produced",
    "near_validators_chunks_expected",
    "near_validators_blocks_produced",
    "near_validators_blocks_expected",
    "near_client_tracked_shards",
    "near_is_validator",
    "near_is_chunk_producer_for_shard",
    "near_peer_connections_total",
    "near_peer_message_received_by_type_total",
    "near_cpu_usage_ratio",
    "near_memory_usage_bytes",
    "near_sync_status",
    "near_node_protocol_version",
    "near_current_protocol_version",
    "near_async_queue_pending_messages",
    "near_rpc_total_count",
    "near_rpc_processing_time",
    "near_build_info",
];

/// What a metric looks like: its type, its labels, the bounds of its buckets, and what its help says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    kind: String,
    labels: BTreeSet<String>,
    bounds: BTreeSet<String>,
    help: String,
}

fn shapes(text: &str) -> BTreeMap<String, Shape> {
    let scrape = Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).expect("Prometheus' format");
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    for Sample { metric, value, labels, .. } in scrape.samples {
        let shape = shapes.entry(metric).or_default();
        shape.labels.extend(labels.keys().cloned());
        if let Value::Histogram(buckets) = value {
            shape.bounds.extend(buckets.iter().map(|bucket| format!("{:.9e}", bucket.less_than)));
        }
    }
    for line in text.lines() {
        let mut words = line.strip_prefix("# ").unwrap_or_default().splitn(3, ' ');
        let (Some(what), Some(name), Some(rest)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let Some(shape) = shapes.get_mut(name) else { continue };
        match what {
            "TYPE" => rest.clone_into(&mut shape.kind),
            _ => rest.clone_into(&mut shape.help),
        }
    }
    shapes
}

fn neards_shapes() -> BTreeMap<String, Shape> {
    let path = testdata().join("metrics/chunk-producer-overloaded.txt");
    shapes(&fs::read_to_string(path).expect("fixture"))
}

fn missing(shapes: &BTreeMap<String, Shape>) -> Vec<&'static str> {
    NAMES.into_iter().filter(|name| !shapes.contains_key(*name)).collect()
}

async fn scrape(cluster: &Cluster, index: usize) -> String {
    cluster.get(index, "/metrics").await.expect("metrics")
}

#[tokio::test(flavor = "multi_thread")]
async fn network_every_metric_is_shaped_like_neards() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 3).await;
    cluster.call(0, "status", json!([])).await;
    let neards = neards_shapes();
    assert!(missing(&neards).is_empty(), "neard has them all");
    let deadline = Instant::now() + 2 * PATIENCE;
    let own = loop {
        let own = shapes(&scrape(&cluster, 0).await);
        let missing = missing(&own);
        if missing.is_empty() {
            break own;
        }
        assert!(Instant::now() < deadline, "missing: {missing:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    for name in NAMES {
        assert_eq!(own[name], neards[name], "{name}");
    }
    // What else is there is neard's, too, where the recorded node had a reason to tell it.
    let sums = ["_sum", "_count", "_bucket"];
    for (name, shape) in own.iter().filter(|(name, _)| !sums.iter().any(|end| name.ends_with(end))) {
        if let Some(neards) = neards.get(name) {
            assert_eq!(shape, neards, "{name}");
        }
    }
    cluster.stop().await;
}

/// Values of a metric, summed over its labels.
fn total(text: &str, name: &str) -> u64 {
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    let values = lines.filter(|rest| rest.starts_with(' ') || rest.starts_with('{'));
    let value = |rest: &str| rest.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
    values.map(|rest| value(rest).expect("a number") as u64).sum()
}

/// What the blocks up to a height say.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Told {
    blocks: u64,
    chunks: u64,
    missed: u64,
    gas: u64,
}

async fn told(cluster: &Cluster, index: usize, head: u64) -> Told {
    let mut told = Told::default();
    for height in 1..=head {
        let (code, answer) = cluster.call(index, "block", json!({"block_id": height})).await;
        if code == 422 {
            continue;
        }
        told.blocks += 1;
        for chunk in answer["result"]["chunks"].as_array().expect("chunks") {
            let is_new = chunk["height_included"] == height;
            told.chunks += u64::from(is_new);
            told.missed += u64::from(!is_new);
            told.gas += if is_new { chunk["gas_used"].as_u64().expect("gas") } else { 0 };
        }
    }
    told
}

/// What a node's metrics say, and what the blocks up to the same head do.
#[derive(Debug, Default, Clone, Copy)]
struct Page {
    by_metrics: Told,
    by_blocks: Told,
}

impl Page {
    /// A page that is not older than the question: a node that is busy answers with the last one.
    async fn of(cluster: &Cluster, index: usize) -> Self {
        let before = cluster.height(index).await;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = scrape(cluster, index).await;
            let head = total(&text, "near_block_height_head");
            if head >= before {
                let by_metrics = Told {
                    blocks: total(&text, "near_blocks_processed"),
                    chunks: total(&text, "near_chunks_processed"),
                    missed: total(&text, "near_chunk_skipped_total"),
                    gas: total(&text, "near_gas_used"),
                };
                return Self { by_metrics, by_blocks: told(cluster, index, head).await };
            }
            assert!(Instant::now() < deadline, "a page of {head}, asked for at {before}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// What came since an earlier page.
    fn since(self, earlier: Self) -> Self {
        let less = |now: Told, before: Told| Told {
            blocks: now.blocks - before.blocks,
            chunks: now.chunks - before.chunks,
            missed: now.missed - before.missed,
            gas: now.gas - before.gas,
        };
        Self {
            by_metrics: less(self.by_metrics, earlier.by_metrics),
            by_blocks: less(self.by_blocks, earlier.by_blocks),
        }
    }

    /// Blocks beside the chain were counted, too.
    fn has_fork(&self) -> bool {
        self.by_metrics.blocks > self.by_blocks.blocks
    }
}

/// Sends the transfers of one round to nodes 0 and 1 and waits until node 2 has counted them all. It tracks both shards
/// and validates nothing, so that it executes each transaction once.
async fn load(cluster: &Cluster, round: u64) {
    inject(cluster, 0, ("000_user_0", "a01_user_1"), 200 * round + 1..200 * round + 201).await;
    inject(cluster, 1, ("a01_user_0", "000_user_2"), 100 * round + 1..100 * round + 101).await;
    let deadline = Instant::now() + 2 * PATIENCE;
    let gas = 600 * (round + 1) * tpsctl_near::TRANSFER_GAS_UNIT;
    while total(&scrape(cluster, 2).await, "near_gas_used") < gas {
        assert!(Instant::now() < deadline, "it settles");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Rounds of load; one of them is to pass without a fork.
const ROUNDS_MAX: u64 = 8;

#[tokio::test(flavor = "multi_thread")]
async fn network_metrics_tell_what_blocks_tell() {
    let cluster = Cluster::start(&["node0", "node1", "node2"]);
    cluster.reach(2, 2).await;
    let (mut earlier, mut round) = ([Page::default(); 3], 0);
    loop {
        load(&cluster, round).await;
        round += 1;
        let mut new = [Page::default(); 3];
        for index in 0..3 {
            let page = Page::of(&cluster, index).await;
            new[index] = page.since(earlier[index]);
            earlier[index] = page;
        }
        // A busy machine can make forks; their blocks count as well.
        if new.iter().any(Page::has_fork) {
            assert!(round < ROUNDS_MAX, "a fork in every round: {new:?}");
            continue;
        }
        for page in new {
            assert_eq!(page.by_metrics, page.by_blocks, "{new:?}");
            assert!(page.by_blocks.gas > 0, "{new:?}");
        }
        break;
    }
    let texts = [scrape(&cluster, 0).await, scrape(&cluster, 1).await, scrape(&cluster, 2).await];
    let executed = |index: usize| total(&texts[index], "near_transaction_processed_total");
    assert!(executed(2) >= 300 * round);
    let sum: u64 = (0..3).map(executed).sum();
    assert!(sum >= 600 * round, "producer and tracker count each: {sum}");
    let received = |index: usize| total(&texts[index], "near_transaction_received_validator");
    assert_eq!((received(0), received(1), received(2)), (200 * round, 100 * round, 0));
    let included: u64 = (0..2).map(|index| total(&texts[index], "near_chunk_transactions_total")).sum();
    assert!(included >= 300 * round, "{included}");
    cluster.stop().await;
}
