//! Own chunks that a block left out: was it for their transactions?

use std::sync::Arc;

use super::{Effect, Node, Observation};
use crate::core::{Job, chain::HeadChange, job::Work, recheck::Recheck, types::TxKey};

impl Node {
    /// Checks the transactions of own chunks once more that new blocks of the chain left out.
    pub(super) fn recheck_left_out(&mut self, change: &HeadChange) {
        for entry in change.joined.iter().filter_map(|hash| self.chain.get(hash)) {
            let header = &entry.block.header;
            for shard in self.pools.keys().copied().filter(|shard| !header.chunk_mask[*shard]) {
                let transactions = self.chunks.own_on(&header.prev_hash, shard);
                if transactions.is_empty() {
                    continue;
                }
                let (transactions, signatures) = (transactions.to_vec(), Arc::clone(&self.view.signatures));
                let recheck = Recheck { shard, transactions, signatures };
                self.effects.push(Effect::Run(Job(Work::Recheck(recheck))));
            }
        }
    }

    pub(super) fn on_rechecked(&mut self, shard: usize, refused: &[TxKey]) {
        let Some(pool) = self.pools.get_mut(&shard).filter(|_| !refused.is_empty()) else { return };
        for key in refused {
            pool.remove(*key);
        }
        let count = refused.len() as u64;
        tracing::error!(shard, count, "dropped transactions for which validators refuse the chunk");
        self.observe(Observation::Rejected { shard, reason: "invalid_tx", count });
    }
}
