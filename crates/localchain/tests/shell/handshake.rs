//! Whoever is refused gets the kind of answer that neard gave.

use fs_err as fs;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tpsctl_near::{
    KeyPair, OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION,
    p2p::{FrameDecoder, HandshakeOffer, Identity, Received, RefusalReason, fresh_nonce, read_message},
};

use super::cluster::{Cluster, PATIENCE, testdata};

fn unix_seconds() -> u64 {
    humantime_now().as_secs()
}

#[expect(clippy::disallowed_methods, reason = "a handshake is judged by the wall clock")]
fn humantime_now() -> std::time::Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970")
}

/// The frame that opens a connection to a node.
pub(crate) async fn offer(cluster: &Cluster, index: usize, key: KeyPair) -> Vec<u8> {
    let (target, genesis_hash) = cluster.identity(index).await;
    let identity = Identity { key, chain_id: "benchmarknet".to_owned(), genesis_hash };
    identity.offer(&HandshakeOffer {
        target,
        protocol_version: PROTOCOL_VERSION,
        oldest_version: OLDEST_PROTOCOL_VERSION,
        listen_port: 24_567,
        height: 0,
        tracked_shards: Vec::new(),
        edge_nonce: fresh_nonce(unix_seconds()),
    })
}

/// A frame of a private field.
pub(crate) fn private(field: u64, content: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    prost::encoding::encode_varint(field << 3 | 2, &mut message);
    prost::encoding::encode_varint(content.len() as u64, &mut message);
    message.extend_from_slice(content);
    tpsctl_near::p2p::frame(&message)
}

/// Sends bytes and returns the first message that comes back, and whether the node then closed.
async fn exchange(cluster: &Cluster, bytes: &[u8]) -> (Received, bool) {
    let mut stream = TcpStream::connect(cluster.members[0].p2p).await.expect("connect");
    stream.write_all(bytes).await.expect("write");
    let mut decoder = FrameDecoder::default();
    let mut buffer = [0; 4096];
    let mut first = None;
    loop {
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await.expect("in time");
        let len = read.unwrap_or(0);
        decoder.push(&buffer[..len]);
        if let Some(frame) = decoder.next_frame().expect("frames") {
            let message = read_message(frame);
            if matches!(message, Received::Handshake { .. }) {
                return (message, false);
            }
            first.get_or_insert(message);
        }
        if len == 0 {
            return (first.expect("an answer"), true);
        }
    }
}

fn kind(message: &Received) -> &'static str {
    match message {
        Received::Handshake { .. } => "handshake",
        Received::Refused(RefusalReason::ProtocolVersion { .. }) => "version",
        Received::Refused(RefusalReason::Genesis { .. }) => "genesis",
        Received::Refused(RefusalReason::Target { .. }) => "target",
        Received::Refused(RefusalReason::Unknown(_)) => "unknown",
        Received::Disconnect => "disconnect",
        _ => "other",
    }
}

/// What neard answered.
fn recorded(name: &str) -> &'static str {
    let bytes = fs::read(testdata().join("p2p").join(name).join("node-to-client.bin")).expect("fixture");
    let mut decoder = FrameDecoder::default();
    decoder.push(&bytes);
    kind(&read_message(decoder.next_frame().expect("frames").expect("a frame")))
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_neards() {
    let cluster = Cluster::start(&["node0"]);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while cluster.status(0).await.is_none() {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let (target, genesis_hash) = cluster.identity(0).await;
    let identity =
        Identity { key: KeyPair::from_seed([77; 32]), chain_id: "benchmarknet".to_owned(), genesis_hash };
    let offer = HandshakeOffer {
        target,
        protocol_version: PROTOCOL_VERSION,
        oldest_version: OLDEST_PROTOCOL_VERSION,
        listen_port: 24_567,
        height: 0,
        tracked_shards: Vec::new(),
        edge_nonce: fresh_nonce(unix_seconds()),
    };
    let own = |change: fn(&mut HandshakeOffer)| {
        let mut changed = offer.clone();
        change(&mut changed);
        identity.offer(&changed)
    };
    let elsewhere = Identity { chain_id: "elsewhere".to_owned(), ..identity.clone() };
    let cases = [
        ("refused-version", own(|offer| offer.protocol_version = 80)),
        ("refused-chain-id", elsewhere.offer(&offer)),
        ("refused-target", own(|offer| offer.target = KeyPair::from_seed([5; 32]).public())),
        ("closed-listen-port-zero", own(|offer| offer.listen_port = 0)),
        ("closed-nonce-far-future", own(|offer| offer.edge_nonce += 1_000_000)),
    ];
    for (name, bytes) in cases {
        let (answer, is_closed) = exchange(&cluster, &bytes).await;
        assert_eq!(kind(&answer), recorded(name), "{name}: {answer:?}");
        assert!(is_closed, "{name}");
    }
    // Recorded bytes as they are: the genesis of neard's chain is not ours.
    let bytes = fs::read(testdata().join("p2p/refused-genesis-hash/client-to-node.bin")).expect("fixture");
    let (answer, _) = exchange(&cluster, &bytes).await;
    let expected = RefusalReason::Genesis { chain_id: "benchmarknet".to_owned(), genesis_hash };
    assert_eq!(answer, Received::Refused(expected));
    let (answer, _) = exchange(&cluster, &identity.offer(&offer)).await;
    assert_eq!(kind(&answer), recorded("accepted"));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_closes_one_connection_and_no_more() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 2).await;
    let hello = offer(&cluster, 0, KeyPair::from_seed([78; 32])).await;
    // Too long a frame; a private message from somebody unknown; an introduction that is garbage.
    for garbage in [vec![0xff; 100], private(1_001, b"block"), private(1_000, b"hello")] {
        let mut stream = TcpStream::connect(cluster.members[0].p2p).await.expect("connect");
        stream.write_all(&hello).await.expect("write");
        stream.write_all(&garbage).await.expect("write");
        let mut rest = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        assert!(read.is_ok(), "the node closes");
    }
    let height = cluster.height(0).await;
    cluster.reach(0, height + 2).await;
    cluster.stop().await;
}
