//! Blocks whose parent is not accepted yet.

use std::collections::BTreeMap;

use tpsctl_near::CryptoHash;

use crate::core::types::ArcBlock;

/// Blocks that may wait; a page of a peer that is caught up with has fewer. Only blocks signed by their height's
/// producer and of the chain's shape come here, so this bounds their bytes, too: some kilobytes each.
const ORPHANS_MAX: usize = 200;

/// Orphans by height; where there are too many, the highest goes.
#[derive(Debug, Default)]
pub(super) struct Orphans(BTreeMap<(u64, CryptoHash), ArcBlock>);

impl Orphans {
    pub(super) fn contains(&self, hash: &CryptoHash) -> bool {
        self.0.keys().any(|(_, own)| own == hash)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn keep(&mut self, block: ArcBlock) {
        self.0.insert((block.height(), block.hash()), block);
        if self.0.len() > ORPHANS_MAX {
            self.0.pop_last();
        }
    }

    /// Takes the blocks that waited for this parent.
    pub(super) fn take_children(&mut self, parent: &CryptoHash) -> Vec<ArcBlock> {
        self.0.extract_if(.., |_, block| block.header.prev_hash == *parent).map(|(_, block)| block).collect()
    }

    pub(super) fn forget_below(&mut self, height: u64) {
        self.0 = self.0.split_off(&(height, CryptoHash::default()));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tpsctl_near::KeyPair;

    use super::*;
    use crate::core::{Block, tests::fixture};

    #[test]
    fn the_lowest_stay() {
        let genesis = fixture::genesis(1, 1, 1).block();
        let key = KeyPair::from_seed([1; 32]);
        let block = |height| {
            let header = crate::core::BlockHeader { height, ..genesis.header.clone() };
            Arc::new(Block::sign(header, &key))
        };
        let mut orphans = Orphans::default();
        for height in (1..=2 * ORPHANS_MAX as u64).rev() {
            orphans.keep(block(height));
        }
        assert_eq!(orphans.len(), ORPHANS_MAX);
        assert!(orphans.contains(&block(1).hash()) && !orphans.contains(&block(201).hash()));
        orphans.forget_below(151);
        assert_eq!(orphans.take_children(&genesis.header.prev_hash).len(), 50);
        assert!(orphans.is_empty());
    }
}
