//! JSON-RPC, metrics and peer-to-peer clients, every call with a deadline.
//!
//! This crate knows how to ask; what the answers mean for a measurement is decided elsewhere.

pub mod error;
pub mod jsonrpc;
pub mod p2p;

pub use error::{NodeError, RpcError};
pub use jsonrpc::Client;
pub use p2p::{P2pConnection, P2pError, P2pReader, P2pWriter, PeerTarget};
