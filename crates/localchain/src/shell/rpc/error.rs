//! Error objects and their HTTP codes (chain/jsonrpc-primitives/src/errors.rs, chain/jsonrpc/src/lib.rs:2685-2745).

use serde_json::{Value, json};
use tpsctl_near::{AccountId, CryptoHash};

use super::super::json::invalid_tx;
use crate::core::{BlockRef, InvalidTx};

/// Longest text that an error repeats, bytes.
const REPEATED_BYTES_MAX: usize = 2_000;

/// The block that a query was about.
#[derive(Debug, Clone, Copy)]
pub(in crate::shell) struct Place {
    pub(in crate::shell) block_hash: CryptoHash,
    pub(in crate::shell) block_height: u64,
}

/// Who asks for a block decides how neard says that it is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::shell) enum Asker {
    Block,
    Header,
    Query,
    ProtocolConfig,
}

#[derive(Debug)]
pub(in crate::shell) enum RpcError {
    Parse(String),
    UnknownMethod(String),
    UnknownBlock(BlockRef, Asker),
    UnknownChunk(CryptoHash),
    InvalidShard(u64),
    UnknownAccount(AccountId, Place),
    UnavailableShard(u64),
    UnknownEpoch,
    ValidatorInfoUnavailable,
    InvalidTransaction(InvalidTx),
    UnknownTransaction(CryptoHash),
    DoesNotTrackShard,
    NodeIsSyncing,
    /// Seconds and nanoseconds since the last block.
    NoNewBlocks(u64, u32),
    Timeout,
    Internal(String),
}

impl RpcError {
    pub(super) fn parse(text: impl Into<String>) -> Self {
        Self::Parse(shortened(text.into()))
    }

    pub(super) fn unknown_method(name: &str) -> Self {
        Self::UnknownMethod(shortened(name.to_owned()))
    }

    pub(super) fn ending() -> Self {
        Self::Internal("the node is ending".to_owned())
    }

    /// `named` and `head_height` tell apart the blocks that are not there from those that are not there yet: neard
    /// looks whether the parameters name a height below its head.
    pub(super) fn http_status(&self, named: Option<u64>, head_height: u64) -> u16 {
        match self {
            Self::Parse(_) | Self::UnknownMethod(_) => 400,
            Self::UnknownBlock(..) if named.is_some_and(|height| height < head_height) => 422,
            Self::Timeout => 408,
            Self::Internal(_) => 500,
            _ => 200,
        }
    }

    fn cause(&self) -> (&'static str, Value) {
        match self {
            Self::Parse(text) => ("PARSE_ERROR", json!({"error_message": text})),
            Self::UnknownMethod(name) => ("METHOD_NOT_FOUND", json!({"method_name": name})),
            Self::UnknownBlock(at, Asker::Query) => {
                ("UNKNOWN_BLOCK", json!({"block_reference": reference(at)}))
            }
            Self::UnknownBlock(..) => ("UNKNOWN_BLOCK", json!({})),
            Self::UnknownChunk(hash) => ("UNKNOWN_CHUNK", json!({"chunk_hash": hash})),
            Self::InvalidShard(shard_id) => ("INVALID_SHARD_ID", json!({"shard_id": shard_id})),
            Self::UnknownAccount(account, place) => (
                "UNKNOWN_ACCOUNT",
                json!({
                    "block_hash": place.block_hash,
                    "block_height": place.block_height,
                    "requested_account_id": account,
                }),
            ),
            Self::UnavailableShard(shard_id) => {
                ("UNAVAILABLE_SHARD", json!({"requested_shard_id": shard_id}))
            }
            Self::UnknownEpoch => ("UNKNOWN_EPOCH", Value::Null),
            Self::ValidatorInfoUnavailable => ("VALIDATOR_INFO_UNAVAILABLE", Value::Null),
            Self::InvalidTransaction(_) => ("INVALID_TRANSACTION", json!({})),
            Self::UnknownTransaction(hash) => {
                ("UNKNOWN_TRANSACTION", json!({"requested_transaction_hash": hash}))
            }
            Self::DoesNotTrackShard => ("DOES_NOT_TRACK_SHARD", Value::Null),
            Self::NodeIsSyncing => ("NODE_IS_SYNCING", Value::Null),
            Self::NoNewBlocks(secs, nanos) => ("NO_NEW_BLOCKS", json!({"elapsed": [secs, nanos]})),
            Self::Timeout => ("TIMEOUT_ERROR", Value::Null),
            Self::Internal(text) => ("INTERNAL_ERROR", json!({"error_message": text})),
        }
    }

    fn cause_object(&self) -> Value {
        match self.cause() {
            (name, Value::Null) => json!({"name": name}),
            (name, info) => json!({"name": name, "info": info}),
        }
    }

    fn data(&self) -> Value {
        match self {
            Self::Parse(text) => json!(text),
            Self::UnknownMethod(name) => json!(name),
            Self::UnknownBlock(at, asker) => json!(no_block(at, *asker)),
            Self::UnknownChunk(hash) => json!(format!(
                "Chunk Missing (unavailable on the node): ChunkHash(`{hash}`) \n Cause: Unknown"
            )),
            Self::InvalidShard(shard_id) => json!(format!("Shard id {shard_id} does not exist")),
            Self::UnknownAccount(account, _) => {
                json!(format!("account {account} does not exist while viewing"))
            }
            Self::UnavailableShard(shard_id) => {
                json!(format!("The node does not track the shard ID {shard_id}"))
            }
            Self::UnknownEpoch => json!("Unknown Epoch"),
            Self::ValidatorInfoUnavailable => json!("Validator info unavailable"),
            Self::InvalidTransaction(error) => {
                json!({"TxExecutionError": {"InvalidTxError": invalid_tx(error)}})
            }
            Self::UnknownTransaction(hash) => json!(format!("Transaction {hash} doesn't exist")),
            Self::DoesNotTrackShard => {
                json!("Node doesn't track this shard. Cannot determine whether the transaction is valid")
            }
            Self::NodeIsSyncing | Self::NoNewBlocks(..) => self.cause_object(),
            Self::Timeout => json!("Timeout"),
            Self::Internal(text) => {
                json!(format!("The node reached its limits. Try again later. More details: {text}"))
            }
        }
    }

    /// The whole answer.
    pub(super) fn object(&self, id: &Value) -> Value {
        let (name, code, message) = match self {
            Self::Parse(_) => ("REQUEST_VALIDATION_ERROR", -32_700, "Parse error"),
            Self::UnknownMethod(_) => ("REQUEST_VALIDATION_ERROR", -32_601, "Method not found"),
            Self::Internal(_) => ("INTERNAL_ERROR", -32_000, "Server error"),
            _ => ("HANDLER_ERROR", -32_000, "Server error"),
        };
        let error = json!({
            "name": name,
            "cause": self.cause_object(),
            "code": code,
            "message": message,
            "data": self.data(),
        });
        json!({"jsonrpc": "2.0", "error": error, "id": id})
    }
}

/// What was asked, as far as an answer repeats it: a client may ask for long things, and be slow to take them back.
fn shortened(text: String) -> String {
    if text.len() <= REPEATED_BYTES_MAX {
        return text;
    }
    format!("{}...", &text[..text.floor_char_boundary(REPEATED_BYTES_MAX)])
}

/// neard's JSON of a reference to a block.
fn reference(at: &BlockRef) -> Value {
    match at {
        BlockRef::Height(height) => json!({"block_id": height}),
        BlockRef::Hash(hash) => json!({"block_id": hash}),
        BlockRef::Head => json!({"finality": "optimistic"}),
        BlockRef::NearFinal => json!({"finality": "near-final"}),
        BlockRef::Final => json!({"finality": "final"}),
    }
}

/// How neard says that a block is not there.
fn no_block(at: &BlockRef, asker: Asker) -> String {
    let name = match (at, asker) {
        (BlockRef::Height(height), _) => format!("BLOCK HEIGHT: {height}"),
        (BlockRef::Hash(hash), Asker::Block) => format!("BLOCK: {hash}"),
        (BlockRef::Hash(hash), _) => format!("BLOCK HEADER: {hash}"),
        (BlockRef::Head | BlockRef::NearFinal | BlockRef::Final, _) => "BLOCK".to_owned(),
    };
    match (at, asker) {
        (_, Asker::ProtocolConfig) => format!("Block Not Found: {name}"),
        (BlockRef::Hash(_), Asker::Query) => format!("DB Not Found Error: {name}"),
        _ => format!("DB Not Found Error: {name} \n Cause: Unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What neard said of a height below its head that has no block.
    #[test]
    fn a_skipped_height_is_not_found_for_good() {
        let text = include_str!("../../../../../testdata/neard/rpc/block-skipped-height.json");
        let theirs: Value = serde_json::from_str(text).expect("JSON");
        let error = RpcError::UnknownBlock(BlockRef::Height(120), Asker::Block);
        assert_eq!(error.object(&json!(1)), theirs);
        assert_eq!(error.http_status(Some(120), 121), 422);
        assert_eq!(error.http_status(Some(120), 120), 200, "not yet");
        assert_eq!(error.http_status(None, 121), 200);
    }
}
