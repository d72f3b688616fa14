//! The JSON-RPC client: typed answers, typed errors, one deadline for the whole of each call.

mod views;

use std::{net::SocketAddr, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tpsctl_near::{CryptoHash, PublicKey};

use crate::error::{NodeError, RpcError};
pub use views::{
    AccessKeyView, AccountView, BlockHeaderView, BlockView, ChunkHeaderView, ExecutionStatus, SendTxView,
    StatusView, SyncInfoView, VersionView,
};

/// Time allowed for a call unless [`Client::with_deadline`] says otherwise.
pub const CALL_DEADLINE: Duration = Duration::from_secs(3);

/// Longest JSON answer that is read. A block of 100 shards has about 200 KB.
pub const ANSWER_LEN_MAX: usize = 16 * 1024 * 1024;

/// Longest metrics page that is read. neard writes up to 900 KB.
pub const METRICS_LEN_MAX: usize = 8 * 1024 * 1024;

/// neard itself gives up after this (`rpc.polling_config.polling_timeout`) and answers TIMEOUT_ERROR, so a call that
/// waits for execution is allowed this much more.
const POLLING_TIMEOUT: Duration = Duration::from_secs(10);

/// Which block is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockRef {
    /// The canonical block at this height.
    Height(u64),
    /// The block with this hash.
    Hash(CryptoHash),
    /// The last final block.
    Final,
    /// The head, which may yet be orphaned.
    Optimistic,
}

/// How far a transaction must be before `send_tx` answers (core/primitives/src/views.rs:2130-2165).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum WaitUntil {
    /// Not at all: nothing is checked before the answer.
    None,
    /// Included in a block.
    Included,
    /// Executed, in blocks that may yet be orphaned.
    ExecutedOptimistic,
    /// Included in a final block.
    IncludedFinal,
    /// Executed, and included in a final block.
    Executed,
    /// Executed in final blocks.
    Final,
}

/// A client of one node. Connections are kept and reused; clones share them. Proxies of the environment are ignored:
/// the nodes are addressed by IP.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    addr: SocketAddr,
    deadline: Duration,
}

#[derive(Deserialize)]
struct Answer<T> {
    result: Option<T>,
    error: Option<ErrorObject>,
}

#[derive(Deserialize)]
struct ErrorObject {
    #[serde(default)]
    name: String,
    #[serde(default)]
    cause: Cause,
    #[serde(default)]
    data: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cause {
    name: String,
    info: Value,
}

impl Client {
    /// A client of the node whose RPC server listens on `addr`. Nothing is connected yet.
    pub fn new(addr: SocketAddr) -> Result<Self, RpcError> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|source| RpcError::Setup { source })?;
        Ok(Self { http, addr, deadline: CALL_DEADLINE })
    }

    /// The same client with `deadline` for each call, from connecting to the last byte.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Where it calls.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The node's own state.
    pub async fn status(&self) -> Result<StatusView, RpcError> {
        self.call("status", json!([]), self.deadline).await
    }

    /// A block's header and chunk headers. [`RpcError::is_unknown_block`] if the node has none.
    pub async fn block(&self, block: BlockRef) -> Result<BlockView, RpcError> {
        let params = match block {
            BlockRef::Height(height) => json!({ "block_id": height }),
            BlockRef::Hash(hash) => json!({ "block_id": hash }),
            BlockRef::Final => json!({ "finality": "final" }),
            BlockRef::Optimistic => json!({ "finality": "optimistic" }),
        };
        self.call("block", params, self.deadline).await
    }

    /// The gas price of the head, yocto per gas.
    pub async fn gas_price(&self) -> Result<u128, RpcError> {
        let view: views::GasPriceView = self.call("gas_price", json!([null]), self.deadline).await?;
        Ok(view.gas_price)
    }

    /// An account at the head. A node that does not track the account's shard answers with an error.
    pub async fn account(&self, account_id: &str) -> Result<AccountView, RpcError> {
        let params =
            json!({ "request_type": "view_account", "finality": "optimistic", "account_id": account_id });
        self.call("query", params, self.deadline).await
    }

    /// An access key at the head. A node that does not track the account's shard answers with an error.
    pub async fn access_key(&self, account_id: &str, key: &PublicKey) -> Result<AccessKeyView, RpcError> {
        let params = json!({
            "request_type": "view_access_key", "finality": "optimistic", "account_id": account_id, "public_key": key,
        });
        self.call("query", params, self.deadline).await
    }

    /// Sends a signed transaction (borsh) and waits for `wait_until`, which may take the node's polling timeout longer
    /// than the client's deadline.
    pub async fn send_tx(&self, transaction: &[u8], wait_until: WaitUntil) -> Result<SendTxView, RpcError> {
        let params =
            json!({ "signed_tx_base64": BASE64_STANDARD.encode(transaction), "wait_until": wait_until });
        self.call("send_tx", params, self.deadline + POLLING_TIMEOUT).await
    }

    /// Sends a signed transaction (borsh) and returns its hash. The node reports only bytes that it cannot decode:
    /// the hash does not mean that it took the transaction.
    pub async fn broadcast_tx_async(&self, transaction: &[u8]) -> Result<CryptoHash, RpcError> {
        self.call("broadcast_tx_async", json!([BASE64_STANDARD.encode(transaction)]), self.deadline).await
    }

    /// Calls `method` with `params`: for answers that no typed method here reads.
    #[tracing::instrument(name = "rpc", level = "debug", skip_all, fields(method, addr = %self.addr))]
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: Value,
        deadline: Duration,
    ) -> Result<T, RpcError> {
        let url = format!("http://{}/", self.addr);
        // HTTP already pairs answers with requests: the id carries nothing.
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = self.http.post(&url).json(&body);
        let (status, body) = fetch(request, (method, &url), ANSWER_LEN_MAX, deadline).await?;
        read_answer(&body, status, (method, &url))
    }

    /// The node's metrics page as text (`GET /metrics`).
    #[tracing::instrument(name = "metrics", level = "debug", skip_all, fields(addr = %self.addr))]
    pub async fn metrics(&self) -> Result<String, RpcError> {
        let method = "GET /metrics";
        let url = format!("http://{}/metrics", self.addr);
        let (status, body) =
            fetch(self.http.get(&url), (method, &url), METRICS_LEN_MAX, self.deadline).await?;
        if status != 200 {
            return Err(RpcError::Status { method, url, status });
        }
        String::from_utf8(body).map_err(|source| RpcError::NotText { method, url, source })
    }
}

/// The status and the whole body, or why not. `call` is method and URL, for errors.
async fn fetch(
    request: reqwest::RequestBuilder,
    call: (&'static str, &str),
    len_max: usize,
    deadline: Duration,
) -> Result<(u16, Vec<u8>), RpcError> {
    let (method, url) = call;
    let transport = |source: reqwest::Error| RpcError::Transport {
        method,
        url: url.to_owned(),
        source: source.without_url(),
    };
    let exchange = async {
        let mut response = request.send().await.map_err(transport)?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(transport)? {
            if body.len() + piece.len() > len_max {
                return Err(RpcError::TooLong { method, url: url.to_owned(), len_max });
            }
            body.extend_from_slice(&piece);
        }
        Ok((status, body))
    };
    tokio::time::timeout(deadline, exchange).await.map_err(|_| RpcError::Timeout {
        method,
        url: url.to_owned(),
        deadline,
    })?
}

/// Reads a JSON-RPC answer. neard sends its errors with HTTP 200, 400, 408, 422 or 500 (chain/jsonrpc/src/lib.rs:2685-2745),
/// so the status matters only where the body is no such answer.
fn read_answer<T: DeserializeOwned>(
    body: &[u8],
    status: u16,
    call: (&'static str, &str),
) -> Result<T, RpcError> {
    let (method, url) = (call.0, call.1.to_owned());
    match serde_json::from_slice::<Answer<T>>(body) {
        Ok(Answer { error: Some(error), .. }) => {
            let ErrorObject { name, cause, data } = error;
            let source = Box::new(NodeError { name, cause_name: cause.name, info: cause.info, data });
            Err(RpcError::Handler { method, url, source })
        }
        Ok(Answer { result: Some(result), error: None }) => Ok(result),
        _ if status != 200 => Err(RpcError::Status { method, url, status }),
        Ok(_) => {
            let source = serde::de::Error::custom("neither result nor error");
            Err(RpcError::Shape { method, url, source })
        }
        Err(source) => Err(RpcError::Shape { method, url, source }),
    }
}

#[cfg(test)]
mod tests;
