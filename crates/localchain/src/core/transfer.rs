//! What a transfer costs, whether it may be made, and the receipts that it makes
//! (runtime/runtime/src/{verifier,config}.rs; fees of protocol version 86, parameters.snap).

use borsh::{BorshDeserialize, BorshSerialize};
use tpsctl_near::{
    AccountId, Action, MIN_GAS_PURCHASE_PRICE, NONCE_RANGE_PER_HEIGHT, PublicKey, Transaction,
};

use super::account::Account;

/// Gas to create an action receipt, and to execute one.
const RECEIPT_GAS: u64 = 108_059_500_000;
/// Gas of each transfer in it, at both steps.
const TRANSFER_GAS: u64 = 115_123_062_500;
/// Gas that a refund burns: facts measured on a node (three equal parts a transfer below the purchase price).
pub(crate) const REFUND_GAS: u64 = RECEIPT_GAS + TRANSFER_GAS;

/// Why a transaction is not valid (core/primitives/src/errors.rs:221-316); names are those of neard's JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidTx {
    /// Its base block is unknown or too old.
    Expired,
    /// The signature is not its key's.
    InvalidSignature,
    /// Nobody has the signer's id.
    SignerDoesNotExist(AccountId),
    /// The signer has no such full-access key.
    AccessKeyNotFound(AccountId, PublicKey),
    /// The nonce was used.
    InvalidNonce {
        /// The transaction's.
        tx_nonce: u64,
        /// The key's.
        ak_nonce: u64,
    },
    /// The nonce is beyond what the height allows.
    NonceTooLarge {
        /// The transaction's.
        tx_nonce: u64,
        /// The first that is too large.
        upper_bound: u64,
    },
    /// The signer cannot pay.
    NotEnoughBalance {
        /// Who.
        signer_id: AccountId,
        /// Has, yocto.
        balance: u128,
        /// Needs, yocto.
        cost: u128,
    },
    /// The cost does not fit 128 bits.
    CostOverflow,
    /// Longer than the limit.
    TransactionSizeExceeded {
        /// Bytes.
        size: usize,
        /// Allowed.
        limit: usize,
    },
}

/// What a receipt does when it executes.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(crate) enum ReceiptKind {
    /// `transfers` transfers, whose gas was bought at `gas_price`.
    Transfer { transfers: u32, gas_price: u128 },
    /// Gives back what was bought too dear or could not be delivered.
    Refund,
}

/// A receipt. Signer and nonce name the transaction that it stems from.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(crate) struct Receipt {
    pub(crate) signer_id: AccountId,
    pub(crate) nonce: u64,
    pub(crate) receiver_id: AccountId,
    pub(crate) deposit: u128,
    pub(crate) kind: ReceiptKind,
}

impl Receipt {
    /// Gas that executing it burns.
    pub(crate) fn gas(&self) -> u64 {
        match self.kind {
            ReceiptKind::Transfer { transfers, .. } => gas_of(transfers),
            ReceiptKind::Refund => REFUND_GAS,
        }
    }

    /// Yocto that are in flight with it: deposit and prepaid gas.
    #[cfg(test)]
    pub(crate) fn value(&self) -> u128 {
        match self.kind {
            ReceiptKind::Transfer { gas_price, .. } => self.deposit + u128::from(self.gas()) * gas_price,
            ReceiptKind::Refund => self.deposit,
        }
    }

    pub(crate) fn refund(&self, amount: u128) -> Self {
        Self {
            signer_id: self.signer_id.clone(),
            nonce: self.nonce,
            receiver_id: self.signer_id.clone(),
            deposit: amount,
            kind: ReceiptKind::Refund,
        }
    }
}

/// Gas of a receipt with so many transfers; converting and executing it burn as much each.
pub(crate) fn gas_of(transfers: u32) -> u64 {
    RECEIPT_GAS.saturating_add(TRANSFER_GAS.saturating_mul(u64::from(transfers)))
}

/// What a transaction took from its signer when it was charged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Charge {
    /// Gas burnt by the conversion.
    pub(crate) gas_burnt: u64,
    /// Yocto burnt by it.
    pub(crate) burnt: u128,
    /// What it makes.
    pub(crate) receipt: Receipt,
}

/// What a transaction would cost an account that can pay it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quote {
    /// The index of the key.
    key: usize,
    /// What the account keeps.
    rest: u128,
    transfers: u32,
    deposit: u128,
    /// Price at which the gas of its receipt is bought.
    price: u128,
    /// Gas burnt by the conversion.
    pub(crate) gas_burnt: u64,
    burnt: u128,
}

/// What `transaction` would cost `account`, or why it may not be made. `height` is that of the block that would include
/// it; without one (at admission, as in neard) the nonce has no upper bound.
pub(crate) fn quote(
    account: &Account,
    transaction: &Transaction,
    gas_price: u128,
    height: Option<u64>,
) -> Result<Quote, InvalidTx> {
    let Some(key) = account.keys.iter().position(|key| key.public_key == transaction.public_key) else {
        return Err(InvalidTx::AccessKeyNotFound(account.id.clone(), transaction.public_key));
    };
    let (tx_nonce, ak_nonce) = (transaction.nonce, account.keys[key].nonce);
    if tx_nonce <= ak_nonce {
        return Err(InvalidTx::InvalidNonce { tx_nonce, ak_nonce });
    }
    if let Some(upper_bound) = height.map(|height| height.saturating_mul(NONCE_RANGE_PER_HEIGHT))
        && tx_nonce >= upper_bound
    {
        return Err(InvalidTx::NonceTooLarge { tx_nonce, upper_bound });
    }
    let price = gas_price.max(MIN_GAS_PURCHASE_PRICE);
    let transfers = u32::try_from(transaction.actions.len()).map_err(|_| InvalidTx::CostOverflow)?;
    let gas_burnt = gas_of(transfers);
    let mut deposit: u128 = 0;
    for Action::Transfer { deposit: part } in &transaction.actions {
        deposit = deposit.checked_add(*part).ok_or(InvalidTx::CostOverflow)?;
    }
    let burnt = u128::from(gas_burnt) * gas_price;
    let cost = deposit
        .checked_add(burnt)
        .and_then(|sum| sum.checked_add(u128::from(gas_burnt) * price))
        .ok_or(InvalidTx::CostOverflow)?;
    let Some(rest) = account.amount.checked_sub(cost) else {
        let balance = account.amount;
        return Err(InvalidTx::NotEnoughBalance { signer_id: account.id.clone(), balance, cost });
    };
    Ok(Quote { key, rest, transfers, deposit, price, gas_burnt, burnt })
}

impl Quote {
    /// Takes the price from the account that was asked about.
    pub(crate) fn pay(&self, account: &mut Account, transaction: &Transaction) {
        account.amount = self.rest;
        account.keys[self.key].nonce = transaction.nonce;
    }

    fn receipt(&self, transaction: &Transaction) -> Receipt {
        Receipt {
            signer_id: transaction.signer_id.clone(),
            nonce: transaction.nonce,
            receiver_id: transaction.receiver_id.clone(),
            deposit: self.deposit,
            kind: ReceiptKind::Transfer { transfers: self.transfers, gas_price: self.price },
        }
    }
}

/// Charges `account` for `transaction`, or says why not and leaves it as it was.
pub(crate) fn charge(
    account: &mut Account,
    transaction: &Transaction,
    gas_price: u128,
    height: Option<u64>,
) -> Result<Charge, InvalidTx> {
    let quote = quote(account, transaction, gas_price, height)?;
    quote.pay(account, transaction);
    Ok(Charge { gas_burnt: quote.gas_burnt, burnt: quote.burnt, receipt: quote.receipt(transaction) })
}
