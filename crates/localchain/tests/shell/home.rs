//! Homes that no chain can come of are refused in words.

use std::path::{Path, PathBuf};

use fs_err as fs;
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tpsctl_localchain::{OfflineRpc, RunOptions, run};

use super::cluster::{PATIENCE, copy, testdata};

/// A copy of the fixture home after an edit of one of its files, and the folder that it is in.
fn changed(file: &str, change: impl FnOnce(&mut Value)) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("folder");
    let home = folder.path().join("home");
    copy(&testdata().join("home/node0"), &home);
    let path = home.join(file);
    let mut value: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    change(&mut value);
    fs::write(&path, value.to_string()).expect("a file");
    (folder, home)
}

/// Why no node starts from a home, with its causes; the home's own path is HOME.
async fn refusal_of(home: &Path) -> String {
    let running = run(RunOptions { home: home.to_owned() }, CancellationToken::new());
    let ended = tokio::time::timeout(PATIENCE, running).await.expect("it is refused in time");
    let error = ended.expect_err("refused");
    assert!(error.is_input(), "exit code 2: {error:?}");
    let first: &dyn std::error::Error = &error;
    let texts = std::iter::successors(Some(first), |error| error.source()).map(ToString::to_string);
    texts.collect::<Vec<_>>().join(": ").replace(&home.display().to_string(), "HOME")
}

/// What a node says to the fixture home with its genesis changed.
async fn refusal(change: impl FnOnce(&mut Value)) -> String {
    let (_folder, home) = changed("genesis.json", change);
    refusal_of(&home).await.replace("HOME/genesis.json", "GENESIS")
}

#[tokio::test]
async fn a_chain_that_cannot_be_is_refused() {
    let stake = |validator: usize, amount: &str| {
        let amount = json!(amount);
        move |genesis: &mut Value| genesis["validators"][validator]["amount"] = amount
    };
    let says = |fault: &str| format!("start a chain from `GENESIS`: {fault}");
    let height = refusal(|genesis| genesis["genesis_height"] = json!(u64::MAX - 1)).await;
    assert_eq!(height, says("its height is above 2^63"));
    let nobody = refusal(|genesis| genesis["validators"] = json!([])).await;
    assert_eq!(nobody, says("it names no validator"));
    let twice = refusal(|genesis| genesis["validators"][1] = genesis["validators"][0].clone()).await;
    assert_eq!(twice, says("it names a validator twice"));
    let poor = refusal(|genesis| {
        stake(0, "0")(genesis);
        stake(1, "0")(genesis);
    });
    assert_eq!(poor.await, says("no validator has a stake"));
    let rich = refusal(|genesis| {
        stake(0, &u128::MAX.to_string())(genesis);
        stake(1, "1")(genesis);
    });
    assert_eq!(rich.await, says("the stakes together do not fit 128 bits"));
    let empty = refusal(|genesis| genesis["records"] = json!([])).await;
    assert_eq!(empty, says("it has no accounts"));
    let dear = refusal(|genesis| genesis["min_gas_price"] = json!(u128::MAX.to_string())).await;
    assert_eq!(dear, says("its gas price is above 10^18 yocto"));
    let unpaid = refusal(stake(1, "0")).await;
    assert_eq!(unpaid, says("the amount of one of its validators is 0"));
    for key in ["protocol_version", "epoch_length", "gas_limit"] {
        let zero = refusal(|genesis| genesis[key] = json!(0)).await;
        assert_eq!(zero, says(&format!("its {key} is 0")));
    }
}

/// Seats are those of the epoch config, where there is one.
#[tokio::test]
async fn a_chain_without_seats_is_refused() {
    for key in ["num_block_producer_seats", "num_chunk_producer_seats"] {
        let (_folder, home) = changed("epoch_configs/86.json", |epoch| epoch[key] = json!(0));
        let says = format!("start a chain from `HOME/genesis.json`: {key} is 0");
        assert_eq!(refusal_of(&home).await, says);
        let (_folder, home) = changed("genesis.json", |genesis| genesis[key] = json!(0));
        fs::remove_dir_all(home.join("epoch_configs")).expect("the epoch config");
        assert_eq!(refusal_of(&home).await, says);
    }
}

#[tokio::test]
async fn a_configuration_that_cannot_be_followed_is_refused() {
    let zero = json!({"secs": 0, "nanos": 0});
    let day = json!({"secs": 86_400, "nanos": 1});
    let too_long = "a delay or timeout is longer than a day";
    for (path, value, says) in [
        ("/consensus/chunk_request_retry_period", &zero, "consensus.chunk_request_retry_period is 0"),
        ("/network/handshake_timeout", &zero, "network.handshake_timeout is 0"),
        ("/rpc/polling_config/polling_interval", &zero, "rpc.polling_config.polling_interval is 0"),
        ("/rpc/polling_config/polling_interval", &day, too_long),
        ("/rpc/polling_config/polling_timeout", &day, too_long),
        (
            "/consensus/chunk_wait_mult",
            &json!([u32::MAX, 1]),
            "consensus.chunk_wait_mult times consensus.max_block_wait_delay is longer than a day",
        ),
    ] {
        let (_folder, home) = changed("config.json", |config| {
            *config.pointer_mut(path).expect("a key") = value.clone();
        });
        assert_eq!(refusal_of(&home).await, format!("follow `HOME/config.json`: {says}"));
    }
}

/// A list is no object, even where all fields have defaults, or stand in it in order.
#[tokio::test]
async fn a_list_is_no_home_file() {
    for file in ["config.json", "node_key.json", "validator_key.json", "epoch_configs/86.json"] {
        for text in ["[]", "// a comment\n [[]]", "null", "7"] {
            let (_folder, home) = changed(file, |_| {});
            fs::write(home.join(file), text).expect("a file");
            let says = refusal_of(&home).await;
            assert!(says.starts_with(&format!("read `HOME/{file}`: ")), "{says}");
            assert!(says.ends_with("it is no JSON object"), "{says}");
        }
        let (_folder, home) = changed(file, |fields| {
            let values = fields.as_object().expect("fields").values().cloned();
            *fields = values.collect();
        });
        assert!(refusal_of(&home).await.ends_with("it is no JSON object"), "{file} as a list of its values");
    }
    let (_folder, home) = changed("genesis.json", |genesis| *genesis = json!([]));
    assert!(refusal_of(&home).await.starts_with("read `HOME/genesis.json`: "));
}

/// Who opens a pipe waits for somebody to write to it.
#[tokio::test]
async fn a_pipe_is_no_home_file() {
    for file in
        ["config.json", "genesis.json", "node_key.json", "validator_key.json", "epoch_configs/86.json"]
    {
        let (_folder, home) = changed(file, |_| {});
        let path = home.join(file);
        fs::remove_file(&path).expect("the file");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).expect("a pipe");
        let says = format!("read the home directory: `HOME/{file}` is no file: copy what it gives to one");
        assert_eq!(refusal_of(&home).await, says);
    }
}

/// The highest values that are taken.
#[test]
fn extreme_values_do_no_harm() {
    let most = json!(u64::MAX);
    let (_folder, home) = changed("genesis.json", |genesis| {
        for key in [
            "epoch_length",
            "gas_limit",
            "transaction_validity_period",
            "num_blocks_per_year",
            "minimum_validators_per_shard",
        ] {
            genesis[key] = most.clone();
        }
        genesis["genesis_height"] = json!(1_u64 << 63);
        genesis["min_gas_price"] = json!("1000000000000000000");
        genesis["genesis_time"] = json!("2500-12-31T23:59:59Z");
    });
    let path = home.join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).expect("config")).expect("JSON");
    let day = json!({"secs": 86_400, "nanos": 0});
    for key in ["/consensus/max_block_production_delay", "/consensus/max_block_wait_delay"] {
        *config.pointer_mut(key).expect("a key") = day.clone();
    }
    config["consensus"]["min_block_production_delay"] = day.clone();
    config["consensus"]["chunk_request_retry_period"] = day.clone();
    config["consensus"]["doomslug_step_period"] = json!({"secs": 0, "nanos": 0});
    config["consensus"]["chunk_wait_mult"] = json!([u32::MAX, u32::MAX]);
    config["network"]["handshake_timeout"] = day.clone();
    config["network"]["max_num_peers"] = json!(u32::MAX);
    config["rpc"]["polling_config"] = json!({"polling_interval": day, "polling_timeout": day});
    config["rpc"]["limits_config"] = json!({"json_payload_max_size": most});
    config["transaction_pool_size_limit"] = most.clone();
    config["produce_chunk_add_transactions_time_limit"] = json!({"secs": u64::MAX, "nanos": 999_999_999});
    fs::write(&path, config.to_string()).expect("config");
    let mut rpc = OfflineRpc::new(&home).expect("all is taken");
    for method in ["status", "health", "validators", "gas_price", "genesis_config", "block"] {
        let params = if method == "block" { json!({"finality": "final"}) } else { json!([null]) };
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let (status, answer) = rpc.answer(body.as_bytes());
        assert_eq!(status, 200, "{method}: {answer}");
    }
}
