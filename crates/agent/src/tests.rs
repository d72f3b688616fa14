use tpsctl_model::{
    Millis, NodeName, ShardId, Yocto,
    load::ShardInject,
    plan::{NodePlan, NodeRole, RunPlan},
};

mod blame;
mod fake_node;
mod faults;
mod network;

/// The tiny plan with this many shards, `producers` for each, and this catch-up bound.
fn plan(shards: u64, producers: usize, catch_up_ms: u64) -> RunPlan {
    let mut plan: RunPlan =
        serde_json::from_str(include_str!("../../../testdata/plans/tiny.json")).expect("a plan");
    plan.nodes = (0..producers)
        .flat_map(|number| (0..shards).map(move |shard| (number, shard)))
        .map(|(number, shard)| NodePlan {
            name: NodeName(format!("cp{number}-{shard}")),
            role: NodeRole::Producer { shards: vec![ShardId(shard)], stake: Yocto(1) },
        })
        .collect();
    plan.chain.shard_ids = (0..shards).map(ShardId).collect();
    plan.accounts.prefixes = (0..shards).map(|shard| format!("{shard:03}")).collect();
    plan.accounts.per_shard = 50;
    plan.load.catch_up_ms = Millis(catch_up_ms);
    plan
}

fn assert_adds_up(shard: &ShardInject) {
    let unsent: u64 = shard.unsent.values().sum();
    assert_eq!(shard.intended, shard.sent + unsent, "{shard:?}");
    assert_eq!(shard.sent, shard.sent_to.values().sum::<u64>(), "{shard:?}");
    assert!(shard.on_broken_connection <= shard.sent, "{shard:?}");
    assert!(!shard.unsent.values().any(|count| *count == 0), "{shard:?}");
}
