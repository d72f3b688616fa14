//! The blocks that were accepted, which of them are the chain, and what is kept of them.
//!
//! Hashes, headers and bodies stay within the limits of [`Limits`], states only from a little below the last final block
//! on: a full block makes tens of megabytes of new tree, and nothing can build on what is older.

use std::{collections::BTreeMap, sync::Arc};

use tpsctl_near::CryptoHash;

use super::{
    Block, BlockHeader, Genesis, Limits, Snapshot,
    state::ShardState,
    tree::Key,
    types::{ArcBlock, ArcChunk, BlocksPage},
};

/// About what a header takes in memory: for each shard its chunk's header, for each validator an approval, and the rest.
const SHARD_BYTES: usize = 320;
const APPROVAL_BYTES: usize = 66;
const REST_BYTES: usize = 512;
/// Heights of states kept below all that is needed.
const STATES_KEPT_BELOW: u64 = 2;
/// Limits of one page for a peer that catches up.
const PAGE_BLOCKS_MAX: usize = 50;
const PAGE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Which block is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockRef {
    /// On the chain, at this height.
    Height(u64),
    /// Any that is known, by hash.
    Hash(CryptoHash),
    /// The head.
    Head,
    /// The last with another directly above it.
    NearFinal,
    /// The last final one.
    Final,
}

/// The state of a shard after a block, and the results of its last chunk.
#[derive(Debug, Clone)]
pub(crate) struct ShardEntry {
    pub(crate) state: Arc<ShardState>,
    /// None before the shard's first chunk.
    pub(crate) result: Option<Arc<ChunkResult>>,
}

/// What applying a chunk left for the next chunk to report and prove.
#[derive(Debug)]
pub(crate) struct ChunkResult {
    pub(crate) pre: Arc<ShardState>,
    pub(crate) gas_used: u64,
    pub(crate) balance_burnt: u128,
    pub(crate) outgoing: Vec<Vec<u8>>,
    pub(crate) receipts_root: CryptoHash,
    pub(crate) touched: Vec<Key>,
}

/// An accepted block.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) block: ArcBlock,
    /// Bodies of its new chunks, while kept.
    pub(crate) chunks: Vec<Option<ArcChunk>>,
    /// Tracked shards after it, while kept.
    pub(crate) shards: Vec<Option<ShardEntry>>,
}

impl Entry {
    fn body_bytes(&self) -> usize {
        let bytes = self.chunks.iter().flatten().map(|chunk| chunk.header().encoded_length as usize);
        bytes.sum()
    }
}

/// What a new head changed: blocks that left the chain, and blocks that joined it, lowest first.
#[derive(Debug, Default)]
pub(crate) struct HeadChange {
    pub(crate) left: Vec<CryptoHash>,
    pub(crate) joined: Vec<CryptoHash>,
}

#[derive(Debug)]
pub(crate) struct Chain {
    entries: BTreeMap<CryptoHash, Entry>,
    canonical: BTreeMap<u64, CryptoHash>,
    forks: Vec<CryptoHash>,
    head: ArcBlock,
    genesis: ArcBlock,
    known: Arc<BTreeMap<CryptoHash, u64>>,
    body_bytes: usize,
    /// From this height on all bodies are there.
    bodies_from: u64,
    /// From this height on all states are there.
    states_from: u64,
    /// From this height on all headers are there, and that of genesis.
    headers_from: u64,
}

impl Chain {
    pub(crate) fn new(genesis: &Genesis, tracked: &[bool]) -> Self {
        let block = Arc::new(genesis.block());
        let shard = |(state, is_tracked): (&Arc<ShardState>, &bool)| {
            is_tracked.then(|| ShardEntry { state: Arc::clone(state), result: None })
        };
        let shards = genesis.states.iter().zip(tracked).map(shard).collect();
        let chunks = vec![None; tracked.len()];
        let entry = Entry { block: Arc::clone(&block), chunks, shards };
        Self {
            entries: BTreeMap::from([(block.hash(), entry)]),
            canonical: BTreeMap::from([(block.height(), block.hash())]),
            forks: Vec::new(),
            known: Arc::new(BTreeMap::from([(block.hash(), block.height())])),
            body_bytes: 0,
            bodies_from: block.height() + 1,
            states_from: block.height(),
            headers_from: block.height() + 1,
            head: Arc::clone(&block),
            genesis: block,
        }
    }

    pub(crate) fn head(&self) -> &ArcBlock {
        &self.head
    }

    pub(crate) fn genesis(&self) -> &ArcBlock {
        &self.genesis
    }

    pub(crate) fn known(&self) -> &Arc<BTreeMap<CryptoHash, u64>> {
        &self.known
    }

    pub(crate) fn get(&self, hash: &CryptoHash) -> Option<&Entry> {
        self.entries.get(hash)
    }

    fn header(&self, hash: &CryptoHash) -> &ArcBlock {
        self.entries.get(hash).map_or(&self.genesis, |entry| &entry.block)
    }

    /// Height of the last final block.
    pub(crate) fn final_height(&self) -> u64 {
        self.header(&self.head.header.last_final).height()
    }

    pub(crate) fn block(&self, at: BlockRef) -> Option<&ArcBlock> {
        match at {
            BlockRef::Height(height) => {
                self.canonical.get(&height).and_then(|hash| self.entries.get(hash)).map(|own| &own.block)
            }
            BlockRef::Hash(hash) => self.entries.get(&hash).map(|entry| &entry.block),
            BlockRef::Head => Some(&self.head),
            BlockRef::NearFinal => Some(self.header(&self.head.header.last_ds_final)),
            BlockRef::Final => Some(self.header(&self.head.header.last_final)),
        }
    }

    pub(crate) fn snapshot(&self, at: BlockRef) -> Option<Snapshot> {
        let block = Arc::clone(self.block(at)?);
        let shards = &self.entries.get(&block.hash())?.shards;
        let state = |entry: &Option<ShardEntry>| entry.as_ref().map(|entry| Arc::clone(&entry.state));
        Some(Snapshot { states: shards.iter().map(state).collect(), block })
    }

    /// Chunks whose receipts the shard applies with its new chunk in the block of `header` and `chunks`: all new ones
    /// in the blocks since the shard's last. None where a body or block is gone.
    pub(crate) fn incoming(
        &self,
        header: &BlockHeader,
        chunks: &[Option<ArcChunk>],
        shard: usize,
    ) -> Option<Vec<ArcChunk>> {
        let parent = self.get(&header.prev_hash)?;
        let applied_at = parent.block.header.chunks[shard].height_included;
        let mut blocks = vec![new_chunks(header, chunks)?];
        let mut at = parent;
        while at.block.height() > applied_at {
            blocks.push(new_chunks(&at.block.header, &at.chunks)?);
            at = self.get(&at.block.header.prev_hash)?;
        }
        Some(blocks.into_iter().rev().flatten().collect())
    }

    /// The block at or below `tip` that included the shard's last chunk.
    pub(crate) fn last_with_chunk(&self, tip: &CryptoHash, shard: usize) -> Option<&Entry> {
        let mut at = self.get(tip)?;
        let height = at.block.header.chunks[shard].height_included;
        while at.block.height() > height {
            at = self.get(&at.block.header.prev_hash)?;
        }
        Some(at)
    }

    /// Adds a block whose parent is there. Says what changed where it is the new head: the highest wins.
    pub(crate) fn insert(&mut self, entry: Entry) -> Option<HeadChange> {
        let block = Arc::clone(&entry.block);
        self.body_bytes += entry.body_bytes();
        self.entries.insert(block.hash(), entry);
        if block.height() <= self.head.height() {
            self.forks.push(block.hash());
            return None;
        }
        let mut change = HeadChange::default();
        let mut at = Arc::clone(&block);
        while self.canonical.get(&at.height()) != Some(&at.hash()) {
            change.joined.push(at.hash());
            let Some(parent) = self.get(&at.header.prev_hash) else { break };
            at = Arc::clone(&parent.block);
        }
        change.joined.reverse();
        for hash in self.canonical.split_off(&(at.height() + 1)).into_values() {
            change.left.push(hash);
            self.forks.push(hash);
        }
        let known = Arc::make_mut(&mut self.known);
        for hash in &change.left {
            known.remove(hash);
        }
        for hash in &change.joined {
            let height = self.entries.get(hash).map_or(0, |entry| entry.block.height());
            self.canonical.insert(height, *hash);
            known.insert(*hash, height);
        }
        self.forks.retain(|hash| !change.joined.contains(hash));
        self.head = block;
        Some(change)
    }

    /// Forgets what nothing needs any more.
    pub(crate) fn prune(&mut self, limits: &Limits) {
        let final_height = self.final_height();
        let applied = self.head.header.chunks.iter().map(|chunk| chunk.height_included);
        // Bodies and states from the oldest unapplied receipts on are still needed.
        let needed = applied.min().unwrap_or(0).min(final_height).saturating_sub(STATES_KEPT_BELOW);
        let (entries, forks) = (&mut self.entries, &mut self.forks);
        let mut forgotten = 0;
        forks.retain(|hash| {
            let is_alive = entries.get(hash).is_some_and(|entry| entry.block.height() > final_height);
            if !is_alive && let Some(entry) = entries.remove(hash) {
                forgotten += entry.body_bytes();
            }
            is_alive
        });
        self.body_bytes -= forgotten;
        while self.states_from < needed {
            if let Some(entry) = self.canonical_mut(self.states_from) {
                entry.shards.iter_mut().for_each(|shard| *shard = None);
            }
            self.states_from += 1;
        }
        while self.bodies_from < needed
            && (self.body_bytes > limits.kept_bytes
                || self.head.height() - self.bodies_from >= limits.kept_blocks)
        {
            let height = self.bodies_from;
            if let Some(entry) = self.canonical_mut(height) {
                let bytes = entry.body_bytes();
                entry.chunks.iter_mut().for_each(|chunk| *chunk = None);
                self.body_bytes -= bytes;
            }
            self.bodies_from += 1;
        }
        self.prune_headers(limits);
    }

    fn prune_headers(&mut self, limits: &Limits) {
        let header = &self.head.header;
        let bytes = header.chunks.len() * SHARD_BYTES + header.approvals.len() * APPROVAL_BYTES + REST_BYTES;
        let kept = (limits.kept_header_bytes / bytes) as u64;
        let lowest = self.head.height().saturating_sub(kept).min(self.bodies_from);
        while self.headers_from < lowest {
            if let Some(hash) = self.canonical.get(&self.headers_from) {
                self.entries.remove(hash);
            }
            self.headers_from += 1;
        }
        let genesis = self.genesis.hash();
        let lowest = self.head.height().saturating_sub(limits.kept_hashes).min(self.headers_from);
        while let Some((height, hash)) = self.canonical.iter().find(|(_, hash)| **hash != genesis)
            && *height < lowest
        {
            let (height, hash) = (*height, *hash);
            self.canonical.remove(&height);
            self.entries.remove(&hash);
            Arc::make_mut(&mut self.known).remove(&hash);
        }
    }

    fn canonical_mut(&mut self, height: u64) -> Option<&mut Entry> {
        self.canonical.get(&height).and_then(|hash| self.entries.get_mut(hash))
    }

    /// A stretch of the chain for a peer that catches up.
    pub(crate) fn page(&self, from_height: u64) -> BlocksPage {
        let mut page = BlocksPage {
            blocks: Vec::new(),
            chunks: Vec::new(),
            head_height: self.head.height(),
            earliest_height: self.bodies_from,
        };
        let mut bytes = 0;
        for hash in self.canonical.range(from_height.max(self.bodies_from)..).map(|(_, hash)| hash) {
            let Some(entry) = self.entries.get(hash) else { break };
            if page.blocks.len() >= PAGE_BLOCKS_MAX || bytes > PAGE_BYTES_MAX {
                break;
            }
            bytes += entry.body_bytes() as u64;
            page.blocks.push(Arc::clone(&entry.block));
            page.chunks.extend(entry.chunks.iter().flatten().cloned());
        }
        page
    }

    /// The block of the chain that first included a chunk whose body is kept, and the shard.
    pub(crate) fn including(&self, hash: &CryptoHash) -> Option<(&ArcBlock, usize)> {
        let kept = self.canonical.range(self.bodies_from..).rev();
        let mut entries = kept.filter_map(|(_, hash)| self.entries.get(hash));
        entries.find_map(|entry| {
            let is_it = |chunk: &Option<ArcChunk>| chunk.as_ref().is_some_and(|own| own.hash() == *hash);
            Some((&entry.block, entry.chunks.iter().position(is_it)?))
        })
    }

    /// A chunk of a recent block, by its hash.
    pub(crate) fn chunk(&self, hash: &CryptoHash) -> Option<&ArcChunk> {
        let recent = self.canonical.values().rev().take(PAGE_BLOCKS_MAX);
        let mut chunks = recent.filter_map(|hash| self.entries.get(hash)).flat_map(|entry| &entry.chunks);
        chunks.find_map(|chunk| chunk.as_ref().filter(|chunk| chunk.hash() == *hash))
    }
}

fn new_chunks(header: &BlockHeader, chunks: &[Option<ArcChunk>]) -> Option<Vec<ArcChunk>> {
    let new = header.chunk_mask.iter().zip(chunks).filter(|(is_new, _)| **is_new);
    new.map(|(_, chunk)| chunk.clone()).collect()
}

/// The header of a block on `parent`, but for what its producer chooses: time, author, chunks, votes.
pub(crate) fn child_header(parent: &Block, chosen: BlockHeader) -> BlockHeader {
    let own = &parent.header;
    let is_next = chosen.height == own.height + 1;
    // Genesis has its own height for that of its parent.
    let was_next = own.height == own.prev_height + 1;
    let new = chosen.chunks.iter().zip(&chosen.chunk_mask).filter(|(_, is_new)| **is_new);
    let burnt: u128 = new.map(|(chunk, _)| chunk.signed.header.prev_balance_burnt).sum();
    BlockHeader {
        prev_height: own.height,
        prev_hash: parent.hash(),
        gas_price: own.gas_price,
        total_supply: own.total_supply.saturating_sub(burnt),
        ordinal: own.ordinal + 1,
        last_ds_final: if is_next { parent.hash() } else { own.last_ds_final },
        last_final: if is_next && was_next { own.prev_hash } else { own.last_final },
        ..chosen
    }
}

/// What is kept, for the test of bounds: names and numbers.
#[cfg(test)]
impl Chain {
    pub(crate) fn kept(&self) -> [(&'static str, usize); 7] {
        let has_body = |entry: &&Entry| entry.chunks.iter().any(Option::is_some);
        let has_state = |entry: &&Entry| entry.shards.iter().any(Option::is_some);
        [
            ("blocks", self.entries.len()),
            ("heights", self.canonical.len()),
            ("known hashes", self.known.len()),
            ("forks", self.forks.len()),
            ("bodies", self.entries.values().filter(has_body).count()),
            ("body bytes", self.body_bytes),
            ("states", self.entries.values().filter(has_state).count()),
        ]
    }
}
