//! What validators produced and what was expected of them, epoch by epoch, as the blocks of the chain show it
//! (chain/epoch-manager/src/epoch_info_aggregator.rs:68-200).
//!
//! A height without a block counts as expected of its block producer. A block says of each shard whether the chunk came
//! that was expected at the height above its parent, and who endorsed it; without a chunk no endorsement counts.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use tpsctl_near::CryptoHash;

use super::{Assignment, Block};

/// Epochs that are kept beside the running one (neard's default of `gc_num_epochs_to_keep`).
const ENDED_KEPT: usize = 5;

/// How often something was done of how often it was due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Done.
    pub produced: u64,
    /// Due.
    pub expected: u64,
}

impl Count {
    fn change(&mut self, is_produced: bool, step: Step) {
        step.change(&mut self.expected);
        if is_produced {
            step.change(&mut self.produced);
        }
    }

    fn sum(counts: impl Iterator<Item = Self>) -> Self {
        counts.fold(Self::default(), |sum, own| Self {
            produced: sum.produced + own.produced,
            expected: sum.expected + own.expected,
        })
    }
}

/// One epoch's counts. Validators are named by their index in [`Assignment::validators`], shards by their index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochTally {
    epoch_id: CryptoHash,
    number: u64,
    start_height: u64,
    blocks: Vec<Count>,
    /// By shard, then validator.
    chunks: Vec<Vec<Count>>,
    endorsements: Vec<Vec<Count>>,
}

impl EpochTally {
    fn new(
        (epoch_id, number): (CryptoHash, u64),
        start_height: u64,
        validators: usize,
        shards: usize,
    ) -> Self {
        let none = vec![Count::default(); validators];
        let (chunks, endorsements) = (vec![none.clone(); shards], vec![none.clone(); shards]);
        Self { epoch_id, number, start_height, blocks: none, chunks, endorsements }
    }

    /// The epoch.
    pub fn epoch_id(&self) -> CryptoHash {
        self.epoch_id
    }

    /// Its number; the first has 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Height of its first block.
    pub fn start_height(&self) -> u64 {
        self.start_height
    }

    /// A validator's blocks.
    pub fn blocks(&self, validator: usize) -> Count {
        self.blocks[validator]
    }

    /// A validator's chunks of a shard.
    pub fn chunks(&self, validator: usize, shard: usize) -> Count {
        self.chunks[shard][validator]
    }

    /// A validator's chunks of all shards.
    pub fn all_chunks(&self, validator: usize) -> Count {
        Count::sum(self.chunks.iter().map(|shard| shard[validator]))
    }

    /// A validator's endorsements of a shard's chunks.
    pub fn endorsements(&self, validator: usize, shard: usize) -> Count {
        self.endorsements[shard][validator]
    }

    /// A validator's endorsements of all shards' chunks.
    pub fn all_endorsements(&self, validator: usize) -> Count {
        Count::sum(self.endorsements.iter().map(|shard| shard[validator]))
    }

    fn change(&mut self, block: &Block, roles: &Roles<'_>, step: Step) {
        let header = &block.header;
        for height in header.prev_height + 1..=header.height {
            let producer = roles.assignment.block_producer(height);
            self.blocks[producer].change(height == header.height, step);
        }
        for (shard, is_new) in header.chunk_mask.iter().enumerate() {
            let producer = roles.assignment.chunk_producer(header.prev_height + 1, shard);
            self.chunks[shard][producer].change(*is_new, step);
            let bitmap = header.endorsements.get(shard).map_or(&[][..], Vec::as_slice);
            let by = |index: usize| bitmap.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
            for validator in roles.chunk_validators[shard].keys() {
                self.endorsements[shard][*validator].change(*is_new && by(*validator), step);
            }
        }
    }
}

/// Who had what to do for a block.
pub(crate) struct Roles<'r> {
    pub(crate) assignment: &'r Assignment,
    /// Of the chunks expected on its parent, by shard.
    pub(crate) chunk_validators: Vec<Arc<BTreeMap<usize, u128>>>,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Joined,
    Left,
}

impl Step {
    fn change(self, number: &mut u64) {
        match self {
            Self::Joined => *number += 1,
            Self::Left => *number = number.saturating_sub(1),
        }
    }
}

/// The last epochs' counts, oldest first. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Tallies {
    epochs: VecDeque<Arc<EpochTally>>,
    running: Arc<EpochTally>,
}

impl Tallies {
    /// At genesis. Of the first epoch the id is zero.
    pub(crate) fn new(assignment: &Assignment, shards: usize, start_height: u64) -> Self {
        let first = (CryptoHash::default(), 1);
        let running = EpochTally::new(first, start_height, assignment.validators().len(), shards);
        Self { epochs: VecDeque::new(), running: Arc::new(running) }
    }

    pub(crate) fn running(&self) -> &Arc<EpochTally> {
        &self.running
    }

    /// An epoch that ended.
    pub(crate) fn ended(&self, epoch_id: &CryptoHash) -> Option<&Arc<EpochTally>> {
        self.epochs.iter().find(|own| own.epoch_id == *epoch_id)
    }

    /// A block joined the chain at its end.
    pub(crate) fn join(&mut self, block: &Block, roles: &Roles<'_>) {
        if block.header.epoch_id != self.running.epoch_id {
            let next = (block.header.epoch_id, self.running.number + 1);
            let (validators, shards) = (self.running.blocks.len(), self.running.chunks.len());
            let next = Arc::new(EpochTally::new(next, block.height(), validators, shards));
            self.epochs.push_back(std::mem::replace(&mut self.running, next));
            if self.epochs.len() > ENDED_KEPT {
                self.epochs.pop_front();
            }
        }
        Arc::make_mut(&mut self.running).change(block, roles, Step::Joined);
    }

    /// The last block left the chain.
    pub(crate) fn leave(&mut self, block: &Block, roles: &Roles<'_>) {
        if block.height() == self.running.start_height
            && let Some(last) = self.epochs.pop_back()
        {
            // It was the first of its epoch.
            self.running = last;
            return;
        }
        Arc::make_mut(&mut self.running).change(block, roles, Step::Left);
    }
}

#[cfg(test)]
impl Tallies {
    pub(crate) fn kept(&self) -> usize {
        self.epochs.len() + 1
    }
}
