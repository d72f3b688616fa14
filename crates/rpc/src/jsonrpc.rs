//! The JSON-RPC client: typed answers, typed errors, one deadline for the whole of each call.

mod views;

use std::{net::SocketAddr, time::Duration};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::error::{NodeError, RpcError};
pub use views::{BlockHeaderView, BlockView, ChunkHeaderView, StatusView, SyncInfoView, VersionView};

/// Time allowed for a call unless [`Client::with_deadline`] says otherwise.
pub const CALL_DEADLINE: Duration = Duration::from_secs(3);

/// Longest JSON answer that is read. A block of 100 shards has about 200 KB.
pub const ANSWER_LEN_MAX: usize = 16 * 1024 * 1024;

/// Longest metrics page that is read. neard writes up to 900 KB.
pub const METRICS_LEN_MAX: usize = 8 * 1024 * 1024;

/// Which block is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockRef {
    /// The canonical block at this height.
    Height(u64),
    /// The last final block.
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

    /// The node's own state.
    pub async fn status(&self) -> Result<StatusView, RpcError> {
        self.call("status", json!([])).await
    }

    /// A block's header and chunk headers. An error of the node ([`RpcError::Handler`]) if it has none.
    pub async fn block(&self, block: BlockRef) -> Result<BlockView, RpcError> {
        let params = match block {
            BlockRef::Height(height) => json!({ "block_id": height }),
            BlockRef::Final => json!({ "finality": "final" }),
        };
        self.call("block", params).await
    }

    #[tracing::instrument(name = "rpc", level = "debug", skip_all, fields(method, addr = %self.addr))]
    async fn call<T: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<T, RpcError> {
        let url = format!("http://{}/", self.addr);
        // HTTP already pairs answers with requests: the id carries nothing.
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = self.http.post(&url).json(&body);
        let (status, body) = fetch(request, (method, &url), ANSWER_LEN_MAX, self.deadline).await?;
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
/// so the status matters only where the body is no such answer. `call` is method and URL, for errors.
pub fn read_answer<T: DeserializeOwned>(
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
