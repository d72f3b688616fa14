//! Which transactions may enter a pool (chain/client/src/rpc_handler.rs:150-322): base block, size, signature, then
//! nonce and balance where the node has the signer's state.

use std::sync::Arc;

use borsh::BorshDeserialize;
use tpsctl_near::{CryptoHash, SignedTransaction};

use super::{
    View,
    signatures::Claim,
    transfer::{InvalidTx, quote},
    types::{TxKey, signed_hash},
};

/// Longest transaction in bytes (parameters.snap:221).
pub(crate) const TRANSACTION_BYTES_MAX: usize = 1_572_864;

/// A transaction as it came, with its encoding: it is read once and written never.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    signed: SignedTransaction,
    bytes: Vec<u8>,
}

impl Received {
    /// Reads the borsh of a signed transaction; nothing if it is garbage.
    pub fn read(bytes: Vec<u8>) -> Option<Self> {
        Some(Self { signed: SignedTransaction::try_from_slice(&bytes).ok()?, bytes })
    }

    /// A transaction that came in another form.
    pub fn of_signed(signed: SignedTransaction) -> Self {
        let mut bytes = Vec::with_capacity(signed.size());
        super::types::append(&mut bytes, &signed);
        Self { signed, bytes }
    }

    fn hash(&self) -> CryptoHash {
        signed_hash(&self.bytes)
    }
}

/// A transaction whose signature was checked; only this module makes them.
#[derive(Debug, PartialEq, Eq)]
pub struct VerifiedTransaction {
    received: Received,
    key: TxKey,
}

impl VerifiedTransaction {
    fn new(received: Received) -> Self {
        Self { key: TxKey::of(&received.signed), received }
    }

    /// Checks one signature.
    pub fn of_signed(signed: SignedTransaction) -> Option<Self> {
        Claim::of_transaction(&signed, signed.hash()).holds().then(|| Self::new(Received::of_signed(signed)))
    }

    /// The transaction.
    pub fn signed(&self) -> &SignedTransaction {
        &self.received.signed
    }

    /// Its borsh.
    pub fn bytes(&self) -> &[u8] {
        &self.received.bytes
    }

    /// Bytes on the wire.
    pub fn size(&self) -> u64 {
        self.received.bytes.len() as u64
    }

    pub(crate) fn key(&self) -> TxKey {
        self.key
    }

    /// That it is signed by its key, for who checks that again.
    pub(crate) fn claim(&self) -> Claim<'_> {
        Claim::of_transaction(self.signed(), self.received.hash())
    }

    /// One that slipped through, for tests of what follows.
    #[cfg(test)]
    pub(crate) fn unchecked(signed: SignedTransaction) -> Self {
        Self::new(Received::of_signed(signed))
    }
}

/// What admission says of one transaction.
pub type Admitted = Result<Arc<VerifiedTransaction>, InvalidTx>;

/// Admits transactions against what the node knows at its head; one answer each, in their order.
pub fn admit(transactions: Vec<Received>, view: &View) -> Vec<Admitted> {
    let faults: Vec<Option<InvalidTx>> = transactions.iter().map(|own| fault_before(own, view)).collect();
    let good = transactions.iter().zip(&faults).filter(|(_, fault)| fault.is_none());
    let good: Vec<(CryptoHash, &Received)> = good.map(|(own, _)| (own.hash(), own)).collect();
    let claims: Vec<Claim<'_>> =
        good.iter().map(|(message, own)| Claim::of_transaction(&own.signed, *message)).collect();
    let mut signed = view.signatures.check(&claims).into_iter();
    let answer = |(received, fault): (Received, Option<InvalidTx>)| -> Admitted {
        if let Some(fault) = fault {
            return Err(fault);
        }
        if !signed.next().unwrap_or(false) {
            return Err(InvalidTx::InvalidSignature);
        }
        check_state(&received.signed, view)?;
        Ok(Arc::new(VerifiedTransaction::new(received)))
    };
    transactions.into_iter().zip(faults).map(answer).collect()
}

fn fault_before(received: &Received, view: &View) -> Option<InvalidTx> {
    if !view.is_valid_base(&received.signed.transaction.block_hash) {
        return Some(InvalidTx::Expired);
    }
    let size = received.bytes.len();
    let limit = TRANSACTION_BYTES_MAX;
    (size > limit).then_some(InvalidTx::TransactionSizeExceeded { size, limit })
}

fn check_state(signed: &SignedTransaction, view: &View) -> Result<(), InvalidTx> {
    let transaction = &signed.transaction;
    let Some(state) = view.state_of(&transaction.signer_id) else { return Ok(()) };
    let Some(account) = state.account(&transaction.signer_id) else {
        return Err(InvalidTx::SignerDoesNotExist(transaction.signer_id.clone()));
    };
    quote(account, transaction, view.gas_price, None).map(|_| ())
}
