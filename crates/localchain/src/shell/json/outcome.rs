//! What became of a transaction, and what is wrong with one.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tpsctl_near::{AccountId, CryptoHash};

use super::{receipt, transaction};
use crate::core::{
    Execution, Found, InvalidTx, Place, ReceiptFacts, receipt_id_of_receipt, receipt_id_of_transaction,
    transfer_gas,
};

/// How far a transaction is (core/primitives/src/views.rs:2146-2165).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(in crate::shell) enum Level {
    None,
    Included,
    #[default]
    ExecutedOptimistic,
    IncludedFinal,
    Executed,
    Final,
}

impl Level {
    /// Whether who waits for `wanted` is served at this level.
    pub(in crate::shell) fn meets(self, wanted: Self) -> bool {
        match wanted {
            Self::None => true,
            Self::Included => self != Self::None,
            Self::ExecutedOptimistic => {
                matches!(self, Self::ExecutedOptimistic | Self::Executed | Self::Final)
            }
            Self::IncludedFinal => matches!(self, Self::IncludedFinal | Self::Executed | Self::Final),
            Self::Executed => matches!(self, Self::Executed | Self::Final),
            Self::Final => self == Self::Final,
        }
    }
}

/// How far a transaction is when blocks up to `final_height` are final. Its refund is waited for last.
pub(in crate::shell) fn level(found: &Found, final_height: u64) -> Level {
    let is_final = |place: &Place| place.height <= final_height;
    match (is_final(&found.included), &found.executed) {
        (false, Some(_)) => Level::ExecutedOptimistic,
        (true, None) if found.is_converted => Level::IncludedFinal,
        (_, None) => Level::Included,
        (true, Some((place, execution))) => {
            let is_refunded = execution.refund == 0 || found.refunded.is_some_and(|place| is_final(&place));
            if is_refunded && is_final(place) { Level::Final } else { Level::Executed }
        }
    }
}

/// neard's `InvalidTxError`.
pub(in crate::shell) fn invalid_tx(error: &InvalidTx) -> Value {
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

/// A piece of an outcome.
struct Part<'p> {
    id: CryptoHash,
    place: Place,
    executor: &'p AccountId,
    gas_burnt: u64,
    tokens_burnt: u128,
    receipts: Vec<CryptoHash>,
    status: Value,
    metadata: Value,
}

impl Part<'_> {
    fn json(self) -> Value {
        let outcome = json!({
            "executor_id": self.executor,
            "gas_burnt": self.gas_burnt,
            "logs": [],
            "metadata": self.metadata,
            "receipt_ids": self.receipts,
            "status": self.status,
            "tokens_burnt": self.tokens_burnt.to_string(),
        });
        json!({"block_hash": self.place.hash, "id": self.id, "outcome": outcome, "proof": []})
    }
}

/// Metadata of a receipt without contracts.
fn receipt_metadata() -> Value {
    json!({"contracts": [null], "gas_profile": [], "version": 4})
}

fn execution_status(found: &Found, execution: &Execution) -> Value {
    if execution.is_success {
        return json!({"SuccessValue": ""});
    }
    let kind = json!({"AccountDoesNotExist": {"account_id": found.signed.transaction.receiver_id}});
    json!({"Failure": {"ActionError": {"index": 0, "kind": kind}}})
}

/// The receipts of a transaction that were executed, with their outcomes.
fn executed(found: &Found, id: CryptoHash, gas_price: u128) -> Vec<(ReceiptFacts, Value)> {
    let Some((place, execution)) = found.executed else { return Vec::new() };
    let own = &found.signed.transaction;
    let refund_id = receipt_id_of_receipt(&id, place.height);
    let delivery = Part {
        id,
        place,
        executor: &own.receiver_id,
        gas_burnt: execution.gas_burnt,
        tokens_burnt: execution.tokens_burnt,
        receipts: if execution.refund > 0 { vec![refund_id] } else { Vec::new() },
        status: execution_status(found, &execution),
        metadata: receipt_metadata(),
    };
    let facts = ReceiptFacts::of_transaction(&found.signed, id, gas_price);
    let mut all = vec![(facts, delivery.json())];
    if let Some(place) = found.refunded {
        let refund = Part {
            id: refund_id,
            place,
            executor: &own.signer_id,
            gas_burnt: execution.gas_burnt,
            tokens_burnt: 0,
            receipts: Vec::new(),
            status: json!({"SuccessValue": ""}),
            metadata: receipt_metadata(),
        };
        all.push((ReceiptFacts::refund(&found.signed, refund_id, execution.refund), refund.json()));
    }
    all
}

/// Prices of gas, yocto each: what is burnt, and what was paid in advance.
#[derive(Debug, Clone, Copy)]
pub(in crate::shell) struct Prices {
    pub(in crate::shell) burnt: u128,
    pub(in crate::shell) purchase: u128,
}

/// The result of `send_tx`, `tx` and, `with_receipts`, `EXPERIMENTAL_tx_status`: what is known of the transaction.
pub(in crate::shell) fn reached(found: &Found, level: Level, prices: Prices, with_receipts: bool) -> Value {
    if !found.is_converted {
        // As in neard: a chunk has it, and there is no outcome.
        return json!({"final_execution_status": level});
    }
    let own = &found.signed.transaction;
    let hash = found.signed.hash();
    let receipt_id = receipt_id_of_transaction(&hash, found.included.height);
    let gas_burnt = transfer_gas(u32::try_from(own.actions.len()).unwrap_or(u32::MAX));
    let conversion = Part {
        id: hash,
        place: found.included,
        executor: &own.signer_id,
        gas_burnt,
        tokens_burnt: u128::from(gas_burnt) * prices.burnt,
        receipts: vec![receipt_id],
        status: json!({"SuccessReceiptId": receipt_id}),
        metadata: json!({"gas_profile": null, "version": 1}),
    };
    let executed = executed(found, receipt_id, prices.purchase);
    let status = found.executed.map_or(json!("Started"), |(_, own)| execution_status(found, &own));
    let outcomes: Vec<&Value> = executed.iter().map(|(_, outcome)| outcome).collect();
    let mut answer = json!({
        "final_execution_status": level,
        "receipts_outcome": outcomes,
        "status": status,
        "transaction": transaction(&found.signed),
        "transaction_outcome": conversion.json(),
    });
    if with_receipts {
        // A receipt that never left its shard is not kept as one (chain/chain/src/chain.rs:3129-3155).
        let is_local = own.signer_id == own.receiver_id;
        let shown = executed.iter().filter(|(facts, _)| !(is_local && facts.id == receipt_id));
        answer["receipts"] = shown.map(|(facts, _)| receipt(facts)).collect();
    }
    answer
}
