//! Transactions and receipts.

use serde_json::{Value, json};
use tpsctl_near::{Action, PublicKey, SignedTransaction};

use crate::core::ReceiptFacts;

fn transfer(deposit: u128) -> Value {
    json!({"Transfer": {"deposit": deposit.to_string()}})
}

pub(in crate::shell) fn transaction(signed: &SignedTransaction) -> Value {
    let own = &signed.transaction;
    let action = |Action::Transfer { deposit }: &Action| transfer(*deposit);
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

/// A receipt. Where the key is not known it is all zeros, as neard has it in receipts of the system.
pub(in crate::shell) fn receipt(own: &ReceiptFacts) -> Value {
    let action = json!({
        "actions": own.deposits.iter().map(|deposit| transfer(*deposit)).collect::<Vec<_>>(),
        "gas_price": own.gas_price.to_string(),
        "input_data_ids": [],
        "is_promise_yield": false,
        "output_data_receivers": [],
        "signer_id": own.signer,
        "signer_public_key": own.public_key.unwrap_or(PublicKey([0; 32])),
    });
    json!({
        "predecessor_id": own.predecessor.as_ref().map_or("system", |id| id.as_str()),
        "priority": 0,
        "receipt": {"Action": action},
        "receipt_id": own.id,
        "receiver_id": own.receiver,
    })
}
