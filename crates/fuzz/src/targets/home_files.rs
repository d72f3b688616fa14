//! A file of a home directory: the first byte says which. It is read as the node reads it, and a node that can start
//! from it lives for some seconds of its own time.

use std::{cell::RefCell, fmt::Debug, path::PathBuf};

use fs_err as fs;
use serde::{Serialize, de::DeserializeOwned};
use tempfile::TempDir;
use tpsctl_localchain::{core::Settings, read_settings};
use tpsctl_near::files::{
    EpochConfigFile, GenesisFile, KeyFile, NodeConfigFile, from_text, to_text, write_genesis,
};

use super::peer_messages::chain::Alone;
use crate::corpus::recorded;

const FILES: &[&str] =
    &["genesis.json", "config.json", "epoch_configs/86.json", "validator_key.json", "node_key.json"];

thread_local! {
    static HOME: RefCell<Home> = RefCell::new(Home::new());
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = FILES
        .iter()
        .enumerate()
        .map(|(index, name)| [vec![index as u8], recorded(&format!("neard/home/node0/{name}"))].concat())
        .collect();
    // The same without what has a default, so that numbers are a larger share of it.
    seeds.push([vec![0], small_genesis()].concat());
    seeds
}

/// Genesis of one validator and few accounts.
fn small_genesis() -> Vec<u8> {
    let mut genesis =
        GenesisFile::read(recorded("neard/home/node0/genesis.json").as_slice()).expect("a recording");
    genesis.config.validators.truncate(1);
    genesis.records.truncate(6);
    let mut text = Vec::new();
    write_genesis(&genesis.config, genesis.records, &mut text).expect("memory takes every byte");
    text
}

/// A home directory of which one file at a time is another.
struct Home {
    folder: TempDir,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        fs::create_dir(folder.path().join("epoch_configs")).expect("a folder can be made");
        let home = Self { folder };
        for name in FILES {
            home.write(name, &recorded(&format!("neard/home/node0/{name}")));
        }
        home
    }

    fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.folder.path().join(name), bytes).expect("a file can be written");
    }

    /// The settings with `name` being `bytes`.
    fn read_with(&self, name: &str, bytes: &[u8]) -> Option<Settings> {
        self.write(name, bytes);
        let settings = read_settings(&self.path());
        self.write(name, &recorded(&format!("neard/home/node0/{name}")));
        match settings {
            Ok(settings) => Some(settings),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                None
            }
        }
    }
}

pub(super) fn run(data: &[u8]) {
    let Some((which, text)) = data.split_first() else { return };
    let name = FILES[usize::from(*which) % FILES.len()];
    match name {
        "genesis.json" => check_genesis(text),
        "config.json" => check_file(text, |one: &NodeConfigFile, other| assert_eq!(one, other)),
        "epoch_configs/86.json" => check_file(text, |one: &EpochConfigFile, other| assert_eq!(one, other)),
        _ => check_file(text, |one: &KeyFile, other| {
            assert_eq!((&one.account_id, one.key.seed()), (&other.account_id, other.key.seed()));
        }),
    }
    if let Some(settings) = HOME.with_borrow(|home| home.read_with(name, text)) {
        live(settings);
    }
}

/// What is read can be written, and reads back as the same.
fn check_file<T: Serialize + DeserializeOwned + Debug>(text: &[u8], check: impl Fn(&T, &T)) {
    let Ok(file) = from_text::<T>("file", text) else { return };
    let written = to_text("file", &file).expect("a file can be written");
    let again = from_text::<T>("file", written.as_bytes()).expect("what was written can be read");
    check(&again, &file);
}

fn check_genesis(text: &[u8]) {
    let Ok(genesis) = GenesisFile::read(text) else { return };
    let mut written = Vec::new();
    write_genesis(&genesis.config, genesis.records.clone(), &mut written).expect("memory takes every byte");
    assert_eq!(GenesisFile::read(written.as_slice()).ok().as_ref(), Some(&genesis));
    // A time out of bounds is an error, not a panic.
    drop(genesis.config.genesis_time_unix_ns());
}

/// A node started from the settings runs, whatever they are, as far as it gets without others.
fn live(settings: Settings) {
    let start = settings.genesis.height;
    let mut node = Alone::new(settings);
    node.run(40);
    assert!(node.height() >= start);
}
