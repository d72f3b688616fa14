//! Blocks, chunks and the votes on them, in our own borsh forms.

use std::sync::Arc;

use borsh::{BorshDeserialize, BorshSerialize};
use sha2::{Digest, Sha256};
use tpsctl_near::{AccountId, CryptoHash, KeyPair, PublicKey, Signature, SignedTransaction};

use super::{near_form, signatures::is_signed};

/// In the place of a signature.
const UNSIGNED: Signature = Signature([0; 64]);

/// What a chunk commits to. As in neard, a chunk reports the results of the shard's *previous* chunk.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct ChunkHeader {
    /// The shard.
    pub shard_id: u64,
    /// One more than the height of the block that it builds on.
    pub height_created: u64,
    /// The block that it builds on.
    pub prev_block_hash: CryptoHash,
    /// State before this chunk's transactions.
    pub prev_state_root: CryptoHash,
    /// Gas that the previous chunk burnt.
    pub prev_gas_used: u64,
    /// Yocto that the previous chunk burnt.
    pub prev_balance_burnt: u128,
    /// Receipts that wait in the shard's queue before this chunk.
    pub delayed_count: u64,
    /// Gas that they will burn.
    pub delayed_gas: u128,
    /// SHA-256 of the body's transactions; zero where there are none.
    pub tx_root: CryptoHash,
    /// Hash over the body's groups of receipts.
    pub receipts_root: CryptoHash,
    /// Bytes of the body.
    pub encoded_length: u64,
    /// Gas limit of a chunk.
    pub gas_limit: u64,
}

impl ChunkHeader {
    /// The chunk's hash, as neard computes it; its producer signs it.
    pub fn hash(&self) -> CryptoHash {
        near_form::chunk_inner(self).hash()
    }

    /// Commits to the body and to the number of receipts that wait, for which NEAR's form has no place.
    pub(crate) fn content_root(&self) -> CryptoHash {
        CryptoHash::of_borsh(&(self.tx_root, self.receipts_root, self.delayed_count))
    }
}

/// A chunk header with its producer's signature.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct SignedChunkHeader {
    /// What is signed.
    pub header: ChunkHeader,
    /// Over [`ChunkHeader::hash`].
    pub signature: Signature,
}

/// What a chunk carries.
#[derive(Debug, Clone, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct ChunkBody {
    /// Borsh of a list of signed transactions; no bytes where there are none.
    pub transactions: Vec<u8>,
    /// Receipts that the shard's previous chunk made, by index of the shard that will execute them: borsh of a list
    /// each, no bytes where there are none.
    pub receipts: Vec<Vec<u8>>,
}

impl ChunkBody {
    /// Commits to the transactions.
    pub fn tx_root(&self) -> CryptoHash {
        if self.transactions.is_empty() { CryptoHash::default() } else { CryptoHash::of(&self.transactions) }
    }

    /// Bytes of content.
    pub fn encoded_length(&self) -> u64 {
        (self.transactions.len() + self.receipts.iter().map(Vec::len).sum::<usize>()) as u64
    }
}

/// Commits to groups of receipts, one a destination shard.
pub(crate) fn receipts_root(groups: &[Vec<u8>]) -> CryptoHash {
    let hashes: Vec<CryptoHash> = groups.iter().map(|group| CryptoHash::of(group)).collect();
    CryptoHash::of_borsh(&hashes)
}

/// A chunk whose body is the one that its header commits to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    signed: SignedChunkHeader,
    body: ChunkBody,
    hash: CryptoHash,
}

impl Chunk {
    /// Makes a chunk from parts that came from elsewhere; nothing if they do not belong together.
    pub fn check(signed: SignedChunkHeader, body: ChunkBody) -> Option<Self> {
        let header = &signed.header;
        let belongs = header.tx_root == body.tx_root()
            && header.receipts_root == receipts_root(&body.receipts)
            && header.encoded_length == body.encoded_length();
        belongs.then(|| Self { hash: signed.header.hash(), signed, body })
    }

    /// The chunk of a header that commits to nothing, whose body nobody needs to send.
    pub(crate) fn empty(signed: SignedChunkHeader, shards: usize) -> Option<Self> {
        if signed.header.encoded_length > 0 {
            return None;
        }
        Self::check(signed, ChunkBody { transactions: Vec::new(), receipts: vec![Vec::new(); shards] })
    }

    /// Makes and signs a chunk.
    pub(crate) fn sign(header: ChunkHeader, body: ChunkBody, key: &KeyPair) -> Self {
        let hash = header.hash();
        let signature = key.sign(&hash.0);
        Self { signed: SignedChunkHeader { header, signature }, body, hash }
    }

    /// Its header.
    pub fn header(&self) -> &ChunkHeader {
        &self.signed.header
    }

    /// Its header with the signature.
    pub fn signed(&self) -> &SignedChunkHeader {
        &self.signed
    }

    /// Its body.
    pub fn body(&self) -> &ChunkBody {
        &self.body
    }

    /// Its hash.
    pub fn hash(&self) -> CryptoHash {
        self.hash
    }
}

/// A shard's chunk in a block: a new one, or the last one again where the shard missed.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct BlockChunk {
    /// The chunk.
    pub signed: SignedChunkHeader,
    /// Height of the block that first included it.
    pub height_included: u64,
}

/// A block without its author's signature.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct BlockHeader {
    /// Height.
    pub height: u64,
    /// Height of the parent.
    pub prev_height: u64,
    /// Hash of the parent.
    pub prev_hash: CryptoHash,
    /// Epoch; zero in the first.
    pub epoch_id: CryptoHash,
    /// The next epoch.
    pub next_epoch_id: CryptoHash,
    /// Nanoseconds since the Unix epoch; above the parent's.
    pub timestamp_ns: u64,
    /// Who made the block.
    pub author: AccountId,
    /// Yocto per gas.
    pub gas_price: u128,
    /// What genesis made less what was burnt and reported so far, yocto.
    pub total_supply: u128,
    /// Number of the block on its chain; genesis has 1.
    pub ordinal: u64,
    /// The last ancestor with two blocks in a row above it; zero where there is none.
    pub last_final: CryptoHash,
    /// The last ancestor with one block directly above it; zero where there is none.
    pub last_ds_final: CryptoHash,
    /// Which shards have a new chunk, by index.
    pub chunk_mask: Vec<bool>,
    /// Chunks by shard index.
    pub chunks: Vec<BlockChunk>,
    /// Approvals of the parent, by validator index.
    pub approvals: Vec<Option<Signature>>,
    /// Which validators endorsed each shard's new chunk: bitmap over validator indices.
    pub endorsements: Vec<Vec<u8>>,
}

/// A block. Its hash is computed once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What is signed.
    pub header: BlockHeader,
    /// Over the hash.
    pub signature: Signature,
    hash: CryptoHash,
}

impl Block {
    /// Makes and signs a block.
    pub(crate) fn sign(header: BlockHeader, key: &KeyPair) -> Self {
        let hash = near_form::block(&header, UNSIGNED).hash();
        Self { signature: key.sign(&hash.0), header, hash }
    }

    /// The block that nobody signs; its hash commits to more than its header.
    pub(crate) fn genesis(header: BlockHeader, hash: CryptoHash) -> Self {
        Self { header, signature: UNSIGNED, hash }
    }

    /// Its hash, as neard computes it; only that of genesis is our own.
    pub fn hash(&self) -> CryptoHash {
        self.hash
    }

    /// The block in NEAR's own form.
    pub(crate) fn near(&self) -> tpsctl_near::block::Block {
        near_form::block(&self.header, self.signature)
    }

    /// Its height.
    pub fn height(&self) -> u64 {
        self.header.height
    }

    /// Borsh: header, then signature.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        append(out, &self.header);
        append(out, &self.signature);
    }

    /// Reads what [`Self::write`] wrote.
    pub(crate) fn read(bytes: &mut &[u8]) -> std::io::Result<Self> {
        let header = BlockHeader::deserialize(bytes)?;
        let signature = Signature::deserialize(bytes)?;
        Ok(Self { hash: near_form::block(&header, signature).hash(), header, signature })
    }
}

/// Appends borsh to a buffer, which cannot fail.
pub(crate) fn append<T: BorshSerialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    value.serialize(out).expect("memory takes every byte");
}

/// Borsh of a list in an own buffer; no bytes for an empty list.
pub(crate) fn list_bytes<T: BorshSerialize>(items: &[T]) -> Vec<u8> {
    if items.is_empty() { Vec::new() } else { borsh::to_vec(items).expect("memory takes every byte") }
}

/// Reads what [`list_bytes`] wrote; nothing if it is garbage.
pub(crate) fn read_list<T: BorshDeserialize>(bytes: &[u8]) -> Option<Vec<T>> {
    if bytes.is_empty() { Some(Vec::new()) } else { Vec::<T>::try_from_slice(bytes).ok() }
}

/// Bytes of a signature behind what it signs: its kind and itself.
const SIGNATURE_BYTES: usize = 65;

/// The hash of a signed transaction, from its borsh: of all but the signature.
pub(crate) fn signed_hash(bytes: &[u8]) -> CryptoHash {
    CryptoHash::of(&bytes[..bytes.len().saturating_sub(SIGNATURE_BYTES)])
}

/// [`list_bytes`] of transactions that are encoded already.
pub(crate) fn list_of_encoded<'t>(transactions: impl ExactSizeIterator<Item = &'t [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    let len = u32::try_from(transactions.len()).unwrap_or(u32::MAX);
    for bytes in transactions {
        if out.is_empty() {
            append(&mut out, &len);
        }
        out.extend_from_slice(bytes);
    }
    out
}

/// Reads a list of transactions with their hashes; nothing if it is garbage.
pub(crate) fn read_transactions(bytes: &[u8]) -> Option<Vec<(SignedTransaction, CryptoHash)>> {
    let Some((len, mut rest)) = bytes.split_first_chunk::<4>() else {
        return bytes.is_empty().then(Vec::new);
    };
    let mut read = Vec::new();
    for _ in 0..u32::from_le_bytes(*len) {
        let before = rest;
        let signed = SignedTransaction::deserialize(&mut rest).ok()?;
        read.push((signed, signed_hash(&before[..before.len() - rest.len()])));
    }
    rest.is_empty().then_some(read)
}

/// What an approval stands on (chain/chain/src/doomslug.rs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum ApprovalBasis {
    /// This block may be followed by the next height.
    Endorsement(CryptoHash),
    /// The heights after this one up to the target may be skipped.
    Skip(u64),
}

/// A validator's leave to make a block at a height.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Approval {
    /// What it stands on.
    pub basis: ApprovalBasis,
    /// The height.
    pub target_height: u64,
    /// Index of the validator.
    pub validator: u32,
    /// Over SHA-256 of borsh of (`approval`, basis, target height).
    pub signature: Signature,
}

impl Approval {
    /// What is signed.
    pub(crate) fn message(basis: ApprovalBasis, target_height: u64) -> CryptoHash {
        CryptoHash::of_borsh(&(b"approval", basis, target_height))
    }

    /// The approval that a block at `height` on a parent needs.
    pub(crate) fn basis_for(height: u64, prev_height: u64, prev_hash: CryptoHash) -> ApprovalBasis {
        if height == prev_height + 1 {
            ApprovalBasis::Endorsement(prev_hash)
        } else {
            ApprovalBasis::Skip(prev_height)
        }
    }

    /// Whether the validator's key signed it.
    pub(crate) fn is_signed(&self, key: &PublicKey) -> bool {
        is_signed(key, Self::message(self.basis, self.target_height), &self.signature)
    }
}

/// A validator's word that it re-executed what a chunk claims.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Endorsement {
    /// The chunk.
    pub chunk_hash: CryptoHash,
    /// Its shard.
    pub shard_id: u64,
    /// Its height.
    pub height_created: u64,
    /// Index of the validator.
    pub validator: u32,
    /// Over SHA-256 of borsh of (`endorsement`, chunk hash).
    pub signature: Signature,
}

impl Endorsement {
    /// What is signed.
    pub(crate) fn message(chunk_hash: CryptoHash) -> CryptoHash {
        CryptoHash::of_borsh(&(b"endorsement", chunk_hash))
    }
}

/// Shared chunk.
pub(crate) type ArcChunk = Arc<Chunk>;
/// Shared block.
pub(crate) type ArcBlock = Arc<Block>;

/// A stretch of the sender's chain.
#[derive(Debug, Clone)]
pub struct BlocksPage {
    /// Blocks in order.
    pub blocks: Vec<ArcBlock>,
    /// Bodies of their new chunks.
    pub chunks: Vec<ArcChunk>,
    /// The sender's head.
    pub head_height: u64,
    /// The lowest height from which the sender has all bodies.
    pub earliest_height: u64,
}

/// A validator of genesis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validator {
    /// Its account.
    pub account_id: AccountId,
    /// Its staking key.
    pub public_key: PublicKey,
    /// Its stake, yocto.
    pub stake: u128,
}

/// A group's place among the groups: SHA-256 of key and account.
pub(crate) type GroupKey = [u8; 32];

/// Where a transaction stands in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TxKey {
    pub(crate) group: GroupKey,
    pub(crate) nonce: u64,
}

impl TxKey {
    pub(crate) fn of(signed: &SignedTransaction) -> Self {
        let transaction = &signed.transaction;
        let mut hash = Sha256::new();
        hash.update(transaction.public_key.0);
        hash.update(transaction.signer_id.as_str());
        Self { group: hash.finalize().into(), nonce: transaction.nonce }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tpsctl_near::{Action, Transaction};

    use super::*;

    fn signed(nonce: u64, actions: usize) -> SignedTransaction {
        let key = KeyPair::from_seed([nonce as u8; 32]);
        Transaction {
            signer_id: "signer".parse().expect("id"),
            public_key: key.public(),
            nonce,
            receiver_id: "receiver".parse().expect("id"),
            block_hash: CryptoHash::default(),
            actions: vec![Action::Transfer { deposit: 1 }; actions],
        }
        .sign(&key)
    }

    proptest! {
        #[test]
        fn encoded_lists_are_those_of_borsh(all in proptest::collection::vec((0_u64..9, 0_usize..3), 0..6), cut in 0_usize..900) {
            let all: Vec<SignedTransaction> = all.into_iter().map(|(nonce, actions)| signed(nonce, actions)).collect();
            let encoded: Vec<Vec<u8>> = all.iter().map(|own| borsh::to_vec(own).expect("memory")).collect();
            let bytes = list_of_encoded(encoded.iter().map(Vec::as_slice));
            prop_assert_eq!(&bytes, &list_bytes(&all));
            let expected: Vec<_> = all.into_iter().map(|own| { let hash = own.hash(); (own, hash) }).collect();
            prop_assert_eq!(read_transactions(&bytes), Some(expected));
            let cut = &bytes[..cut.min(bytes.len())];
            prop_assert_eq!(read_transactions(cut).is_some(), read_list::<SignedTransaction>(cut).is_some());
        }

        #[test]
        fn garbage_is_no_list(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let plain = read_list::<SignedTransaction>(&bytes);
            prop_assert_eq!(read_transactions(&bytes).is_some(), plain.is_some());
        }
    }
}
