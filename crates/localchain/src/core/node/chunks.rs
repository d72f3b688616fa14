//! Chunks that no block has yet: bodies, witnesses, re-execution, endorsements.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tpsctl_near::{CryptoHash, PublicKey, Signature};

use super::{Effect, HEIGHTS_AHEAD_MAX, Message, Node, Now};
use crate::core::{
    Assignment, Chunk, Endorsement, Job, Observation, VerifiedTransaction,
    job::Work,
    runtime::ApplyInput,
    signatures::is_signed,
    types::ArcChunk,
    witness::{Basis, Fault, Validation, Witness},
};

/// Witnesses that may wait for a block or a body (nearcore's orphan_state_witness_pool_size); where there are more, the
/// highest goes.
const WITNESSES_MAX: usize = 25;
/// Witnesses and endorsements this far above the head are not kept: until the head is there they are sent in vain.
const NEAR_HEIGHTS_MAX: u64 = 10;
/// Transactions of own chunks are remembered this long, for blocks that leave the chain.
const OWN_KEPT: u64 = 20;
/// Endorsements, and chunks without a body, go to the producers of so many heights (stateless_validation/chunk_validator/mod.rs:16).
const PRODUCERS_AHEAD: u64 = 5;

#[derive(Debug, Default)]
pub(super) struct ChunkStore {
    chunks: BTreeMap<CryptoHash, ArcChunk>,
    /// The chunk of a shard on a block.
    by_parent: BTreeMap<(CryptoHash, usize), CryptoHash>,
    endorsements: BTreeMap<CryptoHash, (u64, BTreeMap<usize, Signature>)>,
    /// By height and chunk.
    witnesses: BTreeMap<(u64, CryptoHash), Arc<Witness>>,
    /// Chunks whose validation began.
    validated: BTreeMap<CryptoHash, u64>,
    own: BTreeMap<CryptoHash, (u64, Vec<Arc<VerifiedTransaction>>)>,
    /// Validators of heights by shard, dealt once.
    assigned: BTreeMap<u64, Vec<Arc<BTreeMap<usize, u128>>>>,
}

impl ChunkStore {
    /// Whether this chunk with this signature is kept, and so was checked.
    pub(super) fn has(&self, chunk: &CryptoHash, signature: &Signature) -> bool {
        self.chunks.get(chunk).is_some_and(|own| own.signed().signature == *signature)
    }

    pub(super) fn is_own(&self, chunk: &CryptoHash) -> bool {
        self.own.contains_key(chunk)
    }

    /// Transactions of a chunk that this node produced.
    pub(super) fn own(&self, chunk: &CryptoHash) -> &[Arc<VerifiedTransaction>] {
        self.own.get(chunk).map_or(&[], |(_, transactions)| transactions)
    }

    /// Transactions of the chunk that this node produced for a shard on a block.
    pub(super) fn own_on(&self, parent: &CryptoHash, shard: usize) -> &[Arc<VerifiedTransaction>] {
        self.by_parent.get(&(*parent, shard)).map_or(&[], |chunk| self.own(chunk))
    }

    pub(super) fn remember_own(&mut self, chunk: &ArcChunk, transactions: Vec<Arc<VerifiedTransaction>>) {
        self.own.insert(chunk.hash(), (chunk.header().height_created, transactions));
    }

    /// Forgets what only blocks below the next height could need.
    pub(super) fn forget_below(&mut self, head_height: u64) {
        self.chunks.retain(|_, chunk| chunk.header().height_created >= head_height);
        let chunks = &self.chunks;
        self.by_parent.retain(|_, hash| chunks.contains_key(hash));
        self.endorsements.retain(|_, (height, _)| *height > head_height);
        self.witnesses.retain(|(height, _), _| *height > head_height);
        self.validated.retain(|_, height| *height > head_height);
        self.assigned.retain(|height, _| *height > head_height);
        self.own.retain(|_, (height, _)| *height + OWN_KEPT > head_height);
    }
}

/// A shard's chunk on the head, as its block producer sees it.
pub(super) enum Readiness {
    Unavailable,
    Unendorsed,
    /// With the bitmap of its endorsements.
    Ready(ArcChunk, Vec<u8>),
}

impl Node {
    /// A chunk's body, from wherever it is.
    pub(super) fn chunk(&self, hash: &CryptoHash) -> Option<ArcChunk> {
        self.chunks.chunks.get(hash).or_else(|| self.chain.chunk(hash)).cloned()
    }

    pub(super) fn chunk_validators(&mut self, height: u64, shard: usize) -> Arc<BTreeMap<usize, u128>> {
        let deal = || self.assignment.deal(height).into_iter().map(Arc::new).collect();
        Arc::clone(&self.chunks.assigned.entry(height).or_insert_with(deal)[shard])
    }

    /// Keeps a body if its producer signed it. Those of old blocks are kept by the blocks that wait for them.
    pub(super) fn keep_chunk(&mut self, chunk: &ArcChunk) -> bool {
        let header = chunk.header();
        let head = self.chain.head().height();
        let is_near = header.height_created > self.chain.genesis().height()
            && header.height_created <= head + HEIGHTS_AHEAD_MAX;
        let Some(shard) = self.settings.genesis.layout.index_of_id(header.shard_id) else { return false };
        if !is_near || self.chunks.chunks.contains_key(&chunk.hash()) {
            return is_near;
        }
        let key = self.chunk_key(header.height_created, shard);
        if !is_signed(key, chunk.hash(), &chunk.signed().signature) {
            return false;
        }
        if header.height_created >= head {
            self.chunks.by_parent.insert((header.prev_block_hash, shard), chunk.hash());
            self.chunks.chunks.insert(chunk.hash(), Arc::clone(chunk));
        }
        true
    }

    pub(super) fn on_chunk(&mut self, chunk: &ArcChunk, from: Option<PublicKey>, now: Now) {
        let was_known = self.chunks.chunks.contains_key(&chunk.hash());
        if self.keep_chunk(chunk) {
            if !was_known && self.chunks.chunks.contains_key(&chunk.hash()) {
                self.pass_chunk_on(chunk, from);
            }
            self.fill_missing(chunk, now);
            self.start_validation(&chunk.hash());
        }
    }

    /// The key of the producer of a shard's chunk.
    pub(super) fn chunk_key(&self, height: u64, shard: usize) -> &PublicKey {
        &self.assignment.validators()[self.assignment.chunk_producer(height, shard)].public_key
    }

    /// Keeps a witness that this node is to validate, if all of it is signed by the chunk's producer.
    pub(super) fn on_witness(&mut self, witness: Arc<Witness>) {
        let header = &witness.signed.header;
        let (height, chunk, head) = (header.height_created, header.hash(), self.chain.head().height());
        let Some(me) = self.me.as_ref().map(|me| me.index) else { return };
        let Some(shard) = self.settings.genesis.layout.index_of_id(header.shard_id) else { return };
        let is_near = height > head && height <= head + NEAR_HEIGHTS_MAX;
        let is_known = self.chunks.witnesses.contains_key(&(height, chunk))
            || self.chunks.validated.contains_key(&chunk);
        if !is_near || is_known || !self.chunk_validators(height, shard).contains_key(&me) {
            return;
        }
        if !witness.is_signed(self.chunk_key(height, shard)) {
            return;
        }
        if let Some(empty) = Chunk::empty(witness.signed.clone(), self.tracked.len()) {
            self.keep_chunk(&Arc::new(empty));
        }
        self.chunks.witnesses.insert((height, chunk), witness);
        if self.chunks.witnesses.len() > WITNESSES_MAX {
            self.chunks.witnesses.pop_last();
        }
        self.start_validation(&chunk);
    }

    /// Witnesses that waited for the block that is now the head.
    pub(super) fn start_validations(&mut self) {
        let waiting: Vec<CryptoHash> = self.chunks.witnesses.keys().map(|(_, chunk)| *chunk).collect();
        for chunk in waiting {
            self.start_validation(&chunk);
        }
    }

    /// Re-executes what a chunk claims, once its witness, its body and the block under it are there.
    fn start_validation(&mut self, hash: &CryptoHash) {
        let Some(chunk) = self.chunks.chunks.get(hash).cloned() else { return };
        let name = (chunk.header().height_created, *hash);
        let Some(witness) = self.chunks.witnesses.get(&name).cloned() else { return };
        let Some(me) = self.me.as_ref().map(|me| me.index) else { return };
        let (height, parent) = (chunk.header().height_created, chunk.header().prev_block_hash);
        let Some(shard) = self.settings.genesis.layout.index_of_id(chunk.header().shard_id) else { return };
        // Only chunks on the head can still be included.
        if parent != self.chain.head().hash() || self.chunks.validated.contains_key(hash) {
            return;
        }
        self.chunks.witnesses.remove(&name);
        if !self.chunk_validators(height, shard).contains_key(&me) {
            return;
        }
        let Some(basis) = self.basis(&parent, shard) else {
            tracing::warn!(height, shard, "cannot validate a chunk: what it builds on is gone");
            return;
        };
        self.chunks.validated.insert(*hash, height);
        let signatures = Arc::clone(&self.view.signatures);
        let validation = Box::new(Validation { shard, witness, chunk, basis, signatures });
        self.effects.push(Effect::Run(Job(Work::Validate(validation))));
    }

    /// What a chunk on `parent` is checked against.
    fn basis(&self, parent: &CryptoHash, shard: usize) -> Option<Basis> {
        let tip = self.chain.get(parent)?;
        let last = &tip.block.header.chunks[shard];
        if last.height_included == self.chain.genesis().height() {
            return Some(Basis::Genesis(last.signed.header.prev_state_root));
        }
        if let Some(entry) = &tip.shards[shard] {
            return Some(Basis::Known(entry.clone()));
        }
        let source = self.chain.last_with_chunk(parent, shard)?;
        let header = &source.block.header;
        let input = ApplyInput {
            layout: Arc::clone(&self.settings.genesis.layout),
            shard,
            height: header.height,
            gas_price: header.gas_price,
            gas_limit: self.settings.genesis.gas_limit,
            chunk: source.chunks[shard].clone()?,
            incoming: self.chain.incoming(header, &source.chunks, shard)?,
            watch: Arc::default(),
            wants_keys: false,
        };
        Some(Basis::Execute { pre_root: last.signed.header.prev_state_root, input })
    }

    pub(super) fn on_validated(&mut self, hash: CryptoHash, shard: usize, verdict: Result<(), Fault>) {
        let Some(chunk) = self.chunks.chunks.get(&hash).cloned() else { return };
        if let Err(fault) = verdict {
            self.stats.invalid_witness(shard, fault.label());
            let (shard_id, height) = (chunk.header().shard_id, chunk.header().height_created);
            tracing::warn!(shard_id, height, %fault, "did not endorse a chunk");
            return;
        }
        self.endorse(&chunk);
    }

    /// Who may have to put a chunk of this height into a block.
    pub(super) fn next_producers(&self, height: u64) -> BTreeSet<usize> {
        (height..height + PRODUCERS_AHEAD).map(|height| self.assignment.block_producer(height)).collect()
    }

    /// Signs an endorsement and sends it to the next block producers.
    pub(super) fn endorse(&mut self, chunk: &ArcChunk) {
        let Some(me) = &self.me else { return };
        let endorsement = Endorsement {
            chunk_hash: chunk.hash(),
            shard_id: chunk.header().shard_id,
            height_created: chunk.header().height_created,
            validator: me.index as u32,
            signature: me.key.sign(&Endorsement::message(chunk.hash()).0),
        };
        let index = me.index;
        for producer in self.next_producers(endorsement.height_created) {
            if producer == index {
                self.keep_endorsement(&endorsement);
            } else {
                self.send_to(producer, &Message::Endorsement(endorsement.clone()));
            }
        }
    }

    pub(super) fn on_endorsement(&mut self, endorsement: &Endorsement) {
        let height = endorsement.height_created;
        let head = self.chain.head().height();
        let Some(shard) = self.settings.genesis.layout.index_of_id(endorsement.shard_id) else { return };
        if self.me.is_none() || height <= head || height > head + NEAR_HEIGHTS_MAX {
            return;
        }
        let index = endorsement.validator as usize;
        let Some(validator) = self.assignment.validators().get(index) else { return };
        let message = Endorsement::message(endorsement.chunk_hash);
        // First the signature: the deal of the height is remembered, and that is not for strangers to bring about.
        if is_signed(&validator.public_key, message, &endorsement.signature)
            && self.chunk_validators(height, shard).contains_key(&index)
        {
            self.keep_endorsement(endorsement);
        }
    }

    fn keep_endorsement(&mut self, endorsement: &Endorsement) {
        let new = || (endorsement.height_created, BTreeMap::new());
        let (_, all) = self.chunks.endorsements.entry(endorsement.chunk_hash).or_insert_with(new);
        let is_new = all.insert(endorsement.validator as usize, endorsement.signature).is_none();
        if let Some(shard) = self.settings.genesis.layout.index_of_id(endorsement.shard_id) {
            self.stats.shards[shard].endorsements += u64::from(is_new);
        }
    }

    /// Notes how much of what it needs the shard's chunk on the head has, if there is one, when a block is made
    /// (chain/client/src/chunk_inclusion_tracker.rs).
    pub(super) fn observe_endorsements(&mut self, shard: usize) {
        let head = self.chain.head();
        let (parent, height) = (head.hash(), head.height() + 1);
        let Some(chunk) = self.chunks.by_parent.get(&(parent, shard)).copied() else { return };
        let assigned = self.chunk_validators(height, shard);
        let given = self.chunks.endorsements.get(&chunk).map(|(_, given)| given);
        let has = |index: &usize| given.is_some_and(|given| given.contains_key(index));
        let total: u128 = assigned.values().sum();
        let endorsed = assigned.iter().filter(|(index, _)| has(index)).map(|(_, stake)| stake).sum();
        let missing = assigned.keys().filter(|index| !has(index)).count() as u64;
        if total > 0 {
            self.observe(Observation::Endorsed { shard, endorsed, total, missing });
        }
    }

    /// Whether the shard's chunk on the head may go into a block.
    pub(super) fn readiness(&mut self, shard: usize) -> Readiness {
        let head = self.chain.head();
        let (parent, height) = (head.hash(), head.height() + 1);
        let chunk = self.chunks.by_parent.get(&(parent, shard));
        let Some(chunk) = chunk.and_then(|hash| self.chunks.chunks.get(hash)).cloned() else {
            return Readiness::Unavailable;
        };
        let assigned = self.chunk_validators(height, shard);
        let none = BTreeMap::new();
        let given = self.chunks.endorsements.get(&chunk.hash()).map_or(&none, |(_, given)| given);
        if !Assignment::is_endorsed(&assigned, |index| given.contains_key(&index)) {
            return Readiness::Unendorsed;
        }
        let mut bitmap = vec![0_u8; self.assignment.validators().len().div_ceil(8)];
        for index in given.keys().filter(|index| assigned.contains_key(index)) {
            bitmap[index / 8] |= 1 << (index % 8);
        }
        Readiness::Ready(chunk, bitmap)
    }
}

/// What is kept, for the test of bounds: names and numbers.
#[cfg(test)]
impl ChunkStore {
    pub(super) fn kept(&self) -> [(&'static str, usize); 7] {
        [
            ("chunks", self.chunks.len()),
            ("chunks by parent", self.by_parent.len()),
            ("endorsed chunks", self.endorsements.len()),
            ("witnesses", self.witnesses.len()),
            ("validated", self.validated.len()),
            ("own chunks", self.own.len()),
            ("deals", self.assigned.len()),
        ]
    }
}
