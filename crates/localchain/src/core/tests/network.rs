use std::time::Duration;

use super::fixture::{Cost, Net, PRICE, genesis, user};
use crate::core::{BlockRef, Limits, Message};

const SECOND: Duration = Duration::from_secs(1);

/// Enough for all that is on its way to settle.
fn drain(net: &mut Net) {
    net.run(20 * SECOND);
}

#[test]
fn transfers_settle_exactly() {
    let mut net = Net::new(genesis(4, 3, 20), 1);
    net.run(5 * SECOND);
    for _ in 0..10 {
        net.random_transfers(3, 20, 60);
        net.run(SECOND);
    }
    drain(&mut net);
    assert_eq!(net.settled(), 600);
    assert_eq!(net.missed(), 0);
    net.assert_closed();
    let stats = net.watcher().stats();
    assert!(stats.head_height >= 50, "a block each 0.6 s and a little: {}", stats.head_height);
    assert!(stats.final_height + 2 >= stats.head_height);
    for index in 0..5 {
        let head = net.node(index).view().head.block.height();
        assert!(head + 1 >= stats.head_height, "node {index} is at {head}");
        assert_eq!(net.node(index).stats().invalid_witnesses, 0);
    }
}

#[test]
fn gas_shows_one_block_after_each_step() {
    let mut net = Net::new(genesis(1, 2, 2), 2);
    net.run(2 * SECOND);
    net.transfer(&user(0, 0), &user(1, 0));
    drain(&mut net);
    let gas: Vec<(u64, usize)> = net
        .blocks()
        .iter()
        .flat_map(|block| {
            let chunks = block.header.chunks.iter().enumerate();
            let burnt = chunks.filter(|(_, chunk)| chunk.signed.header.prev_gas_used > 0);
            burnt.map(|(shard, _)| (block.height(), shard)).collect::<Vec<_>>()
        })
        .collect();
    let [(converted, 0), (executed, 1)] = gas[..] else { panic!("{gas:?}") };
    assert_eq!(executed, converted + 1);
    assert_eq!(net.settled(), 1);
}

#[test]
fn below_the_purchase_price_a_transfer_burns_three_units() {
    let mut cheap = genesis(2, 2, 4);
    cheap.gas_price = PRICE / 10;
    let mut net = Net::new(cheap, 3);
    net.random_transfers(2, 4, 40);
    drain(&mut net);
    let units = net.watcher().stats().gas_used / tpsctl_near::TRANSFER_GAS_UNIT;
    assert_eq!(units, 3 * 40);
    net.assert_closed();
}

#[test]
fn one_node_serves_several_shards() {
    let mut net = Net::new(genesis(1, 4, 10), 4);
    net.random_transfers(4, 10, 100);
    drain(&mut net);
    assert_eq!((net.settled(), net.missed()), (100, 0));
    net.assert_closed();
}

#[test]
fn a_slow_validator_costs_chunks_but_no_transfer() {
    let mut net = Net::new(genesis(4, 4, 10), 5);
    net.run(5 * SECOND);
    assert_eq!(net.missed(), 0);
    net.slots[2].cost.each = Duration::from_millis(1_500);
    for _ in 0..20 {
        net.random_transfers(4, 10, 20);
        net.run(SECOND);
    }
    let missed = net.missed();
    assert!(missed > 3, "{missed}");
    net.slots[2].cost.each = Duration::from_millis(2);
    net.run(30 * SECOND);
    assert_eq!(net.settled(), 400);
    net.assert_closed();
    let recent = net.blocks().into_iter().rev().take(5);
    assert!(recent.flat_map(|block| block.header.chunk_mask.clone()).all(|is_new| is_new), "healthy again");
    let stats = (0..4).map(|index| net.node(index).stats());
    let excluded: u64 = stats
        .flat_map(|stats| stats.shards.clone())
        .map(|shard| shard.excluded_endorsement + shard.excluded_unavailable)
        .sum();
    assert!(excluded >= missed as u64, "every miss has its reason");
}

#[test]
fn without_a_block_producer_heights_are_skipped() {
    let mut net = Net::new(genesis(4, 2, 10), 6);
    net.run(5 * SECOND);
    net.stop(3);
    let at = net.watcher().stats().head_height;
    // Shard 1 has another producer beside the one that is gone.
    net.random_transfers(2, 10, 50);
    net.run(80 * SECOND);
    let head = net.watcher().stats().head_height;
    let skipped =
        (at..head).filter(|height| net.watcher().block(BlockRef::Height(*height)).is_none()).count();
    assert!(skipped > 2, "{skipped} of {head}");
    assert!(head > at + 20, "{head}");
    assert_eq!(net.settled(), 50);
    net.assert_closed();
}

#[test]
fn overload_misses_chunks_and_nothing_is_counted_twice() {
    let chain = genesis(4, 4, 20);
    let prepare_time = Some(Duration::from_millis(600));
    let limits = Limits { prepare_time, ..Limits::of_chain(&chain) };
    let mut net = Net::with_limits(chain, limits, 7);
    for slot in &mut net.slots[..4] {
        slot.cost = Cost { each: Duration::from_millis(2), per_transaction: Duration::from_millis(7) };
    }
    for _ in 0..10 {
        net.random_transfers(4, 20, 600);
        net.run(SECOND);
    }
    net.run(20 * SECOND);
    let (missed, blocks) = (net.missed(), net.blocks().len());
    assert!(missed > 0, "{blocks} blocks");
    let limited = (0..4).map(|index| net.node(index).stats().shards[index].limited_by.clone());
    assert!(limited.into_iter().any(|by| by.contains_key("Time")));
    for slot in &mut net.slots {
        slot.cost = Cost { each: Duration::from_millis(2), ..Cost::default() };
    }
    net.run(60 * SECOND);
    assert_eq!(net.settled(), 6_000);
    net.assert_closed();
}

#[test]
fn a_restarted_node_catches_up_from_genesis() {
    let mut net = Net::new(genesis(4, 2, 10), 8);
    net.random_transfers(2, 10, 30);
    net.run(60 * SECOND);
    net.stop(1);
    net.random_transfers(2, 10, 30);
    net.run(30 * SECOND);
    net.start(1);
    net.run(30 * SECOND);
    let (own, others) = (net.node(1).stats(), net.watcher().stats());
    assert!(own.head_height + 2 >= others.head_height, "{} of {}", own.head_height, others.head_height);
    assert!(!own.is_syncing);
    assert!(own.blocks_made > 0, "it takes part again");
    drain(&mut net);
    assert_eq!(net.settled(), 60);
    net.assert_closed();
}

#[test]
fn a_node_that_was_away_too_long_gives_up() {
    let chain = genesis(4, 1, 2);
    let limits = Limits { kept_blocks: 20, ..Limits::of_chain(&chain) };
    let mut net = Net::with_limits(chain, limits, 9);
    net.run(60 * SECOND);
    net.stop(1);
    net.start(1);
    net.run(10 * SECOND);
    let (needed, earliest) = net.slots[1].too_far_behind.expect("it cannot catch up");
    assert_eq!(needed, 1);
    assert!(earliest > 20, "{earliest}");
}

#[test]
fn a_full_pool_drops_in_silence() {
    let chain = genesis(2, 2, 10);
    let limits = Limits { pool_bytes: Some(187 * 20), ..Limits::of_chain(&chain) };
    let mut net = Net::with_limits(chain, limits, 10);
    net.random_transfers(2, 10, 200);
    drain(&mut net);
    let dropped: u64 = (0..2).map(|index| net.node(index).stats().pool_dropped).sum();
    assert!(dropped > 100, "{dropped}");
    let invalid: u64 = 200 - dropped - net.settled();
    // A dropped nonce leaves a gap, which is allowed: all that was pooled settles.
    assert_eq!(invalid, 0);
    net.assert_closed();
}

#[test]
fn lost_messages_lose_no_transfer() {
    for seed in 0..3 {
        let mut net = Net::new(genesis(4, 3, 10), 100 + seed);
        net.lost_per_mille = 30;
        for _ in 0..10 {
            net.random_transfers(3, 10, 30);
            net.run(SECOND);
        }
        net.run(120 * SECOND);
        net.lost_per_mille = 0;
        drain(&mut net);
        assert_eq!(net.settled(), 300, "seed {seed}");
        net.assert_closed();
    }
}

#[test]
fn a_block_that_some_never_get_is_fetched_by_them() {
    let mut net = Net::new(genesis(4, 2, 10), 11);
    net.cut = Box::new(|from, to, message| matches!(message, Message::Block(_)) && from == 0 && to != 1);
    net.random_transfers(2, 10, 50);
    net.run(120 * SECOND);
    net.cut = Box::new(|_, _, _| false);
    drain(&mut net);
    assert_eq!(net.settled(), 50);
    net.assert_closed();
    let heads: Vec<u64> = (0..5).filter_map(|index| net.height(index)).collect();
    assert!(heads.iter().max().expect("five") - heads.iter().min().expect("five") <= 1, "{heads:?}");
}

#[test]
fn the_same_seed_makes_the_same_chain() {
    let chain = |seed| {
        let mut net = Net::new(genesis(3, 2, 5), seed);
        net.random_transfers(2, 5, 20);
        net.run(20 * SECOND);
        net.watcher().view().head.block.hash()
    };
    assert_eq!(chain(12), chain(12));
    assert_ne!(chain(12), chain(13));
}

/// A price at which nobody can pay.
#[test]
fn at_the_highest_gas_price_nothing_overflows() {
    let mut dear = genesis(2, 2, 4);
    dear.gas_price = 10_u128.pow(18);
    let mut net = Net::new(dear, 6);
    net.run(5 * SECOND);
    net.random_transfers(2, 4, 40);
    drain(&mut net);
    assert_eq!(net.settled(), 0);
    assert!(net.watcher().stats().head_height > 20, "the chain goes on");
}
