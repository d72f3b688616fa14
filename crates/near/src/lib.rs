//! NEAR's formats and nothing else: account ids, shard layouts, keys, hashes, signatures, transactions, blocks, the
//! files of a node's home directory, and peer-to-peer frames, as protocol version 86 writes them.
//!
//! The only crate that knows these formats. It does no I/O and reads no clock. Sources are given as paths in
//! near/nearcore at commit f0c7706f.

pub mod account;
pub mod block;
pub mod chain;
pub mod crypto;
pub mod files;
pub mod layout;
pub mod p2p;
pub mod transaction;

pub use account::{AccountId, AccountIdError};
pub use chain::is_protected_chain;
pub use crypto::{CryptoHash, KeyError, KeyPair, PublicKey, Signature};
pub use layout::{LayoutError, ShardLayout};
pub use transaction::{Action, SignedTransaction, Transaction};

/// The protocol version that this crate writes (core/primitives-core/src/version.rs at f0c7706f).
pub const PROTOCOL_VERSION: u32 = 86;

/// The oldest protocol version that neard at f0c7706f accepts in a handshake.
pub const OLDEST_PROTOCOL_VERSION: u32 = 83;

/// Gas that a transfer burns at each of its steps: conversion on the signer's shard, execution on the receiver's
/// shard (`action_receipt_creation` + `action_transfer`, core/parameters/res/runtime_configs/parameters.snap), and
/// the refund where the gas price is below [`MIN_GAS_PURCHASE_PRICE`].
pub const TRANSFER_GAS_UNIT: u64 = 108_059_500_000 + 115_123_062_500;

/// Receipt gas is bought at no less than this price, yocto per gas; below it each transfer has a refund receipt
/// (runtime/runtime/src/config.rs:459-467).
pub const MIN_GAS_PURCHASE_PRICE: u128 = 1_000_000_000;

/// A transaction's nonce must be below the block height times this (core/primitives-core/src/account.rs:478).
pub const NONCE_RANGE_PER_HEIGHT: u64 = 1_000_000;

/// Gas units ([`TRANSFER_GAS_UNIT`]) that one settled transfer burns in all its parts at `gas_price` (yocto per gas): two, and a
/// third for the refund receipt where the price is below [`MIN_GAS_PURCHASE_PRICE`].
pub fn units_per_transfer(gas_price: u128) -> u64 {
    if gas_price >= MIN_GAS_PURCHASE_PRICE { 2 } else { 3 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_below_the_purchase_price_costs_a_refund() {
        let units =
            [0, MIN_GAS_PURCHASE_PRICE - 1, MIN_GAS_PURCHASE_PRICE, u128::MAX].map(units_per_transfer);
        assert_eq!(units, [3, 3, 2, 2]);
    }
}
