//! What embedded nodes say to each other: private `PeerMessage` fields, borsh inside.

use std::sync::Arc;

use borsh::{BorshDeserialize, BorshSerialize};
use prost::encoding::{WireType, encode_key, encode_varint};
use tpsctl_near::p2p;

use super::{
    Approval, Chunk, ChunkBody, Endorsement, SignedChunkHeader,
    types::{ArcBlock, ArcChunk, Block, BlocksPage, append},
    witness::Witness,
};

/// A message between embedded nodes. Chunks and blocks in it are checked to be what they say.
#[derive(Debug, Clone)]
pub enum Message {
    /// A block.
    Block(ArcBlock),
    /// A chunk with its body.
    Chunk(ArcChunk),
    /// A state witness, to a validator of its chunk.
    Witness(Arc<Witness>),
    /// An endorsement, to block producers.
    Endorsement(Endorsement),
    /// An approval, to the producer of its height.
    Approval(Approval),
    /// How far the sender is.
    Head {
        /// Height of its head.
        height: u64,
    },
    /// Asks for the chain from a height on.
    BlocksRequest {
        /// The first height wanted.
        from_height: u64,
    },
    /// Answers that.
    Blocks(BlocksPage),
    /// Asks for a chunk by its hash.
    ChunkRequest {
        /// The chunk.
        chunk_hash: tpsctl_near::CryptoHash,
    },
    /// Signed transactions (borsh each) for a producer of their shard.
    Transactions(Vec<Vec<u8>>),
    /// How many connections the sender is away from each validator.
    Reach {
        /// By validator index; 255 for one that it cannot reach.
        distances: Vec<u8>,
    },
    /// For a validator that the message's author has no connection to.
    Routed(Routed),
}

/// A message on its way by others.
#[derive(Debug, Clone, BorshSerialize, BorshDeserialize)]
pub struct Routed {
    /// Index of the validator that it is for.
    pub validator: u32,
    /// Over so many more connections it may go.
    pub steps: u8,
    /// The message: key, length and content of a private field.
    pub message: Vec<u8>,
}

/// A message could not be read.
#[derive(Debug, thiserror::Error)]
#[error("message of private field {field} is garbage")]
pub struct MessageError {
    /// Its field number.
    pub field: u32,
    /// What is wrong.
    #[source]
    pub source: std::io::Error,
}

/// Field of a node's introduction, which the shell exchanges.
pub(crate) const FIELD_HELLO: u32 = p2p::field::PRIVATE_MIN;
const FIELD_BLOCK: u32 = p2p::field::PRIVATE_MIN + 1;
const FIELD_CHUNK: u32 = p2p::field::PRIVATE_MIN + 2;
const FIELD_WITNESS: u32 = p2p::field::PRIVATE_MIN + 3;
const FIELD_ENDORSEMENT: u32 = p2p::field::PRIVATE_MIN + 4;
const FIELD_APPROVAL: u32 = p2p::field::PRIVATE_MIN + 5;
const FIELD_HEAD: u32 = p2p::field::PRIVATE_MIN + 6;
const FIELD_BLOCKS_REQUEST: u32 = p2p::field::PRIVATE_MIN + 7;
const FIELD_BLOCKS: u32 = p2p::field::PRIVATE_MIN + 8;
const FIELD_CHUNK_REQUEST: u32 = p2p::field::PRIVATE_MIN + 9;
const FIELD_TRANSACTIONS: u32 = p2p::field::PRIVATE_MIN + 10;
/// Field of news about other nodes, which the shell exchanges.
pub(crate) const FIELD_PEERS: u32 = p2p::field::PRIVATE_MIN + 11;
/// Field of an introduction by a node that has no place for another one.
pub(crate) const FIELD_FULL: u32 = p2p::field::PRIVATE_MIN + 14;
const FIELD_REACH: u32 = p2p::field::PRIVATE_MIN + 12;
const FIELD_ROUTED: u32 = p2p::field::PRIVATE_MIN + 13;

/// A frame of one length-delimited private field.
pub(crate) fn private_frame(field: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + 24);
    out.extend_from_slice(&[0; 4]);
    encode_key(field, WireType::LengthDelimited, &mut out);
    encode_varint(payload.len() as u64, &mut out);
    out.extend_from_slice(payload);
    let len = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&len.to_le_bytes());
    out
}

/// The number and content of a private field, if the message (without its length) is one.
pub(crate) fn private_field(message: &[u8]) -> Option<(u32, &[u8])> {
    let mut rest = message;
    let key = prost::encoding::decode_varint(&mut rest).ok()?;
    let field = u32::try_from(key >> 3).ok()?;
    if field < FIELD_HELLO || key & 7 != WireType::LengthDelimited as u64 {
        return None;
    }
    let len = usize::try_from(prost::encoding::decode_varint(&mut rest).ok()?).ok()?;
    (rest.len() == len).then_some((field, rest))
}

fn append_chunk(out: &mut Vec<u8>, chunk: &Chunk) {
    append(out, chunk.signed());
    append(out, chunk.body());
}

fn garbage(text: &'static str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, text)
}

fn read_chunk(bytes: &mut &[u8]) -> std::io::Result<ArcChunk> {
    let signed = SignedChunkHeader::deserialize(bytes)?;
    let body = ChunkBody::deserialize(bytes)?;
    Chunk::check(signed, body).map(Arc::new).ok_or_else(|| garbage("chunk body is not its header's"))
}

impl BlocksPage {
    fn write(&self, out: &mut Vec<u8>) {
        append(out, &(self.head_height, self.earliest_height));
        append(out, &u32::try_from(self.blocks.len()).unwrap_or(u32::MAX));
        for block in &self.blocks {
            block.write(out);
        }
        append(out, &u32::try_from(self.chunks.len()).unwrap_or(u32::MAX));
        for chunk in &self.chunks {
            append_chunk(out, chunk);
        }
    }

    fn read(bytes: &mut &[u8]) -> std::io::Result<Self> {
        let (head_height, earliest_height) = <(u64, u64)>::deserialize(bytes)?;
        let blocks = u32::deserialize(bytes)?;
        let blocks = (0..blocks).map(|_| Block::read(bytes).map(Arc::new)).collect::<Result<_, _>>()?;
        let chunks = u32::deserialize(bytes)?;
        let chunks = (0..chunks).map(|_| read_chunk(bytes)).collect::<Result<_, _>>()?;
        Ok(Self { blocks, chunks, head_height, earliest_height })
    }
}

impl Message {
    /// The whole frame.
    pub fn frame(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let field = match self {
            Self::Block(block) => {
                block.write(&mut out);
                FIELD_BLOCK
            }
            Self::Chunk(chunk) => {
                append_chunk(&mut out, chunk);
                FIELD_CHUNK
            }
            Self::Witness(witness) => {
                witness.write(&mut out);
                FIELD_WITNESS
            }
            Self::Endorsement(endorsement) => {
                append(&mut out, endorsement);
                FIELD_ENDORSEMENT
            }
            Self::Approval(approval) => {
                append(&mut out, approval);
                FIELD_APPROVAL
            }
            Self::Head { height } => {
                append(&mut out, height);
                FIELD_HEAD
            }
            Self::BlocksRequest { from_height } => {
                append(&mut out, from_height);
                FIELD_BLOCKS_REQUEST
            }
            Self::Blocks(page) => {
                page.write(&mut out);
                FIELD_BLOCKS
            }
            Self::ChunkRequest { chunk_hash } => {
                append(&mut out, chunk_hash);
                FIELD_CHUNK_REQUEST
            }
            Self::Transactions(transactions) => {
                append(&mut out, transactions);
                FIELD_TRANSACTIONS
            }
            Self::Reach { distances } => {
                append(&mut out, distances);
                FIELD_REACH
            }
            Self::Routed(routed) => {
                append(&mut out, routed);
                FIELD_ROUTED
            }
        };
        private_frame(field, &out)
    }

    /// Reads the content of a private field; nothing for numbers that are not known.
    pub fn read(field: u32, content: &[u8]) -> Result<Option<Self>, MessageError> {
        let mut bytes = content;
        Self::read_field(field, &mut bytes)
            .and_then(
                |message| if bytes.is_empty() { Ok(message) } else { Err(garbage("bytes are left over")) },
            )
            .map_err(|source| MessageError { field, source })
    }

    fn read_field(field: u32, bytes: &mut &[u8]) -> std::io::Result<Option<Self>> {
        Ok(Some(match field {
            FIELD_BLOCK => Self::Block(Arc::new(Block::read(bytes)?)),
            FIELD_CHUNK => Self::Chunk(read_chunk(bytes)?),
            FIELD_WITNESS => Self::Witness(Arc::new(Witness::read(bytes)?)),
            FIELD_ENDORSEMENT => Self::Endorsement(Endorsement::deserialize(bytes)?),
            FIELD_APPROVAL => Self::Approval(Approval::deserialize(bytes)?),
            FIELD_HEAD => Self::Head { height: u64::deserialize(bytes)? },
            FIELD_BLOCKS_REQUEST => Self::BlocksRequest { from_height: u64::deserialize(bytes)? },
            FIELD_BLOCKS => Self::Blocks(BlocksPage::read(bytes)?),
            FIELD_CHUNK_REQUEST => {
                Self::ChunkRequest { chunk_hash: tpsctl_near::CryptoHash::deserialize(bytes)? }
            }
            FIELD_TRANSACTIONS => Self::Transactions(Vec::deserialize(bytes)?),
            FIELD_REACH => Self::Reach { distances: Vec::deserialize(bytes)? },
            FIELD_ROUTED => Self::Routed(Routed::deserialize(bytes)?),
            _ => {
                *bytes = &[];
                return Ok(None);
            }
        }))
    }

    /// Its name in neard's metric of received messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Block(_) => "Block",
            Self::Chunk(_) => "VersionedPartialEncodedChunk",
            Self::Witness(_) => "PartialEncodedStateWitness",
            Self::Endorsement(_) => "VersionedChunkEndorsement",
            Self::Approval(_) => "BlockApproval",
            Self::Head { .. } => "Head",
            Self::BlocksRequest { .. } => "BlockRequest",
            Self::Blocks(_) => "BlockHeaders",
            Self::ChunkRequest { .. } => "PartialEncodedChunkRequest",
            Self::Transactions(_) => "ForwardTx",
            Self::Reach { .. } => "DistanceVector",
            Self::Routed(_) => "Routed",
        }
    }
}
