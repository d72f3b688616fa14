//! Scenarios planned from their text, as a user would write them.

use proptest::prelude::*;
use tpsctl_near::TRANSFER_GAS_UNIT;
use tpsctl_plan::{Capabilities, PlanError, Planned, Severity, examine, plan, render};
use tpsctl_scenario::{Override, Scenario, load, resolve_name};

fn scenario(overrides: &[&str]) -> Scenario {
    let overrides: Vec<_> = overrides.iter().map(|text| Override::parse(text).expect("key=value")).collect();
    load(&resolve_name("quickstart").expect("bundled"), &overrides).expect("a valid scenario")
}

fn host() -> Capabilities {
    Capabilities {
        name: "local".to_owned(),
        nodes_max: None,
        cores: 2,
        memory_bytes: 8_000_000_000,
        files_max: 65_535,
        files_hard_max: 65_535,
    }
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
        "chain.producers_per_shard=3",
        "chain.accounts_per_shard=2",
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
    // Ten blocks of 300 ms.
    assert_eq!(spoken(&["chain.transaction_validity=20"]), []);
    assert_eq!(spoken(&["chain.transaction_validity=19"]), error("validity_outlasts_the_hash"));
    // 20 000 tps x 152 s / 5 000 accounts = 608 transfers.
    assert_eq!(spoken(&["search.max=20000tps", &balance_for(608, 0)]), []);
    assert_eq!(spoken(&["search.max=20000tps", &balance_for(608, 1)]), error("balance_lasts"));
    // 64 000 tps x 3 s x (167 + 2 x 13) bytes.
    assert_eq!(spoken(&["chain.pool_size_limit=37056000B"]), []);
    assert_eq!(spoken(&["chain.pool_size_limit=37055999B"]), warning("pool_holds_the_load"));
    // 20 725 transfers of 193 bytes fit into 4 MB.
    assert_eq!(spoken(&["search.max=69083tps"]), []);
    assert_eq!(spoken(&["search.max=69084tps"]), warning("chunk_holds_the_load"));
    // Six blocks of 900 ms; ten, and 3 s.
    assert_eq!(spoken(&["trial.drain_timeout=5400ms"]), []);
    assert_eq!(spoken(&["trial.drain_timeout=5399ms"]), warning("drain_outlasts_a_transfer"));
    assert_eq!(spoken(&["trial.idle_timeout=12s"]), []);
    assert_eq!(spoken(&["trial.idle_timeout=11999ms"]), warning("idle_outlasts_slow_blocks"));
    // Off benchmarknet a chunk takes 2 240.
    assert_eq!(spoken(&["chain.id=own", "search.max=7466tps"]), []);
    assert_eq!(spoken(&["chain.id=own", "search.max=7467tps"]), warning("chunk_holds_the_load"));
    // 80 slots.
    assert_eq!(spoken(&["goal.missed_slots_max=1.25%"]), []);
    assert_eq!(spoken(&["goal.missed_slots_max=1.24%"]), warning("one_miss_passes"));
    assert_eq!(spoken(&["goal.missed_slots_max=0%"]), []);
    // Five trials of 7 s.
    assert_eq!(spoken(&["search.time_budget=35s"]), []);
    assert_eq!(spoken(&["search.time_budget=34999ms"]), warning("budget_holds_a_search"));
    // Four pools of 2 GB in 8 GB.
    assert_eq!(spoken(&["chain.pool_size_limit=2GB"]), []);
    assert_eq!(spoken(&["chain.pool_size_limit=2001MB"]), warning("memory_holds_the_pools"));
}

/// `chain.account_balance` for this many transfers of 446 365 125 000 000 000 000 + 1 yocto, less `missing` yocto.
fn balance_for(transfers: u128, missing: u128) -> String {
    format!("chain.account_balance={}yocto", transfers * 446_365_125_000_000_000_001 - missing)
}

#[test]
fn a_chunk_has_gas_for_refunds_where_the_price_asks_for_them() {
    // 19 200 transfers in 300 ms.
    for (price, units) in [(1_000_000_000, 2), (999_999_999, 3)] {
        let price = format!("chain.min_gas_price={price}");
        let gas = 19_200 * units * TRANSFER_GAS_UNIT;
        let spoken_at = |gas| spoken(&[&price, &format!("chain.gas_limit={gas}gas")]);
        assert_eq!(spoken_at(gas), []);
        assert_eq!(spoken_at(gas - 1), [(Severity::Warning, "chunk_holds_the_load")]);
    }
}

#[test]
fn the_documentation_lists_every_check() {
    let text = include_str!("../../../docs/plan-checks.md");
    let (_, rest) = text.split_once("<!-- checks: begin -->\n\n").expect("begin mark");
    let (table, _) = rest.split_once("<!-- checks: end -->").expect("end mark");
    let expected = tpsctl_plan::checks_markdown();
    assert_eq!(table, expected, "between its marks docs/plan-checks.md should be:\n{expected}");
}

/// Every check is told, also of a plan that cannot work, and as JSON beside the plan.
#[test]
fn what_holds_is_told_with_its_figure() {
    let examined = examine(&scenario(&["chain.transaction_validity=10001"]), &host());
    assert!(examined.refusal().is_some());
    let json = serde_json::to_value(&examined).expect("JSON");
    assert_eq!(json["schema"], "tpsctl.plan/1");
    let checks = json["checks"].as_array().expect("checks");
    assert_eq!(checks.len(), tpsctl_plan::CHECKS.len());
    let named = |name: &str| checks.iter().find(|own| own["check"] == name).expect("a check");
    let validity = named("validity_within_two_epochs");
    assert_eq!((&validity["severity"], &validity["holds"]), (&"error".into(), &false.into()));
    assert_eq!(validity["figure"], "10001 blocks, two epochs are 10000");
    assert_eq!(named("nonces_below_ceiling")["holds"], true);
    assert!(
        named("nonces_below_ceiling")["figure"]
            .as_str()
            .is_some_and(|figure| figure.starts_with("39 nonces"))
    );
}

#[test]
fn the_host_must_carry_the_nodes() {
    let spoken_on = |overrides: &[&str], host: Capabilities| {
        let notes = examine(&scenario(overrides), &host).notes;
        notes.into_iter().map(|note| note.check).collect::<Vec<_>>()
    };
    // Five nodes, their guests and HTTP clients.
    assert_eq!(spoken_on(&[], Capabilities { files_max: 205, ..host() }), Vec::<&str>::new());
    assert_eq!(spoken_on(&[], Capabilities { files_max: 204, ..host() }), ["files_can_be_opened"]);
    assert_eq!(spoken_on(&[], Capabilities { files_max: 0, ..host() }), Vec::<&str>::new());
    let neard = ["node.binary=/opt/neard"];
    assert_eq!(spoken_on(&neard, host()), Vec::<&str>::new());
    assert_eq!(spoken_on(&neard, Capabilities { files_hard_max: 65_534, ..host() }), ["files_can_be_opened"]);
    // Four producers with a shard each and an RPC node with four: 8 x 500 000 accounts x 2 000 bytes.
    let many = ["chain.accounts_per_shard=500000"];
    assert_eq!(spoken_on(&many, host()), Vec::<&str>::new());
    let small = Capabilities { memory_bytes: 7_999_999_999, ..host() };
    assert_eq!(spoken_on(&many, small), ["memory_holds_the_accounts"]);
}

#[test]
fn each_producer_has_an_account() {
    let small = [
        "search.start=250tps",
        "search.max=250tps",
        "chain.producers_per_shard=3",
        "chain.account_balance=1000NEAR",
    ];
    let with = |accounts: &'static str| spoken(&[&small[..], &[accounts]].concat());
    assert!(!with("chain.accounts_per_shard=3").contains(&(Severity::Error, "accounts_suffice")));
    assert!(with("chain.accounts_per_shard=2").contains(&(Severity::Error, "accounts_suffice")));
}

/// Of three accounts and two producers, one producer has a single account: it makes half of the transfers.
#[test]
fn the_busiest_account_is_what_counts() {
    let three =
        ["chain.producers_per_shard=2", "chain.accounts_per_shard=3", "search.max=1000tps", "chain.shards=3"];
    let with = |more: &str| spoken(&[&three[..], &[more]].concat());
    // 1 000 tps x 152 s.
    assert_eq!(with(&balance_for(76_000, 0)), []);
    assert_eq!(with(&balance_for(76_000, 1)), [(Severity::Error, "balance_lasts")]);

    let rich = ["chain.account_balance=1000000NEAR", "chain.pool_size_limit=100GB", "search.time_budget=35s"];
    let stalled = |wait: &str| {
        let overrides = [&three[..], &rich, &["search.max=20000tps", wait]].concat();
        spoken(&overrides).contains(&(Severity::Error, "nonces_below_ceiling"))
    };
    // A million for half of 20 000 tps.
    assert!(!stalled("chain.block_wait_max=99999ms"));
    assert!(stalled("chain.block_wait_max=100s"));
}

/// The largest network with published figures: 70 shards, 4 accounts each, blocks every 2.5 s to 5 s.
#[test]
fn seventy_shards_can_be_planned() {
    let cores = (Severity::Warning, "cores_suffice");
    assert_eq!(spoken(&["chain.shards=70"]), [cores]);
    let published = planned(&[
        "chain.shards=70",
        "chain.accounts_per_shard=4",
        "chain.account_balance=1000NEAR",
        "chain.block_time_min=2.5s",
        "chain.block_time_max=5s",
        "chain.block_wait_max=10s",
        "search.max=20000tps",
    ]);
    assert_eq!(published.plan.nodes.len(), 71);
    assert!(published.notes.iter().all(|note| note.severity == Severity::Warning));
}

#[test]
fn producers_of_several_shards_validators_and_capped_peers_as_text() {
    let planned = planned(&[
        "chain.shards=5",
        "chain.shards_per_producer=2",
        "chain.chunk_validators=2",
        "chain.mandates_per_shard=3",
        "chain.rpc_nodes=0",
        "network.max_peers=3",
        "node.binary=embedded",
    ]);
    insta::assert_snapshot!(render(&planned));
}

#[test]
fn peers_and_mandates_are_compared_with_the_nodes() {
    let warning = |check| vec![(Severity::Warning, check)];
    // Five nodes: four fellows each.
    assert_eq!(spoken(&["network.max_peers=4"]), []);
    assert_eq!(spoken(&["network.max_peers=3"]), warning("peers_suffice"));
    // Four mandates: a fifth validator has none.
    assert_eq!(spoken(&["chain.chunk_validators=1"]), warning("mandates_go_round"));
    assert_eq!(spoken(&["chain.chunk_validators=1", "chain.mandates_per_shard=2"]), []);
    assert_eq!(spoken(&["chain.chunk_validators=3", "chain.mandates_per_shard=2"]), []);
}

/// One node with 50 shards, as published for a single node.
#[test]
fn one_node_can_serve_fifty_shards() {
    let planned = planned(&[
        "chain.shards=50",
        "chain.shards_per_producer=50",
        "chain.rpc_nodes=0",
        "chain.accounts_per_shard=100",
        "chain.account_balance=10000NEAR",
    ]);
    let [node] = &planned.plan.nodes[..] else { panic!("{:?}", planned.plan.nodes) };
    assert!(planned.plan.chain.shard_ids.iter().all(|shard| node.role.produces(*shard)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_shard_has_its_producers_and_its_accounts(shards in 1_u32..=256, per_shard in 1_u32..=16) {
        let scenario = scenario(&[&format!("chain.shards={shards}"), &format!("chain.producers_per_shard={per_shard}")]);
        let plan = plan(&scenario, &host()).expect("a plan").plan;
        prop_assert_eq!(plan.nodes.len() as u32, shards * per_shard + 1);
        prop_assert_eq!(plan.chain.shard_ids.len(), shards as usize);
        prop_assert_eq!(plan.accounts.prefixes.len(), shards as usize);
        for shard in &plan.chain.shard_ids {
            prop_assert_eq!(plan.producers_of(*shard).count(), per_shard as usize);
        }
    }

    #[test]
    fn no_producer_has_more_shards_than_asked_for(shards in 1_u32..=256, most in 2_u32..=256, others in 0_u32..=9) {
        let overrides =
            [format!("chain.shards={shards}"), format!("chain.shards_per_producer={most}"), format!("chain.chunk_validators={others}")];
        let scenario = scenario(&overrides.each_ref().map(String::as_str));
        let plan = plan(&scenario, &host()).expect("a plan").plan;
        prop_assert_eq!(plan.producers().count() as u32, shards.div_ceil(most));
        prop_assert_eq!(plan.nodes.len() as u32, shards.div_ceil(most) + others + 1);
        for shard in &plan.chain.shard_ids {
            prop_assert_eq!(plan.producers_of(*shard).count(), 1);
        }
        for name in plan.producers() {
            let served = plan.chain.shard_ids.iter().filter(|shard| plan.producers_of(**shard).any(|own| own == name));
            prop_assert!(served.count() as u32 <= most);
        }
    }
}
