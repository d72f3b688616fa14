//! The files of a small plan, and what must hold for any.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;
use tpsctl_genesis::{
    GenesisError, NODE_BALANCE, NodeEndpoints, TREASURY_BALANCE, account_files, epoch_config,
    epoch_config_path, genesis, keys_fingerprint, node_config, node_keys,
};
use tpsctl_model::{
    NodeName, Seed, ShardId, Yocto,
    plan::{KeyKind, NodeBinary, NodePlan, NodeRole, RunPlan},
};
use tpsctl_near::{
    KeyPair,
    files::{GenesisFile, NodeConfigFile, StateRecord, TrackedShardsFile, from_text, to_text},
};
use tpsctl_workload::Keyring;

/// Two shards, two producers, one RPC node, three accounts a shard.
fn tiny_plan() -> RunPlan {
    serde_json::from_str(include_str!("../../../testdata/plans/tiny.json")).expect("a plan")
}

/// `shards` shards with one producer each and `per_shard` accounts.
fn plan_of(shards: u64, per_shard: u32, seed: u64) -> RunPlan {
    let mut plan = tiny_plan();
    plan.seed = Seed(seed);
    plan.chain.shard_ids = (0..shards).map(ShardId).collect();
    plan.chain.boundary_accounts = (1..shards).map(|shard| format!("a{shard:02}")).collect();
    plan.accounts.prefixes =
        (0..shards).map(|shard| if shard == 0 { "000".to_owned() } else { format!("a{shard:02}") }).collect();
    plan.accounts.per_shard = per_shard;
    plan.nodes = (0..shards)
        .map(|shard| NodePlan {
            name: NodeName(format!("node{shard}")),
            role: NodeRole::Producer { shards: vec![ShardId(shard)], stake: Yocto(50 + u128::from(shard)) },
        })
        .collect();
    plan
}

fn written(plan: &RunPlan) -> (Vec<u8>, String) {
    let keyring = Keyring::build(plan).expect("keyring");
    let mut out = Vec::new();
    let digest = genesis(plan, &keyring, &mut out).expect("genesis");
    assert_eq!(digest.bytes, out.len() as u64);
    (out, digest.sha256_hex)
}

/// An error with its source, as a person reads it.
fn message(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {}", message(source)))
}

fn error_of(plan: &RunPlan) -> String {
    let keyring = Keyring::build(plan).expect("keyring");
    let mut out = Vec::new();
    let error = genesis(plan, &keyring, &mut out).expect_err("a plan that cannot be");
    assert!(out.is_empty(), "nothing is written before the checks");
    message(&error)
}

fn fingerprints(plan: &RunPlan) -> String {
    let keyring = Keyring::build(plan).expect("keyring");
    format!("genesis {}\nkeys {}", written(plan).1, keys_fingerprint(&keyring, &node_keys(plan)))
}

#[test]
fn golden_fingerprints_of_the_tiny_plan() {
    let mut plan = tiny_plan();
    let row = fingerprints(&plan);
    plan.accounts.keys = KeyKind::Seed;
    insta::assert_snapshot!(format!("row\n{row}\nseed\n{}", fingerprints(&plan)));
}

#[test]
fn genesis_of_the_tiny_plan() {
    insta::assert_snapshot!(String::from_utf8(written(&tiny_plan()).0).expect("text"));
}

#[test]
fn epoch_config_of_the_tiny_plan() {
    let plan = tiny_plan();
    assert_eq!(epoch_config_path(&plan), "epoch_configs/86.json");
    insta::assert_snapshot!(to_text("epoch config", &epoch_config(&plan).expect("plan")).expect("text"));
}

fn endpoints(plan: &RunPlan, of: usize) -> NodeEndpoints {
    let addr = |port: usize| SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).expect("port")));
    NodeEndpoints {
        p2p: addr(24_000 + of),
        rpc: addr(30_000 + of),
        boot_nodes: node_keys(plan)
            .iter()
            .enumerate()
            .map(|(index, keys)| (keys.node.public(), addr(24_000 + index)))
            .collect(),
    }
}

#[test]
fn node_config_of_the_tiny_plan() {
    let plan = tiny_plan();
    let text = node_config(&plan, &plan.nodes[1].name, &endpoints(&plan, 1)).expect("plan");
    insta::assert_snapshot!(text);
}

#[test]
fn node_configs_say_what_the_plan_says() {
    let plan = tiny_plan();
    for (index, node) in plan.nodes.iter().enumerate() {
        let text = node_config(&plan, &node.name, &endpoints(&plan, index)).expect("plan");
        let file: NodeConfigFile = from_text("config.json", text.as_bytes()).expect("own text");
        let own = node_keys(&plan)[index].node.public();
        assert_eq!(file.network.boot_nodes.len(), plan.nodes.len() - 1, "all but itself");
        assert!(file.network.boot_nodes.iter().all(|peer| peer.id != own));
        assert_eq!(file.network.public_addrs[0].id, own);
        assert_eq!(file.network.addr, endpoints(&plan, index).p2p);
        assert_eq!(file.rpc.expect("rpc").addr, endpoints(&plan, index).rpc);
        assert_eq!(file.consensus.min_num_peers, 1);
        assert!(!file.network.skip_sync_wait);
        assert!(file.network.ideal_connections_hi < file.network.max_num_peers);
        let tracked = if node.role == NodeRole::Rpc {
            TrackedShardsFile::AllShards
        } else {
            TrackedShardsFile::NoShards
        };
        assert_eq!(file.tracked_shards_config, tracked);
        let whole: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(whole["telemetry"]["endpoints"], serde_json::json!([]));
        assert_eq!(whole["network"]["trusted_stun_servers"], serde_json::json!([]));
    }
    let stranger = NodeName("stranger".to_owned());
    let error = node_config(&plan, &stranger, &endpoints(&plan, 0)).expect_err("not in the plan");
    assert_eq!(error.to_string(), "configure node `stranger`, which is not in the plan");
}

#[test]
fn validators_that_produce_nothing_take_no_seat_of_a_producer() {
    let mut plan = plan_of(2, 2, 1);
    plan.nodes.push(NodePlan {
        name: NodeName("validator0".to_owned()),
        role: NodeRole::ChunkValidator { stake: Yocto(50) },
    });
    let epoch = epoch_config(&plan).expect("plan");
    assert_eq!((epoch.num_block_producer_seats, epoch.num_chunk_producer_seats), (2, 2));
    assert!(epoch.num_chunk_validator_seats >= 3);
    let (text, _) = written(&plan);
    let genesis: Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(genesis["validators"].as_array().expect("validators").len(), 3);
    assert_eq!(genesis["num_chunk_producer_seats"], 2);
    assert!(node_keys(&plan)[2].validator.is_some());
}

#[test]
fn a_cap_on_peers_is_in_the_config() {
    let mut plan = plan_of(8, 2, 1);
    plan.network.max_peers = Some(4);
    let network = |plan: &RunPlan| {
        let text = node_config(plan, &plan.nodes[0].name, &endpoints(plan, 0)).expect("plan");
        let file: NodeConfigFile = from_text("config.json", text.as_bytes()).expect("own text");
        (file.network.max_num_peers, file.network.ideal_connections_lo)
    };
    plan.node.binary = NodeBinary::Embedded;
    assert_eq!(network(&plan), (4, 4));
    plan.node.binary = NodeBinary::Neard("neard".to_owned());
    assert_eq!(network(&plan), (44, 4), "with places for guests");
    plan.network.max_peers = Some(7);
    assert_eq!(network(&plan), (47, 30), "no cap at all");
}

#[test]
fn a_producer_has_places_for_each_shards_load() {
    let mut plan = plan_of(50, 2, 1);
    let shards = plan.chain.shard_ids.clone();
    plan.nodes.truncate(1);
    plan.nodes[0].role = NodeRole::Producer { shards, stake: Yocto(1) };
    let text = node_config(&plan, &plan.nodes[0].name, &endpoints(&plan, 0)).expect("plan");
    let file: NodeConfigFile = from_text("config.json", text.as_bytes()).expect("own text");
    assert!(file.network.ideal_connections_hi > 50 && file.network.max_num_peers >= 70);
}

#[test]
fn every_node_can_meet_all_others_and_guests() {
    let plan = plan_of(70, 2, 1);
    let text = node_config(&plan, &plan.nodes[0].name, &endpoints(&plan, 0)).expect("plan");
    let file: NodeConfigFile = from_text("config.json", text.as_bytes()).expect("own text");
    assert_eq!(file.network.boot_nodes.len(), 69);
    assert!(file.network.ideal_connections_hi > 69 + 30);
    assert!(file.network.max_num_peers > file.network.ideal_connections_hi);
}

#[test]
fn a_single_producer_does_not_wait_for_peers() {
    let plan = plan_of(1, 2, 1);
    let text = node_config(&plan, &plan.nodes[0].name, &endpoints(&plan, 0)).expect("plan");
    let file: NodeConfigFile = from_text("config.json", text.as_bytes()).expect("own text");
    assert!(file.network.skip_sync_wait);
    assert_eq!(file.consensus.min_num_peers, 0);
}

#[test]
fn nodes_have_keys_of_their_own() {
    let plan = plan_of(20, 1, 3);
    let mut seen = BTreeMap::new();
    for keys in node_keys(&plan) {
        let validator = keys.validator.expect("all produce");
        for key in [validator, keys.node] {
            assert!(seen.insert(key.public(), keys.name.clone()).is_none(), "{}", keys.name);
        }
    }
    assert!(node_keys(&tiny_plan())[2].validator.is_none(), "an RPC node validates nothing");
}

#[test]
fn exported_keys_are_those_of_genesis() {
    let mut plan = tiny_plan();
    let keyring = Keyring::build(&plan).expect("keyring");
    let error = account_files(&keyring.shards()[0], Vec::new()).expect_err("keys in a row");
    assert!(error.to_string().contains("000_user_0"), "{error}");

    plan.accounts.keys = KeyKind::Seed;
    let keyring = Keyring::build(&plan).expect("keyring");
    let mut out = Vec::new();
    account_files(&keyring.shards()[1], &mut out).expect("seeds");
    let accounts: Value = serde_json::from_slice(&out).expect("JSON");
    let accounts = accounts.as_array().expect("array");
    assert_eq!(accounts.len(), 3);
    let records = GenesisFile::read(written(&plan).0.as_slice()).expect("own text").records;
    for account in accounts {
        let text = |key: &str| account[key].as_str().expect("text");
        let pair = KeyPair::from_secret_text(text("secret_key")).expect("secret");
        assert_eq!(pair.public().to_string(), text("public_key"));
        assert_eq!(account["nonce"], 0);
        let record = StateRecord::full_access_key(text("account_id").parse().expect("id"), pair.public());
        assert!(records.contains(&record), "{}", text("account_id"));
    }
}

#[test]
fn plans_that_cannot_be_are_refused_before_a_byte_is_written() {
    let mut plan = tiny_plan();
    plan.accounts.prefixes = vec!["a01".to_owned(), "a02".to_owned()];
    assert_eq!(
        error_of(&plan),
        "create account `a01_user_0` in shard 0: the layout puts it into shard 1; plan the scenario anew"
    );

    let mut plan = tiny_plan();
    plan.nodes[1].name = plan.nodes[0].name.clone();
    assert_eq!(error_of(&plan), "create account `node0` twice; plan the scenario anew");

    let mut plan = tiny_plan();
    plan.nodes[1].name = NodeName("a01_user_2".to_owned());
    assert_eq!(error_of(&plan), "create account `a01_user_2` twice; plan the scenario anew");

    let mut plan = tiny_plan();
    plan.nodes[0].name = NodeName("Node 0".to_owned());
    assert!(
        error_of(&plan)
            .starts_with("make a validator of node `Node 0`; plan the scenario anew: `Node 0` is not")
    );

    let mut plan = tiny_plan();
    plan.accounts.balance = Yocto(u128::MAX / 6);
    assert_eq!(
        error_of(&plan),
        "add up the supply of 2 shards with 3 accounts each: it exceeds 2^128 yocto; lower `chain.account_balance` or \
         `chain.accounts_per_shard`"
    );

    let mut plan = tiny_plan();
    plan.chain.boundary_accounts[0] = "A".to_owned();
    assert_eq!(
        error_of(&plan),
        "begin shard 1 at its boundary account; plan the scenario anew, boundaries come from `chain.shards`: `A` is not \
         an account id: shorter than 2 characters"
    );

    let mut plan = tiny_plan();
    plan.chain.boundary_accounts.push("a00".to_owned());
    plan.chain.shard_ids.push(ShardId(2));
    plan.accounts.prefixes.push("a02".to_owned());
    assert_eq!(
        error_of(&plan),
        "lay out 3 shards with 2 boundary accounts; plan the scenario anew, both come from `chain.shards`: boundary \
         account `a00` does not sort after the one before it"
    );

    let keyring = Keyring::build(&tiny_plan()).expect("keyring");
    let error = genesis(&plan_of(3, 1, 1), &keyring, Vec::new()).expect_err("another plan's keyring");
    assert!(matches!(error, GenesisError::Keyring { expected: 3, actual: 2 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_plan_gives_a_genesis_whose_sums_and_shards_are_right(
        shards in 1_u64..=100,
        per_shard in 1_u32..12,
        seed in any::<u64>(),
        keys in prop_oneof![Just(KeyKind::Row), Just(KeyKind::Seed)],
    ) {
        let mut plan = plan_of(shards, per_shard, seed);
        plan.accounts.keys = keys;
        let (text, hash) = written(&plan);
        prop_assert_eq!(&written(&plan), &(text.clone(), hash.clone()), "same seed, same bytes");
        let mut other = plan.clone();
        other.seed = Seed(seed.wrapping_add(1));
        prop_assert_ne!(written(&other).1, hash, "other seed, other bytes");

        let read = GenesisFile::read(text.as_slice()).expect("own text");
        let layout = &read.config.shard_layout;
        let ids: Vec<_> = plan.chain.shard_ids.iter().map(|id| id.0).collect();
        prop_assert_eq!(layout.shard_ids(), ids);
        let mut users = vec![0_u32; plan.chain.shard_ids.len()];
        let mut supply = 0;
        let mut staked = Vec::new();
        let mut accounts = Vec::new();
        for pair in read.records.chunks(2) {
            let [StateRecord::Account { account_id, account }, StateRecord::AccessKey { account_id: owner, .. }] =
                pair
            else {
                panic!("an account and its key: {pair:?}")
            };
            prop_assert_eq!(account_id, owner);
            prop_assert_eq!(account.storage_usage, 0);
            supply += account.amount + account.locked;
            if account.locked > 0 {
                staked.push((account_id.clone(), account.locked));
            }
            if account_id.as_str().contains("_user_") {
                users[layout.index_of(account_id)] += 1;
            }
            accounts.push(account_id.clone());
        }
        prop_assert!(users.iter().all(|count| *count == per_shard), "{:?}", users);
        prop_assert_eq!(supply, read.config.total_supply);
        let validators: Vec<_> =
            read.config.validators.iter().map(|v| (v.account_id.clone(), v.amount)).collect();
        prop_assert_eq!(staked, validators);
        prop_assert_eq!(read.config.num_block_producer_seats, shards);
        prop_assert_eq!(
            supply - TREASURY_BALANCE.0 - u128::from(shards) * NODE_BALANCE.0,
            u128::from(shards) * u128::from(per_shard) * plan.accounts.balance.0
                + (0..u128::from(shards)).map(|shard| 50 + shard).sum::<u128>()
        );
        prop_assert!(accounts.contains(&read.config.protocol_treasury_account));
        accounts.sort();
        accounts.dedup();
        prop_assert_eq!(accounts.len() * 2, read.records.len(), "no account twice");
    }
}
