//! The first message of a connection: any bytes, or an offer made of choices, perhaps with a byte changed.

use borsh::BorshDeserialize;
use prost::Message;
use tpsctl_near::{
    CryptoHash, KeyPair, OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, PublicKey, Signature,
    p2p::{
        HandshakeOffer, Identity, Judgement, NONCE_WINDOW_SECONDS, NodeFacts, Received, RefusalReason,
        read_message, wire,
    },
};

use super::bytes::Bytes;
use crate::corpus::recorded;

const NOW: u64 = 1_800_000_000;
const RAW: u8 = 0;
const CHOSEN: u8 = 1;

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let names = ["accepted", "refused-chain-id", "refused-target", "closed-nonce-far-future"];
    let raw = names.iter().map(|name| recorded(&format!("neard/p2p/{name}/client-to-node.bin")));
    let mut seeds: Vec<Vec<u8>> = raw.map(|bytes| [&[RAW][..], &bytes[4..]].concat()).collect();
    // Sound, then each choice wrong in turn.
    for wrong in 0..8 {
        let mut seed = vec![CHOSEN, 86, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x5f, 0x60, 7];
        if wrong > 0 {
            seed[wrong] ^= 0x81;
        }
        seeds.push(seed);
    }
    seeds
}

fn node() -> (Identity, NodeFacts) {
    let identity = Identity {
        key: KeyPair::from_seed([1; 32]),
        chain_id: "benchmarknet".to_owned(),
        genesis_hash: CryptoHash([9; 32]),
    };
    let facts = NodeFacts {
        addr: Some(([127, 0, 0, 1], 24_567).into()),
        account_id: "node0".parse().ok(),
        listen_port: 24_567,
        height: 77,
        tracked_shards: vec![0, 3],
    };
    (identity, facts)
}

pub(super) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mode = bytes.u8();
    if mode & 1 == RAW {
        check_any(bytes.0);
    } else {
        check_chosen(bytes);
    }
}

/// Holds for any message at all.
fn check_any(message: &[u8]) -> Judgement {
    let (identity, facts) = node();
    let judged = identity.judge(message, &facts, NOW);
    match &judged {
        Judgement::Accept { answer, peer, listen_port, .. } => {
            let expected = Received::Handshake {
                sender: identity.key.public(),
                listen_port: facts.listen_port,
                height: facts.height,
            };
            assert_eq!(read_message(&answer[4..]), expected);
            assert_ne!(*listen_port, 0);
            assert_ne!(*peer, identity.key.public());
            assert!(is_edge_signed(message, *peer, identity.key.public()));
        }
        Judgement::Refuse { answer, why } => {
            let said = read_message(&answer[4..]);
            assert!(matches!(said, Received::Refused(_) | Received::Disconnect), "{said:?}");
            assert!(!why.is_empty());
        }
    }
    judged
}

/// Whether the offer's edge is signed by its sender, worked out once more from the specification.
fn is_edge_signed(message: &[u8], peer: PublicKey, node: PublicKey) -> bool {
    let Ok(wire::PeerMessage { body: Some(wire::Body::Tier2Handshake(offer)) }) =
        wire::PeerMessage::decode(message)
    else {
        return false;
    };
    let edge = offer.partial_edge_info.unwrap_or_default().borsh;
    let Ok((nonce, signature)) = <(u64, Signature)>::try_from_slice(&edge) else { return false };
    let mut keys = [peer, node];
    keys.sort();
    let mut preimage = borsh::to_vec(&keys).expect("memory takes every byte");
    preimage.extend_from_slice(&nonce.to_le_bytes());
    nonce.abs_diff(NOW) <= NONCE_WINDOW_SECONDS && peer.verify(&CryptoHash::of(&preimage).0, &signature)
}

/// An offer made of choices is judged as its choices say, the first fault first.
fn check_chosen(mut bytes: Bytes<'_>) {
    let (identity, _) = node();
    let version = u32::from(bytes.u8());
    let is_own_chain = bytes.u8() < 128;
    let is_own_genesis = bytes.u8() < 128;
    let is_own_target = bytes.u8() < 128;
    let nonce = NOW.wrapping_add_signed(i64::from_le_bytes(bytes.array()));
    let listen_port = bytes.u16();
    let key = KeyPair::from_seed([bytes.u8(); 32]);
    let sender = Identity {
        key: key.clone(),
        chain_id: if is_own_chain { "benchmarknet" } else { "elsewhere" }.to_owned(),
        genesis_hash: if is_own_genesis { identity.genesis_hash } else { CryptoHash([8; 32]) },
    };
    let offer = HandshakeOffer {
        target: if is_own_target { identity.key.public() } else { KeyPair::from_seed([2; 32]).public() },
        protocol_version: version,
        oldest_version: version,
        listen_port,
        height: bytes.u64(),
        tracked_shards: vec![bytes.u64()],
        edge_nonce: nonce,
    };
    let mut message = sender.offer(&offer).split_off(4);
    let flip = bytes.u8();
    if flip != 0 {
        let at = usize::from(bytes.u16()) % message.len();
        message[at] ^= flip;
        check_any(&message);
        return;
    }
    let expected = if !(OLDEST_PROTOCOL_VERSION..=PROTOCOL_VERSION).contains(&version) {
        Some("version")
    } else if !is_own_chain || !is_own_genesis {
        Some("genesis")
    } else if !is_own_target {
        Some("target")
    } else if nonce == 0
        || nonce.abs_diff(NOW) > NONCE_WINDOW_SECONDS
        || listen_port == 0
        || key.public() == identity.key.public()
    {
        Some("close")
    } else {
        None
    };
    match check_any(&message) {
        Judgement::Accept { peer, height, tracked_shards, .. } => {
            assert_eq!(expected, None);
            assert_eq!((peer, height, tracked_shards), (key.public(), offer.height, offer.tracked_shards));
        }
        Judgement::Refuse { answer, .. } => assert_eq!(Some(kind(&answer)), expected),
    }
}

fn kind(answer: &[u8]) -> &'static str {
    match read_message(&answer[4..]) {
        Received::Refused(RefusalReason::ProtocolVersion { .. }) => "version",
        Received::Refused(RefusalReason::Genesis { .. }) => "genesis",
        Received::Refused(RefusalReason::Target { .. }) => "target",
        Received::Disconnect => "close",
        _ => "other",
    }
}
