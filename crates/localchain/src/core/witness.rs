//! State witnesses: what lets a validator without a shard's state re-execute the shard's previous chunk and check what
//! the new chunk claims of it. Transactions and receipts are not repeated in it: every node gets every chunk's body.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use borsh::BorshDeserialize;
use tpsctl_near::{CryptoHash, KeyPair, PublicKey, Signature};

use super::{
    chain::{ChunkResult, ShardEntry},
    runtime::{ApplyInput, apply},
    signatures::{Claim, Signatures, is_signed},
    state::ShardState,
    stats::Executed,
    transfer::Receipt,
    tree::Tree,
    types::{ArcChunk, SignedChunkHeader, append, read_transactions},
};

/// A witness of one chunk. The chunk's producer signs all of it: else anybody could send another one for the same chunk,
/// which the validator would then take for the producer's.
#[derive(Debug, Clone)]
pub struct Witness {
    /// The chunk that it is for.
    pub(crate) signed: SignedChunkHeader,
    /// The touched part of the state before the shard's previous chunk.
    tree: Tree,
    /// Receipts that waited then.
    delayed: VecDeque<Receipt>,
    /// SHA-256 over borsh of (`witness`, SHA-256 of the parts above in borsh).
    message: CryptoHash,
    /// The producer's, over that.
    signature: Signature,
    /// Bytes in borsh.
    bytes: u64,
}

/// Bytes of a signature in borsh.
const SIGNATURE_BYTES: usize = 64;

fn message(content: &[u8]) -> CryptoHash {
    CryptoHash::of_borsh(&(b"witness", CryptoHash::of(content)))
}

impl Witness {
    pub(crate) fn new(signed: SignedChunkHeader, result: Option<&ChunkResult>, key: &KeyPair) -> Self {
        let (tree, delayed) = result.map_or_else(Default::default, |result| {
            (result.pre.tree().prune(&result.touched), VecDeque::clone(result.pre.delayed()))
        });
        let mut content = Vec::new();
        append(&mut content, &(&signed, &tree, &delayed));
        let message = message(&content);
        let bytes = (content.len() + SIGNATURE_BYTES) as u64;
        Self { signed, tree, delayed, message, signature: key.sign(&message.0), bytes }
    }

    /// Bytes in borsh; it is sent as it is, without compression.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the key signed chunk and witness.
    pub(crate) fn is_signed(&self, key: &PublicKey) -> bool {
        is_signed(key, self.signed.header.hash(), &self.signed.signature)
            && is_signed(key, self.message, &self.signature)
    }

    /// Borsh: what is signed, then the signature.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        append(out, &(&self.signed, &self.tree, &self.delayed));
        append(out, &self.signature);
    }

    /// Reads what [`Self::write`] wrote.
    pub(crate) fn read(bytes: &mut &[u8]) -> io::Result<Self> {
        let all = *bytes;
        let (signed, tree, delayed) = BorshDeserialize::deserialize(bytes)?;
        let message = message(&all[..all.len() - bytes.len()]);
        let signature = Signature::deserialize(bytes)?;
        let bytes = (all.len() - bytes.len()) as u64;
        Ok(Self { signed, tree, delayed, message, signature, bytes })
    }
}

/// What a validator checks a chunk against.
#[derive(Debug, Clone)]
pub(crate) enum Basis {
    /// The shard has had no chunk: its state is still this.
    Genesis(CryptoHash),
    /// This node tracks the shard and knows the results itself.
    Known(ShardEntry),
    /// The previous chunk is executed again on the witness, whose root must be this.
    Execute { pre_root: CryptoHash, input: ApplyInput },
}

/// All that a validation depends on.
#[derive(Debug, Clone)]
pub(crate) struct Validation {
    pub(crate) shard: usize,
    pub(crate) witness: Arc<Witness>,
    pub(crate) chunk: ArcChunk,
    pub(crate) basis: Basis,
    pub(crate) signatures: Arc<Signatures>,
}

/// Why a chunk is not endorsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the witness is of another state")]
    PreState,
    #[error("the witness lacks a part of the state")]
    Incomplete,
    #[error("the state root is wrong")]
    StateRoot,
    #[error("gas or burnt balance is wrong")]
    Gas,
    #[error("the receipts are wrong")]
    Receipts,
    #[error("the delayed queue is wrong")]
    Delayed,
    #[error("a transaction is garbage or not signed by its key")]
    Transaction,
}

/// What a validation came to.
#[derive(Debug)]
pub(crate) struct ValidationReport {
    pub(crate) verdict: Result<(), Fault>,
    /// What was executed again, and how long that took.
    pub(crate) executed: Option<(Executed, Duration)>,
    /// How long it all took; none where the node knew the results itself.
    pub(crate) time: Option<Duration>,
}

impl Fault {
    /// neard's name of such a fault (chain/chain-primitives/src/error.rs).
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::PreState | Self::Incomplete => "invalid_chunk_state_witness",
            Self::StateRoot => "invalid_state_root",
            Self::Gas => "invalid_gas_used",
            Self::Receipts => "invalid_receipts_proof",
            Self::Delayed => "invalid_congestion_info",
            Self::Transaction => "invalid_transactions",
        }
    }
}

impl Validation {
    /// `elapsed` tells the time since the job began.
    pub(crate) fn run(&self, elapsed: &dyn Fn() -> Duration) -> ValidationReport {
        let mut executed = None;
        let verdict = self.check_results(&mut executed, elapsed).and_then(|()| self.check_transactions());
        let is_known = matches!(self.basis, Basis::Known(_));
        ValidationReport { verdict, executed, time: (!is_known).then(elapsed) }
    }

    fn check_transactions(&self) -> Result<(), Fault> {
        let bytes = &self.chunk.body().transactions;
        let transactions = read_transactions(bytes).ok_or(Fault::Transaction)?;
        let claims: Vec<Claim<'_>> =
            transactions.iter().map(|(own, hash)| Claim::of_transaction(own, *hash)).collect();
        let is_signed = self.signatures.check(&claims).into_iter().all(|is_signed| is_signed);
        if is_signed { Ok(()) } else { Err(Fault::Transaction) }
    }

    fn check_results(
        &self,
        executed: &mut Option<(Executed, Duration)>,
        elapsed: &dyn Fn() -> Duration,
    ) -> Result<(), Fault> {
        match &self.basis {
            Basis::Genesis(root) => {
                if self.chunk.header().prev_state_root != *root {
                    return Err(Fault::StateRoot);
                }
                let is_empty = self.chunk.body().receipts.iter().all(Vec::is_empty);
                self.check_gas(0, 0)?;
                if is_empty { Ok(()) } else { Err(Fault::Receipts) }
            }
            Basis::Known(entry) => {
                self.check_state(&entry.state)?;
                let result = entry.result.as_deref();
                self.check_gas(
                    result.map_or(0, |own| own.gas_used),
                    result.map_or(0, |own| own.balance_burnt),
                )?;
                match result {
                    Some(result) => self.check_receipts(result.receipts_root),
                    None => Ok(()),
                }
            }
            Basis::Execute { pre_root, input } => {
                let witness = &self.witness;
                let pre = ShardState::new(witness.tree.clone(), Arc::new(witness.delayed.clone()));
                if pre.root() != *pre_root {
                    return Err(Fault::PreState);
                }
                let outcome = apply(&pre, input).map_err(|_| Fault::Incomplete)?;
                *executed = Some((outcome.executed(), elapsed()));
                self.check_state(&outcome.post)?;
                self.check_gas(outcome.gas_used, outcome.balance_burnt)?;
                self.check_receipts(outcome.receipts_root)
            }
        }
    }

    fn check_state(&self, state: &ShardState) -> Result<(), Fault> {
        let header = self.chunk.header();
        if header.prev_state_root != state.root() {
            return Err(Fault::StateRoot);
        }
        if header.delayed_count == state.delayed_count() { Ok(()) } else { Err(Fault::Delayed) }
    }

    fn check_gas(&self, gas_used: u64, balance_burnt: u128) -> Result<(), Fault> {
        let header = self.chunk.header();
        let is_right = header.prev_gas_used == gas_used && header.prev_balance_burnt == balance_burnt;
        if is_right { Ok(()) } else { Err(Fault::Gas) }
    }

    fn check_receipts(&self, receipts_root: CryptoHash) -> Result<(), Fault> {
        if self.chunk.header().receipts_root == receipts_root { Ok(()) } else { Err(Fault::Receipts) }
    }
}
