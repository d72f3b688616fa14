//! Applying a chunk: transactions become receipts, receipts become balances, both burn gas (runtime/runtime/src/lib.rs).
//!
//! Order as in neard: transactions, local receipts (signer = receiver), delayed receipts, incoming receipts; once the
//! gas limit is reached the remaining receipts wait in the delayed queue. The same code runs on a whole state and on a
//! witness. Differences from neard: creating an implicit account costs no more than a transfer, storage is not staked,
//! and the gas price does not move.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use tpsctl_near::{
    AccountId, CryptoHash, NONCE_RANGE_PER_HEIGHT, PublicKey, ShardLayout, SignedTransaction, Transaction,
};

use super::{
    account::{AccessKey, Account},
    outcomes::{Execution, Step, TxName, Watch},
    state::ShardState,
    stats::{Executed, Queue},
    transfer::{Charge, InvalidTx, Receipt, ReceiptKind, charge, quote},
    tree::{Incomplete, Key, Leaf, key_of},
    types::{ArcChunk, TxKey, list_bytes, read_list, receipts_root},
};

/// All that applying a chunk depends on.
#[derive(Debug, Clone)]
pub(crate) struct ApplyInput {
    pub(crate) layout: Arc<ShardLayout>,
    pub(crate) shard: usize,
    /// Height of the block that includes the chunk.
    pub(crate) height: u64,
    pub(crate) gas_price: u128,
    pub(crate) gas_limit: u64,
    pub(crate) chunk: ArcChunk,
    /// Chunks whose receipts for this shard have not been applied yet, in order of block and shard.
    pub(crate) incoming: Vec<ArcChunk>,
    /// Transactions to report on.
    pub(crate) watch: Arc<Watch>,
    /// Whether to list the pool keys of the chunk's transactions.
    pub(crate) wants_keys: bool,
}

/// What applying a chunk did.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) post: ShardState,
    pub(crate) gas_used: u64,
    pub(crate) balance_burnt: u128,
    /// Receipts made, by index of the shard that will execute them, encoded.
    pub(crate) outgoing: Vec<Vec<u8>>,
    pub(crate) receipts_root: CryptoHash,
    /// Keys of all accounts that were looked up, sorted.
    pub(crate) touched: Vec<Key>,
    pub(crate) transactions: u64,
    pub(crate) converted: u64,
    pub(crate) steps: Vec<(TxName, Step)>,
    pub(crate) keys: Vec<TxKey>,
}

impl Outcome {
    pub(crate) fn executed(&self) -> Executed {
        let queue = Queue::of(&self.post);
        Executed { transactions: self.transactions, converted: self.converted, queue }
    }
}

/// Accounts read from a state, changed in memory.
pub(crate) struct Accounts<'s> {
    state: &'s ShardState,
    entries: BTreeMap<AccountId, Entry>,
}

struct Entry {
    key: Key,
    account: Option<Account>,
    is_changed: bool,
}

impl<'s> Accounts<'s> {
    pub(crate) fn new(state: &'s ShardState) -> Self {
        Self { state, entries: BTreeMap::new() }
    }

    fn entry(&mut self, id: &AccountId) -> Result<&mut Entry, Incomplete> {
        if !self.entries.contains_key(id) {
            let key = key_of(id);
            let account = self.state.look_up(&key)?.cloned();
            self.entries.insert(id.clone(), Entry { key, account, is_changed: false });
        }
        self.entries.get_mut(id).ok_or(Incomplete)
    }

    /// Charges the signer for a transaction, or says why not.
    pub(crate) fn charge(
        &mut self,
        signed: &SignedTransaction,
        gas_price: u128,
        height: u64,
    ) -> Result<Result<Charge, InvalidTx>, Incomplete> {
        let signer = &signed.transaction.signer_id;
        let entry = self.entry(signer)?;
        let Some(account) = &mut entry.account else {
            return Ok(Err(InvalidTx::SignerDoesNotExist(signer.clone())));
        };
        let charged = charge(account, &signed.transaction, gas_price, Some(height));
        entry.is_changed |= charged.is_ok();
        Ok(charged)
    }

    /// Takes from the signer what a transaction costs, as [`Self::charge`] does; says what gas that burns.
    pub(crate) fn pay(
        &mut self,
        transaction: &Transaction,
        gas_price: u128,
        height: u64,
    ) -> Result<Result<u64, InvalidTx>, Incomplete> {
        let signer = &transaction.signer_id;
        let Some(account) = &mut self.entry(signer)?.account else {
            return Ok(Err(InvalidTx::SignerDoesNotExist(signer.clone())));
        };
        let quote = quote(account, transaction, gas_price, Some(height));
        Ok(quote.map(|quote| {
            quote.pay(account, transaction);
            quote.gas_burnt
        }))
    }

    /// The state with the changes, and the sorted keys of all that was looked up.
    fn finish(self, delayed: VecDeque<Receipt>) -> Result<(ShardState, Vec<Key>), Incomplete> {
        let mut touched = Vec::with_capacity(self.entries.len());
        let mut leaves = Vec::with_capacity(self.entries.len());
        for entry in self.entries.into_values() {
            touched.push(entry.key);
            if let (true, Some(account)) = (entry.is_changed, entry.account) {
                leaves.push((entry.key, account));
            }
        }
        touched.sort_unstable();
        leaves.sort_unstable_by_key(|(key, _)| *key);
        let leaves: Vec<Arc<Leaf>> =
            leaves.into_iter().map(|(key, account)| Arc::new(Leaf::new(key, account))).collect();
        let tree = self.state.tree().set(&leaves)?;
        Ok((ShardState::new(tree, Arc::new(delayed)), touched))
    }
}

struct Run<'i> {
    input: &'i ApplyInput,
    accounts: Accounts<'i>,
    gas_used: u64,
    balance_burnt: u128,
    outgoing: Vec<Vec<Receipt>>,
    delayed: VecDeque<Receipt>,
    steps: Vec<(TxName, Step)>,
}

/// Applies a chunk to the state before it. Fails only where `pre` is a witness that does not suffice.
pub(crate) fn apply(pre: &ShardState, input: &ApplyInput) -> Result<Outcome, Incomplete> {
    let transactions: Vec<SignedTransaction> =
        read_list(&input.chunk.body().transactions).unwrap_or_default();
    let mut run = Run {
        input,
        accounts: Accounts::new(pre),
        gas_used: 0,
        balance_burnt: 0,
        outgoing: vec![Vec::new(); input.layout.len()],
        delayed: VecDeque::clone(pre.delayed()),
        steps: Vec::new(),
    };
    let mut local = Vec::new();
    let mut converted = 0;
    for transaction in &transactions {
        converted += u64::from(run.convert(transaction, &mut local)?);
    }
    for receipt in local {
        run.execute_or_delay(receipt)?;
    }
    while run.gas_used < input.gas_limit {
        let Some(receipt) = run.delayed.pop_front() else { break };
        run.execute(&receipt)?;
    }
    for chunk in &input.incoming {
        let group = chunk.body().receipts.get(input.shard).map_or(&[][..], Vec::as_slice);
        for receipt in read_list::<Receipt>(group).unwrap_or_default() {
            run.execute_or_delay(receipt)?;
        }
    }
    let keys = if input.wants_keys { transactions.iter().map(TxKey::of).collect() } else { Vec::new() };
    let outgoing: Vec<Vec<u8>> = run.outgoing.iter().map(|group| list_bytes(group)).collect();
    let (post, touched) = run.accounts.finish(run.delayed)?;
    Ok(Outcome {
        post,
        gas_used: run.gas_used,
        balance_burnt: run.balance_burnt,
        receipts_root: receipts_root(&outgoing),
        outgoing,
        touched,
        transactions: transactions.len() as u64,
        converted,
        steps: run.steps,
        keys,
    })
}

impl Run<'_> {
    fn note(&mut self, (signer, nonce): (&AccountId, u64), step: impl FnOnce() -> Step) {
        if self.input.watch.covers(signer, nonce) {
            self.steps.push(((signer.clone(), nonce), step()));
        }
    }

    fn convert(&mut self, signed: &SignedTransaction, local: &mut Vec<Receipt>) -> Result<bool, Incomplete> {
        let transaction = &signed.transaction;
        let name = (&transaction.signer_id, transaction.nonce);
        if self.input.layout.index_of(&transaction.signer_id) != self.input.shard {
            return Ok(false);
        }
        let Ok(charge) = self.accounts.charge(signed, self.input.gas_price, self.input.height)? else {
            self.note(name, || Step::Failed { hash: signed.hash(), signed: Arc::new(signed.clone()) });
            return Ok(false);
        };
        self.gas_used = self.gas_used.saturating_add(charge.gas_burnt);
        self.balance_burnt += charge.burnt;
        if charge.receipt.receiver_id == charge.receipt.signer_id {
            local.push(charge.receipt);
        } else {
            self.send(charge.receipt);
        }
        self.note(name, || Step::Converted { hash: signed.hash(), signed: Arc::new(signed.clone()) });
        Ok(true)
    }

    fn send(&mut self, receipt: Receipt) {
        self.outgoing[self.input.layout.index_of(&receipt.receiver_id)].push(receipt);
    }

    fn execute_or_delay(&mut self, receipt: Receipt) -> Result<(), Incomplete> {
        // Receipts that arrive behind a queue go behind it, or they would overtake.
        if self.gas_used >= self.input.gas_limit || !self.delayed.is_empty() {
            self.delayed.push_back(receipt);
            return Ok(());
        }
        self.execute(&receipt)
    }

    fn execute(&mut self, receipt: &Receipt) -> Result<(), Incomplete> {
        let gas = receipt.gas();
        self.gas_used = self.gas_used.saturating_add(gas);
        let entry = self.accounts.entry(&receipt.receiver_id)?;
        let ReceiptKind::Transfer { gas_price: bought_at, .. } = receipt.kind else {
            // The signer exists: accounts cannot be deleted here. The gas of a refund is burnt for nothing.
            if let Some(account) = &mut entry.account {
                account.amount = account.amount.saturating_add(receipt.deposit);
                entry.is_changed = true;
            }
            self.note((&receipt.signer_id, receipt.nonce), || Step::Refunded);
            return Ok(());
        };
        if entry.account.is_none() {
            entry.account = implicit_account(&receipt.receiver_id, self.input.height);
        }
        let mut surplus = u128::from(gas) * bought_at.saturating_sub(self.input.gas_price);
        let is_success = entry.account.is_some();
        match &mut entry.account {
            Some(account) => {
                // All balances together fit 128 bits, so one cannot overflow.
                account.amount = account.amount.saturating_add(receipt.deposit);
                entry.is_changed = true;
            }
            None => surplus += receipt.deposit,
        }
        let burnt = u128::from(gas) * bought_at.min(self.input.gas_price);
        self.balance_burnt += burnt;
        if surplus > 0 {
            self.send(receipt.refund(surplus));
        }
        let execution = Execution { is_success, gas_burnt: gas, tokens_burnt: burnt, refund: surplus };
        self.note((&receipt.signer_id, receipt.nonce), || Step::Executed(execution));
        Ok(())
    }
}

/// The account that exists by its key alone, as a first transfer makes it (runtime/runtime/src/actions.rs:774, 835).
fn implicit_account(id: &AccountId, height: u64) -> Option<Account> {
    if !id.is_near_implicit() {
        return None;
    }
    let mut key = [0; 32];
    hex::decode_to_slice(id.as_str(), &mut key).ok()?;
    let nonce = height.saturating_sub(1).saturating_mul(NONCE_RANGE_PER_HEIGHT);
    let keys = vec![AccessKey { public_key: PublicKey(key), nonce }];
    let storage_usage = super::genesis::storage_usage(keys.len());
    Some(Account { id: id.clone(), amount: 0, locked: 0, storage_usage, keys })
}

#[cfg(test)]
mod tests;
