//! JSON-RPC, with neard's shapes, error objects and HTTP codes (chain/jsonrpc/src/lib.rs).

mod error;
mod params;
mod send;

use std::{net::SocketAddr, sync::Arc};

use serde_json::{Value, json};
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tpsctl_near::{AccountId, PROTOCOL_VERSION, PublicKey};

use self::{
    error::RpcError,
    params::{BlockParams, QueryParams, QueryRequest},
};
use super::{
    admission::Admission,
    driver::{Inputs, Query},
    home::Home,
    json,
    metrics::Call,
};
use crate::core::{Block, BlockRef, Snapshot, View};

/// What the RPC answers from.
#[derive(Debug)]
pub(super) struct Rpc {
    view: watch::Receiver<Arc<View>>,
    inputs: Inputs,
    admission: Arc<Admission>,
    cancel: CancellationToken,
    started: Instant,
    chain_id: String,
    gas_limit: u64,
    own_addr: Option<SocketAddr>,
    validators: Vec<AccountId>,
    validator: Option<(AccountId, PublicKey)>,
    node_key: PublicKey,
    genesis: Block,
    epoch_length: u64,
}

type Answer = Result<Value, RpcError>;

impl Rpc {
    pub(super) fn new(
        home: &Home,
        view: watch::Receiver<Arc<View>>,
        inputs: Inputs,
        admission: Arc<Admission>,
        cancel: CancellationToken,
    ) -> Self {
        let genesis = &home.settings.genesis;
        let validators = crate::core::Assignment::order(&genesis.validators);
        Self {
            view,
            inputs,
            admission,
            cancel,
            started: Instant::now(),
            chain_id: genesis.chain_id.clone(),
            gas_limit: genesis.gas_limit,
            own_addr: home.rpc_addr,
            validators: validators.into_iter().map(|own| own.account_id).collect(),
            validator: home.settings.validator.as_ref().map(|(id, key)| (id.clone(), key.public())),
            node_key: home.node_key.public(),
            genesis: genesis.block(),
            epoch_length: genesis.epoch_length,
        }
    }

    fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.borrow())
    }

    /// HTTP status and body for the body of a POST.
    pub(super) async fn answer(&self, body: &[u8]) -> (u16, Value) {
        let request = match serde_json::from_slice::<Value>(body) {
            Ok(request) if request.is_object() => request,
            Ok(_) | Err(_) => {
                let error = RpcError::parse("JSON RPC Request format was expected");
                return (error.http_status(), error.object(&Value::Null));
            }
        };
        let id = request.get("id").cloned().unwrap_or(Value::Null);
        let params = request.get("params").cloned().unwrap_or(Value::Null);
        let answer = match request.get("method").and_then(Value::as_str) {
            Some(method) => self.counted(method, params).await,
            None => Err(RpcError::parse("JSON RPC Request format was expected")),
        };
        match answer {
            Ok(result) => (200, json!({"jsonrpc": "2.0", "result": result, "id": id})),
            Err(error) => (error.http_status(), error.object(&id)),
        }
    }

    async fn counted(&self, method: &str, params: Value) -> Answer {
        let (call, began) = (Call::of(method, &params), Instant::now());
        let answer = self.call(method, params).await;
        let error = answer.as_ref().err().map(|error| error.object(&Value::Null));
        let code = error.and_then(|error| error["error"]["code"].as_i64());
        self.admission.metrics().answered(&call, began.elapsed(), code);
        answer
    }

    async fn call(&self, method: &str, params: Value) -> Answer {
        match method {
            "status" => Ok(self.status()),
            "health" => Ok(Value::Null),
            "gas_price" => Ok(json!({"gas_price": self.view().gas_price.to_string()})),
            "block" => self.block(params::block(params)?).await,
            "query" => self.query(params::query(params)?).await,
            "send_tx" => self.send_tx(params).await,
            "broadcast_tx_async" => self.broadcast_tx_async(params).await,
            _ => Err(RpcError::UnknownMethod(method.to_owned())),
        }
    }

    /// The result of `status`.
    pub(super) fn status(&self) -> Value {
        let view = self.view();
        let head = &view.head.block;
        let time = |block: &Block| {
            let since = std::time::Duration::from_nanos(block.header.timestamp_ns);
            humantime::format_rfc3339_nanos(std::time::UNIX_EPOCH + since).to_string()
        };
        let first = self.genesis.height() + 1;
        let epochs = head.height().saturating_sub(first) / self.epoch_length.max(1);
        let validators: Vec<Value> = self.validators.iter().map(|id| json!({"account_id": id})).collect();
        let validator_key = self.validator.as_ref().map(|(_, key)| key);
        json!({
            "version": {
                "version": "embedded",
                "build": env!("CARGO_PKG_VERSION"),
                "commit": "",
                "rustc_version": "",
            },
            "chain_id": self.chain_id,
            "protocol_version": PROTOCOL_VERSION,
            "latest_protocol_version": PROTOCOL_VERSION,
            "rpc_addr": self.own_addr.map(|addr| addr.to_string()),
            "validators": validators,
            "sync_info": {
                "latest_block_hash": head.hash(),
                "latest_block_height": head.height(),
                "latest_state_root": json::state_root(head),
                "latest_block_time": time(head),
                "syncing": view.is_syncing,
                "earliest_block_hash": self.genesis.hash(),
                "earliest_block_height": self.genesis.height(),
                "earliest_block_time": time(&self.genesis),
                "epoch_id": head.header.epoch_id,
                "epoch_start_height": first + epochs * self.epoch_length,
            },
            "validator_account_id": self.validator.as_ref().map(|(id, _)| id),
            "validator_public_key": validator_key,
            "node_public_key": self.node_key,
            "node_key": validator_key,
            "uptime_sec": self.started.elapsed().as_secs(),
            "genesis_hash": self.genesis.hash(),
        })
    }

    /// Asks the core. It answers as long as the node runs.
    async fn ask<T>(&self, query: impl FnOnce(oneshot::Sender<T>) -> Query) -> Result<T, RpcError> {
        let (sender, receiver) = oneshot::channel();
        self.inputs.queries.send(query(sender)).await.map_err(|_| RpcError::Ending)?;
        receiver.await.map_err(|_| RpcError::Ending)
    }

    fn unknown_block(&self, at: &BlockRef) -> RpcError {
        let is_below_head =
            matches!(at, BlockRef::Height(height) if *height <= self.view().head.block.height());
        RpcError::UnknownBlock { block: params::name(at), is_below_head }
    }

    async fn block(&self, BlockParams(at): BlockParams) -> Answer {
        let block = self.ask(|answer| Query::Block(at, answer)).await?;
        let block = block.ok_or_else(|| self.unknown_block(&at))?;
        Ok(json::block(&block, self.gas_limit))
    }

    async fn snapshot(&self, at: BlockRef) -> Result<Snapshot, RpcError> {
        let view = self.view();
        match at {
            BlockRef::Head => Ok(view.head.clone()),
            BlockRef::NearFinal => Ok(view.near_final.clone()),
            BlockRef::Final => Ok(view.last_final.clone()),
            BlockRef::Height(_) | BlockRef::Hash(_) => {
                let snapshot = self.ask(|answer| Query::Snapshot(at, answer)).await?;
                snapshot.ok_or_else(|| self.unknown_block(&at))
            }
        }
    }

    async fn query(&self, query: QueryParams) -> Answer {
        let Snapshot { block, states } = self.snapshot(query.at).await?;
        let view = self.view();
        let shard = view.shard_of(&query.account_id);
        let shard_id = view.layout.shard_ids()[shard];
        let Some(state) = &states[shard] else {
            return Err(RpcError::UnavailableShard(shard_id));
        };
        let place = error::Place { block_hash: block.hash(), block_height: block.height() };
        let account = state.account(&query.account_id);
        let account = account.ok_or_else(|| RpcError::UnknownAccount(query.account_id.clone(), place))?;
        Ok(match query.request {
            QueryRequest::Account => json!({
                "amount": account.amount.to_string(),
                "block_hash": block.hash(),
                "block_height": block.height(),
                "code_hash": tpsctl_near::CryptoHash::default(),
                "locked": account.locked.to_string(),
                "storage_paid_at": 0,
                "storage_usage": account.storage_usage,
            }),
            QueryRequest::AccessKey(public_key) => {
                let key = account.keys.iter().find(|own| own.public_key == public_key);
                let key = key.ok_or(RpcError::UnknownAccessKey(public_key, place))?;
                json!({
                    "block_hash": block.hash(),
                    "block_height": block.height(),
                    "nonce": key.nonce,
                    "permission": "FullAccess",
                })
            }
            QueryRequest::AccessKeyList => {
                let key = |own: &crate::core::AccessKey| {
                    json!({
                        "access_key": {"nonce": own.nonce, "permission": "FullAccess"},
                        "public_key": own.public_key,
                    })
                };
                let keys: Vec<Value> = account.keys.iter().map(key).collect();
                json!({"block_hash": block.hash(), "block_height": block.height(), "keys": keys})
            }
        })
    }
}
