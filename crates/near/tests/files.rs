//! The files of a node's home directory against those from which a real neard started.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tpsctl_near::{
    KeyPair, PROTOCOL_VERSION,
    files::{
        EpochConfigFile, GENESIS_TAIL_BYTES, GenesisFile, KeyFile, NodeConfigFile, PeerAddr, StateRecord,
        TrackedShardsFile, from_text, read_genesis, read_genesis_head, read_record_lines, to_text,
        write_genesis,
    },
};

macro_rules! home {
    ($path:literal) => {
        include_bytes!(concat!("../../../testdata/neard/home/", $path)).as_slice()
    };
}

const GENESIS: [&[u8]; 4] = [
    home!("node0/genesis.json"),
    home!("node1/genesis.json"),
    home!("node2/genesis.json"),
    home!("neard-localnet/genesis.json"),
];
const EPOCH_CONFIGS: [&[u8]; 3] = [
    home!("node0/epoch_configs/86.json"),
    home!("node1/epoch_configs/86.json"),
    home!("node2/epoch_configs/86.json"),
];
const CONFIGS: [&[u8]; 4] = [
    home!("node0/config.json"),
    home!("node1/config.json"),
    home!("node2/config.json"),
    home!("neard-localnet/config.json"),
];
const KEYS: [&[u8]; 8] = [
    home!("node0/validator_key.json"),
    home!("node0/node_key.json"),
    home!("node1/validator_key.json"),
    home!("node1/node_key.json"),
    home!("node2/validator_key.json"),
    home!("node2/node_key.json"),
    home!("user-key-000_user_0.json"),
    home!("user-key-a01_user_0.json"),
];

fn value(text: &[u8]) -> Value {
    serde_json::from_slice(text).expect("fixtures are JSON")
}

fn genesis() -> GenesisFile {
    GenesisFile::read(GENESIS[0]).expect("fixture")
}

/// A file's error with its source, as a person reads it.
fn message(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

#[test]
fn genesis_reads_and_writes_to_an_equal_value() {
    for text in GENESIS {
        let genesis = GenesisFile::read(text).expect("fixture");
        let mut written = Vec::new();
        write_genesis(&genesis.config, genesis.records.clone(), &mut written).expect("memory");
        assert_eq!(value(&written), value(text));
        assert_eq!(GenesisFile::read(written.as_slice()).expect("own text"), genesis);
    }
}

#[test]
fn records_of_a_written_genesis_can_be_read_where_they_stand() {
    for text in GENESIS {
        let genesis = GenesisFile::read(text).expect("fixture");
        let mut written = Vec::new();
        write_genesis(&genesis.config, genesis.records.clone(), &mut written).expect("memory");
        let mut rest = written.as_slice();
        let (config, head) = read_genesis_head(&mut rest).expect("own text");
        assert_eq!(config, genesis.config);
        let (mut records, mut at) = (Vec::new(), head);
        let end = read_record_lines(&mut rest, head, |record, line| {
            assert_eq!(line.start, at, "no byte is left out");
            at = line.end;
            let alone = &written[line.start as usize..line.end as usize];
            let read = read_record_lines(&mut &*alone, 0, |own, _| assert_eq!(own, record));
            assert_eq!(read.expect("own line"), alone.len() as u64);
            records.push(record);
        });
        assert_eq!(end.expect("own text"), at);
        assert_eq!(records, genesis.records);
        assert_eq!(at + GENESIS_TAIL_BYTES, written.len() as u64);
    }
    let indented = read_record_lines(&mut &b"    {\n"[..], 0, |_, _| ());
    assert!(indented.is_err(), "a record of many lines is no record's line");
}

#[test]
fn supply_and_stakes_of_a_genesis_are_those_of_its_records() {
    for text in GENESIS {
        let mut supply = 0;
        let mut staked = Vec::new();
        let config = read_genesis(text, |record| {
            if let StateRecord::Account { account_id, account } = record {
                supply += account.amount + account.locked;
                if account.locked > 0 {
                    staked.push((account_id, account.locked));
                }
            }
        })
        .expect("fixture");
        assert_eq!(config.protocol_version, PROTOCOL_VERSION);
        assert_eq!(config.total_supply, supply);
        let validators: Vec<_> = config.validators.into_iter().map(|v| (v.account_id, v.amount)).collect();
        assert_eq!(validators, staked);
    }
}

#[test]
fn absent_fields_of_genesis_have_neards_defaults() {
    let mut object = value(GENESIS[0]);
    let fields = object.as_object_mut().expect("object");
    for name in [
        "chunk_validator_only_kickout_threshold",
        "target_validator_mandates_per_shard",
        "minimum_stake_divisor",
        "minimum_validators_per_shard",
        "max_kickout_stake_perc",
        "num_chunk_producer_seats",
        "num_chunk_validator_seats",
        "chunk_producer_assignment_changes_limit",
        "use_production_config",
        "shuffle_shard_assignment_for_chunk_producers",
    ] {
        assert!(fields.remove(name).is_some(), "{name}");
    }
    fields.insert("a key of a later version".to_owned(), json!({ "x": [1] }));
    let read = GenesisFile::read(object.to_string().as_bytes()).expect("defaults");
    assert_eq!(read, genesis(), "neard's own defaults stand in the fixture");
}

#[test]
fn genesis_time_is_read_as_neard_prints_it() {
    let mut config = genesis().config;
    for (text, unix_ns) in [
        ("2026-11-30T12:00:00.000000Z", Some(1_796_040_000_000_000_000)),
        ("2026-01-01T00:00:00Z", Some(1_767_225_600_000_000_000)),
        ("2024-02-29T23:59:59.123456789+00:00", Some(1_709_251_199_123_456_789)),
        ("2023-02-29T00:00:00Z", None),
        ("2026-01-01T00:00:00", None),
        ("2026-01-01T00:00Z", None),
        ("2026-01-01T00:00:00.Z", None),
        ("9999999999999999999999-01-01T00:00:00Z", None),
    ] {
        text.clone_into(&mut config.genesis_time);
        assert_eq!(config.genesis_time_unix_ns().ok(), unix_ns, "{text}");
    }
}

#[test]
fn records_of_other_kinds_are_refused_by_name() {
    let mut object = value(GENESIS[0]);
    let records = object["records"].as_array_mut().expect("records");
    records.push(json!({ "Contract": { "account_id": "node0", "code": "AAAA" } }));
    let error = GenesisFile::read(object.to_string().as_bytes()).expect_err("contracts are not known");
    assert!(message(&error).contains("`Contract`"), "{}", message(&error));

    object.as_object_mut().expect("object").remove("records");
    let error = GenesisFile::read(object.to_string().as_bytes()).expect_err("no records");
    assert!(message(&error).contains("missing field `records`"), "{}", message(&error));
}

#[test]
fn epoch_configs_write_to_an_equal_value() {
    for text in EPOCH_CONFIGS {
        let file: EpochConfigFile = from_text("epoch config", text).expect("fixture");
        assert_eq!(value(to_text("epoch config", &file).expect("memory").as_bytes()), value(text));
        assert_eq!(file.shard_layout, genesis().config.shard_layout);
    }
}

/// Every key in `part` has the same value in `whole`.
fn assert_within(part: &Value, whole: &Value, path: &str) {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            for (key, value) in part {
                assert_within(value, whole.get(key).unwrap_or(&Value::Null), &format!("{path}.{key}"));
            }
        }
        _ => assert_eq!(part, whole, "{path}"),
    }
}

#[test]
fn node_configs_keep_their_values() {
    for text in CONFIGS {
        let file: NodeConfigFile = from_text("config.json", text).expect("fixture");
        assert_within(&serde_json::to_value(&file).expect("JSON"), &value(text), "config");
    }
    let file: NodeConfigFile = from_text("config.json", CONFIGS[2]).expect("fixture");
    assert_eq!(file.tracked_shards_config, TrackedShardsFile::AllShards);
    assert_eq!(file.network.boot_nodes.len(), 1);
    assert_eq!(file.rpc.expect("rpc").addr.port(), file_port(CONFIGS[2]));
    assert_eq!(file.produce_chunk_add_transactions_time_limit, Some(Duration::from_millis(200)));
    let third = file.consensus.chunk_wait_mult.of(file.consensus.max_block_production_delay);
    assert_eq!(third, Duration::from_nanos(666_666_666));
}

fn file_port(text: &[u8]) -> u16 {
    let addr = value(text)["rpc"]["addr"].as_str().expect("addr").to_owned();
    addr.rsplit(':').next().and_then(|port| port.parse().ok()).expect("port")
}

#[test]
fn absent_keys_of_a_node_config_have_neards_defaults() {
    let file: NodeConfigFile = from_text("config.json", b"{} // nothing").expect("all keys have defaults");
    assert_eq!(file, NodeConfigFile::default());
    assert_eq!(file.transaction_pool_size_limit, Some(100_000_000));
    assert_eq!(file.produce_chunk_add_transactions_time_limit, None);

    let text = br#"{ "transaction_pool_size_limit": null, "rpc": null }"#;
    let file: NodeConfigFile = from_text("config.json", text).expect("null is none");
    assert_eq!((file.transaction_pool_size_limit, file.rpc), (None, None));

    let error = from_text::<NodeConfigFile>("config.json", br#"{ "network": { "addr": "0.0.0.0:1" } }"#)
        .expect_err("neard wants the rest too");
    assert!(message(&error).contains("missing field `boot_nodes`"), "{}", message(&error));
}

#[test]
fn peers_read_back() {
    let id = KeyPair::from_seed([1; 32]).public();
    for addr in ["127.0.0.1:24567", "[::1]:53270"] {
        let peer = PeerAddr { id, addr: addr.parse().expect("address") };
        assert_eq!(peer.to_string().parse(), Ok(peer));
    }
    for wrong in ["", "127.0.0.1:1", "ed25519:x@127.0.0.1:1", &format!("{id}@127.0.0.1"), &format!("{id}@:1")]
    {
        assert!(wrong.parse::<PeerAddr>().is_err(), "{wrong}");
    }
}

#[test]
fn key_files_write_to_an_equal_value() {
    for text in KEYS {
        let file: KeyFile = from_text("key file", text).expect("fixture");
        assert_eq!(serde_json::to_value(&file).expect("JSON"), value(text));
    }
    let mut old = value(KEYS[0]);
    let secret = old.as_object_mut().expect("object").remove("secret_key").expect("secret");
    old["private_key"] = secret;
    old["account_id"] = json!("");
    let file: KeyFile = from_text("key file", old.to_string().as_bytes()).expect("alias, nobody's");
    assert!(file.account_id.is_none());

    let mut mixed = value(KEYS[0]);
    mixed["public_key"] = value(KEYS[2])["public_key"].clone();
    let error = from_text::<KeyFile>("key file", mixed.to_string().as_bytes()).expect_err("halves differ");
    assert!(message(&error).contains("does not belong"), "{}", message(&error));
    assert!(!message(&error).contains(&mixed["secret_key"].as_str().expect("text")[20..]));
}

proptest! {
    #[test]
    fn reading_a_broken_genesis_never_panics(at in 0_usize..22_000, byte in any::<u8>(), len in 0_usize..24_000) {
        let mut text = GENESIS[0].to_vec();
        text.truncate(len.max(1));
        let at = at % text.len();
        text[at] = byte;
        if let Ok(genesis) = GenesisFile::read(text.as_slice()) {
            let mut written = Vec::new();
            write_genesis(&genesis.config, genesis.records.clone(), &mut written).expect("memory");
            prop_assert_eq!(GenesisFile::read(written.as_slice()).expect("own text"), genesis);
        }
    }
}
