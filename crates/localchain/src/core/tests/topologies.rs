//! Networks of all shapes: who produces what, who checks it, and who is connected to whom.

use std::{collections::BTreeSet, time::Duration};

use super::fixture::{Net, genesis};
use crate::core::{Genesis, Limits, Message};

const SECOND: Duration = Duration::from_secs(1);

/// Idle and under a small load no chunk is missed from the first block on; returns the number of blocks.
fn assert_serves(net: &mut Net, shards: usize, users: usize) -> usize {
    let blocks = assert_serves_in_the_end(net, shards, users);
    assert_eq!(net.missed(), 0);
    blocks
}

/// The same once everybody has found the ways to everybody.
fn assert_serves_in_the_end(net: &mut Net, shards: usize, users: usize) -> usize {
    net.run(6 * SECOND);
    let from = net.watcher().stats().head_height + 1;
    net.random_transfers(shards, users, 40);
    net.run(12 * SECOND);
    assert_eq!(net.settled(), 40);
    net.assert_closed();
    let blocks = net.blocks().into_iter().filter(|block| block.height() > from);
    let masks: Vec<Vec<bool>> = blocks.map(|block| block.header.chunk_mask.clone()).collect();
    assert!(masks.iter().flatten().all(|is_new| *is_new), "{masks:?}");
    assert!(masks.len() >= 12, "a block each 0.6 s and a little: {}", masks.len());
    masks.len()
}

fn with_mandates(mut chain: Genesis, mandates: u64) -> Genesis {
    chain.seats.mandates_per_shard = mandates;
    chain
}

#[test]
fn one_node_serves_fifty_shards() {
    let mut net = Net::new(genesis(1, 50, 2), 70);
    assert_serves(&mut net, 50, 2);
    assert!(net.node(0).tracked().iter().all(|is_tracked| *is_tracked));
}

#[test]
fn several_shards_a_producer_and_several_producers_a_shard() {
    for (validators, shards) in [(3, 8), (2, 5), (6, 2), (7, 3)] {
        let mut net = Net::new(genesis(validators, shards, 4), 71);
        assert_serves(&mut net, shards, 4);
        let assignment = net.node(0).assignment();
        for shard in 0..shards {
            let producers: BTreeSet<usize> =
                (1..200).map(|height| assignment.chunk_producer(height, shard)).collect();
            assert_eq!(producers.len(), assignment.producers(shard).len(), "all take their turn");
        }
    }
}

#[test]
fn mandates_from_one_to_many() {
    for mandates in [1, 2, 3, 6, 14, 68] {
        let mut net = Net::new(with_mandates(genesis(6, 6, 4), mandates), 72);
        assert_serves(&mut net, 6, 4);
    }
}

/// Three producers and three nodes that only check chunks, which hold half of the mandates.
fn with_checkers() -> Genesis {
    let mut chain = with_mandates(genesis(6, 3, 4), 4);
    chain.seats.block_producers = 3;
    chain.seats.chunk_producers = 3;
    chain
}

#[test]
fn validators_without_a_seat_check_chunks_and_make_nothing() {
    let mut net = Net::new(with_checkers(), 73);
    assert_serves(&mut net, 3, 4);
    for index in 3..6 {
        let stats = net.node(index).stats();
        assert_eq!(stats.blocks_made, 0);
        assert!(stats.shards.iter().all(|shard| shard.chunk_transactions == 0));
        assert!(net.node(index).tracked().iter().all(|is_tracked| !is_tracked));
        assert!(stats.transactions > 0, "it executed chunks again");
    }
    let endorsers: BTreeSet<usize> = net
        .blocks()
        .iter()
        .flat_map(|block| block.header.endorsements.clone())
        .flat_map(|bitmap| {
            (0..6).filter(move |index| bitmap.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1))
        })
        .collect();
    assert_eq!(endorsers.len(), 6);
    assert!(net.blocks().iter().all(|block| block.header.approvals.len() == 3));
}

#[test]
fn without_those_who_check_chunks_are_missed_but_blocks_go_on() {
    let mut net = Net::new(with_checkers(), 74);
    net.run(5 * SECOND);
    (3..6).for_each(|index| net.stop(index));
    let before = net.watcher().stats().clone();
    net.run(30 * SECOND);
    let stats = net.watcher().stats();
    assert!(
        stats.final_height > before.head_height + 10,
        "{} after {}",
        stats.final_height,
        before.head_height
    );
    let excluded = (0..3).flat_map(|index| net.node(index).stats().shards.clone());
    assert!(excluded.map(|shard| shard.excluded_endorsement).sum::<u64>() > 10);
}

#[test]
fn without_more_than_a_third_of_the_stake_nothing_is_final() {
    let mut net = Net::new(genesis(4, 2, 4), 75);
    net.run(5 * SECOND);
    net.cut = Box::new(|from, to, _| from.max(to) < 4 && (from < 2) != (to < 2));
    let before = net.watcher().stats().final_height;
    net.run(60 * SECOND);
    assert!(net.watcher().stats().final_height <= before + 2);
    net.cut = Box::new(|_, _, _| false);
    net.random_transfers(2, 4, 20);
    net.run(120 * SECOND);
    assert!(net.watcher().stats().final_height > before + 20, "and goes on when they are back");
    assert_eq!(net.settled(), 20);
    net.assert_closed();
}

/// On a ring of `nodes`, the connections at these distances.
fn ring(nodes: usize, distances: &'static [usize]) -> Box<dyn Fn(usize, usize) -> bool> {
    Box::new(move |one, other| {
        let around = other - one;
        distances.contains(&around.min(nodes - around))
    })
}

/// Messages of this name for each block.
fn per_block(net: &Net, name: &str) -> u64 {
    net.sent.get(name).copied().unwrap_or(0) / net.watcher().stats().head_height.max(1)
}

#[test]
fn capped_nodes_pass_on_what_others_cannot_send() {
    let build = |is_edge| {
        let chain = with_mandates(genesis(11, 4, 4), 2);
        let limits = Limits::of_chain(&chain);
        Net::connected(chain, limits, 76, is_edge)
    };
    // Twelve nodes, the watcher among them.
    let mut capped = build(ring(12, &[1, 4]));
    let mut whole = build(Box::new(|_, _| true));
    let blocks = [assert_serves_in_the_end(&mut capped, 4, 4), assert_serves(&mut whole, 4, 4)];
    assert!(blocks[0] <= blocks[1], "{blocks:?}");
    assert!(per_block(&capped, "Routed") > 10, "{:?}", capped.sent);
    assert_eq!(
        (whole.sent.get("Routed"), whole.sent.get("DistanceVector")),
        (None, None),
        "{:?}",
        whole.sent
    );
    for index in 0..12 {
        let head = capped.node(index).stats().head_height;
        assert!(head + 1 >= capped.watcher().stats().head_height, "node {index}");
    }
}

#[test]
fn a_chain_of_nodes_is_slow_but_works() {
    let chain = with_mandates(genesis(6, 2, 4), 2);
    let limits = Limits::of_chain(&chain);
    // The watcher hangs at the end.
    let mut net = Net::connected(chain, limits, 77, Box::new(|one, other| other == one + 1));
    assert_serves_in_the_end(&mut net, 2, 4);
}

#[test]
fn a_node_that_falls_out_is_gone_round() {
    let chain = with_mandates(genesis(8, 2, 4), 2);
    let limits = Limits::of_chain(&chain);
    let mut net = Net::connected(chain, limits, 78, ring(9, &[1, 2]));
    net.run(10 * SECOND);
    net.stop(3);
    net.random_transfers(2, 4, 20);
    net.run(90 * SECOND);
    assert_eq!(net.settled(), 20);
    let head = net.watcher().stats().head_height;
    assert!(head > 40, "{head}");
    net.assert_closed();
}

#[test]
fn strangers_have_nothing_passed_on() {
    let chain = with_mandates(genesis(6, 2, 4), 2);
    let limits = Limits::of_chain(&chain);
    let mut net = Net::connected(chain, limits, 79, ring(7, &[1, 2]));
    net.run(6 * SECOND);
    let missed = net.missed();
    let from = net.stranger(0, 0);
    let before = net.sent.get("Routed").copied().unwrap_or(0);
    net.tell(0, from, &Message::Reach { distances: vec![200; 6] });
    for _ in 0..1_000 {
        let routed = crate::core::Routed { validator: 3, steps: 200, message: vec![1, 2, 3] };
        net.tell(0, from, &Message::Routed(routed));
    }
    net.run(Duration::from_millis(100));
    assert!(net.sent.get("Routed").copied().unwrap_or(0) < before + 900);
    net.run(6 * SECOND);
    assert_eq!(net.missed(), missed);
}

/// As published: 70 producers of 70 shards, all connected.
#[test]
fn slow_seventy_producers_are_a_full_mesh() {
    let mut net = Net::new(with_mandates(genesis(70, 70, 1), 2), 80);
    net.run(3 * SECOND);
    net.random_transfers(70, 1, 70);
    net.run(6 * SECOND);
    assert_eq!((net.settled(), net.missed()), (70, 0));
    // In this fixture nodes tick one after the other, 10 ms apart: seventy need 0.7 s to approve a block.
    assert!(net.blocks().len() >= 5, "{}", net.blocks().len());
    assert_eq!((net.sent.get("Routed"), net.sent.get("DistanceVector")), (None, None));
    // A chunk goes to everybody once.
    let chunks = per_block(&net, "VersionedPartialEncodedChunk");
    assert!(chunks <= 72 * 71, "{chunks}");
}

/// The same with ten connections each: slower and with more messages, but it does not stop.
#[test]
fn slow_seventy_producers_with_ten_peers_each() {
    let chain = with_mandates(genesis(70, 70, 1), 2);
    let limits = Limits::of_chain(&chain);
    let mut net = Net::connected(chain, limits, 81, ring(71, &[1, 2, 4, 8, 17]));
    net.run(4 * SECOND);
    net.random_transfers(70, 1, 70);
    net.run(8 * SECOND);
    let blocks = net.blocks().len();
    assert!(blocks >= 4, "{blocks}");
    assert_eq!(net.settled(), 70);
    let recent = net.blocks().into_iter().rev().take(4);
    let missed = recent.flat_map(|block| block.header.chunk_mask.clone()).filter(|is_new| !is_new).count();
    assert!(missed <= 4 * 70 / 10, "{missed}");
    assert!(per_block(&net, "Routed") > 100);
}
