//! Networks of other shapes, loaded as people load them.

use serde_json::Value;

use crate::{
    network::{SMALL, assert_accounts_add_up},
    support::Bench,
};

/// Runs a small search; every trial's accounts close and nothing is left.
fn assert_loads(overrides: &[&str]) -> Value {
    let bench = Bench::new();
    let output = bench.run(&[&["scenario", "run", "quickstart", "--json"], SMALL, overrides].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((run["processes_left"].clone(), run["accounting"]["closed"].clone()), (0.into(), true.into()));
    let trials = run["trials"].as_array().expect("trials");
    trials.iter().for_each(assert_accounts_add_up);
    let sent: i64 = trials.iter().filter_map(|trial| trial["sent"].as_i64()).sum();
    assert!(sent > 0, "{run}");
    assert_eq!(bench.processes(), Vec::<u32>::new());
    run
}

#[test]
fn slow_producers_of_several_shards_take_each_shards_load() {
    let run = assert_loads(&[
        "--set=chain.shards=5",
        "--set=chain.shards_per_producer=3",
        "--set=chain.chunk_validators=2",
        "--set=chain.mandates_per_shard=2",
        "--set=load.cross_shard=50%",
    ]);
    for trial in run["trials"].as_array().expect("trials").iter().skip(1) {
        let shards = trial["shards"].as_array().expect("shards");
        assert_eq!(shards.len(), 5);
        assert!(shards.iter().all(|shard| shard["sent"].as_i64() > Some(0)), "{trial}");
    }
}

#[test]
fn slow_capped_peers_still_settle() {
    assert_loads(&[
        "--set=chain.shards=6",
        "--set=network.max_peers=3",
        "--set=chain.block_time_min=600ms",
        "--set=chain.block_time_max=2s",
        "--set=chain.block_wait_max=6s",
        "--set=trial.drain_timeout=20s",
    ]);
}
