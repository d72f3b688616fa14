//! Parameters of the methods.

use base64::{Engine, prelude::BASE64_STANDARD};
use borsh::BorshDeserialize;
use serde::Deserialize;
use serde_json::Value;
use tpsctl_near::{AccountId, CryptoHash, PublicKey, SignedTransaction};

use super::error::RpcError;
use crate::core::BlockRef;

/// Parameters of `block`.
pub(super) struct BlockParams(pub(super) BlockRef);

/// What `query` views.
pub(super) enum QueryRequest {
    Account,
    AccessKey(PublicKey),
    AccessKeyList,
}

/// Parameters of `query`.
pub(super) struct QueryParams {
    pub(super) at: BlockRef,
    pub(super) account_id: AccountId,
    pub(super) request: QueryRequest,
}

/// Until when `send_tx` waits (core/primitives/src/views.rs:2130-2165).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum WaitUntil {
    None,
    Included,
    #[default]
    ExecutedOptimistic,
    IncludedFinal,
    Executed,
    Final,
}

#[derive(Deserialize)]
struct BlockReferenceFile {
    block_id: Option<Value>,
    finality: Option<String>,
}

#[derive(Deserialize)]
struct QueryFile {
    request_type: String,
    account_id: AccountId,
    public_key: Option<PublicKey>,
}

#[derive(Deserialize)]
struct SendFile {
    signed_tx_base64: String,
    #[serde(default)]
    wait_until: WaitUntil,
}

fn read<T: serde::de::DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    serde_json::from_value(params).map_err(|error| RpcError::parse(format!("Failed parsing args: {error}")))
}

fn block_id(id: &Value) -> Result<BlockRef, RpcError> {
    if let Some(height) = id.as_u64() {
        return Ok(BlockRef::Height(height));
    }
    let hash = id.as_str().and_then(|text| text.parse::<CryptoHash>().ok());
    hash.map(BlockRef::Hash)
        .ok_or_else(|| RpcError::parse("Failed parsing args: block_id is no height and no hash"))
}

fn reference(params: Value) -> Result<BlockRef, RpcError> {
    let file: BlockReferenceFile = read(params)?;
    match (file.block_id, file.finality.as_deref()) {
        (Some(id), None) => block_id(&id),
        (None, Some("optimistic")) => Ok(BlockRef::Head),
        (None, Some("near-final")) => Ok(BlockRef::NearFinal),
        (None, Some("final")) => Ok(BlockRef::Final),
        _ => Err(RpcError::parse("Failed parsing args: one of block_id and finality is needed")),
    }
}

pub(super) fn block(params: Value) -> Result<BlockParams, RpcError> {
    match params.as_array().map(Vec::as_slice) {
        Some([id]) => block_id(id).map(BlockParams),
        _ => reference(params).map(BlockParams),
    }
}

pub(super) fn query(params: Value) -> Result<QueryParams, RpcError> {
    let at = reference(params.clone())?;
    let file: QueryFile = read(params)?;
    let request = match (file.request_type.as_str(), file.public_key) {
        ("view_account", _) => QueryRequest::Account,
        ("view_access_key", Some(key)) => QueryRequest::AccessKey(key),
        ("view_access_key_list", _) => QueryRequest::AccessKeyList,
        ("view_access_key", None) => {
            return Err(RpcError::parse("Failed parsing args: missing field `public_key`"));
        }
        (other, _) => {
            return Err(RpcError::parse(format!(
                "Failed parsing args: request_type `{other}` is not served"
            )));
        }
    };
    Ok(QueryParams { at, account_id: file.account_id, request })
}

/// The transaction, and until when to wait.
pub(super) fn send(params: Value) -> Result<(SignedTransaction, WaitUntil), RpcError> {
    let file = match params.as_array().map(Vec::as_slice) {
        Some([Value::String(text)]) => {
            SendFile { signed_tx_base64: text.clone(), wait_until: WaitUntil::default() }
        }
        _ => read(params)?,
    };
    let fault = |error: String| RpcError::parse(format!("Failed to decode transaction: {error}"));
    let bytes = BASE64_STANDARD.decode(&file.signed_tx_base64).map_err(|error| fault(error.to_string()))?;
    let signed = SignedTransaction::try_from_slice(&bytes).map_err(|error| fault(error.to_string()))?;
    Ok((signed, file.wait_until))
}

/// How neard names a block that it does not find.
pub(super) fn name(at: &BlockRef) -> String {
    match at {
        BlockRef::Height(height) => format!("BLOCK HEIGHT: {height}"),
        BlockRef::Hash(hash) => format!("BLOCK: {hash}"),
        BlockRef::Head | BlockRef::NearFinal | BlockRef::Final => "BLOCK".to_owned(),
    }
}
