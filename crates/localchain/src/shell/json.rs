//! Blocks and outcomes as neard's JSON (core/primitives/src/views.rs). What this chain does not have is zero, empty or
//! null, never made up.

use serde_json::{Value, json};
use tpsctl_near::{Action, CryptoHash, PROTOCOL_VERSION, SignedTransaction};

use crate::core::{Block, BlockChunk, InvalidTx, Watched, transfer_gas};

fn zero() -> String {
    CryptoHash::default().to_string()
}

fn chunk(own: &BlockChunk, gas_limit: u64) -> Value {
    let header = &own.signed.header;
    json!({
        "balance_burnt": header.prev_balance_burnt.to_string(),
        "bandwidth_requests": {"V1": {"requests": []}},
        "chunk_hash": header.hash(),
        "congestion_info": {
            "allowed_shard": 0,
            "buffered_receipts_gas": "0",
            "delayed_receipts_gas": header.delayed_gas.to_string(),
            "receipt_bytes": 0,
        },
        "encoded_length": header.encoded_length,
        "encoded_merkle_root": zero(),
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

/// Commits to the states before a block: SHA-256 over its chunks' state roots.
pub(super) fn state_root(block: &Block) -> CryptoHash {
    let roots: Vec<CryptoHash> =
        block.header.chunks.iter().map(|chunk| chunk.signed.header.prev_state_root).collect();
    CryptoHash::of_borsh(&roots)
}

/// The result of `block`.
pub(super) fn block(block: &Block, gas_limit: u64) -> Value {
    let own = &block.header;
    let header = json!({
        "approvals": own.approvals,
        "block_body_hash": zero(),
        "block_merkle_root": zero(),
        "block_ordinal": own.ordinal,
        "challenges_result": [],
        "challenges_root": zero(),
        "chunk_endorsements": own.endorsements,
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
    let chunks: Vec<Value> = own.chunks.iter().map(|own| chunk(own, gas_limit)).collect();
    json!({"author": own.author, "chunks": chunks, "header": header})
}

/// neard's `InvalidTxError`.
pub(super) fn invalid_tx(error: &InvalidTx) -> Value {
    match error {
        InvalidTx::Expired => json!("Expired"),
        InvalidTx::InvalidSignature => json!("InvalidSignature"),
        InvalidTx::CostOverflow => json!("CostOverflow"),
        InvalidTx::SignerDoesNotExist(signer_id) => json!({"SignerDoesNotExist": {"signer_id": signer_id}}),
        InvalidTx::AccessKeyNotFound(account_id, public_key) => json!({
            "InvalidAccessKeyError": {
                "AccessKeyNotFound": {"account_id": account_id, "public_key": public_key},
            },
        }),
        InvalidTx::InvalidNonce { tx_nonce, ak_nonce } => {
            json!({"InvalidNonce": {"ak_nonce": ak_nonce, "tx_nonce": tx_nonce}})
        }
        InvalidTx::NonceTooLarge { tx_nonce, upper_bound } => {
            json!({"NonceTooLarge": {"tx_nonce": tx_nonce, "upper_bound": upper_bound}})
        }
        InvalidTx::NotEnoughBalance { signer_id, balance, cost } => json!({
            "NotEnoughBalance": {
                "balance": balance.to_string(),
                "cost": cost.to_string(),
                "signer_id": signer_id,
            },
        }),
        InvalidTx::TransactionSizeExceeded { size, limit } => {
            json!({"TransactionSizeExceeded": {"limit": limit, "size": size}})
        }
    }
}

fn transaction(signed: &SignedTransaction) -> Value {
    let own = &signed.transaction;
    let action =
        |Action::Transfer { deposit }: &Action| json!({"Transfer": {"deposit": deposit.to_string()}});
    json!({
        "actions": own.actions.iter().map(action).collect::<Vec<_>>(),
        "hash": signed.hash(),
        "nonce": own.nonce,
        "priority_fee": 0,
        "public_key": own.public_key,
        "receiver_id": own.receiver_id,
        "signature": signed.signature,
        "signer_id": own.signer_id,
    })
}

/// The result of `send_tx` for an executed transaction. The receipt's id is our own: SHA-256 of the transaction's hash.
pub(super) fn executed(signed: &SignedTransaction, watched: &Watched, level: &str, gas_price: u128) -> Value {
    let own = &signed.transaction;
    let receipt_id = CryptoHash::of(&signed.hash().0);
    let gas_burnt = transfer_gas(own.actions.len() as u32);
    let tokens_burnt = (u128::from(gas_burnt) * gas_price).to_string();
    let is_success = watched.executed.is_some_and(|(_, _, is_success)| is_success);
    let status = if is_success {
        json!({"SuccessValue": ""})
    } else {
        let kind = json!({"AccountDoesNotExist": {"account_id": own.receiver_id}});
        json!({"Failure": {"ActionError": {"index": 0, "kind": kind}}})
    };
    let outcome =
        |executor: &tpsctl_near::AccountId, status: &Value, receipts: Vec<CryptoHash>, metadata: Value| {
            json!({
                "executor_id": executor,
                "gas_burnt": gas_burnt,
                "logs": [],
                "metadata": metadata,
                "receipt_ids": receipts,
                "status": status,
                "tokens_burnt": tokens_burnt,
            })
        };
    let converted = outcome(
        &own.signer_id,
        &json!({"SuccessReceiptId": receipt_id}),
        vec![receipt_id],
        json!({"gas_profile": null, "version": 1}),
    );
    let delivered = outcome(
        &own.receiver_id,
        &status,
        Vec::new(),
        json!({"contracts": [null], "gas_profile": [], "version": 4}),
    );
    json!({
        "final_execution_status": level,
        "receipts_outcome": [{
            "block_hash": watched.executed.map(|(_, hash, _)| hash),
            "id": receipt_id,
            "outcome": delivered,
            "proof": [],
        }],
        "status": status,
        "transaction": transaction(signed),
        "transaction_outcome": {
            "block_hash": watched.converted.map(|(_, hash)| hash),
            "id": signed.hash(),
            "outcome": converted,
            "proof": [],
        },
    })
}
