//! A block as peers send it to each other: borsh of `Block::BlockV4` with `BlockHeaderV6` and `BlockBodyV2`, chunk headers
//! being `ShardChunkHeaderV3` with an inner part V5 (core/primitives/src/{block,block_header,block_body,sharding}.rs).
//! Earlier and later versions are refused by their tag.

use std::io;

use borsh::{BorshDeserialize, BorshSerialize};

use crate::{AccountId, CryptoHash, PublicKey, Signature};

/// Borsh tag of `Block::BlockV4`.
const BLOCK_TAG: u8 = 3;
/// Borsh tag of `BlockHeader::BlockHeaderV6`.
const HEADER_TAG: u8 = 5;
/// Borsh tag of `BlockBody::V2`.
const BODY_TAG: u8 = 1;
/// Borsh tag of `ShardChunkHeader::V3`.
const CHUNK_TAG: u8 = 2;
/// Borsh tag of `ShardChunkHeaderInner::V5`.
const CHUNK_INNER_TAG: u8 = 4;

/// A block: header and the chunk headers of all shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its header.
    pub header: BlockHeader,
    /// The rest.
    pub body: BlockBody,
}

/// `BlockHeaderV6`.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct BlockHeader {
    /// Hash of the parent.
    pub prev_hash: CryptoHash,
    /// What light clients read.
    pub inner_lite: HeaderLite,
    /// What else is hashed.
    pub inner_rest: HeaderRest,
    /// Its producer's, over the hash.
    pub signature: Signature,
}

/// `BlockHeaderInnerLite`.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct HeaderLite {
    /// Height.
    pub height: u64,
    /// Epoch.
    pub epoch_id: CryptoHash,
    /// The next epoch.
    pub next_epoch_id: CryptoHash,
    /// Root of the shards' states before this block.
    pub prev_state_root: CryptoHash,
    /// Root of the outcomes of the previous chunks.
    pub prev_outcome_root: CryptoHash,
    /// Nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// Commits to the next epoch's block producers.
    pub next_bp_hash: CryptoHash,
    /// Root of the hashes of all blocks before.
    pub block_merkle_root: CryptoHash,
}

/// `BlockHeaderInnerRestV6`.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct HeaderRest {
    /// [`BlockBody::hash`].
    pub block_body_hash: CryptoHash,
    /// Root of the chunks' receipts.
    pub prev_chunk_outgoing_receipts_root: CryptoHash,
    /// Root of the chunk headers.
    pub chunk_headers_root: CryptoHash,
    /// Root of the chunks' transactions.
    pub chunk_tx_root: CryptoHash,
    /// Output of the randomness beacon.
    pub random_value: CryptoHash,
    /// Proposals of stakes from the previous chunks.
    pub prev_validator_proposals: Vec<ValidatorStake>,
    /// Which shards have a new chunk, by index.
    pub chunk_mask: Vec<bool>,
    /// Yocto per gas in the next block.
    pub next_gas_price: u128,
    /// Of all tokens, yocto.
    pub total_supply: u128,
    /// The last block that is final.
    pub last_final_block: CryptoHash,
    /// The last block that another one stands directly on.
    pub last_ds_final_block: CryptoHash,
    /// Number of the block on its chain.
    pub block_ordinal: u64,
    /// Height of the parent.
    pub prev_height: u64,
    /// For syncing epochs.
    pub epoch_sync_data_hash: Option<CryptoHash>,
    /// Approvals of the parent, by block producer.
    pub approvals: Vec<Option<Signature>>,
    /// The producer's latest protocol version.
    pub latest_protocol_version: u32,
    /// Which validators endorsed each shard's chunk: a bitmap each.
    pub chunk_endorsements: Vec<Vec<u8>>,
    /// A shard that is to be split, and where.
    pub shard_split: Option<(u64, AccountId)>,
}

/// `BlockBodyV2`. Its list of challenges is empty in all blocks of this version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockBody {
    /// Chunk headers by shard index; where a shard missed, the last one again.
    pub chunks: Vec<ChunkHeader>,
    /// Value and proof of the randomness beacon.
    pub vrf: ([u8; 32], [u8; 64]),
    /// Endorsements by shard index and chunk validator.
    pub chunk_endorsements: Vec<Vec<Option<Signature>>>,
}

/// `ShardChunkHeaderV3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkHeader {
    /// What is hashed.
    pub inner: ChunkInner,
    /// Height of the block that first included it.
    pub height_included: u64,
    /// Its producer's, over the hash.
    pub signature: Signature,
}

/// `ShardChunkHeaderInnerV5`. What begins with `prev` is of the shard's previous chunk.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct ChunkInner {
    /// The block that it builds on.
    pub prev_block_hash: CryptoHash,
    /// State before this chunk.
    pub prev_state_root: CryptoHash,
    /// Root of the outcomes.
    pub prev_outcome_root: CryptoHash,
    /// Root of the chunk's encoded parts.
    pub encoded_merkle_root: CryptoHash,
    /// Length of the encoded chunk.
    pub encoded_length: u64,
    /// One more than the height of the block that it builds on.
    pub height_created: u64,
    /// The shard.
    pub shard_id: u64,
    /// Gas burnt.
    pub prev_gas_used: u64,
    /// Gas limit of a chunk.
    pub gas_limit: u64,
    /// Yocto burnt.
    pub prev_balance_burnt: u128,
    /// Root of the receipts.
    pub prev_outgoing_receipts_root: CryptoHash,
    /// Root of the transactions.
    pub tx_root: CryptoHash,
    /// Proposals of stakes.
    pub prev_validator_proposals: Vec<ValidatorStake>,
    /// How congested the shard is.
    pub congestion_info: CongestionInfo,
    /// Requests to send to other shards.
    pub bandwidth_requests: BandwidthRequests,
    /// Where the shard could be split.
    pub proposed_split: Option<TrieSplit>,
}

/// A proposal of a stake.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum ValidatorStake {
    /// Account, key and stake (yocto).
    V1(AccountId, PublicKey, u128),
}

/// How congested a shard is.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum CongestionInfo {
    /// The only version.
    V1 {
        /// Gas of the receipts that are delayed.
        delayed_receipts_gas: u128,
        /// Gas of the receipts that wait to be sent.
        buffered_receipts_gas: u128,
        /// Bytes of all receipts that wait.
        receipt_bytes: u64,
        /// The one shard that may send when this one is fully congested.
        allowed_shard: u16,
    },
}

/// Requests to send receipts to other shards.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum BandwidthRequests {
    /// Shard index and bitmap of the amounts asked for.
    V1(Vec<(u16, [u8; 5])>),
}

/// Where a shard could be split into two.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct TrieSplit {
    /// The first account of the right part.
    pub boundary_account: AccountId,
    /// Memory of the left part.
    pub left_memory: u64,
    /// Memory of the right part.
    pub right_memory: u64,
}

impl ChunkInner {
    /// The chunk's hash.
    pub fn hash(&self) -> CryptoHash {
        combine(CryptoHash::of_borsh(&(CHUNK_INNER_TAG, self)), self.encoded_merkle_root)
    }
}

impl BlockHeader {
    /// The block's hash.
    pub fn hash(&self) -> CryptoHash {
        let lite = CryptoHash::of_borsh(&self.inner_lite);
        combine(combine(lite, CryptoHash::of_borsh(&self.inner_rest)), self.prev_hash)
    }
}

impl BlockBody {
    /// What the header says of it.
    pub fn hash(&self) -> CryptoHash {
        CryptoHash::of_borsh(self)
    }
}

impl Block {
    /// The block's hash.
    pub fn hash(&self) -> CryptoHash {
        self.header.hash()
    }

    /// Its height.
    pub fn height(&self) -> u64 {
        self.header.inner_lite.height
    }
}

fn combine(one: CryptoHash, other: CryptoHash) -> CryptoHash {
    CryptoHash::of_borsh(&(one, other))
}

fn read_tag(reader: &mut impl io::Read, expected: u8, what: &str) -> io::Result<()> {
    match u8::deserialize_reader(reader)? {
        tag if tag == expected => Ok(()),
        tag => Err(garbage(format!("{what} of version tag {tag}, not {expected}"))),
    }
}

fn garbage(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl BorshSerialize for Block {
    fn serialize<W: io::Write>(&self, writer: &mut W) -> io::Result<()> {
        (BLOCK_TAG, HEADER_TAG).serialize(writer)?;
        self.header.serialize(writer)?;
        self.body.serialize(writer)
    }
}

impl BorshDeserialize for Block {
    fn deserialize_reader<R: io::Read>(reader: &mut R) -> io::Result<Self> {
        read_tag(reader, BLOCK_TAG, "block")?;
        read_tag(reader, HEADER_TAG, "block header")?;
        let header = BlockHeader::deserialize_reader(reader)?;
        Ok(Self { header, body: BlockBody::deserialize_reader(reader)? })
    }
}

impl BorshSerialize for BlockBody {
    fn serialize<W: io::Write>(&self, writer: &mut W) -> io::Result<()> {
        (BODY_TAG, &self.chunks, 0_u32).serialize(writer)?;
        (self.vrf.0, self.vrf.1, &self.chunk_endorsements).serialize(writer)
    }
}

impl BorshDeserialize for BlockBody {
    fn deserialize_reader<R: io::Read>(reader: &mut R) -> io::Result<Self> {
        read_tag(reader, BODY_TAG, "block body")?;
        let chunks = Vec::deserialize_reader(reader)?;
        let challenges = u32::deserialize_reader(reader)?;
        if challenges > 0 {
            return Err(garbage(format!("{challenges} challenges in a block")));
        }
        let vrf = <([u8; 32], [u8; 64])>::deserialize_reader(reader)?;
        Ok(Self { chunks, vrf, chunk_endorsements: Vec::deserialize_reader(reader)? })
    }
}

impl BorshSerialize for ChunkHeader {
    fn serialize<W: io::Write>(&self, writer: &mut W) -> io::Result<()> {
        (CHUNK_TAG, CHUNK_INNER_TAG, &self.inner, self.height_included, &self.signature).serialize(writer)
    }
}

impl BorshDeserialize for ChunkHeader {
    fn deserialize_reader<R: io::Read>(reader: &mut R) -> io::Result<Self> {
        read_tag(reader, CHUNK_TAG, "chunk header")?;
        read_tag(reader, CHUNK_INNER_TAG, "inner chunk header")?;
        let (inner, height_included, signature) = BorshDeserialize::deserialize_reader(reader)?;
        Ok(Self { inner, height_included, signature })
    }
}
