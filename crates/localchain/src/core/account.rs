//! An account: what a shard's state holds.

use borsh::{BorshDeserialize, BorshSerialize};
use tpsctl_near::{AccountId, PublicKey};

/// A full-access key of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct AccessKey {
    /// The key.
    pub public_key: PublicKey,
    /// The last nonce used.
    pub nonce: u64,
}

/// An account.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// What it can spend, yocto.
    pub amount: u128,
    /// What it has staked, yocto.
    pub locked: u128,
    /// Bytes that neard would count for it.
    pub storage_usage: u64,
    /// Its full-access keys.
    pub keys: Vec<AccessKey>,
}
