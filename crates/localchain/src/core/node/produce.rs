//! What this node makes: approvals, blocks, chunks.

use std::{collections::BTreeSet, sync::Arc};

use super::{Effect, Me, Message, Node, Now, Observation, To, chunks::Readiness};
use crate::core::{
    Approval, ApprovalBasis, Block, BlockChunk, BlockHeader, Job,
    chain::child_header,
    job::Work,
    prepare::{Produced, Production},
    types::ArcChunk,
};

/// Candidates offered to a preparation, as a multiple of the bytes that a chunk takes: some may be rejected.
const CANDIDATE_SHARE: u64 = 2;

impl Node {
    pub(super) fn poll_approvals(&mut self, now: Now) {
        let due = self.doomslug.poll(now.elapsed);
        if due.is_skip {
            // Somebody may have missed the head: then nobody else can approve.
            let height = self.chain.head().height();
            self.send(To::All, Message::Head { height });
        }
        for (basis, target) in due.approvals {
            self.approve(basis, target);
        }
    }

    fn approve(&mut self, basis: ApprovalBasis, target_height: u64) {
        let approvers = self.assignment.block_producers().len();
        let Some(Me { index, key, .. }) = self.me.as_ref().filter(|me| me.index < approvers) else { return };
        let signature = key.sign(&Approval::message(basis, target_height).0);
        let approval = Approval { basis, target_height, validator: *index as u32, signature };
        let producer = self.assignment.block_producer(target_height);
        if producer == *index {
            self.doomslug.add(approval);
        } else {
            self.send_to(producer, &Message::Approval(approval));
        }
    }

    pub(super) fn on_approval(&mut self, approval: Approval) {
        let Some(me) = &self.me else { return };
        let approvers = self.assignment.block_producers();
        let Some(validator) = approvers.get(approval.validator as usize) else { return };
        let is_ours = self.assignment.block_producer(approval.target_height) == me.index;
        if is_ours && approval.is_signed(&validator.public_key) {
            self.doomslug.add(approval);
        }
    }

    /// The lowest height above the head that this node may make a block for.
    fn approved_target(&self) -> Option<u64> {
        let me = self.me.as_ref()?.index;
        self.doomslug.targets().find(|target| {
            if *target <= self.largest_made || self.assignment.block_producer(*target) != me {
                return false;
            }
            let by: BTreeSet<usize> =
                self.doomslug.approvals(*target).map(|own| own.validator as usize).collect();
            self.assignment.is_approved(|index| by.contains(&index))
        })
    }

    pub(super) fn make_block_if_due(&mut self, now: Now) {
        let Some(target) = self.approved_target() else { return };
        let head = self.chain.head().hash();
        let since = match self.ready_since {
            Some((height, parent, since)) if (height, parent) == (target, head) => since,
            _ => now.elapsed,
        };
        self.ready_since = Some((target, head, since));
        let chunks: Vec<Readiness> = (0..self.tracked.len()).map(|shard| self.readiness(shard)).collect();
        let is_all = chunks.iter().all(|own| matches!(own, Readiness::Ready(..)));
        if is_all || now.elapsed >= since + self.doomslug.chunk_wait(target) {
            self.ready_since = None;
            self.make_block(target, chunks, now);
        }
    }

    fn make_block(&mut self, height: u64, chunks: Vec<Readiness>, now: Now) {
        for shard in 0..chunks.len() {
            self.observe_endorsements(shard);
        }
        let Some(Me { account, key, .. }) = &self.me else { return };
        let parent = Arc::clone(self.chain.head());
        let mut header = BlockHeader {
            height,
            timestamp_ns: now.unix_ns.max(parent.header.timestamp_ns + 1),
            author: account.clone(),
            chunk_mask: Vec::new(),
            chunks: Vec::new(),
            approvals: vec![None; self.assignment.block_producers().len()],
            endorsements: Vec::new(),
            ..parent.header.clone()
        };
        for (shard, readiness) in chunks.into_iter().enumerate() {
            let stats = &mut self.stats.shards[shard];
            let (chunk, bitmap) = match readiness {
                Readiness::Ready(chunk, bitmap) => {
                    (Some(BlockChunk { signed: chunk.signed().clone(), height_included: height }), bitmap)
                }
                Readiness::Unavailable => {
                    stats.excluded_unavailable += 1;
                    (None, Vec::new())
                }
                Readiness::Unendorsed => {
                    stats.excluded_endorsement += 1;
                    (None, Vec::new())
                }
            };
            header.chunk_mask.push(chunk.is_some());
            header.chunks.push(chunk.unwrap_or_else(|| parent.header.chunks[shard].clone()));
            header.endorsements.push(bitmap);
        }
        for approval in self.doomslug.approvals(height) {
            header.approvals[approval.validator as usize] = Some(approval.signature);
        }
        (header.epoch_id, header.next_epoch_id) = self.epoch_of(&parent, height);
        let block = Arc::new(Block::sign(child_header(&parent, header), key));
        self.largest_made = height;
        self.stats.blocks_made += 1;
        self.send(To::All, Message::Block(Arc::clone(&block)));
        self.begin(&block, None, now);
    }

    /// Begins the chunks on the head of the shards whose turn is this node's.
    pub(super) fn start_chunks(&mut self) {
        let Some(Me { index, key, .. }) = &self.me else { return };
        let (me, key) = (*index, key.clone());
        let head = Arc::clone(self.chain.head());
        let limits = self.settings.limits;
        for (shard, pool) in &self.pools {
            if self.assignment.chunk_producer(head.height() + 1, *shard) != me {
                continue;
            }
            let entry = self.chain.get(&head.hash()).and_then(|entry| entry.shards[*shard].clone());
            let Some(entry) = entry else { continue };
            let candidates = pool.candidates(limits.transactions_bytes as u64 * CANDIDATE_SHARE);
            let production = Production {
                genesis: Arc::clone(&self.settings.genesis),
                limits,
                shard: *shard,
                prev_hash: head.hash(),
                prev_height: head.height(),
                entry,
                known: Arc::clone(self.chain.known()),
                candidates: Arc::new(candidates),
                key: key.clone(),
            };
            self.effects.push(Effect::Run(Job(Work::Produce(Box::new(production)))));
        }
    }

    /// Sends a chunk to every node; one without a body only to the next block producers, since all others can make it of
    /// the header in the block or the witness. Else every idle shard would send to every node at every block.
    fn send_chunk(&mut self, chunk: &ArcChunk) {
        if chunk.header().encoded_length > 0 {
            self.send(To::All, Message::Chunk(Arc::clone(chunk)));
            return;
        }
        let me = self.me.as_ref().map(|me| me.index);
        for producer in self.next_producers(chunk.header().height_created) {
            if Some(producer) != me {
                self.send_to(producer, &Message::Chunk(Arc::clone(chunk)));
            }
        }
    }

    pub(super) fn on_produced(&mut self, produced: Produced, now: Now) {
        let Produced { shard, chunk, witness, used, rejected, limited_by, time } = produced;
        self.observe(Observation::ChunkProduced { shard, time, witness_bytes: witness.bytes() });
        let Some(pool) = self.pools.get_mut(&shard) else { return };
        if let Some(last) = used.last() {
            pool.advance(last.key().group);
        }
        for key in rejected.invalid_tx.iter().chain(&rejected.invalid_block_hash) {
            pool.remove(*key);
        }
        let counts = [
            ("invalid_tx", rejected.invalid_tx.len()),
            ("invalid_block_hash", rejected.invalid_block_hash.len()),
        ];
        for (reason, rejected) in counts.into_iter().chain([("congestion", 0)]) {
            self.observe(Observation::Rejected { shard, reason, count: rejected as u64 });
        }
        self.stats.chunks_made += 1;
        let stats = &mut self.stats.shards[shard];
        stats.chunk_transactions += used.len() as u64;
        *stats.limited_by.entry(limited_by).or_default() += 1;
        if chunk.header().prev_block_hash != self.chain.head().hash() {
            // The chain went on without it: it can never be included.
            return;
        }
        self.chunks.remember_own(&chunk, used);
        self.keep_chunk(&chunk);
        let me = self.me.as_ref().map(|me| me.index);
        let validators = self.chunk_validators(chunk.header().height_created, shard);
        // The witness first: it is what the validators need longest for.
        for validator in validators.keys().filter(|index| Some(**index) != me) {
            self.send_to(*validator, &Message::Witness(Arc::clone(&witness)));
        }
        self.send_chunk(&chunk);
        if me.is_some_and(|me| validators.contains_key(&me)) {
            self.endorse(&chunk);
        }
        self.fill_missing(&chunk, now);
    }
}
