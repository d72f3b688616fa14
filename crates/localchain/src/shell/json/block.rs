//! Blocks and chunks.

use serde_json::{Value, json};
use tpsctl_near::{CryptoHash, PROTOCOL_VERSION};

use super::{receipt, transaction, zero};
use crate::core::{Assignment, Block, BlockChunk, FoundChunk};

fn chunk_header(own: &BlockChunk, gas_limit: u64) -> Value {
    let header = &own.signed.header;
    json!({
        "balance_burnt": header.prev_balance_burnt.to_string(),
        "bandwidth_requests": {"V1": {"requests": []}},
        "chunk_hash": header.hash(),
        "congestion_info": {
            "allowed_shard": header.shard_id,
            "buffered_receipts_gas": "0",
            "delayed_receipts_gas": header.delayed_gas.to_string(),
            "receipt_bytes": 0,
        },
        "encoded_length": header.encoded_length,
        "encoded_merkle_root": header.content_root(),
        "gas_limit": gas_limit,
        "gas_used": header.prev_gas_used,
        "height_created": header.height_created,
        "height_included": own.height_included,
        "outcome_root": zero(),
        "outgoing_receipts_root": header.receipts_root,
        "prev_block_hash": header.prev_block_hash,
        "prev_state_root": header.prev_state_root,
        "proposed_split": null,
        "rent_paid": "0",
        "shard_id": header.shard_id,
        "signature": own.signed.signature,
        "tx_root": header.tx_root,
        "validator_proposals": [],
        "validator_reward": "0",
    })
}

/// The result of `chunk`.
pub(in crate::shell) fn chunk(found: &FoundChunk, gas_limit: u64) -> Value {
    let transactions: Vec<Value> = found.transactions().iter().map(transaction).collect();
    let receipts: Vec<Value> = found.receipts().iter().map(receipt).collect();
    json!({
        "author": found.author,
        "header": chunk_header(&found.header, gas_limit),
        "receipts": receipts,
        "transactions": transactions,
    })
}

/// Who endorsed each new chunk, as neard says it: a bit for each of the chunk's validators, eight in a byte.
fn endorsements(block: &Block, assignment: &Assignment) -> Vec<Vec<u8>> {
    let own = &block.header;
    let dealt = assignment.deal(own.prev_height + 1);
    let bitmap = |(shard, given): (usize, &Vec<u8>)| {
        if !own.chunk_mask[shard] || own.height == own.prev_height {
            return Vec::new();
        }
        let assigned = &dealt[shard];
        let mut bits = vec![0; assigned.len().div_ceil(8)];
        for (place, validator) in assigned.keys().enumerate() {
            if given.get(validator / 8).is_some_and(|byte| byte >> (validator % 8) & 1 == 1) {
                bits[place / 8] |= 1 << (place % 8);
            }
        }
        bits
    };
    own.endorsements.iter().enumerate().map(bitmap).collect()
}

/// Commits to the states before a block: SHA-256 over its chunks' state roots.
pub(in crate::shell) fn state_root(block: &Block) -> CryptoHash {
    let roots: Vec<CryptoHash> =
        block.header.chunks.iter().map(|chunk| chunk.signed.header.prev_state_root).collect();
    CryptoHash::of_borsh(&roots)
}

/// The result of `block`.
pub(in crate::shell) fn block(block: &Block, assignment: &Assignment, gas_limit: u64) -> Value {
    let own = &block.header;
    let header = json!({
        "approvals": own.approvals,
        "block_body_hash": block.near().header.inner_rest.block_body_hash,
        "block_merkle_root": zero(),
        "block_ordinal": own.ordinal,
        "challenges_result": [],
        "challenges_root": zero(),
        "chunk_endorsements": endorsements(block, assignment),
        "chunk_headers_root": zero(),
        "chunk_mask": own.chunk_mask,
        "chunk_receipts_root": zero(),
        "chunk_tx_root": zero(),
        "chunks_included": own.chunk_mask.iter().filter(|is_new| **is_new).count(),
        "epoch_id": own.epoch_id,
        "epoch_sync_data_hash": null,
        "gas_price": own.gas_price.to_string(),
        "hash": block.hash(),
        "height": own.height,
        "last_ds_final_block": own.last_ds_final,
        "last_final_block": own.last_final,
        "latest_protocol_version": PROTOCOL_VERSION,
        "next_bp_hash": zero(),
        "next_epoch_id": own.next_epoch_id,
        "outcome_root": zero(),
        "prev_hash": own.prev_hash,
        "prev_height": own.prev_height,
        "prev_state_root": state_root(block),
        "random_value": zero(),
        "rent_paid": "0",
        "shard_split": null,
        "signature": block.signature,
        "timestamp": own.timestamp_ns,
        "timestamp_nanosec": own.timestamp_ns.to_string(),
        "total_supply": own.total_supply.to_string(),
        "validator_proposals": [],
        "validator_reward": "0",
    });
    let chunks: Vec<Value> = own.chunks.iter().map(|own| chunk_header(own, gas_limit)).collect();
    json!({"author": own.author, "chunks": chunks, "header": header})
}
