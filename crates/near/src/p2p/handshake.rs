//! The tier-2 handshake, from both sides.
//!
//! A client signs SHA-256 of (lower key, higher key, nonce) (network_protocol/edge.rs:20-24, 103-106); a node checks in
//! the order of peer/peer_actor.rs:529-628 and answers with its own handshake or a typed refusal.

use borsh::{BorshDeserialize, BorshSerialize};
use prost::Message;

use super::{
    frame::frame,
    wire::{
        Body, BorshBytes, Disconnect, GenesisId, Handshake, HandshakeFailure, Hash, PeerChainInfo,
        PeerMessage,
    },
};
use crate::{
    AccountId, CryptoHash, KeyPair, OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, PublicKey, Signature,
};

/// A nonce may be this far from the node's clock (chain/network/src/routing/edge.rs:6-34).
pub const NONCE_WINDOW_SECONDS: u64 = 20 * 60;

/// Who one is on the network: key, chain and genesis.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The peer's key.
    pub key: KeyPair,
    /// Chain id.
    pub chain_id: String,
    /// Hash of the genesis block.
    pub genesis_hash: CryptoHash,
}

/// What a handshake offers beside the identity.
#[derive(Debug, Clone)]
pub struct HandshakeOffer {
    /// The node that is meant.
    pub target: PublicKey,
    /// Protocol version spoken.
    pub protocol_version: u32,
    /// Oldest version spoken.
    pub oldest_version: u32,
    /// Must not be 0, or the node closes.
    pub listen_port: u16,
    /// Head height.
    pub height: u64,
    /// Shards tracked.
    pub tracked_shards: Vec<u64>,
    /// Odd (an active edge), near the node's clock; see [`fresh_nonce`].
    pub edge_nonce: u64,
}

/// What a node says of itself in answers.
#[derive(Debug, Clone, Default)]
pub struct NodeFacts {
    /// Its public address, named in refusals.
    pub addr: Option<core::net::SocketAddr>,
    /// Its validator account, named in refusals.
    pub account_id: Option<AccountId>,
    /// Its listen port.
    pub listen_port: u16,
    /// Its head.
    pub height: u64,
    /// Shards that it tracks.
    pub tracked_shards: Vec<u64>,
}

/// What came back, as far as a client needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// The other side shakes hands.
    Handshake {
        /// Its key.
        sender: PublicKey,
        /// Its listen port.
        listen_port: u16,
        /// Its head.
        height: u64,
    },
    /// The handshake was refused.
    Refused(RefusalReason),
    /// An edge with this nonce exists already: offer a higher one.
    LastEdge {
        /// The nonce of the existing edge.
        nonce: u64,
    },
    /// The other side asks to sign a new edge nonce.
    UpdateNonceRequest {
        /// The nonce to sign.
        nonce: u64,
    },
    /// A signed transaction, borsh.
    Transaction(Vec<u8>),
    /// The other side closes.
    Disconnect,
    /// Anything that needs no answer; the field number.
    Other(u32),
}

/// Why a node refused a handshake, with what it says of itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusalReason {
    /// Reason 1.
    #[error("the node speaks protocol {oldest} to {version}")]
    ProtocolVersion {
        /// The node's version.
        version: u32,
        /// The oldest it speaks.
        oldest: u32,
    },
    /// Reason 2.
    #[error("the node is on chain `{chain_id}` with genesis {genesis_hash}")]
    Genesis {
        /// The node's chain.
        chain_id: String,
        /// The node's genesis.
        genesis_hash: CryptoHash,
    },
    /// Reason 3.
    #[error("the node's key is {actual}")]
    Target {
        /// The node's key.
        actual: PublicKey,
    },
    /// A reason that this version does not know, or an answer that cannot be read.
    #[error("the node refused for reason {0}, which is not known here")]
    Unknown(u32),
}

/// What a node does with a handshake that it received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// Answer with this frame and keep the connection.
    Accept {
        /// The frame to send.
        answer: Vec<u8>,
        /// The other side's key.
        peer: PublicKey,
        /// Its listen port.
        listen_port: u16,
        /// Its head.
        height: u64,
        /// Shards that it says it tracks.
        tracked_shards: Vec<u64>,
    },
    /// Send this frame, then close.
    Refuse {
        /// The frame to send.
        answer: Vec<u8>,
        /// In one line, for the log.
        why: String,
    },
}

#[derive(BorshSerialize, BorshDeserialize)]
struct PartialEdgeInfo {
    nonce: u64,
    signature: Signature,
}

/// neard's `PeerInfo` (core/primitives/src/network.rs).
#[derive(BorshSerialize, BorshDeserialize)]
struct PeerInfo {
    id: PublicKey,
    addr: Option<core::net::SocketAddr>,
    account_id: Option<AccountId>,
}

/// The nonce of a fresh edge: the clock's seconds, made odd (network_protocol/edge.rs:126-133).
pub fn fresh_nonce(unix_seconds: u64) -> u64 {
    unix_seconds | 1
}

fn edge_hash(one: PublicKey, other: PublicKey, nonce: u64) -> CryptoHash {
    let (low, high) = if one < other { (one, other) } else { (other, one) };
    CryptoHash::of_borsh(&(low, high, nonce))
}

fn borsh_bytes<T: BorshSerialize>(value: &T) -> BorshBytes {
    BorshBytes { borsh: borsh::to_vec(value).expect("memory takes every byte") }
}

fn message_frame(body: Body) -> Vec<u8> {
    frame(&PeerMessage { body: Some(body) }.encode_to_vec())
}

impl Identity {
    fn genesis_id(&self) -> GenesisId {
        GenesisId { chain_id: self.chain_id.clone(), hash: Some(Hash { hash: self.genesis_hash.0.to_vec() }) }
    }

    fn handshake(&self, offer: &HandshakeOffer) -> Handshake {
        let public = self.key.public();
        let hash = edge_hash(public, offer.target, offer.edge_nonce);
        let edge = PartialEdgeInfo { nonce: offer.edge_nonce, signature: self.key.sign(&hash.0) };
        Handshake {
            protocol_version: offer.protocol_version,
            oldest_supported_version: offer.oldest_version,
            sender_peer_id: Some(borsh_bytes(&public)),
            target_peer_id: Some(borsh_bytes(&offer.target)),
            sender_listen_port: u32::from(offer.listen_port),
            sender_chain_info: Some(PeerChainInfo {
                genesis_id: Some(self.genesis_id()),
                height: offer.height,
                tracked_shards: offer.tracked_shards.clone(),
                archival: false,
            }),
            partial_edge_info: Some(borsh_bytes(&edge)),
        }
    }

    /// The frame that opens a connection.
    pub fn offer(&self, offer: &HandshakeOffer) -> Vec<u8> {
        message_frame(Body::Tier2Handshake(self.handshake(offer)))
    }

    /// What a node with this identity, saying `own` of itself, does with the first message of a connection.
    pub fn judge(&self, message: &[u8], own: &NodeFacts, unix_seconds: u64) -> Judgement {
        let Ok(PeerMessage { body: Some(Body::Tier2Handshake(offered)) }) = PeerMessage::decode(message)
        else {
            return refuse_and_close("the first message is not a tier-2 handshake", false);
        };
        let failure = |reason: u32| HandshakeFailure {
            reason,
            peer_info: Some(borsh_bytes(&PeerInfo {
                id: self.key.public(),
                addr: own.addr,
                account_id: own.account_id.clone(),
            })),
            ..HandshakeFailure::default()
        };
        let refuse = |failure: HandshakeFailure, why: String| Judgement::Refuse {
            answer: message_frame(Body::HandshakeFailure(failure)),
            why,
        };
        let version = offered.protocol_version;
        if !(OLDEST_PROTOCOL_VERSION..=PROTOCOL_VERSION).contains(&version) {
            let failure = HandshakeFailure {
                version: PROTOCOL_VERSION,
                oldest_supported_version: OLDEST_PROTOCOL_VERSION,
                ..failure(1)
            };
            return refuse(failure, format!("it speaks protocol version {version}"));
        }
        let chain = offered.sender_chain_info.clone().unwrap_or_default();
        if chain.genesis_id.as_ref() != Some(&self.genesis_id()) {
            let failure = HandshakeFailure { genesis_id: Some(self.genesis_id()), ..failure(2) };
            let met = genesis_of(chain.genesis_id.unwrap_or_default());
            return refuse(failure, met.to_string());
        }
        if read_borsh::<PublicKey>(offered.target_peer_id.as_ref()) != Some(self.key.public()) {
            return refuse(failure(3), "it means another node".to_owned());
        }
        self.judge_edge(&offered, &chain, own, unix_seconds)
    }

    fn judge_edge(
        &self,
        offered: &Handshake,
        chain: &PeerChainInfo,
        own: &NodeFacts,
        unix_seconds: u64,
    ) -> Judgement {
        let (Some(peer), Some(edge)) = (
            read_borsh::<PublicKey>(offered.sender_peer_id.as_ref()),
            read_borsh::<PartialEdgeInfo>(offered.partial_edge_info.as_ref()),
        ) else {
            return refuse_and_close("its key or edge cannot be read", false);
        };
        if edge.nonce == 0 || edge.nonce.abs_diff(unix_seconds) > NONCE_WINDOW_SECONDS {
            return refuse_and_close("its edge nonce is far from the clock", false);
        }
        let listen_port = u16::try_from(offered.sender_listen_port).unwrap_or(0);
        if listen_port == 0 {
            return refuse_and_close("its listen port is 0", true);
        }
        if peer == self.key.public() {
            return refuse_and_close("it is this node itself", true);
        }
        if !peer.verify(&edge_hash(peer, self.key.public(), edge.nonce).0, &edge.signature) {
            return refuse_and_close("its edge is not signed by its key", true);
        }
        let answer = HandshakeOffer {
            target: peer,
            protocol_version: offered.protocol_version,
            oldest_version: OLDEST_PROTOCOL_VERSION,
            listen_port: own.listen_port,
            height: own.height,
            tracked_shards: own.tracked_shards.clone(),
            edge_nonce: edge.nonce,
        };
        Judgement::Accept {
            answer: self.offer(&answer),
            peer,
            listen_port,
            height: chain.height,
            tracked_shards: chain.tracked_shards.clone(),
        }
    }

    /// The frame that answers [`Received::UpdateNonceRequest`] from `peer` by asking for the same nonce in turn, with
    /// this side's signature; neard takes either message as the missing half (network_state/mod.rs:1397-1447).
    pub fn update_nonce(&self, peer: PublicKey, nonce: u64) -> Vec<u8> {
        let signature = self.key.sign(&edge_hash(self.key.public(), peer, nonce).0);
        let edge = PartialEdgeInfo { nonce, signature };
        message_frame(Body::UpdateNonceRequest(super::wire::UpdateNonceRequest {
            partial_edge_info: Some(borsh_bytes(&edge)),
        }))
    }
}

fn refuse_and_close(why: &str, remove_from_connection_store: bool) -> Judgement {
    Judgement::Refuse {
        answer: message_frame(Body::Disconnect(Disconnect { remove_from_connection_store })),
        why: why.to_owned(),
    }
}

fn read_borsh<T: BorshDeserialize>(bytes: Option<&BorshBytes>) -> Option<T> {
    T::try_from_slice(&bytes?.borsh).ok()
}

/// Reads a message (without its length). Messages of no concern come back as [`Received::Other`].
pub fn read_message(message: &[u8]) -> Received {
    let number = first_field(message).unwrap_or(0);
    match PeerMessage::decode(message) {
        Ok(PeerMessage { body: Some(body) }) => read_body(body, number),
        _ => Received::Other(number),
    }
}

fn read_body(body: Body, number: u32) -> Received {
    match body {
        Body::Tier2Handshake(handshake) => match read_borsh(handshake.sender_peer_id.as_ref()) {
            Some(sender) => Received::Handshake {
                sender,
                listen_port: u16::try_from(handshake.sender_listen_port).unwrap_or(0),
                height: handshake.sender_chain_info.map_or(0, |chain| chain.height),
            },
            None => Received::Other(number),
        },
        Body::HandshakeFailure(failure) => Received::Refused(read_refusal(&failure)),
        // An edge begins with both keys (33 bytes each), then the nonce (network_protocol/edge.rs).
        Body::LastEdge(edge) => match edge.borsh.get(66..74).and_then(|bytes| bytes.try_into().ok()) {
            Some(nonce) => Received::LastEdge { nonce: u64::from_le_bytes(nonce) },
            None => Received::Other(number),
        },
        Body::UpdateNonceRequest(request) => {
            match read_borsh::<PartialEdgeInfo>(request.partial_edge_info.as_ref()) {
                Some(edge) => Received::UpdateNonceRequest { nonce: edge.nonce },
                None => Received::Other(number),
            }
        }
        Body::Transaction(transaction) => Received::Transaction(transaction.borsh),
        Body::Disconnect(_) => Received::Disconnect,
        Body::UpdateNonceResponse(_) | Body::PeersRequest(_) | Body::PeersResponse(_) => {
            Received::Other(number)
        }
    }
}

fn genesis_of(genesis: GenesisId) -> RefusalReason {
    let hash = genesis.hash.and_then(|hash| hash.hash.try_into().ok()).unwrap_or_default();
    RefusalReason::Genesis { chain_id: genesis.chain_id, genesis_hash: CryptoHash(hash) }
}

fn read_refusal(failure: &HandshakeFailure) -> RefusalReason {
    match failure.reason {
        1 => RefusalReason::ProtocolVersion {
            version: failure.version,
            oldest: failure.oldest_supported_version,
        },
        2 => genesis_of(failure.genesis_id.clone().unwrap_or_default()),
        3 => match read_borsh::<PeerInfo>(failure.peer_info.as_ref()) {
            Some(info) => RefusalReason::Target { actual: info.id },
            None => RefusalReason::Unknown(3),
        },
        other => RefusalReason::Unknown(other),
    }
}

/// The number of the first field of a protobuf message that is not neard's trace context (26).
fn first_field(message: &[u8]) -> Option<u32> {
    let mut rest = message;
    loop {
        let key = prost::encoding::decode_varint(&mut rest).ok()?;
        let number = u32::try_from(key >> 3).ok()?;
        if number != 26 || key & 7 != 2 {
            return Some(number);
        }
        let len = usize::try_from(prost::encoding::decode_varint(&mut rest).ok()?).ok()?;
        rest = rest.get(len..)?;
    }
}
