//! Error objects and their HTTP codes (chain/jsonrpc-primitives/src/errors.rs, chain/jsonrpc/src/lib.rs:2685-2745).

use serde_json::{Value, json};
use tpsctl_near::{AccountId, CryptoHash, PublicKey};

use super::super::json::invalid_tx;
use crate::core::InvalidTx;

/// The block that a query was about.
#[derive(Debug, Clone, Copy)]
pub(in crate::shell) struct Place {
    pub(in crate::shell) block_hash: CryptoHash,
    pub(in crate::shell) block_height: u64,
}

#[derive(Debug)]
pub(in crate::shell) enum RpcError {
    Parse(String),
    UnknownMethod(String),
    UnknownBlock { block: String, is_below_head: bool },
    UnknownAccount(AccountId, Place),
    UnknownAccessKey(PublicKey, Place),
    UnavailableShard(u64),
    InvalidTransaction(InvalidTx),
    Routed(CryptoHash),
    Timeout,
    Ending,
}

impl RpcError {
    pub(super) fn parse(text: impl Into<String>) -> Self {
        Self::Parse(text.into())
    }

    pub(super) fn http_status(&self) -> u16 {
        match self {
            Self::Parse(_) | Self::UnknownMethod(_) => 400,
            Self::UnknownBlock { is_below_head: true, .. } => 422,
            Self::Timeout => 408,
            Self::Ending => 500,
            _ => 200,
        }
    }

    fn cause(&self) -> (&'static str, Value) {
        match self {
            Self::Parse(text) => ("PARSE_ERROR", json!({"error_message": text})),
            Self::UnknownMethod(name) => ("METHOD_NOT_FOUND", json!({"method_name": name})),
            Self::UnknownBlock { .. } => ("UNKNOWN_BLOCK", json!({})),
            Self::UnknownAccount(account, place) => (
                "UNKNOWN_ACCOUNT",
                json!({
                    "block_hash": place.block_hash,
                    "block_height": place.block_height,
                    "requested_account_id": account,
                }),
            ),
            Self::UnknownAccessKey(key, place) => (
                "UNKNOWN_ACCESS_KEY",
                json!({
                    "block_hash": place.block_hash,
                    "block_height": place.block_height,
                    "public_key": key,
                }),
            ),
            Self::UnavailableShard(shard_id) => {
                ("UNAVAILABLE_SHARD", json!({"requested_shard_id": shard_id}))
            }
            Self::InvalidTransaction(_) => ("INVALID_TRANSACTION", json!({})),
            Self::Routed(hash) => ("REQUEST_ROUTED", json!({"transaction_hash": hash})),
            Self::Timeout => ("TIMEOUT_ERROR", json!({})),
            Self::Ending => ("INTERNAL_ERROR", json!({"error_message": "the node is ending"})),
        }
    }

    fn data(&self) -> Value {
        match self {
            Self::Parse(text) => json!(text),
            Self::UnknownMethod(name) => json!(name),
            Self::UnknownBlock { block, .. } => {
                json!(format!("DB Not Found Error: {block} \n Cause: Unknown"))
            }
            Self::UnknownAccount(account, _) => {
                json!(format!("account {account} does not exist while viewing"))
            }
            Self::UnknownAccessKey(key, _) => json!(format!("access key {key} does not exist while viewing")),
            Self::UnavailableShard(shard_id) => {
                json!(format!("The node does not track the shard ID {shard_id}"))
            }
            Self::InvalidTransaction(error) => {
                json!({"TxExecutionError": {"InvalidTxError": invalid_tx(error)}})
            }
            Self::Routed(hash) => json!(format!("Transaction {hash} was routed to another node")),
            Self::Timeout => json!("Timeout"),
            Self::Ending => json!("the node is ending"),
        }
    }

    /// The whole answer.
    pub(super) fn object(&self, id: &Value) -> Value {
        let (name, code, message) = match self {
            Self::Parse(_) => ("REQUEST_VALIDATION_ERROR", -32_700, "Parse error"),
            Self::UnknownMethod(_) => ("REQUEST_VALIDATION_ERROR", -32_601, "Method not found"),
            Self::Ending => ("INTERNAL_ERROR", -32_000, "Server error"),
            _ => ("HANDLER_ERROR", -32_000, "Server error"),
        };
        let (cause, info) = self.cause();
        let error = json!({
            "name": name,
            "cause": {"name": cause, "info": info},
            "code": code,
            "message": message,
            "data": self.data(),
        });
        json!({"jsonrpc": "2.0", "error": error, "id": id})
    }
}
