//! Producing a chunk: take transactions from the pool's candidates under the limits of gas, size and time, commit to
//! the results of the shard's previous chunk, and make the witness that proves them
//! (chain/chain/src/runtime/mod.rs:880-1163, chain/client/src/chunk_producer.rs).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tpsctl_near::{CryptoHash, KeyPair};

use super::{
    Chunk, ChunkBody, ChunkHeader, Genesis, Limits, VerifiedTransaction,
    chain::ShardEntry,
    pool::Candidates,
    runtime::Accounts,
    transfer::InvalidTx,
    types::{ArcChunk, TxKey, list_of_encoded, receipts_root},
    view::is_valid_base,
    witness::Witness,
};

/// Time is looked at once in so many transactions.
const TIME_CHECK_EVERY: usize = 64;

/// All that producing a chunk depends on.
#[derive(Debug, Clone)]
pub(crate) struct Production {
    pub(crate) genesis: Arc<Genesis>,
    pub(crate) limits: Limits,
    pub(crate) shard: usize,
    pub(crate) prev_hash: CryptoHash,
    pub(crate) prev_height: u64,
    pub(crate) entry: ShardEntry,
    pub(crate) known: Arc<BTreeMap<CryptoHash, u64>>,
    pub(crate) candidates: Arc<Candidates>,
    pub(crate) key: KeyPair,
}

/// A chunk and what became of the candidates.
#[derive(Debug)]
pub(crate) struct Produced {
    pub(crate) shard: usize,
    pub(crate) chunk: ArcChunk,
    pub(crate) witness: Arc<Witness>,
    pub(crate) used: Vec<Arc<VerifiedTransaction>>,
    pub(crate) rejected: Rejected,
    pub(crate) limited_by: &'static str,
    /// How long choosing transactions and making the chunk took.
    pub(crate) time: Duration,
}

/// Transactions that can never be included and leave the pool, by neard's reasons.
#[derive(Debug, Default)]
pub(crate) struct Rejected {
    pub(crate) invalid_tx: Vec<TxKey>,
    pub(crate) invalid_block_hash: Vec<TxKey>,
}

struct Prepared {
    used: Vec<Arc<VerifiedTransaction>>,
    rejected: Rejected,
    limited_by: &'static str,
}

impl Production {
    /// `elapsed` tells the time since the job began.
    pub(crate) fn run(&self, elapsed: &dyn Fn() -> Duration) -> Produced {
        let prepared = self.prepare(elapsed);
        let result = self.entry.result.as_deref();
        let no_receipts = || vec![Vec::new(); self.genesis.layout.len()];
        let body = ChunkBody {
            transactions: list_of_encoded(prepared.used.iter().map(|own| own.bytes())),
            receipts: result.map_or_else(no_receipts, |result| result.outgoing.clone()),
        };
        let state = &self.entry.state;
        let header = ChunkHeader {
            shard_id: self.genesis.layout.shard_ids()[self.shard],
            height_created: self.prev_height + 1,
            prev_block_hash: self.prev_hash,
            prev_state_root: state.root(),
            prev_gas_used: result.map_or(0, |result| result.gas_used),
            prev_balance_burnt: result.map_or(0, |result| result.balance_burnt),
            delayed_count: state.delayed_count(),
            delayed_gas: state.delayed_gas(),
            tx_root: body.tx_root(),
            receipts_root: result.map_or_else(|| receipts_root(&body.receipts), |own| own.receipts_root),
            encoded_length: body.encoded_length(),
            gas_limit: self.genesis.gas_limit,
        };
        let chunk = Chunk::sign(header, body, &self.key);
        let time = elapsed();
        let witness = Arc::new(Witness::new(chunk.signed().clone(), result, &self.key));
        Produced {
            shard: self.shard,
            chunk: Arc::new(chunk),
            witness,
            used: prepared.used,
            rejected: prepared.rejected,
            limited_by: prepared.limited_by,
            time,
        }
    }

    fn prepare(&self, elapsed: &dyn Fn() -> Duration) -> Prepared {
        let mut accounts = Accounts::new(&self.entry.state);
        let mut prepared = Prepared { used: Vec::new(), rejected: Rejected::default(), limited_by: "Size" };
        let (mut gas, mut bytes) = (0_u64, 0);
        for (turn, transaction) in self.candidates.transactions.iter().enumerate() {
            if gas >= self.limits.transactions_gas {
                prepared.limited_by = "Gas";
                return prepared;
            }
            if bytes + transaction.size() > self.limits.transactions_bytes as u64 {
                return prepared;
            }
            let is_late = |limit| elapsed() >= limit;
            if turn % TIME_CHECK_EVERY == 0 && self.limits.prepare_time.is_some_and(is_late) {
                prepared.limited_by = "Time";
                return prepared;
            }
            let base = &transaction.signed().transaction.block_hash;
            if !is_valid_base(&self.known, base, self.prev_height, self.genesis.validity_period) {
                prepared.rejected.invalid_block_hash.push(transaction.key());
                continue;
            }
            match self.charge(&mut accounts, transaction) {
                Ok(burnt) => {
                    gas = gas.saturating_add(burnt);
                    bytes += transaction.size();
                    prepared.used.push(Arc::clone(transaction));
                }
                Err(_) => prepared.rejected.invalid_tx.push(transaction.key()),
            }
        }
        if self.candidates.is_all {
            prepared.limited_by = "NoMoreTxsInPool";
        }
        prepared
    }

    fn charge(
        &self,
        accounts: &mut Accounts<'_>,
        transaction: &VerifiedTransaction,
    ) -> Result<u64, InvalidTx> {
        let signed = transaction.signed();
        // A producer's state is whole; were it not, the transaction could not be charged.
        let missing = |_| InvalidTx::SignerDoesNotExist(signed.transaction.signer_id.clone());
        let height = self.prev_height + 1;
        accounts.pay(&signed.transaction, self.genesis.gas_price, height).map_err(missing)?
    }
}
