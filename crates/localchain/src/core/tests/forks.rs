//! A block that only its author sees: it leaves the chain, and what was in it must come back.

use std::time::Duration;

use super::fixture::{Net, genesis, transfer, user};
use crate::core::{BlockRef, Limits, Message, Observation};

const SECOND: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(10);
const USERS: usize = 10;

/// A height at which `node0` makes the block, and a shard whose chunk there only it makes and endorses.
fn lonely(net: &Net) -> (u64, usize) {
    let assignment = net.node(0).assignment();
    let me = assignment.index_of(net.node(0).account().expect("a validator")).expect("known");
    let is_lonely = |height: u64, shard: usize| {
        assignment.block_producer(height) == me
            && assignment.block_producer(height + 1) != me
            && assignment.producers(shard) == [me]
            && assignment.deal(height)[shard].keys().eq([&me])
    };
    let places = (12..1_000).flat_map(|height| (0..4).map(move |shard| (height, shard)));
    places.into_iter().find(|(height, shard)| is_lonely(*height, *shard)).expect("one of sixteen")
}

fn run_until(net: &mut Net, mut is_so: impl FnMut(&Net) -> bool) {
    for _ in 0..100_000 {
        if is_so(net) {
            return;
        }
        net.run(STEP);
    }
    panic!("it never is so");
}

/// Makes the fork; says at which height. With `hides_chunk` the chunk is in the block that is lost only.
fn fork(net: &mut Net, hides_chunk: bool) -> u64 {
    let (height, _) = lone_block(net, hides_chunk);
    leave(net, height);
    height
}

/// Makes a block that only its author sees; says at which height, and which shard's chunk of it has transfers.
fn lone_block(net: &mut Net, hides_chunk: bool) -> (u64, usize) {
    let (height, shard) = lonely(net);
    run_until(net, |net| net.height(0) == Some(height - 2));
    for turn in 0..30 {
        net.transfer(&user(shard, turn % USERS), &user((shard + 1) % 4, turn % USERS));
    }
    net.cut = Box::new(move |from, _, message| {
        from == 0
            && match message {
                Message::Block(block) => block.height() == height,
                Message::Chunk(chunk) => {
                    hides_chunk
                        && chunk.header().height_created == height
                        && chunk.header().shard_id == shard as u64
                }
                Message::Blocks(_) | Message::Head { .. } => true,
                _ => false,
            }
    });
    run_until(net, |net| net.height(0) == Some(height));
    let head = net.node(0).block(BlockRef::Head).expect("head");
    assert!(head.header.chunk_mask[shard], "its own chunk is in");
    assert!(head.header.chunks[shard].signed.header.encoded_length > 0, "with the transfers");
    let stats = &net.node(0).stats().shards[shard];
    assert_eq!((stats.pool_entries, stats.chunk_transactions), (Some(0), 30));
    (height, shard)
}

/// The block leaves the chain for another.
fn leave(net: &mut Net, height: u64) {
    run_until(net, |net| net.height(0) > Some(height));
    assert!(net.node(0).block(BlockRef::Height(height)).is_none(), "the block left the chain");
    net.cut = Box::new(|_, _, _| false);
}

#[test]
fn what_comes_back_to_a_full_pool_is_dropped_and_counted() {
    let chain = genesis(4, 4, USERS);
    let size = transfer(&user(0, 0), &user(1, 0), 1, chain.block().hash()).size() as u64;
    let limits = Limits { pool_bytes: Some(30 * size), ..Limits::of_chain(&chain) };
    let mut net = Net::with_limits(chain, limits, 40);
    let (height, shard) = lone_block(&mut net, true);
    // Others take the room of those that the block has.
    for turn in 0..30 {
        net.transfer(&user(shard, turn % USERS), &user((shard + 1) % 4, turn % USERS));
    }
    leave(&mut net, height);
    assert_eq!(net.node(0).stats().pool_dropped, 30);
    net.run(20 * SECOND);
    assert_eq!(net.settled(), 30);
    net.assert_closed();
}

#[test]
fn transactions_of_a_lost_block_are_included_later_exactly_once() {
    let mut net = Net::new(genesis(4, 4, USERS), 40);
    let height = fork(&mut net, true);
    net.run(20 * SECOND);
    assert!(net.missed() > 0, "its chunk is in no block");
    assert!(net.watcher().block(BlockRef::Height(height)).is_none());
    assert_eq!(net.settled(), 30);
    net.assert_closed();
    run_until(&mut net, |net| net.height(0) == net.height(1));
    super::tallies::assert_same(&net, 0, 1);
    for turn in 0..USERS {
        let snapshot = net.watcher().snapshot(BlockRef::Head).expect("head");
        let nonces: Vec<u64> = (0..4)
            .filter_map(|shard| snapshot.states[shard].as_ref()?.account(&user(shard, turn)))
            .map(|account| account.keys[0].nonce)
            .collect();
        assert_eq!(nonces.iter().sum::<u64>(), 3, "three transfers of each user of one shard");
    }
}

#[test]
fn a_chunk_that_is_in_both_blocks_leaves_nothing_in_the_pool() {
    let mut net = Net::new(genesis(4, 4, USERS), 40);
    fork(&mut net, false);
    net.run(20 * SECOND);
    assert_eq!(net.missed(), 0, "the same chunk is in the other block");
    assert_eq!(net.settled(), 30);
    net.assert_closed();
    let node = net.slots[0].node.as_mut().expect("running");
    let rejected = |own: &Observation| match own {
        Observation::Rejected { count, .. } => *count,
        _ => 0,
    };
    let rejected: u64 = node.take_observations().iter().map(rejected).sum();
    assert_eq!(rejected, 0, "nothing was offered again");
}
