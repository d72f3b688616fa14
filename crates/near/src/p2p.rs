//! The peer-to-peer path (tier 2): frames, handshakes and the few messages that a load client and a node exchange.
//!
//! Framing: u32 little-endian length, then a protobuf `PeerMessage` (chain/network/src/peer/stream.rs:14-22). Field
//! numbers are those of chain/network/src/network_protocol/network.proto. Everything here is without I/O: bytes in,
//! values out.

mod frame;
mod handshake;
pub mod wire;

pub use frame::{
    FRAME_LEN_MAX, FrameDecoder, FrameError, append_transaction, block_frame, frame, read_block,
    transaction_frame_len,
};
pub use handshake::{
    HandshakeOffer, Identity, Judgement, NONCE_WINDOW_SECONDS, NodeFacts, Received, RefusalReason,
    fresh_nonce, read_message,
};

/// `PeerMessage` oneof numbers (network.proto:469-523).
pub mod field {
    /// Tier-2 handshake, in both directions.
    pub const TIER2_HANDSHAKE: u32 = 4;
    /// The other side refuses and says why.
    pub const HANDSHAKE_FAILURE: u32 = 5;
    /// The other side already has an edge with a nonce at least as high.
    pub const LAST_EDGE: u32 = 6;
    /// Routing table.
    pub const SYNC_ROUTING_TABLE: u32 = 7;
    /// Asks for a new edge nonce.
    pub const UPDATE_NONCE_REQUEST: u32 = 8;
    /// Answers it.
    pub const UPDATE_NONCE_RESPONSE: u32 = 9;
    /// Asks for peers.
    pub const PEERS_REQUEST: u32 = 10;
    /// Names peers.
    pub const PEERS_RESPONSE: u32 = 11;
    /// A block.
    pub const BLOCK_RESPONSE: u32 = 15;
    /// A signed transaction.
    pub const TRANSACTION: u32 = 16;
    /// The other side will close.
    pub const DISCONNECT: u32 = 18;
    /// Which snapshots peers have.
    pub const SYNC_SNAPSHOT_HOSTS: u32 = 32;
    /// The first number that the embedded node uses among its own kind; neard ignores what it does not know.
    pub const PRIVATE_MIN: u32 = 1000;
}
