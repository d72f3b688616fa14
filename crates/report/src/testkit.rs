//! Results of runs that ended in different ways.

use std::collections::BTreeMap;

use tpsctl_model::{
    NodeName, ShardId, Share,
    load::{QuantilesMs, UnsentCause},
    observation::{ExitKind, LostCause},
    plan::Goal,
    result::{
        Accounting, Bounds, Fingerprints, HostInfo, Knee, LimitedBy, NodeInfo, NotJudged, Outcome,
        RUN_SCHEMA, RunResult, ShardRecord, TrialCounts, TrialRecord,
    },
    verdict::{BrokenCriterion, InvalidCause, Verdict},
};

const SHARDS: u64 = 4;
const LOAD_SECONDS: u64 = 10;
/// Slots of a window of 8 s with 300 ms blocks.
const SLOTS: u64 = 26 * SHARDS;

/// A trial in which everything settled.
fn trial(number: u32, rate: u64, verdict: Verdict, why: &str) -> TrialRecord {
    let on_shard = rate * LOAD_SECONDS;
    let sent = on_shard * SHARDS;
    let shard = |shard| ShardRecord {
        shard: ShardId(shard),
        intended: on_shard,
        sent: on_shard,
        unsent: BTreeMap::new(),
        included: Some(on_shard),
        settled: rate * 8,
        missed_chunk_slots: 0,
        chunk_slots: SLOTS / SHARDS,
    };
    TrialRecord {
        trial: number,
        rate_per_shard: rate,
        why: why.to_owned(),
        cause: verdict.cause(),
        verdict,
        counts: TrialCounts {
            intended: sent,
            sent,
            included: sent,
            settled: rate * 8 * SHARDS,
            settled_by_drain_end: sent,
            chunk_slots: SLOTS,
            ..TrialCounts::default()
        },
        block_time_ms: QuantilesMs {
            count: 26,
            p50: 301.0,
            p90: 306.0 + rate as f64 / 50.0,
            p99: 340.0,
            max: 352.0,
        },
        send_lag_ms: QuantilesMs { count: sent, p50: 0.1, p90: 0.4, p99: 1.7, max: 6.0 },
        shards: (0..SHARDS).map(shard).collect(),
        skipped_heights: 0,
        load_seconds: if rate == 0 { 5.0 } else { LOAD_SECONDS as f64 },
        drain_seconds: 1.2,
    }
}

fn missed_verdict(missed: u64) -> Verdict {
    Verdict::Fail { criteria: vec![BrokenCriterion::MissedChunks { missed, slots: SLOTS, share_max: 0.02 }] }
}

/// A trial in which `missed` slots were missed and `late` transfers settled only after the drain's deadline.
fn failed(number: u32, rate: u64, missed: u64, late: u64, why: &str) -> TrialRecord {
    let mut record = trial(number, rate, missed_verdict(missed), why);
    record.counts.missed_chunk_slots = missed;
    record.counts.settled_by_drain_end -= late;
    record.shards[2].missed_chunk_slots = missed;
    record.block_time_ms.p90 = 420.0 + missed as f64 * 5.0;
    record.block_time_ms.max = 905.0;
    record
}

fn invalid(number: u32, rate: u64) -> TrialRecord {
    let causes = vec![
        InvalidCause::NodeEnded { node: NodeName("cp2".to_owned()), exit: ExitKind::Signal(9) },
        InvalidCause::Gap {
            source: "cp2".to_owned(),
            gap_ms: 8_100,
            error: "connection refused (os error 111)".to_owned(),
        },
    ];
    let mut record =
        trial(number, rate, Verdict::Invalid { causes }, "bisect: between 1500 (passed) and 1600 (failed)");
    record.counts.unsent.insert(UnsentCause::NotConnected, 900);
    record.counts.unsent.insert(UnsentCause::GeneratorLate, 2);
    record.counts.sent -= 902;
    record.counts.included -= 902;
    record.counts.settled_by_drain_end -= 902;
    record.shards[2].missed_chunk_slots = 9;
    record.counts.missed_chunk_slots = 9;
    record
}

fn empty(outcome: Outcome) -> RunResult {
    RunResult {
        schema: RUN_SCHEMA.to_owned(),
        run_id: "20261201-101500-quickstart".to_owned(),
        started_at: "2026-12-01T10:15:00Z".to_owned(),
        ended_at: "2026-12-01T10:17:31Z".to_owned(),
        scenario: serde_json::json!({
            "name": "quickstart",
            "chain": { "shards": 4, "block_time_min": "300ms" },
            "search": { "start": "400tps", "max": "8000tps" },
        }),
        seed: 42,
        provider: "local".to_owned(),
        node: NodeInfo { binary: "embedded".to_owned(), version: "tpsctl 0.1.0".to_owned(), embedded: true },
        host: HostInfo { cores: 2, memory_bytes: 8_254_000_000 },
        goal: Goal {
            missed_slots_max: Share(0.02),
            block_time_quantile: Share(0.9),
            block_time_ratio_max: 1.5,
            settled_min: Share(0.98),
        },
        outcome,
        knee: None,
        bounds: None,
        limited_by: LimitedBy::None,
        trials: vec![],
        accounting: Accounting { closed: true, difference: 0, not_judged: vec![] },
        fingerprints: Fingerprints {
            genesis: "1f".repeat(32),
            keys: "2e".repeat(32),
            stream: "3d".repeat(32),
        },
        processes_left: 0,
        warnings: vec![],
    }
}

/// The interval is closed.
pub(crate) fn done() -> RunResult {
    let mut overloaded = failed(5, 3_200, 31, 21_000, "bracket: no failure yet, 2 times the last rate");
    overloaded.verdict = Verdict::Fail {
        criteria: vec![
            BrokenCriterion::MissedChunks { missed: 31, slots: SLOTS, share_max: 0.02 },
            BrokenCriterion::BlockTime { quantile_ms: 575.0, max_ms: 450.0 },
            BrokenCriterion::Backlog { settled_share: 0.8359, share_min: 0.98 },
        ],
    };
    overloaded.cause = overloaded.verdict.cause();
    overloaded.counts.included -= 40;
    overloaded.counts.lost.insert(LostCause::PoolFull, 40);
    overloaded.shards[2].included = overloaded.shards[2].included.map(|included| included - 40);
    let trials = vec![
        trial(0, 0, Verdict::Pass, "idle: the network without load"),
        trial(1, 400, Verdict::Pass, "bracket: the scenario's first rate"),
        trial(2, 800, Verdict::Pass, "bracket: no failure yet, 2 times the last rate"),
        trial(3, 1_500, Verdict::Pass, "bracket: no failure yet, 2 times the last rate"),
        failed(4, 1_600, 4, 0, "bracket: no failure yet, 2 times the last rate"),
        overloaded,
        invalid(6, 1_550),
        trial(7, 1_530, Verdict::Pass, "bisect: between 1500 (passed) and 1600 (failed)"),
        failed(8, 1_560, 5, 0, "bisect: between 1530 (passed) and 1600 (failed)"),
        trial(9, 1_530, Verdict::Pass, "confirm: lower end, pass 1 of 2 so far"),
        failed(10, 1_560, 3, 0, "confirm: upper end, fail 1 of 2 so far"),
    ];
    RunResult {
        knee: Some(Knee {
            per_shard_low: 1_530,
            per_shard_high: Some(1_560),
            total_low: 6_120,
            total_high: Some(6_240),
            unit: "transfers/s".to_owned(),
        }),
        bounds: Some(Bounds { per_shard_low: Some(1_530), per_shard_high: Some(1_560) }),
        limited_by: LimitedBy::MissedChunks,
        trials,
        warnings: vec!["2 cores carry 5 nodes and the injector: the limit is that of this host".to_owned()],
        ..empty(Outcome::Done)
    }
}

fn bound_reached() -> RunResult {
    let trials = vec![
        trial(0, 0, Verdict::Pass, "idle: the network without load"),
        trial(1, 400, Verdict::Pass, "bracket: the scenario's first rate"),
        trial(2, 800, Verdict::Pass, "bracket: no failure yet, the search's upper bound"),
        trial(3, 800, Verdict::Pass, "confirm: upper bound, pass 1 of 2 so far"),
    ];
    RunResult {
        knee: Some(Knee {
            per_shard_low: 800,
            per_shard_high: None,
            total_low: 3_200,
            total_high: None,
            unit: "transfers/s".to_owned(),
        }),
        bounds: Some(Bounds { per_shard_low: Some(800), per_shard_high: None }),
        limited_by: LimitedBy::BoundReached,
        trials,
        node: NodeInfo {
            binary: "/opt/neard".to_owned(),
            version: "2.7.0 (build f0c7706f)".to_owned(),
            embedded: false,
        },
        ..empty(Outcome::Done)
    }
}

fn idle_fails() -> RunResult {
    let why = "the idle network misses the goal: block time 640 ms (at most 450 ms)".to_owned();
    let verdict =
        Verdict::Fail { criteria: vec![BrokenCriterion::BlockTime { quantile_ms: 640.0, max_ms: 450.0 }] };
    let mut idle = trial(0, 0, verdict, "idle: the network without load");
    idle.block_time_ms = QuantilesMs { count: 12, p50: 610.0, p90: 640.0, p99: 702.0, max: 702.0 };
    RunResult { trials: vec![idle], limited_by: LimitedBy::BlockTime, ..empty(Outcome::GoalNotMet { why }) }
}

fn provider_failed() -> RunResult {
    let why = "node cp1 did not answer within 30s: see nodes/cp1/log".to_owned();
    RunResult {
        processes_left: 1,
        warnings: vec!["process 4711 (cp1) could not be ended: run `tpsctl down`".to_owned()],
        fingerprints: Fingerprints::default(),
        host: HostInfo { cores: 2, memory_bytes: 0 },
        ..empty(Outcome::ProviderFailed { why })
    }
}

fn all_invalid() -> RunResult {
    let why = "2 trials in a row were invalid at 400 transfers/s per shard, more than may be repeated; the last: cp2 was ended from outside: signal 9";
    RunResult {
        trials: vec![
            trial(0, 0, Verdict::Pass, "idle: the network without load"),
            invalid(1, 400),
            invalid(2, 400),
        ],
        ..empty(Outcome::Invalid { why: why.to_owned() })
    }
}

fn dies_twice() -> RunResult {
    let why = "node dies at 800 transfers/s per shard: it ended by itself in two trials; no rate had passed for certain";
    let crash = |number, why| {
        let (node, exit) = (NodeName("cp2".to_owned()), ExitKind::Signal(6));
        let mut record = trial(
            number,
            800,
            Verdict::Fail { criteria: vec![BrokenCriterion::NodeCrashed { node, exit }] },
            why,
        );
        record.counts.unsent = BTreeMap::from([(UnsentCause::NotConnected, 310), (UnsentCause::Stopped, 90)]);
        record.counts.sent -= 400;
        record.counts.included -= 9_400;
        record.counts.lost.insert(LostCause::NodeEnded, 9_000);
        record
    };
    let trials = vec![
        trial(0, 0, Verdict::Pass, "idle: the network without load"),
        trial(1, 400, Verdict::Pass, "bracket: the scenario's first rate"),
        crash(2, "bracket: no failure yet, 2 times the last rate"),
        crash(3, "confirm: first failure, fail 1 of 2 so far"),
    ];
    RunResult {
        bounds: Some(Bounds { per_shard_low: Some(400), per_shard_high: Some(800) }),
        limited_by: LimitedBy::NodeCrashed,
        trials,
        ..empty(Outcome::ProviderFailed { why: why.to_owned() })
    }
}

/// The host could not keep up, and the network was not idle in time.
fn not_idle() -> RunResult {
    let causes = vec![
        InvalidCause::Unsent { share: 0.144_3, share_max: 0.001 },
        InvalidCause::Gap { source: "node1".to_owned(), gap_ms: 9_800, error: "timed out".to_owned() },
    ];
    let mut busy =
        trial(2, 800, Verdict::Invalid { causes }, "bracket: no failure yet, 2 times the last rate");
    busy.counts.unsent.insert(UnsentCause::GeneratorLate, 4_618);
    busy.counts.sent -= 4_618;
    busy.counts.included -= 11_800;
    busy.counts.settled_by_drain_end -= 11_800;
    busy.counts.difference = 7_182;
    busy.drain_seconds = 60.1;
    let why = format!(
        "failed to see the network idle within 60 s: 12 transfers pending, 0 quiet blocks, no metrics from node1; raise `trial.idle_timeout`, or look at the nodes' logs; trial 2 was invalid before: {}; the host was too busy to load and watch this network: run it on a quiet one",
        busy.cause
    );
    let not_judged = NotJudged {
        trial: 2,
        transfers: 7_182,
        why: "the network was not idle within `trial.idle_timeout`".to_owned(),
    };
    RunResult {
        bounds: Some(Bounds { per_shard_low: Some(400), per_shard_high: None }),
        trials: vec![
            trial(0, 0, Verdict::Pass, "idle: the network without load"),
            trial(1, 400, Verdict::Pass, "bracket: the scenario's first rate"),
            busy,
        ],
        accounting: Accounting { closed: true, difference: 0, not_judged: vec![not_judged] },
        ..empty(Outcome::Invalid { why })
    }
}

/// Runs by the name of their snapshot.
pub(crate) fn named() -> [(&'static str, RunResult); 8] {
    [
        ("done", done()),
        ("bound_reached", bound_reached()),
        ("interrupted", empty(Outcome::Interrupted)),
        ("idle_fails", idle_fails()),
        ("provider_failed", provider_failed()),
        ("all_invalid", all_invalid()),
        ("dies_twice", dies_twice()),
        ("not_idle", not_idle()),
    ]
}

pub(crate) fn all() -> impl Iterator<Item = RunResult> {
    named().into_iter().map(|(_, result)| result)
}
