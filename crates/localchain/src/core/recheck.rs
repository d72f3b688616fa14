//! Checking an own chunk's transactions once more, after a block left the chunk out: what no validator endorses must not
//! go into the next chunk, and the next.

use std::sync::Arc;

use super::{
    VerifiedTransaction,
    signatures::{Claim, Signatures},
    types::TxKey,
};

/// All that the check depends on.
#[derive(Debug, Clone)]
pub(crate) struct Recheck {
    pub(crate) shard: usize,
    pub(crate) transactions: Vec<Arc<VerifiedTransaction>>,
    pub(crate) signatures: Arc<Signatures>,
}

impl Recheck {
    /// The transactions for which a validator refuses a chunk.
    pub(crate) fn run(&self) -> Vec<TxKey> {
        let claims: Vec<Claim<'_>> = self.transactions.iter().map(|own| own.claim()).collect();
        let verdicts = self.signatures.check(&claims);
        let refused = self.transactions.iter().zip(verdicts).filter(|(_, is_signed)| !is_signed);
        refused.map(|(own, _)| own.key()).collect()
    }
}
