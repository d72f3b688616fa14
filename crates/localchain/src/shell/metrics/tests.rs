use std::{collections::BTreeMap, path::Path, sync::Arc};

use prometheus_parse::{Sample, Scrape, Value};
use serde_json::json;
use tpsctl_near::{AccountId, KeyPair, ShardLayout};

use super::*;
use crate::{
    core::{ApplyReason, Queue, Settings, ShardStats, Validator},
    shell::home::Home,
};

/// The fixture's first validator: two shards, of which it produces the first.
fn settings() -> Settings {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/neard/home/node0");
    Home::read(&home).expect("the fixture's home").settings
}

fn samples(metrics: &Metrics) -> Vec<Sample> {
    let text = metrics.text().expect("text");
    let lines = text.lines().map(|line| Ok(line.to_owned()));
    Scrape::parse(lines).expect("what Prometheus reads").samples
}

/// Values of a name by their label values, the labels in order of their names.
fn values(metrics: &Metrics, name: &str) -> BTreeMap<Vec<String>, f64> {
    let value = |sample: &Sample| match &sample.value {
        Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => *value,
        other => panic!("{name} is {other:?}"),
    };
    let labels = |sample: &Sample| -> Vec<String> {
        let labels: BTreeMap<&String, &String> = sample.labels.iter().collect();
        labels.into_values().cloned().collect()
    };
    let all = samples(metrics);
    all.iter().filter(|sample| sample.metric == name).map(|own| (labels(own), value(own))).collect()
}

fn value(metrics: &Metrics, name: &str, labels: &[&str]) -> f64 {
    let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
    let values = values(metrics, name);
    *values.get(&labels).unwrap_or_else(|| panic!("{name} {labels:?} in {values:?}"))
}

/// Count and sum of a histogram.
fn observed(metrics: &Metrics, name: &str, labels: &[&str]) -> (f64, f64) {
    (value(metrics, &format!("{name}_count"), labels), value(metrics, &format!("{name}_sum"), labels))
}

fn is(own: f64, expected: f64) -> bool {
    (own - expected).abs() < 1e-9
}

#[track_caller]
fn assert_value(metrics: &Metrics, name: &str, labels: &[&str], expected: f64) {
    let own = value(metrics, name, labels);
    assert!(is(own, expected), "{name} {labels:?} is {own}, not {expected}");
}

fn shard_stats() -> ShardStats {
    ShardStats {
        skipped: 2,
        chunk_transactions: 30,
        excluded_unavailable: 1,
        excluded_endorsement: 4,
        limited_by: BTreeMap::from([("NoMoreTxsInPool", 3), ("Time", 1)]),
        pool_entries: Some(5),
        pool_bytes: 900,
        queue: Some(Queue { receipts: 7, gas: 8 }),
        endorsements: 6,
        invalid_witnesses: BTreeMap::from([("invalid_state_root", 1)]),
    }
}

#[test]
fn counters_follow_what_the_core_counts() {
    let metrics = Metrics::new(&settings().genesis);
    let mut stats = Stats::new(2);
    stats.shards[0] = shard_stats();
    (stats.head_height, stats.final_height, stats.gas_used) = (12, 10, 1_000);
    (stats.transactions, stats.converted, stats.received) = (50, 49, 33);
    (stats.blocks, stats.chunks, stats.blocks_made, stats.chunks_made) = (12, 23, 6, 11);
    stats.is_syncing = true;
    metrics.follow(&stats, Waiting::default());
    // Once more: nothing is counted twice.
    metrics.follow(&stats, Waiting { events: 3, transactions: 2, queries: 1, validations: 4 });
    stats.gas_used += 500;
    stats.is_syncing = false;
    stats.shards[0].skipped += 1;
    *stats.shards[0].limited_by.entry("Time").or_default() += 2;
    metrics.follow(&stats, Waiting { events: 3, transactions: 2, queries: 1, validations: 4 });
    let plain = [
        ("near_block_height_head", 12.0),
        ("near_final_block_height", 10.0),
        ("near_gas_used", 1_500.0),
        ("near_blocks_processed", 12.0),
        ("near_chunks_processed", 23.0),
        ("near_block_produced_total", 6.0),
        ("near_chunk_produced_total", 11.0),
        ("near_transaction_processed_total", 50.0),
        ("near_transaction_processed_successfully_total", 49.0),
        ("near_transaction_processed_failed_total", 1.0),
        ("near_transaction_received_validator", 33.0),
        ("near_sync_status", 0.0),
    ];
    for (name, expected) in plain {
        assert_value(&metrics, name, &[], expected);
    }
    let per_shard = [
        ("near_chunk_skipped_total", vec!["0"], 3.0),
        ("near_chunk_skipped_total", vec!["1"], 0.0),
        ("near_chunk_transactions_total", vec!["0"], 30.0),
        ("near_block_producer_excluded_chunks_count", vec!["chunk_unavailable", "0"], 1.0),
        ("near_block_producer_excluded_chunks_count", vec!["insufficient_endorsement", "0"], 4.0),
        ("near_produce_chunk_transactions_limited_by", vec!["NoMoreTxsInPool", "0"], 3.0),
        ("near_produce_chunk_transactions_limited_by", vec!["Time", "0"], 3.0),
        ("near_transaction_pool_entries", vec!["s0.v3"], 5.0),
        ("near_transaction_pool_size", vec!["s0.v3"], 900.0),
        ("near_delayed_receipts_count", vec!["0"], 7.0),
        ("near_chunk_endorsements_accepted", vec!["0"], 6.0),
        ("near_chunk_witness_validation_failed_total", vec!["invalid_state_root", "0"], 1.0),
        ("near_async_queue_pending_messages", vec!["near_client::client_actor::ClientActor"], 3.0),
        ("near_async_queue_pending_messages", vec!["RpcHandlerActor"], 2.0),
        ("near_async_queue_pending_messages", vec!["ViewClientActor"], 1.0),
        ("near_async_queue_pending_messages", vec!["ChunkValidationActor"], 4.0),
    ];
    for (name, labels, expected) in per_shard {
        assert_value(&metrics, name, &labels, expected);
    }
    let pools = values(&metrics, "near_transaction_pool_entries");
    assert_eq!(pools.len(), 1, "only shards with a pool here: {pools:?}");
}

#[test]
fn a_node_that_is_behind_fetches_blocks() {
    let metrics = Metrics::new(&settings().genesis);
    metrics.follow(&Stats { is_syncing: true, ..Stats::new(2) }, Waiting::default());
    assert_value(&metrics, "near_sync_status", &[], 7.0);
}

#[test]
fn every_observation_has_its_histogram() {
    let metrics = Metrics::new(&settings().genesis);
    let time = Duration::from_millis(1_500);
    metrics.observe(&[
        Observation::Rejected { shard: 0, reason: "invalid_tx", count: 3 },
        Observation::ChunkProduced { shard: 0, time, witness_bytes: 130_000 },
        Observation::Applied { shard: 0, reason: ApplyReason::UpdateShard, time },
        Observation::Applied { shard: 1, reason: ApplyReason::ValidateChunk, time },
        Observation::Validated { shard: 1, time },
        Observation::Endorsed { shard: 1, endorsed: 10, total: 40, missing: 3 },
        Observation::BlockProcessed { time },
    ]);
    let expected = [
        ("near_prepare_tx_rejected", vec!["invalid_tx", "0"], 3.0),
        ("near_produce_chunk_time", vec!["0"], 1.5),
        ("near_chunk_state_witness_total_size", vec!["0"], 130_000.0),
        ("near_applying_chunks_time", vec!["update_shard", "0"], 1.5),
        ("near_applying_chunks_time", vec!["validate_chunk", "1"], 1.5),
        ("near_chunk_state_witness_validation_time", vec!["1"], 1.5),
        ("near_block_producer_endorsed_stake_ratio", vec!["1"], 0.25),
        ("near_block_producer_missing_endorsement_count", vec!["1"], 3.0),
        ("near_block_processing_time", vec![], 1.5),
    ];
    for (name, labels, sum) in expected {
        let own = observed(&metrics, name, &labels);
        assert!(is(own.0, 1.0) && is(own.1, sum), "{name}: {own:?}");
    }
}

#[test]
fn congestion_is_the_share_of_what_is_too_much() {
    let level = |chain_id: &str, peta_gas: u128| {
        let genesis = Genesis { chain_id: chain_id.to_owned(), ..Genesis::clone(&settings().genesis) };
        let metrics = Metrics::new(&genesis);
        let mut stats = Stats::new(2);
        stats.shards[1].queue = Some(Queue { receipts: 1, gas: peta_gas * 10_u128.pow(15) });
        metrics.follow(&stats, Waiting::default());
        value(&metrics, "near_congestion_level", &["1"])
    };
    for (peta_gas, expected) in [(0, 0.0), (100, 0.25), (400, 1.0), (900, 1.0)] {
        assert!(is(level("localnet", peta_gas), expected), "{peta_gas} Pgas");
    }
    let level = level("benchmarknet", 400);
    assert!(level > 0.02 && level < 0.03, "the limit is lifted: {level}");
}

#[test]
fn calls_are_counted_by_what_they_ask() {
    let metrics = Metrics::new(&settings().genesis);
    let view = json!({"request_type": "view_access_key", "account_id": "a"});
    let time = Duration::from_millis(3);
    for (method, params, error) in [
        ("status", json!([]), None),
        ("query", view.clone(), None),
        ("query", view.clone(), Some(-32_000)),
        ("query", view, Some(-32_700)),
        ("whatever 1", json!({}), Some(-32_601)),
        ("whatever 2", json!({}), Some(-32_601)),
    ] {
        metrics.answered(&Call::of(method, &params), time, error);
    }
    let expected =
        [("status", 1.0), ("query_view_access_key", 2.0), ("query", 1.0), ("UNSUPPORTED_METHOD", 2.0)];
    for (call, count) in expected {
        assert_value(&metrics, "near_rpc_total_count", &[call], count);
        assert!(is(observed(&metrics, "near_rpc_processing_time", &[call]).0, count), "{call}");
    }
    assert_value(&metrics, "near_rpc_error_count", &["-32000", "query_view_access_key"], 1.0);
    assert_eq!(values(&metrics, "near_rpc_total_count").len(), 4);
}

#[test]
fn roles_and_the_machine_are_summarized() {
    let settings = settings();
    let metrics = Metrics::new(&settings.genesis);
    metrics.summarize(&Node::new(settings), Duration::ZERO);
    for (name, labels, expected) in [
        ("near_is_validator", &[][..], 1.0),
        ("near_is_block_producer", &[], 1.0),
        ("near_is_chunk_producer_for_shard", &["0"], 1.0),
        ("near_is_chunk_producer_for_shard", &["1"], 0.0),
        ("near_client_tracked_shards", &["0"], 1.0),
        ("near_client_tracked_shards", &["1"], 0.0),
        ("near_node_protocol_version", &[], 86.0),
        ("near_current_protocol_version", &[], 86.0),
    ] {
        assert_value(&metrics, name, labels, expected);
    }
    assert!(value(&metrics, "near_memory_usage_bytes", &[]) > 100_000.0);
}

#[test]
fn what_cannot_be_forwarded_is_counted_by_transaction() {
    let metrics = Metrics::new(&settings().genesis);
    metrics.not_forwarded(3);
    metrics.not_forwarded(1);
    // Labels in order: reason, type.
    let labels = ["NoRouteFound", "ForwardTx"];
    assert_value(&metrics, "near_dropped_message_by_type_and_reason_count", &labels, 4.0);
}

/// A chain of so many shards, each with a validator of its own.
fn wide(shards: u64) -> Settings {
    let id = |text: String| -> AccountId { text.parse().expect("id") };
    let boundaries = (1..shards).map(|shard| id(format!("a{shard:03}"))).collect();
    let layout = ShardLayout::new(boundaries, (0..shards).collect()).expect("layout");
    let names: Vec<AccountId> = (0..shards).map(|node| id(format!("node{node}"))).collect();
    let key = |name: &AccountId| KeyPair::from_seed([name.as_str().len() as u8; 32]);
    let validator =
        |name: &AccountId| Validator { account_id: name.clone(), public_key: key(name).public(), stake: 50 };
    let own = settings();
    let genesis = Genesis {
        validators: names.iter().map(validator).collect(),
        states: Genesis::states_of(&layout, names.iter().map(|name| (name.clone(), 1, 50)), Vec::new()),
        layout: Arc::new(layout),
        ..Genesis::clone(&own.genesis)
    };
    let validator = Some((names[0].clone(), key(&names[0])));
    Settings { genesis: Arc::new(genesis), tracked: vec![false; shards as usize], validator, ..own }
}

/// Seventy nodes are scraped each second.
#[test]
fn a_scrape_of_a_wide_chain_is_short() {
    let settings = wide(70);
    let metrics = Metrics::new(&settings.genesis);
    let node = Node::new(settings);
    metrics.summarize(&node, Duration::ZERO);
    let time = Duration::from_millis(1);
    for shard in 0..70 {
        metrics.observe(&[
            Observation::Endorsed { shard, endorsed: 1, total: 1, missing: 0 },
            Observation::Validated { shard, time },
            Observation::Applied { shard, reason: ApplyReason::ValidateChunk, time },
        ]);
    }
    let mut stats = Stats::new(70);
    stats.shards[0] = shard_stats();
    metrics.follow(&stats, Waiting::default());
    let bytes = metrics.text().expect("text").len();
    // neard's own answer has 800 000 bytes with two shards.
    assert!(bytes < 700_000, "{bytes}");
}
