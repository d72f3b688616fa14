use near_chain_configs::{
    Genesis, GenesisContents, GenesisRecords, TrackedShardsConfig, genesis_validate::validate_genesis,
};
use near_primitives::epoch_manager::EpochConfig;
use proptest::prelude::*;
use serde_json::Value;
use tpsctl_genesis::{account_files, epoch_config, genesis};
use tpsctl_model::{Seed, plan::KeyKind};
use tpsctl_near::files::{
    EpochConfigFile, GenesisFile, KeyFile, TrackedShardsFile, from_text, to_text, write_genesis,
};
use tpsctl_workload::Keyring;

use super::tiny_plan;

const FIXTURE: &[u8] = include_bytes!("../../../../testdata/neard/home/node0/genesis.json");
const LOCALNET: &[u8] = include_bytes!("../../../../testdata/neard/home/neard-localnet/genesis.json");

fn their_genesis(text: &[u8]) -> Genesis {
    serde_json::from_slice(text).expect("genesis")
}

fn tiny_genesis(seed: u64, keys: KeyKind) -> Vec<u8> {
    let mut plan = tiny_plan();
    plan.seed = Seed(seed);
    plan.accounts.keys = keys;
    let keyring = Keyring::build(&plan).expect("keyring");
    let mut out = Vec::new();
    genesis(&plan, &keyring, &mut out).expect("genesis");
    out
}

/// Every field that we write has the same value when they write what they read.
fn assert_same_fields(ours: &Value, theirs: &Value) {
    for (key, value) in ours.as_object().expect("an object") {
        // They write times in another form of RFC 3339.
        if key != "genesis_time" {
            assert_eq!(Some(value), theirs.get(key), "{key}");
        }
    }
}

#[test]
fn nears_own_validation_takes_our_genesis() {
    for keys in [KeyKind::Row, KeyKind::Seed] {
        let text = tiny_genesis(7, keys);
        let theirs = their_genesis(&text);
        validate_genesis(&theirs).expect("valid");
        let ours = GenesisFile::read(text.as_slice()).expect("own text");
        assert_same_fields(
            &serde_json::to_value(&ours.config).expect("JSON"),
            &serde_json::to_value(&theirs.config).expect("JSON"),
        );
        let GenesisContents::Records { records: GenesisRecords(records) } = theirs.contents else {
            panic!("no records")
        };
        assert_eq!(
            serde_json::to_value(&ours.records).expect("JSON"),
            serde_json::to_value(&records).expect("JSON")
        );
    }
}

#[test]
fn nears_own_validation_would_see_our_mistakes() {
    let with = |change: &dyn Fn(&mut GenesisFile)| {
        let mut file = GenesisFile::read(tiny_genesis(7, KeyKind::Row).as_slice()).expect("own text");
        change(&mut file);
        let mut out = Vec::new();
        write_genesis(&file.config, file.records, &mut out).expect("memory");
        validate_genesis(&their_genesis(&out)).expect_err("invalid").to_string()
    };
    let error = with(&|file| file.config.total_supply += 1);
    assert!(error.contains("total supply"), "{error}");
    let error = with(&|file| file.config.validators[0].amount += 1);
    assert!(error.to_lowercase().contains("validator"), "{error}");
    let error = with(&|file| file.records.push(file.records[0].clone()));
    assert!(error.contains("node0"), "{error}");
}

#[test]
fn fixtures_mean_the_same_to_both() {
    for text in [FIXTURE, LOCALNET] {
        let ours = GenesisFile::read(text).expect("fixture");
        let mut out = Vec::new();
        write_genesis(&ours.config, ours.records.clone(), &mut out).expect("memory");
        let theirs = their_genesis(&out);
        validate_genesis(&theirs).expect("valid");
        assert_eq!(theirs.json_hash(), their_genesis(text).json_hash());
        assert_same_fields(
            &serde_json::to_value(&ours.config).expect("JSON"),
            &serde_json::to_value(&theirs.config).expect("JSON"),
        );
    }
}

#[test]
fn genesis_times_are_the_same_instant() {
    for text in [tiny_genesis(7, KeyKind::Row), FIXTURE.to_vec(), LOCALNET.to_vec()] {
        let ours =
            GenesisFile::read(text.as_slice()).expect("genesis").config.genesis_time_unix_ns().expect("UTC");
        let theirs = their_genesis(&text).config.genesis_time.timestamp_nanos_opt().expect("in range");
        assert_eq!(i64::try_from(ours), Ok(theirs));
    }
}

#[test]
fn epoch_configs_are_read_by_near() {
    let ours = epoch_config(&tiny_plan()).expect("plan");
    let text = to_text("epoch config", &ours).expect("text");
    let theirs: EpochConfig = serde_json::from_str(&text).expect("epoch config");
    let back = serde_json::to_value(&theirs).expect("JSON");
    assert_same_fields(&serde_json::to_value(&ours).expect("JSON"), &back);
    let read: EpochConfigFile = from_text("epoch config", back.to_string().as_bytes()).expect("their text");
    assert_eq!(read, ours);
    assert_eq!(theirs.block_producer_kickout_threshold, 0);
}

#[test]
fn tracked_shards_have_the_same_text() {
    let all = [
        TrackedShardsFile::NoShards,
        TrackedShardsFile::AllShards,
        TrackedShardsFile::Shards(vec!["s1.v3".to_owned()]),
        TrackedShardsFile::ShadowValidator("node0".parse().expect("id")),
        TrackedShardsFile::Schedule(vec![vec![0, 1], vec![2]]),
        TrackedShardsFile::Accounts(vec!["node0".parse().expect("id")]),
    ];
    for ours in all {
        let text = serde_json::to_value(&ours).expect("JSON");
        let theirs: TrackedShardsConfig = serde_json::from_value(text.clone()).expect("their reading");
        assert_eq!(serde_json::to_value(&theirs).expect("JSON"), text);
    }
}

#[test]
fn exported_account_keys_are_read_by_near() {
    let mut plan = tiny_plan();
    plan.accounts.keys = KeyKind::Seed;
    let keyring = Keyring::build(&plan).expect("keyring");
    let mut out = Vec::new();
    account_files(&keyring.shards()[0], &mut out).expect("seeds");
    let files: Vec<near_crypto::KeyFile> = serde_json::from_slice(&out).expect("key files");
    assert_eq!(files.len(), 3);
    for file in files {
        assert_eq!(file.secret_key.public_key(), file.public_key);
        let text = serde_json::to_vec(&file).expect("JSON");
        let ours: KeyFile = from_text("key file", &text).expect("their text");
        assert_eq!(ours.account_id.expect("named").as_str(), file.account_id.as_str());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn keys_from_any_seed_are_valid_staking_keys(seed in any::<u64>()) {
        let checked = validate_genesis(&their_genesis(&tiny_genesis(seed, KeyKind::Row)));
        prop_assert!(checked.is_ok(), "{:?}", checked);
    }
}
