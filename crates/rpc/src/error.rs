//! Why a call over HTTP failed.

use std::{fmt, string::FromUtf8Error, time::Duration};

use serde_json::Value;

/// A call to a node's HTTP surface failed. `method` is the JSON-RPC method, or `GET /metrics`.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// The HTTP client could not be built.
    #[error("set up an HTTP client")]
    Setup {
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// No HTTP answer: not connected, or the connection broke.
    #[error("call `{method}` at {url}")]
    Transport {
        /// What was called.
        method: &'static str,
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// No whole answer in time.
    #[error("call `{method}` at {url} within {deadline:?}")]
    Timeout {
        /// What was called.
        method: &'static str,
        /// Where.
        url: String,
        /// The time allowed.
        deadline: Duration,
    },
    /// The node answered with an error.
    #[error("call `{method}` at {url}")]
    Handler {
        /// What was called.
        method: &'static str,
        /// Where.
        url: String,
        /// What the node said.
        #[source]
        source: Box<NodeError>,
    },
    /// An HTTP error without a JSON-RPC answer in it.
    #[error("call `{method}` at {url}: HTTP status {status}")]
    Status {
        /// What was called.
        method: &'static str,
        /// Where.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The answer is longer than the client reads.
    #[error("call `{method}` at {url}: the answer is longer than {len_max} bytes")]
    TooLong {
        /// What was called.
        method: &'static str,
        /// Where.
        url: String,
        /// The limit.
        len_max: usize,
    },
    /// The answer is not JSON, or not of the expected shape.
    #[error("read the answer to `{method}` from {url}")]
    Shape {
        /// What was called.
        method: &'static str,
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The answer is not text.
    #[error("read the answer to `{method}` from {url}")]
    NotText {
        /// What was called.
        method: &'static str,
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: FromUtf8Error,
    },
}

/// An error object as neard writes it: `{name, cause: {name, info}, data}` (chain/jsonrpc-primitives/src/errors.rs).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeError {
    /// `REQUEST_VALIDATION_ERROR`, `HANDLER_ERROR` or `INTERNAL_ERROR`.
    pub name: String,
    /// The cause, such as `UNKNOWN_BLOCK`.
    pub cause_name: String,
    /// The cause's details.
    pub info: Value,
    /// More details; for refused transactions the only ones.
    pub data: Value,
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.cause_name.is_empty() { &self.name } else { &self.cause_name };
        write!(f, "the node answered {word}")?;
        match &self.data {
            Value::Null => Ok(()),
            Value::String(text) => write!(f, ": {}", text.trim()),
            data => write!(f, ": {data}"),
        }
    }
}

impl std::error::Error for NodeError {}
