//! Scenarios planned from their text, as a user would write them.

use proptest::prelude::*;
use tpsctl_model::{
    Yocto,
    plan::{NodeRole, RunPlan},
};
use tpsctl_plan::{Capabilities, PlanError, Planned, Severity, check, plan, render, worst_case};
use tpsctl_scenario::{Override, Scenario, load, resolve_name};

fn scenario(overrides: &[&str]) -> Scenario {
    let overrides: Vec<_> = overrides.iter().map(|text| Override::parse(text).expect("key=value")).collect();
    load(&resolve_name("quickstart").expect("bundled"), &overrides).expect("a valid scenario")
}

fn host() -> Capabilities {
    Capabilities { name: "local".to_owned(), nodes_max: None, cores: 2, memory_bytes: 8_000_000_000 }
}

fn planned(overrides: &[&str]) -> Planned {
    plan(&scenario(overrides), &host()).expect("a plan")
}

/// Names of the checks that speak, with their weight, for a scenario with `overrides`.
fn spoken(overrides: &[&str]) -> Vec<(Severity, &'static str)> {
    let notes = match plan(&scenario(overrides), &host()) {
        Ok(planned) => planned.notes,
        Err(PlanError::Checks { notes }) => notes,
    };
    notes.into_iter().map(|note| (note.severity, note.check)).collect()
}

#[test]
fn quickstart_as_text() {
    let planned = planned(&[]);
    assert_eq!(planned.notes, []);
    insta::assert_snapshot!(render(&planned));
}

#[test]
fn quickstart_as_values() {
    insta::assert_json_snapshot!(planned(&[]).plan);
}

#[test]
fn many_shards_and_doubts_as_text() {
    let planned = planned(&[
        "chain.shards=12",
        "chain.producers_per_shard=2",
        "chain.rpc_nodes=0",
        "chain.id=rehearsal",
        "chain.keys=seed",
        "load={signing: rfc8032, cross_shard: 12.5%}",
        "node.binary=/opt/neard",
        "chain.pool_size_limit=1MB",
        "goal.missed_slots_max=0.1%",
        "search.time_budget=30s",
    ]);
    insta::assert_snapshot!(render(&planned));
}

#[test]
fn all_errors_come_at_once() {
    let overrides = [
        "chain.shards=64",
        "chain.transaction_validity=10001",
        "chain.block_time_max=400ms",
        "chain.account_balance=10mNEAR",
        "chain.pool_size_limit=1KB",
    ];
    let error = plan(&scenario(&overrides), &Capabilities { nodes_max: Some(50), ..host() }).unwrap_err();
    insta::assert_snapshot!(error.to_string());
}

#[test]
fn each_check_speaks_at_its_bound_and_not_before() {
    let error = |check| vec![(Severity::Error, check)];
    let warning = |check| vec![(Severity::Warning, check)];
    assert_eq!(spoken(&["chain.transaction_validity=10000"]), []);
    assert_eq!(spoken(&["chain.transaction_validity=10001"]), error("validity_within_two_epochs"));
    assert_eq!(spoken(&["chain.block_time_max=600ms"]), []);
    assert_eq!(spoken(&["chain.block_time_max=599ms"]), error("skip_after_two_block_times"));
    // 8 nodes on two cores.
    assert_eq!(spoken(&["chain.shards=7"]), []);
    assert_eq!(spoken(&["chain.shards=8"]), warning("cores_suffice"));
    // 40 nodes: 39 others and the injector.
    let cores = (Severity::Warning, "cores_suffice");
    assert_eq!(spoken(&["chain.shards=39"]), [cores]);
    assert_eq!(spoken(&["chain.shards=40"]), [(Severity::Error, "peers_suffice"), cores]);
    // 20 000 tps x 137.5 s / 5 000 accounts = 550 transfers of 446 365 125 000 000 000 000 + 1 yocto.
    assert_eq!(spoken(&["chain.account_balance=245500818750000000000550yocto"]), []);
    assert_eq!(spoken(&["chain.account_balance=245500818750000000000549yocto"]), error("balance_lasts"));
    // 20 000 tps x 3 s x (167 + 2 x 13) bytes.
    assert_eq!(spoken(&["chain.pool_size_limit=11580000B"]), []);
    assert_eq!(spoken(&["chain.pool_size_limit=11579999B"]), warning("pool_holds_the_load"));
    // 6 000 transfers in 300 ms, each of twice 223 182 562 500 gas.
    assert_eq!(spoken(&["chain.gas_limit=2678190750000000gas"]), []);
    assert_eq!(spoken(&["chain.gas_limit=2678190749999999gas"]), warning("chunk_holds_the_load"));
    // Off benchmarknet a chunk takes 2 240.
    assert_eq!(spoken(&["chain.id=own", "search.max=7466tps"]), []);
    assert_eq!(spoken(&["chain.id=own", "search.max=7467tps"]), warning("chunk_holds_the_load"));
    // 80 slots.
    assert_eq!(spoken(&["goal.missed_slots_max=1.25%"]), []);
    assert_eq!(spoken(&["goal.missed_slots_max=1.24%"]), warning("one_miss_passes"));
    assert_eq!(spoken(&["goal.missed_slots_max=0%"]), []);
    // Five trials of 7.5 s.
    assert_eq!(spoken(&["search.time_budget=37500ms"]), []);
    assert_eq!(spoken(&["search.time_budget=37499ms"]), warning("budget_holds_a_search"));
    // Four pools of 2 GB in 8 GB.
    assert_eq!(spoken(&["chain.pool_size_limit=2GB"]), []);
    assert_eq!(spoken(&["chain.pool_size_limit=2001MB"]), warning("memory_holds_the_pools"));
    // Two keys, 300 s without a block: over a million each.
    let slow = ["chain.accounts_per_shard=2", "chain.account_balance=1000000NEAR", "chain.block_wait_max=5m"];
    assert!(spoken(&slow).contains(&(Severity::Error, "nonces_below_ceiling")));
}

/// What no scenario's bounds allow, but a plan read from disk could hold.
#[test]
fn plans_that_no_scenario_makes_are_refused_too() {
    let broken = |change: fn(&mut RunPlan)| {
        let mut plan = planned(&[]).plan;
        change(&mut plan);
        check(&plan, &host()).into_iter().map(|note| note.check).collect::<Vec<_>>()
    };
    assert_eq!(broken(|plan| plan.accounts.balance = Yocto(u128::MAX / 20_001)), ["supply_fits"]);
    assert_eq!(broken(|plan| plan.accounts.prefixes.swap(1, 2)), ["accounts_in_their_shards"]);
    assert_eq!(broken(|plan| plan.chain.boundary_accounts.reverse()), ["accounts_in_their_shards"]);
    assert_eq!(broken(|plan| plan.accounts.prefixes[0] = "0".repeat(60)), ["accounts_in_their_shards"]);
    assert_eq!(broken(|plan| plan.nodes[0].name.0 = "Node".to_owned()), ["accounts_in_their_shards"]);
    let dwarf = |plan: &mut RunPlan| {
        if let NodeRole::Producer { stake, .. } = &mut plan.nodes[0].role {
            *stake = Yocto(1);
        }
    };
    assert_eq!(broken(dwarf), ["stake_has_a_seat"]);
}

#[test]
fn the_worst_case_uses_up_every_deadline() {
    // 30 s ready, 130 s budget, 1.5 s + 6 s load, 60 s idle, 5 s stop.
    assert_eq!(worst_case(&planned(&[]).plan).0, 232_500);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_shard_has_its_producers_and_its_accounts(shards in 1_u32..=256, per_shard in 1_u32..=16) {
        let scenario = scenario(&[&format!("chain.shards={shards}"), &format!("chain.producers_per_shard={per_shard}")]);
        match plan(&scenario, &host()) {
            Ok(Planned { plan, .. }) => {
                prop_assert!(plan.nodes.len() <= 40);
                prop_assert_eq!(plan.chain.shard_ids.len(), shards as usize);
                prop_assert_eq!(plan.accounts.prefixes.len(), shards as usize);
                for shard in &plan.chain.shard_ids {
                    prop_assert_eq!(plan.producers_of(*shard).count(), per_shard as usize);
                }
            }
            Err(PlanError::Checks { notes }) => {
                let errors: Vec<_> =
                    notes.iter().filter(|note| note.severity == Severity::Error).map(|note| note.check).collect();
                prop_assert_eq!(errors, ["peers_suffice"]);
                prop_assert!(shards * per_shard + 1 > 40);
            }
        }
    }
}
