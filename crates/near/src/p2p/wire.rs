//! The protobuf messages, field for field as in network.proto. Bytes that are borsh inside stay bytes here.

/// One message between peers. Unknown oneof members read as `body: None`.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PeerMessage {
    /// What is said.
    #[prost(oneof = "Body", tags = "4, 5, 6, 8, 9, 10, 11, 16, 18")]
    pub body: Option<Body>,
}

/// The members of `PeerMessage` that are understood.
#[derive(Clone, PartialEq, ::prost::Oneof)]
pub enum Body {
    /// Handshake on tier 2.
    #[prost(message, tag = "4")]
    Tier2Handshake(Handshake),
    /// A refused handshake.
    #[prost(message, tag = "5")]
    HandshakeFailure(HandshakeFailure),
    /// The edge that the other side already has.
    #[prost(message, tag = "6")]
    LastEdge(BorshBytes),
    /// Asks to sign a new edge nonce; partial edge info inside.
    #[prost(message, tag = "8")]
    UpdateNonceRequest(UpdateNonceRequest),
    /// The whole edge with both signatures.
    #[prost(message, tag = "9")]
    UpdateNonceResponse(UpdateNonceResponse),
    /// Asks for peers.
    #[prost(message, tag = "10")]
    PeersRequest(PeersRequest),
    /// Peers.
    #[prost(message, tag = "11")]
    PeersResponse(PeersResponse),
    /// A signed transaction.
    #[prost(message, tag = "16")]
    Transaction(BorshBytes),
    /// The other side closes.
    #[prost(message, tag = "18")]
    Disconnect(Disconnect),
}

/// Any message of one borsh field: `PublicKey`, `SignedTransaction`, `PartialEdgeInfo`, `Edge`, `PeerInfo`.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct BorshBytes {
    /// Borsh encoding.
    #[prost(bytes = "vec", tag = "1")]
    pub borsh: Vec<u8>,
}

/// A 32-byte hash.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Hash {
    /// The bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub hash: Vec<u8>,
}

/// Chain id and genesis hash.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GenesisId {
    /// Chain id.
    #[prost(string, tag = "1")]
    pub chain_id: String,
    /// Hash of the genesis block header.
    #[prost(message, optional, tag = "2")]
    pub hash: Option<Hash>,
}

/// What a peer says of its chain.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PeerChainInfo {
    /// Which chain.
    #[prost(message, optional, tag = "1")]
    pub genesis_id: Option<GenesisId>,
    /// Its head.
    #[prost(uint64, tag = "2")]
    pub height: u64,
    /// Shards that it tracks.
    #[prost(uint64, repeated, tag = "3")]
    pub tracked_shards: Vec<u64>,
    /// Whether it is archival.
    #[prost(bool, tag = "4")]
    pub archival: bool,
}

/// A handshake (network.proto:114-177).
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Handshake {
    /// The sender's protocol version.
    #[prost(uint32, tag = "1")]
    pub protocol_version: u32,
    /// The oldest it speaks.
    #[prost(uint32, tag = "2")]
    pub oldest_supported_version: u32,
    /// Borsh of the sender's public key.
    #[prost(message, optional, tag = "3")]
    pub sender_peer_id: Option<BorshBytes>,
    /// Borsh of the target's public key.
    #[prost(message, optional, tag = "4")]
    pub target_peer_id: Option<BorshBytes>,
    /// Must not be 0.
    #[prost(uint32, tag = "5")]
    pub sender_listen_port: u32,
    /// The sender's chain.
    #[prost(message, optional, tag = "6")]
    pub sender_chain_info: Option<PeerChainInfo>,
    /// Borsh of nonce and signature.
    #[prost(message, optional, tag = "7")]
    pub partial_edge_info: Option<BorshBytes>,
}

/// A refusal (network.proto:179-201).
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct HandshakeFailure {
    /// 1 protocol version, 2 genesis, 3 target.
    #[prost(uint32, tag = "1")]
    pub reason: u32,
    /// Borsh of the node's peer id, optional address, optional account.
    #[prost(message, optional, tag = "2")]
    pub peer_info: Option<BorshBytes>,
    /// The node's chain, with reason 2.
    #[prost(message, optional, tag = "3")]
    pub genesis_id: Option<GenesisId>,
    /// The node's version, with reason 1.
    #[prost(uint32, tag = "4")]
    pub version: u32,
    /// The oldest it speaks, with reason 1.
    #[prost(uint32, tag = "5")]
    pub oldest_supported_version: u32,
}

/// Asks to sign an edge with a new nonce.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct UpdateNonceRequest {
    /// Borsh of nonce and signature.
    #[prost(message, optional, tag = "1")]
    pub partial_edge_info: Option<BorshBytes>,
}

/// An edge with both signatures.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct UpdateNonceResponse {
    /// Borsh of the edge.
    #[prost(message, optional, tag = "1")]
    pub edge: Option<BorshBytes>,
}

/// Asks for peers.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PeersRequest {}

/// Peers.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PeersResponse {
    /// Borsh of `PeerInfo` each.
    #[prost(message, repeated, tag = "1")]
    pub peers: Vec<BorshBytes>,
}

/// Said before closing.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Disconnect {
    /// Whether the connection's removal should be remembered as the sender's wish.
    #[prost(bool, tag = "1")]
    pub remove_from_connection_store: bool,
}
