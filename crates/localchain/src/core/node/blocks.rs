//! What happens to a block: checked against its parent, completed with bodies, applied, accepted, perhaps the head.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
    sync::Arc,
    time::Duration,
};

use tpsctl_near::{CryptoHash, PublicKey, Signature};

use super::{Effect, HEIGHTS_AHEAD_MAX, Message, Node, Now, To};
use crate::core::{
    Approval, Assignment, Block, BlockRef, Chunk, Job, Observation, Place, Settings, SignedChunkHeader, View,
    chain::{Chain, ChunkResult, Entry, HeadChange, ShardEntry, child_header},
    job::Work,
    pool::{Insertion, Pool},
    runtime::{ApplyInput, Outcome},
    signatures::{Claim, Signatures, is_signed},
    state::ShardState,
    tally::Tallies,
    types::{ArcBlock, ArcChunk, TxKey},
};

/// A block on its way to being accepted.
#[derive(Debug)]
pub(super) struct Processing {
    block: ArcBlock,
    chunks: Vec<Option<ArcChunk>>,
    pub(super) missing: BTreeSet<CryptoHash>,
    pub(super) asked_at: Duration,
    shards: Vec<Option<ShardEntry>>,
    /// Pool keys of other producers' transactions, by shard.
    included: Vec<(usize, TxKey)>,
    jobs: usize,
    /// When all of it was there.
    complete_at: Duration,
}

/// Why a block is not accepted, in words for the log.
type Fault = &'static str;

fn ensure(is_right: bool, fault: Fault) -> Result<(), Fault> {
    if is_right { Ok(()) } else { Err(fault) }
}

impl Node {
    /// Takes a block that a peer sent. Says whether it is of use: not accepted before, and no fault found so far.
    pub(super) fn on_block(&mut self, block: &ArcBlock, from: PublicKey, now: Now) -> bool {
        let (hash, height, parent) = (block.hash(), block.height(), block.header.prev_hash);
        self.heard(&from, height, now);
        let is_near =
            height > self.chain.final_height() && height <= self.chain.head().height() + HEIGHTS_AHEAD_MAX;
        if !is_near || self.chain.get(&hash).is_some() {
            return false;
        }
        if self.processing.contains_key(&hash) || self.orphans.contains(&hash) {
            return true;
        }
        if self.chain.get(&parent).is_some() {
            return self.begin(block, Some(from), now);
        }
        if let Err(fault) = self.check_author(block) {
            tracing::debug!(height, author = %block.header.author, fault, "refused a block");
            return false;
        }
        let is_parent_coming = self.processing.contains_key(&parent) || self.orphans.contains(&parent);
        self.orphans.keep(Arc::clone(block));
        if !is_parent_coming {
            self.ask_for_blocks(Some(from), now);
        }
        true
    }

    /// Starts on a block whose parent is accepted. Says whether it may become a block of the chain.
    pub(super) fn begin(&mut self, block: &ArcBlock, from: Option<PublicKey>, now: Now) -> bool {
        let hash = block.hash();
        if self.processing.contains_key(&hash) || self.chain.get(&hash).is_some() {
            return true;
        }
        let sender = from;
        // Others than validators may send what they like; that is not worth a warning.
        let from = from.filter(|peer| self.sync.is_validator(peer));
        if let Err(fault) = self.check_block(block) {
            let (height, author) = (block.height(), &block.header.author);
            if from.is_some() {
                tracing::warn!(height, %author, fault, "refused a block");
            } else {
                tracing::debug!(height, %author, fault, "refused a block");
            }
            return false;
        }
        self.pass_block_on(block, sender);
        let mut processing = Processing {
            block: Arc::clone(block),
            chunks: vec![None; self.tracked.len()],
            missing: BTreeSet::new(),
            asked_at: now.elapsed,
            shards: vec![None; self.tracked.len()],
            included: Vec::new(),
            jobs: 0,
            complete_at: now.elapsed,
        };
        for (shard, is_new) in block.header.chunk_mask.iter().enumerate() {
            if *is_new {
                let signed = &block.header.chunks[shard].signed;
                let chunk_hash = signed.header.hash();
                let empty = || Chunk::empty(signed.clone(), self.tracked.len()).map(Arc::new);
                processing.chunks[shard] = self.chunk(&chunk_hash).or_else(empty);
                if processing.chunks[shard].is_none() {
                    processing.missing.insert(chunk_hash);
                }
            }
        }
        for chunk_hash in processing.missing.clone() {
            let to = from.map_or(To::Validators, To::Peer);
            self.send(to, Message::ChunkRequest { chunk_hash });
        }
        let is_complete = processing.missing.is_empty();
        self.processing.insert(hash, processing);
        if is_complete {
            self.apply(hash, now);
        }
        true
    }

    /// What can be checked without the parent: the chain's shape, and the signature of the height's producer. What
    /// passes is of bounded size.
    fn check_author(&self, block: &Block) -> Result<(), Fault> {
        let header = &block.header;
        let validators = self.assignment.validators();
        let is_sized = [header.chunk_mask.len(), header.chunks.len(), header.endorsements.len()];
        ensure(is_sized == [self.tracked.len(); 3], "it has another number of shards")?;
        let approvers = self.assignment.block_producers().len();
        ensure(header.approvals.len() == approvers, "it has another number of block producers")?;
        let bitmap_max = validators.len().div_ceil(8);
        let is_short = header.endorsements.iter().all(|bitmap| bitmap.len() <= bitmap_max);
        ensure(is_short, "it has endorsements of more validators than there are")?;
        let author = &validators[self.assignment.block_producer(header.height)];
        ensure(author.account_id == header.author, "its author is not its height's")?;
        let is_signed = is_signed(&author.public_key, block.hash(), &block.signature);
        ensure(is_signed, "it is not signed by its author")
    }

    fn check_block(&self, block: &Block) -> Result<(), Fault> {
        let header = &block.header;
        let parent = &self.chain.get(&header.prev_hash).ok_or("its parent is unknown")?.block;
        ensure(header.height > parent.height(), "its height does not rise")?;
        ensure(header.timestamp_ns > parent.header.timestamp_ns, "its time does not rise")?;
        self.check_author(block)?;
        let (epoch_id, next_epoch_id) = self.epoch_of(parent, header.height);
        let expected = crate::core::BlockHeader { epoch_id, next_epoch_id, ..header.clone() };
        ensure(*header == child_header(parent, expected), "its header does not follow from its parent")?;
        let assigned = self.assignment.deal(header.prev_height + 1);
        for (shard, assigned) in assigned.iter().enumerate() {
            self.check_block_chunk(block, parent, (shard, assigned))?;
        }
        self.check_signatures(block)
    }

    /// Checks the approvals and the signatures of new chunks together. Those of chunks that are here were checked.
    fn check_signatures(&self, block: &Block) -> Result<(), Fault> {
        let header = &block.header;
        let basis = Approval::basis_for(header.height, header.prev_height, header.prev_hash);
        let message = Approval::message(basis, header.height);
        let validators = self.assignment.validators();
        let given = header.approvals.iter().enumerate();
        let given: Vec<(usize, &Signature)> =
            given.filter_map(|(index, own)| Some((index, own.as_ref()?))).collect();
        let approvals = given.iter().map(|(index, signature)| Claim {
            key: &validators[*index].public_key,
            message,
            signature,
        });
        let mut claims: Vec<Claim<'_>> = approvals.collect();
        for (shard, chunk) in header.chunks.iter().enumerate().filter(|(shard, _)| header.chunk_mask[*shard])
        {
            let SignedChunkHeader { header, signature } = &chunk.signed;
            let message = header.hash();
            if !self.chunks.has(&message, signature) {
                claims.push(Claim { key: self.chunk_key(header.height_created, shard), message, signature });
            }
        }
        let verdicts = self.view.signatures.check(&claims);
        let (approvals, chunks) = verdicts.split_at(given.len());
        ensure(chunks.iter().all(|is_signed| *is_signed), "a chunk is not signed by its producer")?;
        let by = given.iter().zip(approvals).filter(|(_, is_signed)| **is_signed);
        let by: BTreeSet<usize> = by.map(|((index, _), _)| *index).collect();
        ensure(self.assignment.is_approved(|index| by.contains(&index)), "it lacks approvals")
    }

    fn check_block_chunk(
        &self,
        block: &Block,
        parent: &Block,
        (shard, assigned): (usize, &BTreeMap<usize, u128>),
    ) -> Result<(), Fault> {
        let own = &block.header.chunks[shard];
        if !block.header.chunk_mask[shard] {
            return ensure(*own == parent.header.chunks[shard], "a missed chunk is not the last one again");
        }
        ensure(own.height_included == block.height(), "a new chunk is said to be old")?;
        let header = &own.signed.header;
        ensure(header.prev_block_hash == parent.hash(), "a chunk builds on another block")?;
        ensure(
            header.shard_id == self.settings.genesis.layout.shard_ids()[shard],
            "a chunk is another shard's",
        )?;
        ensure(header.height_created == parent.height() + 1, "a chunk is of another height")?;
        ensure(header.gas_limit == self.settings.genesis.gas_limit, "a chunk has another gas limit")?;
        let bitmap = &block.header.endorsements[shard];
        let by = |index: usize| bitmap.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
        ensure(Assignment::is_endorsed(assigned, by), "a chunk lacks endorsements")
    }

    /// Epoch and next epoch of a block at `height` on `parent`. Epochs begin at fixed heights here.
    pub(super) fn epoch_of(&self, parent: &Block, height: u64) -> (CryptoHash, CryptoHash) {
        let genesis = &self.settings.genesis;
        let number = |height: u64| height.saturating_sub(genesis.height + 1) / genesis.epoch_length.max(1);
        if number(height) == number(parent.height()) {
            (parent.header.epoch_id, parent.header.next_epoch_id)
        } else {
            (parent.header.next_epoch_id, parent.hash())
        }
    }

    /// A body came that blocks may wait for.
    pub(super) fn fill_missing(&mut self, chunk: &ArcChunk, now: Now) {
        let hash = chunk.hash();
        let mut complete = Vec::new();
        for (block, processing) in &mut self.processing {
            if !processing.missing.remove(&hash) {
                continue;
            }
            for (shard, own) in processing.block.header.chunks.iter().enumerate() {
                if processing.block.header.chunk_mask[shard] && own.signed.header.hash() == hash {
                    processing.chunks[shard] = Some(Arc::clone(chunk));
                }
            }
            if processing.missing.is_empty() {
                complete.push(*block);
            }
        }
        for block in complete {
            self.apply(block, now);
        }
    }

    pub(super) fn ask_for_missing(&mut self, now: Now) {
        let mut asked = Vec::new();
        for processing in self.processing.values_mut() {
            let is_due = now.elapsed >= processing.asked_at + self.settings.timing.retry_period;
            if !processing.missing.is_empty() && is_due {
                processing.asked_at = now.elapsed;
                asked.extend(processing.missing.iter().copied());
            }
        }
        for chunk_hash in asked {
            self.send(To::Validators, Message::ChunkRequest { chunk_hash });
        }
    }

    /// Applies the new chunks of tracked shards: a job each.
    fn apply(&mut self, hash: CryptoHash, now: Now) {
        let Some(mut processing) = self.processing.remove(&hash) else { return };
        processing.complete_at = now.elapsed;
        match self.apply_jobs(&mut processing) {
            Ok(jobs) if jobs.is_empty() => self.accept(processing, now),
            Ok(jobs) => {
                processing.jobs = jobs.len();
                self.processing.insert(hash, processing);
                for job in jobs {
                    self.effects.push(Effect::Run(Job(job)));
                }
            }
            Err(fault) => tracing::error!(height = processing.block.height(), fault, "cannot apply a block"),
        }
    }

    fn apply_jobs(&self, processing: &mut Processing) -> Result<Vec<Work>, Fault> {
        let header = &processing.block.header;
        let parent = self.chain.get(&header.prev_hash).ok_or("its parent is gone")?;
        let mut jobs = Vec::new();
        for shard in (0..self.tracked.len()).filter(|shard| self.tracked[*shard]) {
            let before = parent.shards[shard].as_ref().ok_or("the state before it is gone")?;
            if !header.chunk_mask[shard] {
                processing.shards[shard] = Some(before.clone());
                continue;
            }
            let chunk = processing.chunks[shard].clone().ok_or("a body is missing")?;
            ensure(chunk.header().prev_state_root == before.state.root(), "a chunk's state is not ours")?;
            let incoming = self.chain.incoming(header, &processing.chunks, shard);
            let input = ApplyInput {
                layout: Arc::clone(&self.settings.genesis.layout),
                shard,
                height: header.height,
                gas_price: header.gas_price,
                gas_limit: self.settings.genesis.gas_limit,
                incoming: incoming.ok_or("receipts that it applies are gone")?,
                watch: Arc::clone(self.outcomes.watch()),
                wants_keys: self.pools.contains_key(&shard) && !self.chunks.is_own(&chunk.hash()),
                chunk,
            };
            jobs.push(Work::Apply { block: processing.block.hash(), pre: Arc::clone(&before.state), input });
        }
        Ok(jobs)
    }

    pub(super) fn on_applied(
        &mut self,
        block: CryptoHash,
        shard: usize,
        (pre, outcome): (Arc<ShardState>, Option<Box<Outcome>>),
        now: Now,
    ) {
        let Some(mut processing) = self.processing.remove(&block) else { return };
        let Some(outcome) = outcome else {
            tracing::error!(
                height = processing.block.height(),
                "cannot apply a block: the state is not whole"
            );
            return;
        };
        self.stats.executed(shard, &outcome.executed());
        let place = Place { height: processing.block.height(), hash: block };
        self.outcomes.note(place, outcome.steps);
        processing.included.extend(outcome.keys.into_iter().map(|key| (shard, key)));
        let result = ChunkResult {
            pre,
            gas_used: outcome.gas_used,
            balance_burnt: outcome.balance_burnt,
            outgoing: outcome.outgoing,
            receipts_root: outcome.receipts_root,
            touched: outcome.touched,
        };
        processing.shards[shard] =
            Some(ShardEntry { state: Arc::new(outcome.post), result: Some(Arc::new(result)) });
        processing.jobs -= 1;
        if processing.jobs == 0 {
            self.accept(processing, now);
        } else {
            self.processing.insert(block, processing);
        }
    }

    fn accept(&mut self, processing: Processing, now: Now) {
        let hash = processing.block.hash();
        let Processing { block, chunks, shards, included, complete_at, .. } = processing;
        self.count_block(&block);
        self.observe(Observation::BlockProcessed { time: now.elapsed.saturating_sub(complete_at) });
        if !self.is_behind() {
            self.effects.push(Effect::Accepted(Arc::clone(&block)));
        }
        if let Some(change) = self.chain.insert(Entry { block, chunks, shards }) {
            for (shard, key) in included {
                if let Some(pool) = self.pools.get_mut(&shard) {
                    pool.remove(key);
                }
            }
            self.on_new_head(&change, now);
        }
        self.unblocked.extend(self.orphans.take_children(&hash));
    }

    /// Every accepted block counts once, whether it stays on the chain or not (chain/client/src/client_actor.rs:1569-1586).
    fn count_block(&mut self, block: &Block) {
        self.stats.blocks += 1;
        for (shard, is_new) in block.header.chunk_mask.iter().enumerate() {
            if *is_new {
                self.stats.chunks += 1;
                self.stats.gas_used += block.header.chunks[shard].signed.header.prev_gas_used;
            } else {
                self.stats.shards[shard].skipped += 1;
            }
        }
    }

    fn on_new_head(&mut self, change: &HeadChange, now: Now) {
        self.tally_blocks(change);
        self.settle_pools(change);
        self.recheck_left_out(change);
        self.chain.prune(&self.settings.limits);
        let head = Arc::clone(self.chain.head());
        let final_height = self.chain.final_height();
        self.doomslug.set_tip(now.elapsed, (head.height(), head.hash()), final_height);
        self.chunks.forget_below(head.height());
        self.orphans.forget_below(head.height());
        self.ready_since = None;
        self.sync.progressed(now);
        self.renew_view();
        self.start_validations();
        if !self.is_behind() {
            self.start_chunks();
        }
    }

    /// Transactions of this node's chunks go back to the pools with a block that leaves the chain, and out of them with
    /// one that joins it. Leaving comes first: both may hold the same chunk.
    fn settle_pools(&mut self, change: &HeadChange) {
        for (hashes, is_back) in [(&change.left, true), (&change.joined, false)] {
            for entry in hashes.iter().filter_map(|hash| self.chain.get(hash)) {
                for (shard, chunk) in entry.chunks.iter().enumerate() {
                    let (Some(chunk), Some(pool)) = (chunk, self.pools.get_mut(&shard)) else { continue };
                    for transaction in self.chunks.own(&chunk.hash()) {
                        if is_back {
                            let insertion = pool.insert(Arc::clone(transaction));
                            self.stats.pool_dropped += u64::from(insertion == Insertion::NoSpaceLeft);
                        } else {
                            pool.remove(transaction.key());
                        }
                    }
                }
            }
        }
    }

    pub(super) fn renew_view(&mut self) {
        let kept = (self.is_behind(), self.tallies.clone(), Arc::clone(&self.view.signatures));
        let view = Self::make_view(&self.settings, &self.chain, &self.assignment, &self.pools, kept);
        self.view = Arc::new(view);
        self.is_view_new = true;
    }
}

/// The picture of the chain at its head.
impl Node {
    pub(super) fn make_view(
        settings: &Settings,
        chain: &Chain,
        assignment: &Assignment,
        pools: &std::collections::BTreeMap<usize, Pool>,
        (is_syncing, tallies, signatures): (bool, Tallies, Arc<Signatures>),
    ) -> View {
        let shards = settings.tracked.len();
        let head = chain.head();
        let empty = || crate::core::Snapshot { block: Arc::clone(head), states: vec![None; shards] };
        let snapshot = |at| chain.snapshot(at).unwrap_or_else(empty);
        let next = |shard| {
            let first = assignment.chunk_producer(head.height() + 2, shard);
            let others = assignment.producers(shard).iter().copied().filter(|other| *other != first);
            let account = |index: usize| assignment.validators()[index].account_id.clone();
            iter::once(first).chain(others).map(account).collect()
        };
        View {
            head: snapshot(BlockRef::Head),
            near_final: snapshot(BlockRef::NearFinal),
            last_final: snapshot(BlockRef::Final),
            layout: Arc::clone(&settings.genesis.layout),
            gas_price: settings.genesis.gas_price,
            is_syncing,
            produces: (0..shards).map(|shard| pools.contains_key(&shard)).collect(),
            next_producers: (0..shards).map(next).collect(),
            known: Arc::clone(chain.known()),
            validity_period: settings.genesis.validity_period,
            tallies,
            signatures,
        }
    }
}
