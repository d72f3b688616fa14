//! Chains, injector reports and plans for the tests of this crate.

use std::collections::BTreeMap;

use tpsctl_model::{
    Bytes, Gas, Millis, NodeName, Seed, ShardId, Share, Tps, Yocto,
    load::{InjectReport, QuantilesMs, ShardInject},
    observation::{BlockFact, ChunkFact, Observation},
    plan::{
        AccountsPlan, ChainPlan, Goal, KeyKind, LoadPlan, NetworkPlan, NodeBinary, NodePlan, NodeRole,
        NodeSoftware, ProviderKind, RunPlan, SearchPlan, Signing, TrialPlan,
    },
};

use tpsctl_near::TRANSFER_GAS_UNIT;

use crate::JudgedLoad;

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
/// Second 0 of every test.
pub(crate) const START_NS: u64 = 1_800_000_000 * SECOND_NS;

pub(crate) struct Chain(Observation);

/// `count` blocks, one a second from second 0 on, every chunk included and empty, proven idle at the end.
pub(crate) fn chain(shards: &[ShardId], count: u64) -> Chain {
    let block = |index: u64| BlockFact {
        height: 100 + index,
        prev_height: 99 + index,
        hash: format!("hash{index}"),
        timestamp_unix_ns: START_NS + index * SECOND_NS,
        author: "cp0".to_owned(),
        chunks: shards.iter().map(|shard| ChunkFact { shard: *shard, included: true, gas_used: 0 }).collect(),
    };
    Chain(Observation {
        window_from_unix_ns: START_NS,
        window_to_unix_ns: START_NS + count * SECOND_NS,
        drained_unix_ns: START_NS + count * SECOND_NS,
        blocks: (0..count).map(block).collect(),
        units_per_transfer: 2,
        idle: true,
        pending: 0,
        gaps: vec![],
        exits: vec![],
        samples: vec![],
        dropped: BTreeMap::new(),
    })
}

impl Chain {
    /// The window in seconds.
    pub(crate) fn window(mut self, from: f64, to: f64) -> Self {
        self.0.window_from_unix_ns = START_NS + (from * 1e9) as u64;
        self.0.window_to_unix_ns = START_NS + (to * 1e9) as u64;
        self
    }

    /// Gas units that the header in block `index` reports for the shard at `shard_index`.
    pub(crate) fn units(mut self, index: usize, shard_index: usize, units: u64) -> Self {
        self.0.blocks[index].chunks[shard_index].gas_used = units * TRANSFER_GAS_UNIT;
        self
    }

    pub(crate) fn done(self) -> Observation {
        self.0
    }
}

/// A report: by shard what was sent and to which shard; nothing unsent; load from second 0 to 8.
pub(crate) fn inject(shards: &[(u64, [u64; 2])]) -> InjectReport {
    let lag = QuantilesMs { count: 100, p50: 0.1, p90: 0.2, p99: 0.5, max: 2.0 };
    let shard = |(index, (sent, sent_to)): (usize, &(u64, [u64; 2]))| ShardInject {
        shard: ShardId(index as u64),
        intended: *sent,
        sent: *sent,
        unsent: BTreeMap::new(),
        accepted: None,
        sent_to: (0..).map(ShardId).zip(sent_to.iter().copied()).filter(|(_, sent)| *sent > 0).collect(),
        on_broken_connection: 0,
        reconnects: 0,
        send_lag_ms: lag,
    };
    InjectReport {
        trial: 1,
        started_unix_ns: START_NS,
        ended_unix_ns: START_NS + 8 * SECOND_NS,
        shards: shards.iter().enumerate().map(shard).collect(),
        send_lag_ms: lag,
        clock_stepped: false,
        stream_fingerprint: String::new(),
    }
}

/// The order that fits `report` where its shards intended the same: 8 s of load, as long as the report says.
pub(crate) fn ordered(report: &InjectReport) -> JudgedLoad<'_> {
    JudgedLoad {
        rate_per_shard: Tps(report.shards.first().map_or(0, |shard| shard.intended) / 8),
        duration_ms: Millis(8_000),
        interrupted: false,
        report,
    }
}

/// The search of most tests: from 100 by doubling to 6 400, 5 %, two equal verdicts.
pub(crate) fn search_plan() -> SearchPlan {
    SearchPlan {
        start: Tps(100),
        growth: 2.0,
        max: Tps(6_400),
        resolution: Share(0.05),
        confirmations: 2,
        time_budget_ms: Millis(600_000),
    }
}

/// A plan with quickstart's goal: 2 % missed, p90 at most 1.5 x 1 s, 98 % settled.
pub(crate) fn plan(shards: &[ShardId]) -> RunPlan {
    RunPlan {
        schema: "tpsctl.plan/1".to_owned(),
        scenario: "test".to_owned(),
        seed: Seed(1),
        provider: ProviderKind::Local,
        node: NodeSoftware {
            binary: NodeBinary::Embedded,
            nice: 10,
            ready_timeout_ms: Millis(30_000),
            stop_timeout_ms: Millis(5_000),
        },
        chain: chain_plan(shards),
        nodes: shards
            .iter()
            .map(|shard| NodePlan {
                name: NodeName(format!("cp{shard}")),
                role: NodeRole::Producer { shards: vec![*shard], stake: Yocto(1) },
            })
            .collect(),
        network: NetworkPlan::default(),
        accounts: AccountsPlan { per_shard: 10, prefixes: vec![], balance: Yocto(1), keys: KeyKind::Row },
        load: LoadPlan {
            signing: Signing::FixedNonce,
            cross_shard: Share(0.0),
            amount: Yocto(1),
            catch_up_ms: Millis(100),
        },
        trial: TrialPlan {
            warmup_ms: Millis(2_000),
            window_ms: Millis(5_000),
            drain_timeout_ms: Millis(4_000),
            idle_timeout_ms: Millis(30_000),
            invalid_retries: 3,
            send_lag_p99_max_ms: Millis(50),
            unsent_max: Share(0.001),
            gap_max_ms: Millis(3_000),
        },
        goal: Goal {
            missed_slots_max: Share(0.02),
            block_time_quantile: Share(0.9),
            block_time_ratio_max: 1.5,
            settled_min: Share(0.98),
        },
        search: search_plan(),
    }
}

fn chain_plan(shards: &[ShardId]) -> ChainPlan {
    ChainPlan {
        chain_id: "benchmarknet".to_owned(),
        protocol_version: 86,
        boundary_accounts: vec![],
        shard_ids: shards.to_vec(),
        gas_limit: Gas(20_000_000_000_000_000),
        min_gas_price: Yocto(1_000_000_000),
        epoch_length_blocks: 1_000,
        transaction_validity_blocks: 1_000,
        mandates_per_shard: 1,
        block_time_min_ms: Millis(1_000),
        block_time_max_ms: Millis(2_000),
        block_wait_max_ms: Millis(6_000),
        chunk_wait_mult: (1, 3),
        pool_size_limit_bytes: Bytes(100_000_000),
        prepare_time_limit_ms: Millis(200),
    }
}
