//! State records of genesis (core/primitives/src/state_record.rs:33-66).

use serde::{Deserialize, Serialize};

use super::decimal;
use crate::{AccountId, CryptoHash, PublicKey};

/// One piece of state at genesis. NEAR knows more kinds; a chain for transfers has these two, and others are refused
/// with their name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateRecord {
    /// An account.
    Account {
        /// Whose.
        account_id: AccountId,
        /// What it holds.
        account: AccountFile,
    },
    /// A key that may sign for an account.
    AccessKey {
        /// Whose.
        account_id: AccountId,
        /// The key.
        public_key: PublicKey,
        /// What it may do.
        access_key: AccessKeyFile,
    },
}

/// An account's state (core/primitives-core/src/account.rs:305-340).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountFile {
    /// Spendable, yocto.
    #[serde(with = "decimal")]
    pub amount: u128,
    /// Staked, yocto.
    #[serde(with = "decimal")]
    pub locked: u128,
    /// Hash of the contract's code; all zero for none.
    pub code_hash: CryptoHash,
    /// Bytes of state; neard computes it anew at genesis, so 0 is right.
    pub storage_usage: u64,
    /// Version of the account's state.
    #[serde(default)]
    pub version: AccountVersion,
}

/// Version of an account's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum AccountVersion {
    /// The first.
    #[default]
    V1,
    /// With global contracts.
    V2,
}

/// What an access key may do and which nonce it used last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessKeyFile {
    /// The last nonce used.
    pub nonce: u64,
    /// What it may do.
    pub permission: Permission,
}

/// What an access key may do. Keys for function calls are refused when read: load has no use for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Permission {
    /// Everything.
    FullAccess,
}

impl StateRecord {
    /// A plain account without a contract; `storage_usage` 0.
    pub fn account(account_id: AccountId, amount: u128, locked: u128) -> Self {
        let account = AccountFile {
            amount,
            locked,
            code_hash: CryptoHash::default(),
            storage_usage: 0,
            version: AccountVersion::V1,
        };
        Self::Account { account_id, account }
    }

    /// A full-access key that was never used.
    pub fn full_access_key(account_id: AccountId, public_key: PublicKey) -> Self {
        let access_key = AccessKeyFile { nonce: 0, permission: Permission::FullAccess };
        Self::AccessKey { account_id, public_key, access_key }
    }
}
