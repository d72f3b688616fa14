//! Signs again what a changed message signs, so that fuzzing gets past the signatures of the two validators.

use borsh::{BorshDeserialize, BorshSerialize};
use tpsctl_localchain::core::{Approval, BlockHeader, ChunkBody, Endorsement, SignedChunkHeader};
use tpsctl_near::{CryptoHash, KeyPair};

use super::chain::key_of;

/// Numbers of the kinds, above the first private one.
const BLOCK: u8 = 1;
const CHUNK: u8 = 2;
const ENDORSEMENT: u8 = 4;
const APPROVAL: u8 = 5;

/// The content signed by the validator that it names, or by the second; unchanged where it is nothing that is signed.
pub(super) fn resign(kind: u8, content: &[u8]) -> Vec<u8> {
    let signed = match kind % 16 {
        BLOCK => block(content),
        CHUNK => chunk(content),
        ENDORSEMENT => endorsement(content),
        APPROVAL => approval(content),
        _ => None,
    };
    signed.unwrap_or_else(|| content.to_vec())
}

fn bytes<T: BorshSerialize>(value: &T) -> Vec<u8> {
    borsh::to_vec(value).expect("memory takes every byte")
}

fn validator(index: u32) -> KeyPair {
    key_of(["node0", "node1"][index.min(1) as usize])
}

fn block(content: &[u8]) -> Option<Vec<u8>> {
    let header = BlockHeader::deserialize(&mut &*content).ok()?;
    let key = key_of(header.author.as_str());
    let signature = key.sign(&CryptoHash::of_borsh(&header).0);
    Some(bytes(&(header, signature)))
}

fn chunk(content: &[u8]) -> Option<Vec<u8>> {
    let mut rest = content;
    let SignedChunkHeader { mut header, .. } = SignedChunkHeader::deserialize(&mut rest).ok()?;
    let body = ChunkBody::deserialize(&mut rest).unwrap_or_default();
    header.tx_root = body.tx_root();
    header.encoded_length = body.encoded_length();
    let groups: Vec<CryptoHash> = body.receipts.iter().map(|group| CryptoHash::of(group)).collect();
    header.receipts_root = CryptoHash::of_borsh(&groups);
    let signature = validator(1).sign(&header.hash().0);
    Some(bytes(&(SignedChunkHeader { header, signature }, body)))
}

fn endorsement(content: &[u8]) -> Option<Vec<u8>> {
    let mut own = Endorsement::deserialize(&mut &*content).ok()?;
    let message = CryptoHash::of_borsh(&(b"endorsement", own.chunk_hash));
    own.signature = validator(own.validator).sign(&message.0);
    Some(bytes(&own))
}

fn approval(content: &[u8]) -> Option<Vec<u8>> {
    let mut own = Approval::deserialize(&mut &*content).ok()?;
    let message = CryptoHash::of_borsh(&(b"approval", own.basis, own.target_height));
    own.signature = validator(own.validator).sign(&message.0);
    Some(bytes(&own))
}
