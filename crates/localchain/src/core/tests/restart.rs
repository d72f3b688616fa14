//! Nodes that go away and come back with nothing but genesis.

use std::time::Duration;

use super::fixture::{Net, genesis};
use crate::core::{BlockRef, Limits, Message};

const SECOND: Duration = Duration::from_secs(1);
const RPC: usize = 4;

/// `index` is away for a while and back again, under a load that never stops.
fn restart_under_load(index: usize) {
    let mut net = Net::new(genesis(4, 2, 10), 50);
    for second in 0..40 {
        match second {
            10 => net.stop(index),
            20 => net.start(index),
            _ => {}
        }
        // The fixture asks the RPC node for what a transfer is based on.
        if index != RPC || !(10..20).contains(&second) {
            net.random_transfers(2, 10, 10);
        }
        net.run(SECOND);
    }
    net.run(40 * SECOND);
    let own = net.node(index).stats();
    assert!(Some(own.head_height + 2) >= net.height(0), "{} of {:?}", own.head_height, net.height(0));
    assert!(!own.is_syncing);
    let (sent, settled) = (if index == RPC { 300 } else { 400 }, net.settled());
    // A producer comes back with an empty pool: a nonce that it includes makes lower ones in its fellow's pool invalid.
    let lost_max = if index == RPC { 0 } else { 60 };
    assert!((sent - lost_max..=sent).contains(&settled), "{settled} of {sent}");
    net.assert_closed();
}

#[test]
fn a_producer_comes_back_under_load() {
    restart_under_load(1);
}

#[test]
fn an_rpc_node_comes_back_under_load() {
    restart_under_load(RPC);
}

#[test]
fn a_node_comes_back_to_an_idle_network() {
    let mut net = Net::new(genesis(4, 2, 10), 51);
    net.run(20 * SECOND);
    net.stop(2);
    net.run(20 * SECOND);
    net.start(2);
    let made_before = net.watcher().stats().head_height;
    net.run(20 * SECOND);
    let own = net.node(2).stats();
    assert!(own.head_height > made_before && own.blocks_made > 0, "it takes part again");
}

/// All but the first of four producers are away; returns the block that the network has come to.
fn all_but_one_away(net: &mut Net) -> (u64, tpsctl_near::CryptoHash) {
    net.random_transfers(2, 10, 50);
    net.run(30 * SECOND);
    for index in 1..=RPC {
        net.stop(index);
    }
    net.run(10 * SECOND);
    let last = net.node(0).block(BlockRef::Final).expect("kept");
    (last.height(), last.hash())
}

fn assert_one_chain(net: &Net, (height, hash): (u64, tpsctl_near::CryptoHash)) {
    for index in 0..=RPC {
        let own = net.node(index).block(BlockRef::Height(height)).map(|block| block.hash());
        assert_eq!(own, Some(hash), "node {index} goes on where the network was");
        assert!(net.height(index) > Some(height + 10), "node {index} is at {:?}", net.height(index));
    }
    assert_eq!(net.settled(), 50);
    net.assert_closed();
}

#[test]
fn all_but_one_come_back_to_the_chain_of_the_one() {
    let mut net = Net::new(genesis(4, 2, 10), 52);
    let last = all_but_one_away(&mut net);
    for index in 1..=RPC {
        net.start(index);
    }
    net.run(60 * SECOND);
    assert_one_chain(&net, last);
}

#[test]
fn those_who_come_back_wait_for_the_one_that_they_have_not_met_yet() {
    let mut net = Net::new(genesis(4, 2, 10), 53);
    let last = all_but_one_away(&mut net);
    let survivor = net.slots[0].node.take();
    for index in 1..=RPC {
        net.start(index);
    }
    net.run(2 * SECOND);
    let heads: Vec<_> = (1..=RPC).map(|index| net.height(index)).collect();
    assert_eq!(heads, [Some(0); 4], "three of four could make a chain of their own");
    net.slots[0].node = survivor;
    net.meet(0);
    net.run(60 * SECOND);
    assert_one_chain(&net, last);
}

#[test]
fn a_node_whose_fellows_are_dead_at_first_takes_part_when_they_come() {
    let mut net = Net::new(genesis(4, 2, 10), 54);
    for index in 0..=RPC {
        net.stop(index);
    }
    net.start(1);
    net.run(30 * SECOND);
    assert_eq!(net.height(1), Some(0));
    for index in [0, 2, 3, RPC] {
        net.start(index);
    }
    net.run(30 * SECOND);
    let heads: Vec<_> = (0..=RPC).map(|index| net.height(index)).collect();
    assert!(heads.iter().all(|head| *head > Some(20)), "{heads:?}");
    assert!(net.node(1).stats().blocks_made > 0);
}

#[test]
fn one_validators_lies_keep_no_node_from_starting() {
    let mut net = Net::new(genesis(4, 2, 10), 55);
    net.run(10 * SECOND);
    net.stop(1);
    net.run(SECOND);
    net.start(1);
    let liar = net.slots[3].peer;
    for _ in 0..900 {
        net.tell(1, liar, &Message::Head { height: 1_000_000 });
        net.run(SECOND / 10);
    }
    assert!(net.node(1).stats().blocks_made > 0, "it takes part all the same");
}

#[test]
fn headers_go_within_their_bytes_and_hashes_stay_valid() {
    let chain = genesis(2, 1, 2);
    let limits = Limits { kept_blocks: 20, kept_header_bytes: 40_000, ..Limits::of_chain(&chain) };
    let mut net = Net::with_limits(chain, limits, 56);
    net.run(5 * SECOND);
    let early = net.watcher().block(BlockRef::Height(3)).expect("kept so far").hash();
    net.run(80 * SECOND);
    let watcher = net.watcher();
    assert!(watcher.block(BlockRef::Height(3)).is_none() && watcher.block(BlockRef::Hash(early)).is_none());
    assert!(watcher.view().is_valid_base(&early), "what stands on it is valid all the same");
    let head = watcher.stats().head_height;
    assert!(head > 80, "{head}");
    assert!(watcher.block(BlockRef::Height(head - 30)).is_some(), "recent ones are there");
    assert!(watcher.block(BlockRef::Height(0)).is_some(), "and genesis");
    net.random_transfers(1, 2, 10);
    net.run(20 * SECOND);
    assert!(!net.watcher().view().is_syncing);
    net.assert_closed();
}
