//! What others may ask of the node beside blocks and states: chunks and transactions.

use tpsctl_near::{AccountId, CryptoHash};

use super::Node;
use crate::core::{
    BlockChunk, BlockRef, Found, Place,
    chain::Entry,
    types::{ArcBlock, ArcChunk},
};

/// Which chunk is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkRef {
    /// By its hash.
    Hash(CryptoHash),
    /// That of the shard with this id in a block: a new one, or the last one again.
    At(BlockRef, u64),
}

/// A chunk of the chain.
#[derive(Debug, Clone)]
pub struct FoundChunk {
    /// Its header.
    pub header: BlockChunk,
    /// Its body; none for those of genesis, which are empty.
    pub body: Option<ArcChunk>,
    /// The shard's chunk before it, whose receipts it carries, while kept.
    pub before: Option<(Place, ArcChunk)>,
    /// Who made it.
    pub author: AccountId,
}

/// Why there is no chunk to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoChunk {
    /// The block is not known.
    UnknownBlock(BlockRef),
    /// No shard has this id.
    InvalidShard(u64),
    /// It is not known, no longer kept, or of a shard that the node does not track.
    Unknown(CryptoHash),
}

impl Node {
    /// A transaction that the chain has, while its outcome is kept.
    pub fn transaction(&self, hash: &CryptoHash) -> Option<Found> {
        let is_ours = |place: &Place| {
            let block = self.chain.block(BlockRef::Height(place.height));
            block.is_some_and(|block| block.hash() == place.hash)
        };
        self.outcomes.find(hash, is_ours)
    }

    /// A chunk of a shard that the node tracks.
    pub fn find_chunk(&self, at: ChunkRef) -> Result<FoundChunk, NoChunk> {
        let (block, shard) = match at {
            ChunkRef::Hash(hash) => self.chain.including(&hash).ok_or(NoChunk::Unknown(hash))?,
            ChunkRef::At(at, shard_id) => {
                let block = self.chain.block(at).ok_or(NoChunk::UnknownBlock(at))?;
                let shard = self.settings.genesis.layout.index_of_id(shard_id);
                (block, shard.ok_or(NoChunk::InvalidShard(shard_id))?)
            }
        };
        let header = block.header.chunks[shard].clone();
        let unknown = NoChunk::Unknown(header.signed.header.hash());
        if !self.tracked[shard] {
            return Err(unknown);
        }
        let is_of_genesis = header.height_included == self.chain.genesis().height();
        let source = if is_of_genesis { None } else { self.chain.last_with_chunk(&block.hash(), shard) };
        let body = source.and_then(|entry| entry.chunks[shard].clone());
        if body.is_none() && !is_of_genesis {
            return Err(unknown);
        }
        let author = self.assignment.chunk_producer(header.signed.header.height_created, shard);
        let author = self.assignment.validators()[author].account_id.clone();
        Ok(FoundChunk {
            before: source.and_then(|entry| self.chunk_before(entry, shard)),
            header,
            body,
            author,
        })
    }

    fn chunk_before(&self, entry: &Entry, shard: usize) -> Option<(Place, ArcChunk)> {
        let before = self.chain.last_with_chunk(&entry.block.header.prev_hash, shard)?;
        let block: &ArcBlock = &before.block;
        Some((Place { height: block.height(), hash: block.hash() }, before.chunks[shard].clone()?))
    }
}
