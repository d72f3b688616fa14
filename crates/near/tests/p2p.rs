//! Handshakes and frames against a connection recorded at a real neard, byte for byte.

use std::collections::BTreeMap;

use borsh::BorshDeserialize;
use proptest::prelude::*;
use prost::Message;
use serde_json::Value;
use tpsctl_near::{
    CryptoHash, KeyPair, OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, PublicKey, SignedTransaction,
    files::{KeyFile, from_text},
    p2p::{
        FrameDecoder, HandshakeOffer, Identity, Judgement, NodeFacts, Received, RefusalReason,
        append_transaction, field, frame, read_message, wire,
    },
};

macro_rules! p2p {
    ($path:literal) => {
        include_bytes!(concat!("../../../testdata/neard/p2p/", $path)).as_slice()
    };
}

const CLIENT: &[u8] = p2p!("accepted/client-to-node.bin");
const NODE: &[u8] = p2p!("accepted/node-to-client.bin");
const HANDSHAKE: &[u8] = p2p!("accepted/handshake.json");

/// Client's frame, node's answer.
const REFUSED: [(&str, &[u8], &[u8]); 6] = [
    ("chain-id", p2p!("refused-chain-id/client-to-node.bin"), p2p!("refused-chain-id/node-to-client.bin")),
    (
        "genesis-hash",
        p2p!("refused-genesis-hash/client-to-node.bin"),
        p2p!("refused-genesis-hash/node-to-client.bin"),
    ),
    ("target", p2p!("refused-target/client-to-node.bin"), p2p!("refused-target/node-to-client.bin")),
    ("version", p2p!("refused-version/client-to-node.bin"), p2p!("refused-version/node-to-client.bin")),
    (
        "listen-port-zero",
        p2p!("closed-listen-port-zero/client-to-node.bin"),
        p2p!("closed-listen-port-zero/node-to-client.bin"),
    ),
    (
        "nonce-far-future",
        p2p!("closed-nonce-far-future/client-to-node.bin"),
        p2p!("closed-nonce-far-future/node-to-client.bin"),
    ),
];

/// `handshake.json`.
struct Recorded {
    client: Identity,
    offer: HandshakeOffer,
}

fn recorded() -> Recorded {
    let json: Value = serde_json::from_slice(HANDSHAKE).expect("fixture");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let seed = hex::decode(text(&json["client_secret_seed_hex"])).expect("hex");
    let status = &json["status"];
    let client = Identity {
        key: KeyPair::from_seed(seed.try_into().expect("32 bytes")),
        chain_id: text(&status["chain_id"]),
        genesis_hash: text(&status["genesis_hash"]).parse().expect("hash"),
    };
    assert_eq!(client.key.public().to_string(), text(&json["client_public"]));
    let offer = HandshakeOffer {
        target: text(&json["node_public"]).parse().expect("key"),
        protocol_version: PROTOCOL_VERSION,
        oldest_version: PROTOCOL_VERSION - 2,
        listen_port: u16::try_from(json["listen_port"].as_u64().expect("port")).expect("port"),
        height: json["height"].as_u64().expect("height"),
        tracked_shards: Vec::new(),
        edge_nonce: json["edge_nonce"].as_u64().expect("nonce"),
    };
    Recorded { client, offer }
}

/// The recorded node: node0 of the fixtures.
fn node() -> (Identity, NodeFacts) {
    let key: KeyFile =
        from_text("node key", include_bytes!("../../../testdata/neard/home/node0/node_key.json"))
            .expect("fixture");
    let Recorded { client, offer } = recorded();
    let identity = Identity { key: key.key, ..client };
    let facts = NodeFacts {
        addr: Some("[::1]:53270".parse().expect("address")),
        account_id: Some("node0".parse().expect("id")),
        listen_port: 53270,
        height: offer.height,
        tracked_shards: Vec::new(),
    };
    (identity, facts)
}

fn messages(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut decoder = FrameDecoder::default();
    decoder.push(stream);
    let mut messages = Vec::new();
    while let Some(message) = decoder.next_frame().expect("short frames") {
        messages.push(message.to_vec());
    }
    assert_eq!(decoder.pending(), 0);
    messages
}

#[test]
fn the_accepted_handshake_is_rebuilt_byte_for_byte() {
    let Recorded { client, offer } = recorded();
    let rebuilt = client.offer(&offer);
    assert_eq!(hex::encode(&rebuilt), hex::encode(&CLIENT[..rebuilt.len()]));
}

#[test]
fn recorded_transactions_write_to_the_same_bytes() {
    let frames = messages(CLIENT);
    assert_eq!(frames.len(), 4, "a handshake and three transactions");
    let mut nonces = Vec::new();
    for message in &frames[1..] {
        let Received::Transaction(borsh) = read_message(message) else { panic!("not a transaction") };
        let signed = SignedTransaction::try_from_slice(&borsh).expect("a transfer");
        assert!(signed.is_signed());
        assert_eq!(signed.size(), borsh.len());
        assert_eq!(borsh::to_vec(&signed).expect("memory"), borsh);
        let mut framed = Vec::new();
        append_transaction(&mut framed, &borsh);
        assert_eq!(framed, frame(message));
        nonces.push(signed.transaction.nonce);
    }
    assert!(nonces.windows(2).all(|pair| pair[1] == pair[0] + 1), "{nonces:?}");
}

#[test]
fn everything_the_node_said_can_be_read() {
    let Recorded { offer, .. } = recorded();
    let read: Vec<Received> = messages(NODE).iter().map(|message| read_message(message)).collect();
    let Received::Handshake { sender, listen_port, height } = read[0] else { panic!("{:?}", read[0]) };
    assert_eq!((sender, listen_port, height), (offer.target, 53270, offer.height));
    let mut counts = BTreeMap::new();
    for received in &read[1..] {
        let Received::Other(field) = received else { panic!("{received:?}") };
        *counts.entry(*field).or_insert(0) += 1;
    }
    let expected = [
        (field::SYNC_ROUTING_TABLE, 2),
        (field::PEERS_REQUEST, 1),
        (field::BLOCK_RESPONSE, 10),
        (field::SYNC_SNAPSHOT_HOSTS, 1),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
}

#[test]
fn refusals_are_read_as_their_reason() {
    let (node, _) = node();
    let genesis =
        || RefusalReason::Genesis { chain_id: "benchmarknet".to_owned(), genesis_hash: node.genesis_hash };
    let version =
        RefusalReason::ProtocolVersion { version: PROTOCOL_VERSION, oldest: OLDEST_PROTOCOL_VERSION };
    let expected = [
        Received::Refused(genesis()),
        Received::Refused(genesis()),
        Received::Refused(RefusalReason::Target { actual: node.key.public() }),
        Received::Refused(version),
        Received::Disconnect,
        Received::Disconnect,
    ];
    for ((name, _, answer), expected) in REFUSED.iter().zip(expected) {
        let answers = messages(answer);
        assert_eq!(answers.len(), 1, "{name}");
        assert_eq!(read_message(&answers[0]), expected, "{name}");
    }
}

#[test]
fn refused_clients_get_the_answer_that_neard_gave() {
    let (node, facts) = node();
    let now = recorded().offer.edge_nonce;
    for (name, offered, answered) in REFUSED {
        match node.judge(&messages(offered)[0], &facts, now) {
            Judgement::Refuse { answer, .. } => {
                assert_eq!(hex::encode(answer), hex::encode(answered), "{name}");
            }
            accepted @ Judgement::Accept { .. } => panic!("{name}: {accepted:?}"),
        }
    }
}

#[test]
fn the_accepted_client_gets_neards_handshake() {
    let (node, facts) = node();
    let Recorded { client, offer } = recorded();
    let judged = node.judge(&messages(CLIENT)[0], &facts, offer.edge_nonce);
    let Judgement::Accept { answer, peer, listen_port, height, tracked_shards } = judged else {
        panic!("{judged:?}")
    };
    assert_eq!((peer, listen_port, height), (client.key.public(), offer.listen_port, offer.height));
    assert!(tracked_shards.is_empty());
    // Equal in all fields up to 7. neard, being a validator, appends owned_account (8), which needs no answer and
    // which a client does not read.
    let ours = &messages(&answer)[0];
    let theirs = &messages(NODE)[0];
    let ours = wire::PeerMessage::decode(ours.as_slice()).expect("own message");
    let theirs = wire::PeerMessage::decode(theirs.as_slice()).expect("recorded message");
    let (Some(wire::Body::Tier2Handshake(ours)), Some(wire::Body::Tier2Handshake(theirs))) =
        (ours.body, theirs.body)
    else {
        panic!("not handshakes")
    };
    assert_eq!(ours, theirs);
}

#[test]
fn a_nonce_is_judged_by_the_nodes_clock() {
    let (node, facts) = node();
    let Recorded { offer, .. } = recorded();
    let message = &messages(CLIENT)[0];
    let is_accepted = |now| matches!(node.judge(message, &facts, now), Judgement::Accept { .. });
    for (now, accepted) in [
        (offer.edge_nonce + 1199, true),
        (offer.edge_nonce - 1199, true),
        (offer.edge_nonce + 1201, false),
        (offer.edge_nonce - 1201, false),
        (0, false),
        (u64::MAX, false),
    ] {
        assert_eq!(is_accepted(now), accepted, "{now}");
    }
}

#[test]
fn a_last_edge_gives_its_nonce() {
    let edge = |len: usize| {
        let mut borsh = vec![0; 66];
        borsh.extend_from_slice(&1_796_042_261_u64.to_le_bytes());
        borsh.extend_from_slice(&[1; 140]);
        borsh.truncate(len);
        wire::PeerMessage { body: Some(wire::Body::LastEdge(wire::BorshBytes { borsh })) }.encode_to_vec()
    };
    assert_eq!(read_message(&edge(200)), Received::LastEdge { nonce: 1_796_042_261 });
    for len in 0..74 {
        assert_eq!(read_message(&edge(len)), Received::Other(6), "{len}");
    }
}

#[test]
fn an_edge_update_is_signed_over_both_keys() {
    let (node, _) = node();
    let Recorded { client, .. } = recorded();
    let answer = client.update_nonce(node.key.public(), 77);
    let message = &messages(&answer)[0];
    assert_eq!(read_message(message), Received::UpdateNonceRequest { nonce: 77 });
    let Some(wire::Body::UpdateNonceRequest(request)) =
        wire::PeerMessage::decode(message.as_slice()).expect("own message").body
    else {
        panic!("not an update")
    };
    let borsh = request.partial_edge_info.expect("edge").borsh;
    let mut keys = [client.key.public(), node.key.public()];
    keys.sort();
    let mut signed = borsh::to_vec(&keys).expect("memory");
    signed.extend_from_slice(&borsh[..8]);
    let signature = BorshDeserialize::try_from_slice(&borsh[8..]).expect("signature");
    assert!(client.key.public().verify(&CryptoHash::of(&signed).0, &signature));
}

/// Reads `message` as a client and as a node; only that it returns matters.
fn read_both_ways(message: &[u8]) {
    let (node, facts) = node();
    let received = read_message(message);
    if let Received::Transaction(borsh) = received {
        let read = SignedTransaction::try_from_slice(&borsh);
        assert!(read.is_err() || borsh.len() > 100);
    }
    let judged = node.judge(message, &facts, recorded().offer.edge_nonce);
    if let Judgement::Accept { answer, .. } = judged {
        assert!(matches!(read_message(&answer[4..]), Received::Handshake { .. }));
    }
}

#[test]
fn truncated_at_every_byte_nothing_panics() {
    let recorded_messages =
        REFUSED.iter().flat_map(|(_, client, node)| [*client, *node]).chain([CLIENT, NODE]);
    for stream in recorded_messages {
        for message in messages(stream).iter().take(4) {
            for len in 0..message.len() {
                read_both_ways(&message[..len]);
            }
        }
    }
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read_both_ways(&bytes);
    }

    #[test]
    fn a_changed_handshake_is_accepted_only_if_still_signed(at in 0_usize..218, flip in 1_u8..=255) {
        let (node, facts) = node();
        let Recorded { client, offer } = recorded();
        let mut message = messages(CLIENT)[0].clone();
        message[at] ^= flip;
        read_both_ways(&message);
        if let Judgement::Accept { peer, .. } = node.judge(&message, &facts, offer.edge_nonce) {
            prop_assert_eq!(peer, client.key.public());
        }
    }

    #[test]
    fn a_node_accepts_any_sound_offer(
        seed in any::<[u8; 32]>(),
        port in 1_u16..,
        height in any::<u64>(),
        tracked_shards in proptest::collection::vec(any::<u64>(), 0..5),
        version in OLDEST_PROTOCOL_VERSION..=PROTOCOL_VERSION,
    ) {
        let (node, facts) = node();
        let Recorded { client, offer } = recorded();
        let client = Identity { key: KeyPair::from_seed(seed), ..client };
        let target: PublicKey = node.key.public();
        let offer = HandshakeOffer {
            target, protocol_version: version, listen_port: port, height, tracked_shards, ..offer
        };
        match node.judge(&client.offer(&offer)[4..], &facts, offer.edge_nonce) {
            Judgement::Accept { answer, peer, listen_port, height: read_height, tracked_shards } => {
                prop_assert_eq!((peer, listen_port, read_height), (client.key.public(), port, height));
                prop_assert_eq!(tracked_shards, offer.tracked_shards);
                let back = read_message(&answer[4..]);
                let expected = Received::Handshake { sender: target, listen_port: 53270, height: facts.height };
                prop_assert_eq!(back, expected);
            }
            refused @ Judgement::Refuse { .. } => prop_assert!(false, "{:?}", refused),
        }
    }
}
