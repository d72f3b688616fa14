//! Home directories of the embedded node.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{BAD_INPUT, PROVIDER, assert_refused};
use crate::support::{Bench, free_ports, home_with_ports};

/// A home as neard wrote it, with free ports: a node would start from it.
fn sound_home(bench: &Bench) -> PathBuf {
    let home = bench.dir.path().join("home");
    let [rpc, p2p] = free_ports::<2>();
    home_with_ports(&home, "node0", &[("[::1]:47190", rpc), ("[::1]:53270", p2p)]);
    home
}

/// The node refuses the home once `damage` was done to it.
fn assert_home_refused(damage: impl FnOnce(&Path), code: i32, says: &[&str]) {
    let bench = Bench::new();
    let home = sound_home(&bench);
    damage(&home);
    let message = assert_refused(&bench, &["localnode", "run", "--home", "home"], code, says);
    assert!(message.contains("error: failed to "), "{message}");
}

/// Changes one JSON file of a home.
fn change(home: &Path, file: &str, change: impl FnOnce(&mut Value)) {
    let path = home.join(file);
    let mut value = serde_json::from_str(&fs_err::read_to_string(&path).expect("fixture")).expect("JSON");
    change(&mut value);
    fs_err::write(path, value.to_string()).expect("write");
}

fn overwrite(file: &'static str, text: &'static str) -> impl FnOnce(&Path) {
    move |home| fs_err::write(home.join(file), text).expect("write")
}

fn remove(file: &'static str) -> impl FnOnce(&Path) {
    move |home| fs_err::remove_file(home.join(file)).expect("fixture")
}

#[test]
fn a_home_that_is_none() {
    let bench = Bench::new();
    let says = &["`nowhere` is not a directory", "name a node's home"];
    assert_refused(&bench, &["localnode", "run", "--home", "nowhere"], BAD_INPUT, says);
    fs_err::write(bench.dir.path().join("file"), "x").expect("write");
    let says = &["`file` is not a directory"];
    assert_refused(&bench, &["localnode", "run", "--home", "file"], BAD_INPUT, says);
    fs_err::create_dir(bench.dir.path().join("empty")).expect("create");
    let says =
        &["read the home directory", "config.json", "No such file", "what helps: a home directory holds"];
    assert_refused(&bench, &["localnode", "run", "--home", "empty"], BAD_INPUT, says);
}

#[test]
fn files_that_are_missing() {
    for file in ["config.json", "genesis.json", "node_key.json"] {
        assert_home_refused(remove(file), BAD_INPUT, &["read the home directory", file, "what helps"]);
    }
}

#[test]
fn a_genesis_that_is_none() {
    for text in [
        "",
        "not JSON",
        "{}",
        "[]",
        "{\"records\": 5}",
        "\u{0}\u{1}\u{2}",
        "{\"records\": [{\"Account\": {}}]}",
    ] {
        assert_home_refused(overwrite("genesis.json", text), BAD_INPUT, &["home/genesis.json", "what helps"]);
    }
    let nested = |home: &Path| fs_err::write(home.join("genesis.json"), "[".repeat(200_000)).expect("write");
    assert_home_refused(nested, BAD_INPUT, &["home/genesis.json"]);
    let truncated = |home: &Path| {
        let path = home.join("genesis.json");
        let whole = fs_err::read(&path).expect("fixture");
        fs_err::write(&path, &whole[..whole.len() / 2]).expect("write");
    };
    assert_home_refused(truncated, BAD_INPUT, &["home/genesis.json"]);
}

/// Off by one yocto is refused, with both sums, as neard does.
#[test]
fn a_wrong_supply() {
    let off = |home: &Path| {
        change(home, "genesis.json", |genesis| {
            genesis["total_supply"] = "4000004000000000000000000000000001".into();
        });
    };
    let says = &[
        "total_supply is 4000004000000000000000000000000001 yocto",
        "hold 4000004000000000000000000000000000",
        "what helps: set `total_supply`",
    ];
    assert_home_refused(off, BAD_INPUT, says);
}

#[test]
fn a_genesis_that_no_chain_can_come_of() {
    let nobody = |home: &Path| {
        change(home, "genesis.json", |genesis| genesis["validators"] = Value::Array(Vec::new()));
    };
    assert_home_refused(nobody, BAD_INPUT, &["start a chain from", "genesis.json", "it names no validator"]);
    let twice = |home: &Path| {
        change(home, "genesis.json", |genesis| {
            let validators = genesis["validators"].as_array_mut().expect("validators");
            validators.push(validators[0].clone());
        });
    };
    assert_home_refused(twice, BAD_INPUT, &["it names a validator twice"]);
    let unsorted = |home: &Path| {
        change(home, "genesis.json", |genesis| {
            genesis["shard_layout"]["V2"]["boundary_accounts"] = "a01".into();
        });
    };
    assert_home_refused(unsorted, BAD_INPUT, &["genesis.json"]);
}

#[test]
fn keys_that_are_none() {
    assert_home_refused(overwrite("node_key.json", "{}"), BAD_INPUT, &["node_key.json", "account_id"]);
    assert_home_refused(overwrite("validator_key.json", "ed25519:xyz"), BAD_INPUT, &["validator_key.json"]);
    let halves = |home: &Path| {
        change(home, "validator_key.json", |key| {
            key["public_key"] = "ed25519:6DSjZ8mvsRZDvFqFxo8tCKePG96omXW7eVYVSySmDk8e".into();
        });
    };
    assert_home_refused(halves, BAD_INPUT, &["validator_key.json", "does not belong to the secret key"]);
}

#[test]
fn configurations_that_are_none() {
    assert_home_refused(overwrite("config.json", "addr = 5"), BAD_INPUT, &["home/config.json"]);
    assert_home_refused(overwrite("epoch_configs/86.json", "{}"), BAD_INPUT, &["epoch_configs/86.json"]);
    let nowhere =
        |home: &Path| change(home, "config.json", |config| config["network"]["addr"] = "nowhere:1".into());
    assert_home_refused(nowhere, BAD_INPUT, &["home/config.json"]);
}

#[test]
fn ports_that_are_taken() {
    for index in [0, 1] {
        let bench = Bench::new();
        let ports = free_ports::<2>();
        let home = bench.dir.path().join("home");
        home_with_ports(&home, "node0", &[("[::1]:47190", ports[0]), ("[::1]:53270", ports[1])]);
        let taken = std::net::TcpListener::bind(("::1", ports[index])).expect("a free port");
        let what = format!("listen on [::1]:{} for {}", ports[index], ["JSON-RPC", "peers"][index]);
        let says = &[what.as_str(), "in use", "what helps: end the process that has the port"];
        assert_refused(&bench, &["localnode", "run", "--home", "home"], PROVIDER, says);
        drop(taken);
    }
}
