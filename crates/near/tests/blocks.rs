//! Blocks against what a real node sent.

use borsh::BorshDeserialize;
use proptest::prelude::*;
use tpsctl_near::{
    CryptoHash, PROTOCOL_VERSION,
    block::{Block, CongestionInfo},
    files::{KeyFile, from_text},
    p2p::{FrameDecoder, block_frame, frame, read_block},
};

const NODE: &[u8] = include_bytes!("../../../testdata/neard/p2p/accepted/node-to-client.bin");
const VALIDATORS: [&[u8]; 2] = [
    include_bytes!("../../../testdata/neard/home/node0/validator_key.json"),
    include_bytes!("../../../testdata/neard/home/node1/validator_key.json"),
];
const BLOCK_BY_RPC: &[u8] = include_bytes!("../../../testdata/neard/rpc/block-final.json");

/// The recorded messages that hold a block.
fn recorded() -> Vec<Vec<u8>> {
    let mut decoder = FrameDecoder::default();
    decoder.push(NODE);
    let mut messages = Vec::new();
    while let Some(message) = decoder.next_frame().expect("short frames") {
        messages.push(message.to_vec());
    }
    messages.retain(|message| read_block(message).is_some());
    assert_eq!(messages.len(), 10);
    messages
}

fn read(message: &[u8]) -> Block {
    Block::try_from_slice(read_block(message).expect("a block message")).expect("a block")
}

#[test]
fn recorded_blocks_write_to_the_same_bytes() {
    for message in recorded() {
        let block = read(&message);
        let written = borsh::to_vec(&block).expect("memory");
        assert_eq!(block_frame(&written), frame(&message));
    }
}

#[test]
fn hashes_are_neards() {
    let blocks: Vec<Block> = recorded().iter().map(|message| read(message)).collect();
    let mut links = 0;
    for block in &blocks {
        assert_eq!(block.header.inner_rest.block_body_hash, block.body.hash());
        let children = blocks.iter().filter(|child| child.header.inner_rest.prev_height == block.height());
        for child in children {
            assert_eq!(child.header.prev_hash, block.hash());
            links += 1;
            for chunk in child.body.chunks.iter().filter(|own| own.height_included == child.height()) {
                assert_eq!(chunk.inner.prev_block_hash, block.hash());
            }
        }
    }
    assert!(links >= 8, "{links}");
}

#[test]
fn signatures_are_the_producers() {
    let key = |text: &[u8]| from_text::<KeyFile>("validator key", text).expect("fixture").key.public();
    let keys = VALIDATORS.map(key);
    for message in recorded() {
        let block = read(&message);
        let is_signed = |hash: CryptoHash, signature| keys.iter().any(|key| key.verify(&hash.0, signature));
        assert!(is_signed(block.hash(), &block.header.signature));
        for chunk in &block.body.chunks {
            assert!(is_signed(chunk.inner.hash(), &chunk.signature));
        }
    }
}

#[test]
fn fields_are_where_they_belong() {
    let block = read(&recorded()[3]);
    let (lite, rest) = (&block.header.inner_lite, &block.header.inner_rest);
    assert_eq!(rest.prev_height + 1, lite.height);
    assert_eq!(rest.latest_protocol_version, PROTOCOL_VERSION);
    assert_eq!(rest.next_gas_price, 1_000_000_000);
    assert_eq!(rest.chunk_mask, [true, true]);
    assert_eq!((rest.approvals.len(), rest.chunk_endorsements.len()), (2, 2));
    assert_eq!(block.body.chunks.len(), 2);
    for (shard, chunk) in (0..).zip(&block.body.chunks) {
        assert_eq!((chunk.inner.shard_id, chunk.height_included), (shard, lite.height));
        assert_eq!(chunk.inner.gas_limit, 20_000_000_000_000_000);
        let CongestionInfo::V1 { delayed_receipts_gas, .. } = chunk.inner.congestion_info;
        assert_eq!(delayed_receipts_gas, 0);
    }
    let by_rpc: serde_json::Value = serde_json::from_slice(BLOCK_BY_RPC).expect("fixture");
    let supply = by_rpc["result"]["header"]["total_supply"].as_str().expect("text");
    assert_eq!(rest.total_supply.to_string().len(), supply.len(), "the same chain");
}

#[test]
fn other_versions_are_refused_by_name() {
    let message = recorded().remove(0);
    let borsh = read_block(&message).expect("a block message");
    let mut other = borsh.to_vec();
    other[1] = 6;
    let fault = Block::try_from_slice(&other).expect_err("another version");
    assert_eq!(fault.to_string(), "block header of version tag 6, not 5");
    for len in 0..borsh.len() {
        assert!(Block::try_from_slice(&borsh[..len]).is_err(), "{len}");
    }
}

proptest! {
    #[test]
    fn a_changed_block_is_another_or_none(at in 0_usize..1_740, flip in 1_u8..=255) {
        let message = recorded().remove(0);
        let mut borsh = read_block(&message).expect("a block message").to_vec();
        let before = read(&message);
        prop_assume!(at < borsh.len());
        borsh[at] ^= flip;
        if let Ok(block) = Block::try_from_slice(&borsh) {
            prop_assert_ne!(block.clone(), before);
            prop_assert_eq!(borsh::to_vec(&block).expect("memory"), borsh);
        }
    }
}
