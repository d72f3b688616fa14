//! Which transactions may enter a pool (chain/client/src/rpc_handler.rs:150-322): base block, size, signature, then
//! nonce and balance where the node has the signer's state.

use std::sync::Arc;

use ed25519_dalek::VerifyingKey;
use tpsctl_near::{CryptoHash, PublicKey, Signature, SignedTransaction};

use super::{
    View,
    transfer::{InvalidTx, charge},
    types::TxKey,
};

/// Longest transaction in bytes (parameters.snap:221).
pub(crate) const TRANSACTION_BYTES_MAX: usize = 1_572_864;

/// From so many signatures on, one check of all is tried first; it costs about half of what single checks cost.
const BATCH_MIN: usize = 16;

/// A transaction whose signature was checked; only this module makes them.
#[derive(Debug, PartialEq, Eq)]
pub struct VerifiedTransaction {
    signed: SignedTransaction,
    key: TxKey,
    size: u64,
}

impl VerifiedTransaction {
    fn new(signed: SignedTransaction) -> Self {
        Self { key: TxKey::of(&signed), size: signed.size() as u64, signed }
    }

    /// Checks one signature.
    pub fn of_signed(signed: SignedTransaction) -> Option<Self> {
        signed.is_signed().then(|| Self::new(signed))
    }

    /// The transaction.
    pub fn signed(&self) -> &SignedTransaction {
        &self.signed
    }

    /// Bytes on the wire.
    pub fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn key(&self) -> TxKey {
        self.key
    }
}

/// What admission says of one transaction.
pub type Admitted = Result<Arc<VerifiedTransaction>, InvalidTx>;

/// Admits transactions against what the node knows at its head; one answer each, in their order.
pub fn admit(transactions: Vec<SignedTransaction>, view: &View) -> Vec<Admitted> {
    let faults: Vec<Option<InvalidTx>> = transactions.iter().map(|own| fault_before(own, view)).collect();
    let good: Vec<&SignedTransaction> =
        transactions.iter().zip(&faults).filter(|(_, fault)| fault.is_none()).map(|(own, _)| own).collect();
    let mut signed = are_signed(&good).into_iter();
    let answer = |(transaction, fault): (SignedTransaction, Option<InvalidTx>)| -> Admitted {
        if let Some(fault) = fault {
            return Err(fault);
        }
        if !signed.next().unwrap_or(false) {
            return Err(InvalidTx::InvalidSignature);
        }
        check_state(&transaction, view)?;
        Ok(Arc::new(VerifiedTransaction::new(transaction)))
    };
    transactions.into_iter().zip(faults).map(answer).collect()
}

fn fault_before(signed: &SignedTransaction, view: &View) -> Option<InvalidTx> {
    if !view.is_valid_base(&signed.transaction.block_hash) {
        return Some(InvalidTx::Expired);
    }
    let size = signed.size();
    let limit = TRANSACTION_BYTES_MAX;
    (size > limit).then_some(InvalidTx::TransactionSizeExceeded { size, limit })
}

fn check_state(signed: &SignedTransaction, view: &View) -> Result<(), InvalidTx> {
    let transaction = &signed.transaction;
    let Some(state) = view.state_of(&transaction.signer_id) else { return Ok(()) };
    let Some(account) = state.account(&transaction.signer_id) else {
        return Err(InvalidTx::SignerDoesNotExist(transaction.signer_id.clone()));
    };
    charge(&mut account.clone(), transaction, view.gas_price, None).map(|_| ())
}

/// Whether each transaction is signed by its key. Batch and single checks may differ only for points with a torsion
/// component, which no ordinary signer makes; where the batch fails, single checks decide.
pub(crate) fn are_signed(transactions: &[&SignedTransaction]) -> Vec<bool> {
    let hashes: Vec<CryptoHash> = transactions.iter().map(|own| own.hash()).collect();
    if transactions.len() >= BATCH_MIN && is_batch_signed(transactions, &hashes).unwrap_or(false) {
        return vec![true; transactions.len()];
    }
    let check = |(own, hash): (&&SignedTransaction, &CryptoHash)| {
        own.transaction.public_key.verify(&hash.0, &own.signature)
    };
    transactions.iter().zip(&hashes).map(check).collect()
}

fn is_batch_signed(transactions: &[&SignedTransaction], hashes: &[CryptoHash]) -> Option<bool> {
    let messages: Vec<&[u8]> = hashes.iter().map(|hash| &hash.0[..]).collect();
    let signature = |own: &&SignedTransaction| {
        let Signature(bytes) = own.signature;
        ed25519_dalek::Signature::from_bytes(&bytes)
    };
    let signatures: Vec<ed25519_dalek::Signature> = transactions.iter().map(signature).collect();
    let key = |own: &&SignedTransaction| {
        let PublicKey(bytes) = own.transaction.public_key;
        VerifyingKey::from_bytes(&bytes).ok()
    };
    let keys: Vec<VerifyingKey> = transactions.iter().map(key).collect::<Option<_>>()?;
    Some(ed25519_dalek::verify_batch(&messages, &signatures, &keys).is_ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tpsctl_near::{Action, KeyPair, Transaction};

    use super::*;

    proptest! {
        #[test]
        fn a_bad_signature_among_many_is_found(bad in proptest::collection::btree_set(0_usize..40, 0..3), len in 1_usize..40) {
            let key = KeyPair::from_seed([4; 32]);
            let sign = |nonce: usize| {
                let mut signed = Transaction {
                    signer_id: "signer".parse().expect("id"),
                    public_key: key.public(),
                    nonce: nonce as u64,
                    receiver_id: "receiver".parse().expect("id"),
                    block_hash: CryptoHash::default(),
                    actions: vec![Action::Transfer { deposit: 1 }],
                }.sign(&key);
                signed.signature.0[3] ^= u8::from(bad.contains(&nonce));
                signed
            };
            let all: Vec<SignedTransaction> = (0..len).map(sign).collect();
            let expected: Vec<bool> = (0..len).map(|nonce| !bad.contains(&nonce)).collect();
            prop_assert_eq!(are_signed(&all.iter().collect::<Vec<_>>()), expected);
        }
    }
}
