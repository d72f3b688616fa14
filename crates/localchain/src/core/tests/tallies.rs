//! The counts of each epoch against the blocks themselves.

use std::{sync::Arc, time::Duration};

use super::fixture::{Net, genesis};
use crate::core::{Block, BlockRef, EpochTally, Node};

const SECOND: Duration = Duration::from_secs(1);
const VALIDATORS: usize = 4;
const SHARDS: usize = 3;

/// The epoch's counts as the chain's blocks show them.
fn assert_counts(node: &Node, tally: &EpochTally, blocks: &[Arc<Block>]) {
    let own: Vec<&Block> =
        blocks.iter().map(|own| &**own).filter(|own| own.header.epoch_id == tally.epoch_id()).collect();
    let (first, last) = (own.first().expect("a block"), own.last().expect("a block"));
    assert_eq!(tally.start_height(), first.height());
    let validators = node.assignment().validators();
    let sum = |count: &dyn Fn(usize) -> u64| (0..VALIDATORS).map(count).sum::<u64>();
    assert_eq!(sum(&|index| tally.blocks(index).expected), last.height() - first.header.prev_height);
    for (index, validator) in validators.iter().enumerate() {
        let made = own.iter().filter(|block| block.header.author == validator.account_id).count() as u64;
        assert_eq!(tally.blocks(index).produced, made);
        let chunks = own.iter().flat_map(|block| {
            let new = (0..SHARDS).filter(|shard| block.header.chunk_mask[*shard]);
            new.map(|shard| node.assignment().chunk_producer(block.header.prev_height + 1, shard))
        });
        assert_eq!(tally.all_chunks(index).produced, chunks.filter(|by| *by == index).count() as u64);
        let endorsed = own.iter().flat_map(|block| &block.header.endorsements);
        let endorsed = endorsed.filter(|bitmap| bitmap.first().is_some_and(|byte| byte >> index & 1 == 1));
        assert_eq!(tally.all_endorsements(index).produced, endorsed.count() as u64);
    }
    for shard in 0..SHARDS {
        assert_eq!(sum(&|index| tally.chunks(index, shard).expected), own.len() as u64);
        let new = own.iter().filter(|block| block.header.chunk_mask[shard]).count() as u64;
        assert_eq!(sum(&|index| tally.chunks(index, shard).produced), new);
        assert!(sum(&|index| tally.endorsements(index, shard).expected) >= own.len() as u64);
    }
}

#[test]
fn epochs_are_counted_with_skipped_heights_and_missed_chunks() {
    let mut short = genesis(VALIDATORS, SHARDS, 2);
    short.epoch_length = 20;
    let mut net = Net::new(short, 50);
    net.run(8 * SECOND);
    net.stop(2);
    net.run(90 * SECOND);
    let (node, blocks) = (net.watcher(), net.blocks());
    let running = node.tally().clone();
    assert!(running.number() > 2, "{}", running.number());
    assert_counts(node, &running, &blocks);
    let ended: Vec<&EpochTally> = blocks
        .iter()
        .filter_map(|block| node.view().tallies.ended(&block.header.epoch_id))
        .map(|own| &**own)
        .collect();
    assert!(!ended.is_empty());
    for tally in ended {
        assert_counts(node, tally, &blocks);
    }
    let index = node.assignment().index_of(net.node(0).account().expect("a validator")).expect("known");
    let gone = running.blocks((0..VALIDATORS).find(|own| running.blocks(*own).produced == 0).expect("one"));
    let makes_blocks = (0..VALIDATORS).any(|own| running.blocks(own).produced > 0);
    assert!(gone.expected > 0 && makes_blocks && index < VALIDATORS);
    assert_eq!(net.node(0).tally().epoch_id(), running.epoch_id());
}

/// A block that leaves the chain is no longer counted: the node that saw it counts what all others count.
pub(super) fn assert_same(net: &Net, one: usize, other: usize) {
    let head = |index: usize| net.node(index).block(BlockRef::Head).expect("head").hash();
    assert_eq!(head(one), head(other));
    assert_eq!(net.node(one).tally(), net.node(other).tally());
}
