//! The parts of neard's answers that tpsctl uses (core/primitives/src/views.rs); other fields are passed over.

use std::net::SocketAddr;

use serde::{Deserialize, Deserializer};
use tpsctl_near::{CryptoHash, PublicKey};

use crate::p2p::PeerTarget;

/// `status` (views.rs:443-458, 848-879).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StatusView {
    /// Software version.
    pub version: VersionView,
    /// Chain id.
    pub chain_id: String,
    /// Protocol version of the current epoch.
    pub protocol_version: u32,
    /// Hash of the genesis block.
    pub genesis_hash: CryptoHash,
    /// The peer-to-peer key.
    pub node_public_key: PublicKey,
    /// The validator's account, on validators.
    pub validator_account_id: Option<String>,
    /// Heads.
    pub sync_info: SyncInfoView,
}

/// The node's software.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct VersionView {
    /// Release, or `trunk`.
    pub version: String,
    /// Commit or similar.
    pub build: String,
}

/// The node's heads.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SyncInfoView {
    /// Hash of the head.
    pub latest_block_hash: CryptoHash,
    /// Height of the head.
    pub latest_block_height: u64,
    /// Whether it is still behind its peers.
    pub syncing: bool,
}

/// `block` (views.rs:1270-1275).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RawBlock")]
pub struct BlockView {
    /// Account of the block producer.
    pub author: String,
    /// The header.
    pub header: BlockHeaderView,
    /// Chunk headers by shard index, as many as the header's `chunk_mask` has entries.
    pub chunks: Vec<ChunkHeaderView>,
}

/// A block header (views.rs:884-934).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BlockHeaderView {
    /// Height.
    pub height: u64,
    /// Height of the block before.
    #[serde(deserialize_with = "zero_for_null")]
    pub prev_height: u64,
    /// The block's hash.
    pub hash: CryptoHash,
    /// Hash of the block before.
    pub prev_hash: CryptoHash,
    /// Nanoseconds since the Unix epoch.
    #[serde(deserialize_with = "number_in_text")]
    pub timestamp_nanosec: u64,
    /// By shard index: whether the block has a new chunk.
    pub chunk_mask: Vec<bool>,
    /// The last final block as this block sees it.
    pub last_final_block: CryptoHash,
    /// Yocto per gas.
    #[serde(deserialize_with = "number_in_text")]
    pub gas_price: u128,
}

/// A chunk header (views.rs:1093-1130).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ChunkHeaderView {
    /// The shard.
    pub shard_id: u64,
    /// Gas that the shard's previous chunk used.
    pub gas_used: u64,
    /// Height of the block that included the chunk: this block's where it is new.
    pub height_included: u64,
}

#[derive(Deserialize)]
struct RawBlock {
    author: String,
    header: BlockHeaderView,
    chunks: Vec<ChunkHeaderView>,
}

impl TryFrom<RawBlock> for BlockView {
    type Error = String;

    fn try_from(raw: RawBlock) -> Result<Self, String> {
        let RawBlock { author, header, chunks } = raw;
        if header.chunk_mask.len() != chunks.len() {
            let (mask, len) = (header.chunk_mask.len(), chunks.len());
            return Err(format!("block {} has {len} chunks and a chunk_mask of {mask}", header.height));
        }
        Ok(Self { author, header, chunks })
    }
}

impl StatusView {
    /// What a peer must know to shake hands with this node, whose peer-to-peer listener is at `addr`.
    pub fn peer_target(&self, addr: SocketAddr) -> PeerTarget {
        PeerTarget {
            addr,
            peer_id: self.node_public_key,
            chain_id: self.chain_id.clone(),
            genesis_hash: self.genesis_hash,
            height: self.sync_info.latest_block_height,
        }
    }
}

/// neard writes numbers that may exceed 2^53 as text.
fn number_in_text<'de, D: Deserializer<'de>, T: std::str::FromStr>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| serde::de::Error::custom(format!("`{text}` is not a number")))
}

/// `prev_height` is null in genesis blocks.
fn zero_for_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(0))
}
