//! What a node keeps stays within its bounds, however long the chain grows.

use std::{collections::BTreeMap, time::Duration};

use tpsctl_near::{CryptoHash, KeyPair};

use super::fixture::{Net, genesis, key_of, user};
use crate::core::{Endorsement, Limits, Message, stats::OBSERVATIONS_MAX};

const SECOND: Duration = Duration::from_secs(1);
const SHARDS: usize = 2;
/// Heights that the chain grows to: past every bound at least twice.
const HEIGHTS: u64 = 1_500;
const KEPT_BLOCKS: u64 = 100;
const KEPT_BYTES: usize = 60_000;
/// Enough for some 250 headers of this chain.
const KEPT_HEADER_BYTES: usize = 320_000;
const KEPT_HASHES: u64 = 500;
const KEPT_OUTCOMES: usize = 500;
/// The running one and those that ended.
const KEPT_EPOCHS: usize = 6;

/// The most that a node of this network may keep. Beside the documented bounds: a few blocks at the tip, where the
/// next is under way, and more chunks while a node is behind.
fn bounds() -> BTreeMap<&'static str, usize> {
    BTreeMap::from([
        ("blocks", KEPT_HEADER_BYTES / 1_284 + 10),
        ("heights", KEPT_HASHES as usize + 10),
        ("known hashes", KEPT_HASHES as usize + 10),
        ("forks", 10),
        ("bodies", KEPT_BLOCKS as usize + 10),
        ("body bytes", KEPT_BYTES + 10_000),
        ("states", 10),
        ("chunks", 20 * SHARDS),
        ("chunks by parent", 20 * SHARDS),
        ("endorsed chunks", 20 * SHARDS),
        ("witnesses", 25),
        ("validated", 20 * SHARDS),
        ("own chunks", 21 * SHARDS),
        ("deals", 20),
        ("orphans", 200),
        ("blocks in work", 10),
        ("watches", 120),
        ("observations", OBSERVATIONS_MAX),
        ("approvals", 20),
        ("pooled", 200),
        ("epochs", KEPT_EPOCHS),
        ("neighbours", 2),
        ("outcomes", KEPT_OUTCOMES),
        ("outcomes' names", KEPT_OUTCOMES),
    ])
}

/// Two validators and a node that tracks all, in virtual time, with load, lost messages and watched transactions.
#[test]
fn a_long_chain_keeps_no_more_than_its_bounds() {
    let mut chain = genesis(2, SHARDS, 10);
    chain.epoch_length = 50;
    // All load stands on genesis.
    chain.validity_period = 10 * HEIGHTS;
    let limits = Limits {
        kept_blocks: KEPT_BLOCKS,
        kept_bytes: KEPT_BYTES,
        kept_header_bytes: KEPT_HEADER_BYTES,
        kept_hashes: KEPT_HASHES,
        kept_outcomes: KEPT_OUTCOMES,
        keeps_outcomes: true,
        ..Limits::of_chain(&chain)
    };
    let mut net = Net::with_limits(chain, limits, 60);
    let (bounds, mut highest) = (bounds(), BTreeMap::new());
    let mut turn = 0_u64;
    while net.watcher().stats().head_height < HEIGHTS {
        turn += 1;
        assert!(turn < 4 * HEIGHTS, "at {}", net.watcher().stats().head_height);
        net.lost_per_mille = if turn.is_multiple_of(50) { 100 } else { 0 };
        net.random_transfers(SHARDS, 10, 3);
        net.watch(&user(0, 0), turn);
        net.run(SECOND);
        for index in 0..net.slots.len() {
            for (name, kept) in net.node(index).kept() {
                let bound = bounds[name];
                assert!(kept <= bound, "node {index} keeps {kept} of {name}, at most {bound} at turn {turn}");
                let highest = highest.entry(name).or_insert(0);
                *highest = kept.max(*highest);
            }
        }
    }
    // The bounds were met, not only kept: what they bound would have grown far past them. Skipped heights and the room for
    // the tip are the rest.
    for name in ["blocks", "heights", "known hashes", "observations", "outcomes"] {
        assert!(highest[name] * 5 > bounds[name] * 4, "{name} came to {} of {}", highest[name], bounds[name]);
    }
    assert_eq!(highest["epochs"], KEPT_EPOCHS);
    assert!(highest["bodies"] + 20 > bounds["bodies"] || highest["body bytes"] > KEPT_BYTES, "{highest:?}");
}

fn endorsement(height_created: u64, validator: u32, key: &KeyPair) -> Message {
    let chunk_hash = CryptoHash::of_borsh(&(height_created, validator));
    let signature = key.sign(&Endorsement::message(chunk_hash).0);
    Message::Endorsement(Endorsement { chunk_hash, shard_id: 0, height_created, validator, signature })
}

/// Endorsements of every height ahead, of no chunk that there is: those of a stranger bear no validator's signature, those
/// of a validator do.
#[test]
fn endorsements_of_heights_to_come_leave_little_behind() {
    let mut net = Net::new(genesis(2, SHARDS, 10), 61);
    net.run(5 * SECOND);
    let head = net.watcher().stats().head_height;
    let from = net.stranger(0, 0);
    let validators = net.node(0).assignment().validators();
    let keys: Vec<_> = validators.iter().map(|own| key_of(&own.account_id)).collect();
    let stranger = KeyPair::from_seed([202; 32]);
    for height in (head + 1..head + 1_100).chain([u64::MAX]) {
        for validator in [0, 1, 2, u32::MAX] {
            net.tell(0, from, &endorsement(height, validator, &stranger));
        }
    }
    net.run(Duration::from_millis(1));
    let by_strangers = net.node(0).kept();
    assert!(by_strangers["deals"] <= 2, "{by_strangers:?}");
    for height in head + 1..head + 1_100 {
        for (validator, key) in keys.iter().enumerate() {
            net.tell(0, from, &endorsement(height, validator as u32, key));
        }
    }
    net.run(Duration::from_millis(1));
    let (kept, bounds) = (net.node(0).kept(), bounds());
    assert!(kept["endorsed chunks"] > by_strangers["endorsed chunks"], "those of near heights are kept");
    for name in ["deals", "endorsed chunks"] {
        assert!(kept[name] <= bounds[name], "{} of {name}", kept[name]);
    }
}
