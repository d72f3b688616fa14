//! Parameters of the methods, in all forms that neard takes (chain/jsonrpc/src/api).

use base64::{Engine, prelude::BASE64_STANDARD};
use borsh::BorshDeserialize;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tpsctl_near::{AccountId, CryptoHash, PublicKey, SignedTransaction};

use super::{super::json::Level, error::RpcError};
use crate::core::{BlockRef, ChunkRef};

/// What `query` views.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QueryRequest {
    Account,
    AccessKey(PublicKey),
    AccessKeyList,
}

/// Parameters of `query`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QueryParams {
    pub(super) at: Reference,
    pub(super) account_id: AccountId,
    pub(super) request: QueryRequest,
}

/// A block as parameters name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference {
    At(BlockRef),
    /// The first block that there is.
    Genesis,
}

/// An epoch as parameters name it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EpochRef {
    Running,
    /// By its last block.
    EndedWith(BlockRef),
    Id(CryptoHash),
}

/// A transaction as parameters name it.
#[derive(Debug)]
pub(super) enum TransactionRef {
    Signed(Box<SignedTransaction>),
    Id { hash: CryptoHash, sender: AccountId },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum BlockId {
    Height(u64),
    Hash(CryptoHash),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Finality {
    Optimistic,
    NearFinal,
    Final,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SyncCheckpoint {
    Genesis,
    EarliestAvailable,
}

type Parsed<T> = Result<T, RpcError>;

fn read<T: DeserializeOwned>(params: Value) -> Parsed<T> {
    serde_json::from_value(params).map_err(|error| failed(error.to_string()))
}

fn failed(fault: impl std::fmt::Display) -> RpcError {
    RpcError::parse(format!("Failed parsing args: {fault}"))
}

fn block_id(id: Value) -> Parsed<BlockRef> {
    Ok(match read(id)? {
        BlockId::Height(height) => BlockRef::Height(height),
        BlockId::Hash(hash) => BlockRef::Hash(hash),
    })
}

/// The element of a list of one.
fn only(params: &mut Value) -> Option<Value> {
    match params.as_array_mut().map(Vec::as_mut_slice) {
        Some([one]) => Some(one.take()),
        _ => None,
    }
}

/// The elements of a list of two.
fn pair(params: &mut Value) -> Option<(Value, Value)> {
    match params.as_array_mut().map(Vec::as_mut_slice) {
        Some([one, two]) => Some((one.take(), two.take())),
        _ => None,
    }
}

fn take(params: &mut Value, key: &str) -> Option<Value> {
    params.as_object_mut()?.remove(key)
}

/// `block_id`, `finality` or `sync_checkpoint` of an object.
pub(super) fn reference(params: &mut Value) -> Parsed<Reference> {
    if let Some(id) = take(params, "block_id") {
        return block_id(id).map(Reference::At);
    }
    if let Some(finality) = take(params, "finality") {
        return Ok(Reference::At(match read(finality)? {
            Finality::Optimistic => BlockRef::Head,
            Finality::NearFinal => BlockRef::NearFinal,
            Finality::Final => BlockRef::Final,
        }));
    }
    match take(params, "sync_checkpoint").map(read).transpose()? {
        Some(SyncCheckpoint::Genesis | SyncCheckpoint::EarliestAvailable) => Ok(Reference::Genesis),
        None => Err(failed("no variant of enum BlockReference found in flattened data")),
    }
}

/// Of `EXPERIMENTAL_protocol_config`.
pub(super) fn protocol_config(mut params: Value) -> Parsed<Reference> {
    reference(&mut params)
}

/// Of `block`.
pub(super) fn block(mut params: Value) -> Parsed<Reference> {
    match only(&mut params) {
        Some(id) => block_id(id).map(Reference::At),
        None => reference(&mut params),
    }
}

/// Of `chunk`: `{chunk_id}`, `{block_id, shard_id}`, `[chunk_id]` or `[[block_id, shard_id]]`.
pub(super) fn chunk(mut params: Value) -> Parsed<ChunkRef> {
    let at = |block: Value, shard: Value| Ok(ChunkRef::At(block_id(block)?, read(shard)?));
    if let Some(mut one) = only(&mut params) {
        if let Some((block, shard)) = pair(&mut one) {
            return at(block, shard);
        }
        return read(one).map(ChunkRef::Hash);
    }
    match (take(&mut params, "block_id"), take(&mut params, "shard_id"), take(&mut params, "chunk_id")) {
        (Some(block), Some(shard), _) => at(block, shard),
        (_, _, Some(hash)) => read(hash).map(ChunkRef::Hash),
        _ => Err(failed("data did not match any variant of untagged enum ChunkReference")),
    }
}

/// Of `gas_price`: `[block_id]` or `{block_id}`, null for the head.
pub(super) fn gas_price(mut params: Value) -> Parsed<BlockRef> {
    let id = match only(&mut params) {
        Some(id) => id,
        None if params.is_object() => take(&mut params, "block_id").unwrap_or(Value::Null),
        None => return Err(failed(format_args!("{params} is no struct RpcGasPriceRequest"))),
    };
    if id.is_null() { Ok(BlockRef::Head) } else { block_id(id) }
}

/// Of `validators`: `[block_id]`, null for the running epoch, `{block_id}`, `{epoch_id}` or `{latest}`.
pub(super) fn validators(mut params: Value) -> Parsed<EpochRef> {
    if let Some(id) = only(&mut params) {
        return if id.is_null() { Ok(EpochRef::Running) } else { block_id(id).map(EpochRef::EndedWith) };
    }
    if let Some(id) = take(&mut params, "epoch_id") {
        return read(id).map(EpochRef::Id);
    }
    if let Some(id) = take(&mut params, "block_id") {
        return block_id(id).map(EpochRef::EndedWith);
    }
    take(&mut params, "latest")
        .map(|_| EpochRef::Running)
        .ok_or_else(|| failed("no variant of enum EpochReference found in flattened data"))
}

/// Of `query`: an object, or the older `[path, data]`.
pub(super) fn query(mut params: Value) -> Parsed<QueryParams> {
    if let Some((path, data)) = pair(&mut params) {
        let (path, _): (String, String) = (read(path)?, read(data)?);
        return query_path(&path);
    }
    let at = reference(&mut params)?;
    let need = |params: &mut Value, key: &str| {
        take(params, key).ok_or_else(|| failed(format_args!("missing field `{key}`")))
    };
    let kind: String = read(need(&mut params, "request_type")?)?;
    let request = match kind.as_str() {
        "view_account" => QueryRequest::Account,
        "view_access_key" => QueryRequest::AccessKey(read(need(&mut params, "public_key")?)?),
        "view_access_key_list" => QueryRequest::AccessKeyList,
        other => {
            return Err(failed(format_args!(
                "unknown variant `{other}`, expected one of `view_account`, `view_access_key`, `view_access_key_list`"
            )));
        }
    };
    Ok(QueryParams { at, account_id: read(need(&mut params, "account_id")?)?, request })
}

/// `account/ID`, `access_key/ID` or `access_key/ID/KEY`.
fn query_path(path: &str) -> Parsed<QueryParams> {
    let mut parts = path.splitn(3, '/');
    let command = parts.next().unwrap_or_default();
    let account = parts.next().ok_or_else(|| RpcError::parse("Not enough query parameters provided"))?;
    let account_id =
        account.parse().map_err(|error: tpsctl_near::AccountIdError| RpcError::parse(error.to_string()))?;
    let request = match (command, parts.next()) {
        ("account", _) => QueryRequest::Account,
        ("access_key", None) => QueryRequest::AccessKeyList,
        ("access_key", Some(key)) => {
            QueryRequest::AccessKey(key.parse().map_err(|_| RpcError::parse("Invalid public key"))?)
        }
        _ => return Err(RpcError::parse(format!("Unknown path {command}"))),
    };
    Ok(QueryParams { at: Reference::At(BlockRef::Head), account_id, request })
}

fn decode(text: &str) -> Parsed<Box<SignedTransaction>> {
    let fault = |error: String| RpcError::parse(format!("Failed to decode transaction: {error}"));
    let bytes = BASE64_STANDARD.decode(text).map_err(|error| fault(error.to_string()))?;
    let signed = SignedTransaction::try_from_slice(&bytes).map_err(|error| fault(error.to_string()))?;
    Ok(Box::new(signed))
}

fn wait_until(params: &mut Value) -> Parsed<Level> {
    take(params, "wait_until").map_or_else(|| Ok(Level::default()), read)
}

fn signed_of(params: &mut Value) -> Parsed<Option<Box<SignedTransaction>>> {
    let text: Option<String> = take(params, "signed_tx_base64").map(read).transpose()?;
    text.map(|text| decode(&text)).transpose()
}

/// Of `send_tx`, `broadcast_tx_async` and `broadcast_tx_commit`: the transaction, and until when to wait.
pub(super) fn send(mut params: Value) -> Parsed<(Box<SignedTransaction>, Level)> {
    if let Some(text) = only(&mut params) {
        return Ok((decode(&read::<String>(text)?)?, Level::default()));
    }
    if pair(&mut params).is_some() {
        return Err(RpcError::parse("Unable to parse send request: too many params passed"));
    }
    let wait_until = wait_until(&mut params)?;
    let signed = signed_of(&mut params)?.ok_or_else(|| failed("missing field `signed_tx_base64`"))?;
    Ok((signed, wait_until))
}

/// Of `tx` and `EXPERIMENTAL_tx_status`.
pub(super) fn transaction(mut params: Value) -> Parsed<(TransactionRef, Level)> {
    if let Some(text) = only(&mut params) {
        return Ok((TransactionRef::Signed(decode(&read::<String>(text)?)?), Level::default()));
    }
    if let Some((hash, sender)) = pair(&mut params) {
        return Ok((TransactionRef::Id { hash: read(hash)?, sender: read(sender)? }, Level::default()));
    }
    let wait_until = wait_until(&mut params)?;
    if let Some(signed) = signed_of(&mut params)? {
        return Ok((TransactionRef::Signed(signed), wait_until));
    }
    match (take(&mut params, "tx_hash"), take(&mut params, "sender_account_id")) {
        (Some(hash), Some(sender)) => {
            Ok((TransactionRef::Id { hash: read(hash)?, sender: read(sender)? }, wait_until))
        }
        _ => Err(failed("data did not match any variant of untagged enum TransactionInfo")),
    }
}
