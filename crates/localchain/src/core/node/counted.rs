//! What the node counts of the chain's blocks.

use std::sync::Arc;

use tpsctl_near::CryptoHash;

use super::Node;
use crate::core::{
    chain::HeadChange,
    tally::{EpochTally, Roles},
    types::ArcBlock,
};

impl Node {
    /// What validators produced and what was expected of them in the epoch of the head.
    pub fn tally(&self) -> &EpochTally {
        self.tallies.running()
    }

    /// Follows the chain to its new head; blocks that left it come last first.
    pub(super) fn tally_blocks(&mut self, change: &HeadChange) {
        let block = |hash: &CryptoHash| self.chain.get(hash).map(|entry| Arc::clone(&entry.block));
        let mut left: Vec<ArcBlock> = change.left.iter().filter_map(block).collect();
        left.sort_unstable_by_key(|block| std::cmp::Reverse(block.height()));
        let joined: Vec<ArcBlock> = change.joined.iter().filter_map(block).collect();
        for (blocks, is_joining) in [(left, false), (joined, true)] {
            for block in blocks {
                let expected_at = block.header.prev_height + 1;
                let shards = 0..self.tracked.len();
                let chunk_validators =
                    shards.map(|shard| self.chunk_validators(expected_at, shard)).collect();
                let roles = Roles { assignment: &self.assignment, chunk_validators };
                if is_joining {
                    self.tallies.join(&block, &roles);
                } else {
                    self.tallies.leave(&block, &roles);
                }
            }
        }
    }
}
