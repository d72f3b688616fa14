//! Receipts as neard names them: their ids follow from the transaction (core/primitives/src/utils.rs:270-335).

use std::collections::BTreeMap;

use tpsctl_near::{AccountId, Action, CryptoHash, PublicKey, SignedTransaction};

use super::{
    FoundChunk,
    transfer::{Receipt, ReceiptKind},
    types::read_list,
};

/// The id of the only receipt of a transaction that was converted at `height`.
pub fn receipt_id_of_transaction(transaction: &CryptoHash, height: u64) -> CryptoHash {
    let mut bytes = transaction.0.to_vec();
    bytes.extend_from_slice(&height.to_le_bytes());
    // Its number among the transaction's receipts.
    bytes.extend_from_slice(&0_u64.to_le_bytes());
    CryptoHash::of(&bytes)
}

/// The id of the only receipt that a receipt makes when it is executed at `height`.
pub fn receipt_id_of_receipt(receipt: &CryptoHash, height: u64) -> CryptoHash {
    receipt_id_of_transaction(receipt, height)
}

/// A receipt, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptFacts {
    /// Its id; of refunds in chunks our own, since the receipt that made them is not looked for.
    pub id: CryptoHash,
    /// Who sends it; none for the system, which sends refunds.
    pub predecessor: Option<AccountId>,
    /// Who gets it.
    pub receiver: AccountId,
    /// Who signed the transaction.
    pub signer: AccountId,
    /// With which key; none where that is not known.
    pub public_key: Option<PublicKey>,
    /// At which price gas was bought, yocto per gas.
    pub gas_price: u128,
    /// What it moves, yocto each.
    pub deposits: Vec<u128>,
}

impl ReceiptFacts {
    /// The receipt of a transaction.
    pub fn of_transaction(signed: &SignedTransaction, id: CryptoHash, gas_price: u128) -> Self {
        let own = &signed.transaction;
        let deposit = |Action::Transfer { deposit }: &Action| *deposit;
        Self {
            id,
            predecessor: Some(own.signer_id.clone()),
            receiver: own.receiver_id.clone(),
            signer: own.signer_id.clone(),
            public_key: Some(own.public_key),
            gas_price,
            deposits: own.actions.iter().map(deposit).collect(),
        }
    }

    /// A refund of `amount` to the signer of a transaction.
    pub fn refund(signed: &SignedTransaction, id: CryptoHash, amount: u128) -> Self {
        Self {
            predecessor: None,
            receiver: signed.transaction.signer_id.clone(),
            deposits: vec![amount],
            ..Self::of_transaction(signed, id, 0)
        }
    }
}

impl FoundChunk {
    /// The signed transactions of its body.
    pub fn transactions(&self) -> Vec<SignedTransaction> {
        let body = self.body.as_ref().map(|own| read_list(&own.body().transactions));
        body.flatten().unwrap_or_default()
    }

    /// The receipts of its body: those that the shard's chunk before it made.
    pub fn receipts(&self) -> Vec<ReceiptFacts> {
        let Some(body) = &self.body else { return Vec::new() };
        let before = self.before.as_ref().and_then(|(place, own)| {
            let signed: Vec<SignedTransaction> = read_list(&own.body().transactions)?;
            Some((place.height, signed))
        });
        let (height, signed) = before.unwrap_or_default();
        let name = |own: &SignedTransaction| (own.transaction.signer_id.clone(), own.transaction.nonce);
        let signed: BTreeMap<(AccountId, u64), &SignedTransaction> =
            signed.iter().map(|own| (name(own), own)).collect();
        let groups = body.body().receipts.iter();
        let receipts = groups.flat_map(|group| read_list::<Receipt>(group).unwrap_or_default());
        let facts = |receipt: Receipt| {
            let name = (receipt.signer_id.clone(), receipt.nonce);
            match (&receipt.kind, signed.get(&name)) {
                (ReceiptKind::Transfer { gas_price, .. }, Some(signed)) => {
                    let id = receipt_id_of_transaction(&signed.hash(), height);
                    ReceiptFacts::of_transaction(signed, id, *gas_price)
                }
                _ => unnamed(&receipt),
            }
        };
        receipts.map(facts).collect()
    }
}

/// A receipt whose transaction is not at hand.
fn unnamed(receipt: &Receipt) -> ReceiptFacts {
    let (predecessor, gas_price) = match receipt.kind {
        ReceiptKind::Transfer { gas_price, .. } => (Some(receipt.signer_id.clone()), gas_price),
        ReceiptKind::Refund => (None, 0),
    };
    ReceiptFacts {
        id: CryptoHash::of_borsh(receipt),
        predecessor,
        receiver: receipt.receiver_id.clone(),
        signer: receipt.signer_id.clone(),
        public_key: None,
        gas_price,
        deposits: vec![receipt.deposit],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transaction and its receipt as neard named them.
    #[test]
    fn ids_are_neards() {
        let text = include_str!("../../../../testdata/neard/rpc/send_tx-executed.json");
        let answer: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let outcome = &answer["result"]["transaction_outcome"];
        let hash = |value: &serde_json::Value| -> CryptoHash {
            value.as_str().expect("text").parse().expect("hash")
        };
        let (transaction, receipt) = (hash(&outcome["id"]), hash(&outcome["outcome"]["receipt_ids"][0]));
        // The height is not in the answer; neard was between the heights of the other recorded answers.
        let heights = (70..200).filter(|height| receipt_id_of_transaction(&transaction, *height) == receipt);
        assert_eq!(heights.count(), 1);
    }
}
