//! Against a node's side made of [`Identity::judge`], and against what a real neard sent.

use std::path::PathBuf;

use prost::Message;
use tokio::{net::TcpListener, task::JoinSet};
use tpsctl_near::p2p::{
    Judgement, NodeFacts, append_transaction, field, frame,
    wire::{Body, BorshBytes, Disconnect, PeerMessage},
};

use super::*;

const NOW: u64 = 1_796_042_258;
const DEADLINE: Duration = Duration::from_mins(1);

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/neard/p2p")).join(name);
    fs_err::read(path).expect("fixture")
}

fn node_identity() -> Identity {
    Identity {
        key: KeyPair::from_seed([1; 32]),
        chain_id: "benchmarknet".to_owned(),
        genesis_hash: CryptoHash::of(b"genesis"),
    }
}

fn target_of(identity: &Identity, addr: SocketAddr) -> PeerTarget {
    PeerTarget {
        addr,
        peer_id: identity.key.public(),
        chain_id: identity.chain_id.clone(),
        genesis_hash: identity.genesis_hash,
        height: 7,
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("[::1]:0").await.expect("port 0");
    let addr = listener.local_addr().expect("bound");
    (listener, addr)
}

fn client_key() -> KeyPair {
    KeyPair::from_seed([2; 32])
}

/// Reads one frame's message.
async fn read_one(stream: &mut TcpStream) -> Vec<u8> {
    let len = stream.read_u32_le().await.expect("length");
    let mut message = vec![0; len as usize];
    stream.read_exact(&mut message).await.expect("message");
    message
}

/// A node that accepts by neard's own rules; returns the stream and the offered message.
async fn accept(listener: &TcpListener, identity: &Identity) -> TcpStream {
    let (mut stream, _) = listener.accept().await.expect("client");
    let message = read_one(&mut stream).await;
    let facts = NodeFacts { listen_port: 1, height: 9, ..NodeFacts::default() };
    let answer = match identity.judge(&message, &facts, NOW) {
        Judgement::Accept { answer, .. } | Judgement::Refuse { answer, .. } => answer,
    };
    stream.write_all(&answer).await.expect("answer");
    stream
}

async fn connect_now(target: &PeerTarget) -> Result<P2pConnection, P2pError> {
    connect(target, client_key(), NOW, DEADLINE).await
}

/// A node that says `bytes` to whoever connects and closes after the client's first frame.
async fn replay(bytes: Vec<u8>, tasks: &mut JoinSet<()>) -> SocketAddr {
    let (listener, addr) = listen().await;
    tasks.spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("client");
        read_one(&mut stream).await;
        stream.write_all(&bytes).await.expect("replay");
        stream.shutdown().await.expect("close");
        // Keeps the socket until the client has read all: an early drop could reset the connection.
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.ok();
    });
    addr
}

#[tokio::test]
async fn frames_reach_a_node_that_accepted() {
    let identity = node_identity();
    let (listener, addr) = listen().await;
    let target = target_of(&identity, addr);
    let mut frames = Vec::new();
    for transaction in [&b"one"[..], b"two"] {
        append_transaction(&mut frames, transaction);
    }
    let (connection, mut stream) = tokio::join!(connect_now(&target), accept(&listener, &identity));
    let (mut reader, mut writer) = connection.expect("accepted").split();
    let mut written = 0;
    while written < frames.len() {
        written += writer.write_some(&frames[written..]).await.expect("written");
    }
    for transaction in [&b"one"[..], b"two"] {
        let message = read_one(&mut stream).await;
        assert_eq!(read_message(&message), Received::Transaction(transaction.to_vec()));
    }
    drop(stream);
    assert!(matches!(reader.next().await, Err(P2pError::Closed { .. })));
}

#[tokio::test]
async fn wrong_chain_and_wrong_key_are_typed_refusals() {
    let identity = node_identity();
    let (listener, addr) = listen().await;
    let other_chain = PeerTarget { chain_id: "elsewhere".to_owned(), ..target_of(&identity, addr) };
    let other_key =
        PeerTarget { peer_id: KeyPair::from_seed([3; 32]).public(), ..target_of(&identity, addr) };
    let (refused, _stream) = tokio::join!(connect_now(&other_chain), accept(&listener, &identity));
    let Err(P2pError::Refused { reason: RefusalReason::Genesis { chain_id, genesis_hash }, .. }) = refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!((chain_id, genesis_hash), (identity.chain_id.clone(), identity.genesis_hash));
    let (refused, _stream) = tokio::join!(connect_now(&other_key), accept(&listener, &identity));
    let Err(P2pError::Refused { reason: RefusalReason::Target { actual }, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(actual, identity.key.public());
}

#[tokio::test]
async fn a_recorded_connection_is_read_to_its_end() {
    let mut tasks = JoinSet::new();
    let addr = replay(fixture("accepted/node-to-client.bin"), &mut tasks).await;
    let peer_id = "ed25519:7PGseFbWxvYVgZ89K1uTJKYoKetWs7BJtbyXDzfbAcqX".parse().expect("node0's key");
    let target = PeerTarget { peer_id, ..target_of(&node_identity(), addr) };
    let (mut reader, _writer) = connect_now(&target).await.expect("accepted").split();
    let mut fields = Vec::new();
    let end = loop {
        match reader.next().await {
            Ok(received) => fields.push(field_number(&received)),
            Err(error) => break error,
        }
    };
    assert!(matches!(end, P2pError::Closed { .. }), "{end:?}");
    assert_eq!(fields.first(), Some(&field::SYNC_ROUTING_TABLE));
    assert_eq!(fields.iter().filter(|number| **number == field::BLOCK_RESPONSE).count(), 10, "{fields:?}");
}

#[tokio::test]
async fn recorded_refusals_are_typed() {
    let mut tasks = JoinSet::new();
    for (name, check) in [
        (
            "refused-chain-id",
            (|error| matches!(error, P2pError::Refused { reason: RefusalReason::Genesis { chain_id, .. }, .. } if chain_id == "benchmarknet"))
                as fn(&P2pError) -> bool,
        ),
        ("refused-genesis-hash", |error| {
            matches!(error, P2pError::Refused { reason: RefusalReason::Genesis { .. }, .. })
        }),
        ("refused-target", |error| {
            matches!(error, P2pError::Refused { reason: RefusalReason::Target { .. }, .. })
        }),
        ("refused-version", |error| {
            matches!(
                error,
                P2pError::Refused { reason: RefusalReason::ProtocolVersion { version: 86, oldest: 83 }, .. }
            )
        }),
        ("closed-listen-port-zero", |error| matches!(error, P2pError::Disconnected { .. })),
        ("closed-nonce-far-future", |error| matches!(error, P2pError::Disconnected { .. })),
    ] {
        let addr = replay(fixture(&format!("{name}/node-to-client.bin")), &mut tasks).await;
        let error = connect_now(&target_of(&node_identity(), addr)).await.expect_err(name);
        assert!(check(&error), "{name}: {error:?}");
    }
}

/// `LastEdge` as neard writes it: both keys (tag and 32 bytes), the nonce, then signatures that nobody reads here.
fn last_edge(nonce: u64) -> Vec<u8> {
    let mut borsh = vec![0; 66];
    borsh.extend_from_slice(&nonce.to_le_bytes());
    borsh.extend_from_slice(&[0; 131]);
    frame(&PeerMessage { body: Some(Body::LastEdge(BorshBytes { borsh })) }.encode_to_vec())
}

fn offered_nonce(message: &[u8]) -> u64 {
    let Ok(PeerMessage { body: Some(Body::Tier2Handshake(handshake)) }) = PeerMessage::decode(message) else {
        panic!("no handshake");
    };
    let edge = handshake.partial_edge_info.expect("edge").borsh;
    u64::from_le_bytes(edge[..8].try_into().expect("nonce"))
}

#[tokio::test]
async fn the_next_odd_nonce_is_offered_once() {
    // NOW is even: an active edge (odd) is followed by the next odd nonce, a removed one (even) by its successor.
    for (held, then) in [(NOW + 5, NOW + 7), (NOW + 4, NOW + 5)] {
        let identity = node_identity();
        let (listener, addr) = listen().await;
        let target = target_of(&identity, addr);
        let node = async {
            let (mut stream, _) = listener.accept().await.expect("client");
            let first = offered_nonce(&read_one(&mut stream).await);
            stream.write_all(&last_edge(held)).await.expect("last edge");
            let second = offered_nonce(&read_one(&mut stream).await);
            stream.write_all(&last_edge(second)).await.expect("last edge");
            (first, second, stream)
        };
        let (refused, (first, second, _stream)) = tokio::join!(connect_now(&target), node);
        assert_eq!(first, fresh_nonce(NOW));
        assert_eq!(second, then, "held {held}");
        assert_eq!(second % 2, 1);
        assert!(matches!(refused, Err(P2pError::EdgeTaken { nonce, .. }) if nonce == second), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_meets_the_deadline() {
    let (listener, addr) = listen().await;
    let target = target_of(&node_identity(), addr);
    let (connected, _stream) = tokio::join!(connect_now(&target), listener.accept());
    assert!(matches!(connected, Err(P2pError::Deadline { deadline: DEADLINE, .. })), "{connected:?}");
}

#[tokio::test]
async fn nobody_listening_is_a_connect_error() {
    let (listener, addr) = listen().await;
    drop(listener);
    let connected = connect_now(&target_of(&node_identity(), addr)).await;
    assert!(matches!(connected, Err(P2pError::Connect { .. })), "{connected:?}");
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_connection() {
    let mut tasks = JoinSet::new();
    let addr = replay(u32::MAX.to_le_bytes().to_vec(), &mut tasks).await;
    let connected = connect_now(&target_of(&node_identity(), addr)).await;
    assert!(
        matches!(connected, Err(P2pError::Frame { source: FrameError { len_max: FRAME_READ_MAX, .. }, .. })),
        "{connected:?}"
    );
}

#[tokio::test]
async fn serving_answers_nonce_requests_until_the_node_disconnects() {
    let identity = node_identity();
    let (listener, addr) = listen().await;
    let target = target_of(&identity, addr);
    let (connection, mut stream) = tokio::join!(connect_now(&target), accept(&listener, &identity));
    let (reader, _writer) = connection.expect("accepted").split();
    let (answers, mut answered) = mpsc::channel(4);
    let request = identity.update_nonce(client_key().public(), NOW | 1);
    stream.write_all(&request).await.expect("request");
    let bye = PeerMessage { body: Some(Body::Disconnect(Disconnect::default())) }.encode_to_vec();
    stream.write_all(&frame(&bye)).await.expect("disconnect");
    let end = reader.serve(answers, CancellationToken::new()).await;
    assert!(matches!(end, Err(P2pError::Disconnected { .. })), "{end:?}");
    let answer = answered.recv().await.expect("an answer");
    assert_eq!(read_message(&answer[4..]), Received::UpdateNonceRequest { nonce: NOW | 1 });
    let expected =
        Identity { key: client_key(), ..identity.clone() }.update_nonce(identity.key.public(), NOW | 1);
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn serving_ends_well_when_cancelled_or_unheard() {
    let identity = node_identity();
    let (listener, addr) = listen().await;
    let target = target_of(&identity, addr);
    for unheard in [false, true] {
        let (connection, _stream) = tokio::join!(connect_now(&target), accept(&listener, &identity));
        let (reader, _writer) = connection.expect("accepted").split();
        let (answers, answered) = mpsc::channel(4);
        let cancel = CancellationToken::new();
        if unheard {
            drop(answered);
        } else {
            cancel.cancel();
        }
        reader.serve(answers, cancel).await.expect("our own end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_reading_stalls_the_writer() {
    let identity = node_identity();
    let (listener, addr) = listen().await;
    let target = target_of(&identity, addr);
    // A deadline of a day: paused time may leap forward while the sockets still talk.
    let day = Duration::from_hours(24);
    let (connection, _stream) =
        tokio::join!(connect(&target, client_key(), NOW, day), accept(&listener, &identity));
    let (_reader, mut writer) = connection.expect("accepted").split();
    let frames = vec![0; 256 * 1024 * 1024];
    let mut written = 0;
    let error = loop {
        match writer.write_some(&frames[written..]).await {
            Ok(len) => written += len,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(written < frames.len(), "{written}");
}
