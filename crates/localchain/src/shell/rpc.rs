//! JSON-RPC, with neard's methods, shapes, error objects and HTTP codes (chain/jsonrpc/src/lib.rs).

mod config;
mod error;
mod params;
mod send;
mod status;
mod validators;
mod views;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::{OnceCell, oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use self::{config::ChainFiles, error::RpcError};
use super::{
    admission::Admission,
    driver::{Inputs, Query},
    home::Home,
    metrics::Call,
    peers::Peers,
};
use crate::core::{Assignment, Block, View};

/// What the RPC answers from.
#[derive(Debug)]
pub(super) struct Rpc {
    view: watch::Receiver<Arc<View>>,
    inputs: Inputs,
    admission: Arc<Admission>,
    peers: Arc<Peers>,
    cancel: CancellationToken,
    started: Instant,
    home: Home,
    assignment: Assignment,
    genesis: Block,
    /// Read when they are first asked for.
    files: OnceCell<ChainFiles>,
}

/// The parts of the node that the RPC needs.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) view: watch::Receiver<Arc<View>>,
    pub(super) inputs: Inputs,
    pub(super) admission: Arc<Admission>,
    pub(super) peers: Arc<Peers>,
    pub(super) assignment: Assignment,
}

type Answer = Result<Value, RpcError>;

/// An answer as it goes over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    /// HTTP status.
    pub(super) status: u16,
    /// JSON, or text where the request was no JSON.
    pub(super) body: ReplyBody,
}

/// What goes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReplyBody {
    Json(Value),
    Text(String),
}

/// Longest text that may be the id of a request, bytes.
const ID_BYTES_MAX: usize = 256;

/// A request. All else that is JSON is none: lists, notifications, other versions, keys beyond these.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    jsonrpc: String,
    id: Value,
    method: String,
    #[serde(default)]
    params: Value,
}

impl Request {
    /// The request in the body of a POST, or the answer to what is none.
    fn read(body: &[u8]) -> Result<Self, Reply> {
        let message = serde_json::from_slice::<Value>(body).map_err(|error| {
            let text = format!("Failed to parse the request body as JSON: {error}");
            Reply { status: 400, body: ReplyBody::Text(text) }
        })?;
        Self::of(message).ok_or_else(|| {
            let error = RpcError::parse("JSON RPC Request format was expected");
            Reply { status: 400, body: ReplyBody::Json(error.object(&Value::Null)) }
        })
    }

    fn of(message: Value) -> Option<Self> {
        // A list of the fields' values would pass for the struct.
        let request: Self =
            if message.is_object() { serde_json::from_value(message).ok()? } else { return None };
        (request.jsonrpc == "2.0" && is_id(&request.id)).then_some(request)
    }
}

/// neard takes any JSON. JSON-RPC 2.0 has strings, numbers and null, and an id is kept while its request waits.
fn is_id(id: &Value) -> bool {
    match id {
        Value::String(text) => text.len() <= ID_BYTES_MAX,
        Value::Array(_) | Value::Object(_) => false,
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

impl Rpc {
    pub(super) fn new(home: &Home, parts: Parts, cancel: CancellationToken) -> Self {
        let Parts { view, inputs, admission, peers, assignment } = parts;
        Self {
            view,
            inputs,
            admission,
            peers,
            cancel,
            started: Instant::now(),
            genesis: home.settings.genesis.block(),
            home: home.clone(),
            assignment,
            files: OnceCell::new(),
        }
    }

    /// Longest body that a request may have, bytes.
    pub(super) fn body_bytes_max(&self) -> usize {
        self.home.rpc.limits_config.json_payload_max_size
    }

    fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.borrow())
    }

    /// The answer to the body of a POST. While it is waited for, little is left of what was asked: the body is gone, and its
    /// parameters are read, each by its method, before that method waits.
    pub(super) async fn answer(&self, body: impl AsRef<[u8]>) -> Reply {
        let request = Request::read(body.as_ref());
        drop(body);
        let Request { id, method, params, .. } = match request {
            Ok(request) => request,
            Err(reply) => return reply,
        };
        let named = params.get("block_id").and_then(Value::as_u64);
        let (status, body) = match self.counted(&method, params).await {
            Ok(result) => (200, json!({"jsonrpc": "2.0", "result": result, "id": id})),
            Err(error) => {
                let head_height = self.view().head.block.height();
                (error.http_status(named, head_height), error.object(&id))
            }
        };
        Reply { status, body: ReplyBody::Json(body) }
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
            "health" => self.health(),
            "network_info" => Ok(self.network_info()),
            "gas_price" => self.gas_price(params::gas_price(params)?).await,
            "block" => self.block(params::block(params)?).await,
            "chunk" => self.chunk(params::chunk(params)?).await,
            "validators" => self.validators(params::validators(params)?).await,
            "query" => self.query(params::query(params)?).await,
            "genesis_config" | "EXPERIMENTAL_genesis_config" => {
                drop(params);
                self.genesis_config().await
            }
            "EXPERIMENTAL_protocol_config" => self.protocol_config(params::protocol_config(params)?).await,
            "send_tx" => {
                let (signed, wait_until) = params::send(params)?;
                self.send_tx(*signed, wait_until).await
            }
            "broadcast_tx_commit" => {
                let (signed, _) = params::send(params)?;
                self.send_tx(*signed, super::json::Level::ExecutedOptimistic).await
            }
            "broadcast_tx_async" => {
                let (signed, _) = params::send(params)?;
                Ok(json!(self.send_tx_async(*signed).await))
            }
            "tx" => self.transaction(params::transaction(params)?, false).await,
            "EXPERIMENTAL_tx_status" => self.transaction(params::transaction(params)?, true).await,
            _ => Err(RpcError::unknown_method(method)),
        }
    }

    /// Asks the core. It answers as long as the node runs.
    async fn ask<T>(&self, query: impl FnOnce(oneshot::Sender<T>) -> Query) -> Result<T, RpcError> {
        let (sender, receiver) = oneshot::channel();
        self.inputs.queries.send(query(sender)).await.map_err(|_| RpcError::ending())?;
        receiver.await.map_err(|_| RpcError::ending())
    }
}
