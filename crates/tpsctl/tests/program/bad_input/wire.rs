//! Bytes on the embedded node's sockets: a stranger's bad ones end his connection, and nothing else.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::Value;
use tpsctl_near::{
    CryptoHash, KeyPair, OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, PublicKey,
    p2p::{FrameDecoder, HandshakeOffer, Identity, Received, RefusalReason, fresh_nonce, read_message},
};

use crate::support::{Bench, Running, free_ports, home_with_ports};

/// No wait is longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(100);

/// A node of the program, alone on its chain.
struct Node {
    running: Running,
    rpc: u16,
    p2p: u16,
    key: PublicKey,
    genesis_hash: CryptoHash,
    _bench: Bench,
}

impl Node {
    fn start() -> Self {
        let bench = Bench::new();
        let [rpc, p2p] = free_ports::<2>();
        let home = bench.dir.path().join("home");
        home_with_ports(&home, "node0", &[("[::1]:47190", rpc), ("[::1]:53270", p2p)]);
        let mut running = bench.start(&["localnode", "run", "--home", "home"]);
        // It says so when it listens.
        running.wait_for("the embedded node starts", 50);
        let status = status(rpc).expect("an answer");
        let text = |name: &str| status[name].as_str().expect(name).to_owned();
        let key = text("node_public_key").parse().expect("a key");
        let genesis_hash = text("genesis_hash").parse().expect("a hash");
        Self { running, rpc, p2p, key, genesis_hash, _bench: bench }
    }

    /// The handshake of a stranger, changed.
    fn offer(&self, chain_id: &str, change: impl FnOnce(&mut HandshakeOffer)) -> Vec<u8> {
        let identity = Identity {
            key: KeyPair::from_seed([77; 32]),
            chain_id: chain_id.to_owned(),
            genesis_hash: self.genesis_hash,
        };
        let mut offer = HandshakeOffer {
            target: self.key,
            protocol_version: PROTOCOL_VERSION,
            oldest_version: OLDEST_PROTOCOL_VERSION,
            listen_port: 24_567,
            height: 0,
            tracked_shards: Vec::new(),
            edge_nonce: fresh_nonce(unix_seconds()),
        };
        change(&mut offer);
        identity.offer(&offer)
    }

    /// The node answers as ever, and ends well when asked to.
    fn end(self) {
        assert!(status(self.rpc).is_some(), "the node lives on");
        self.running.signal(Signal::INT);
        let (code, _, stderr) = self.running.finish();
        assert_eq!(code, Some(0), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

#[expect(clippy::disallowed_methods, reason = "a handshake is judged by the wall clock")]
fn unix_seconds() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("::1", port)).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Sends `bytes` to a port, ends the sending, and reads until the node closes: it must.
fn send(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(port);
    // The node may have closed before all is written.
    stream.write_all(bytes).ok();
    stream.shutdown(std::net::Shutdown::Write).ok();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("the node does not close"),
        // A reset is a way to close.
        _ => answer,
    }
}

/// The node's answer to `GET /status`.
fn status(rpc: u16) -> Option<Value> {
    let mut stream = TcpStream::connect(("::1", rpc)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"GET /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

/// The first message in `bytes`.
fn first(bytes: &[u8]) -> Option<Received> {
    let mut decoder = FrameDecoder::default();
    decoder.push(bytes);
    decoder.next_frame().ok().flatten().map(read_message)
}

#[test]
fn network_frames_that_are_none() {
    let node = Node::start();
    let hello = node.offer("benchmarknet", |_| {});
    let gigabyte = 1_073_741_824_u32.to_le_bytes();
    let with_hello = |rest: &[u8]| [&hello[..], rest].concat();
    for (name, bytes) in [
        ("nothing", Vec::new()),
        ("half a length", vec![7, 0]),
        ("half a frame", hello[..hello.len() / 2].to_vec()),
        ("a length of 1 GB", gigabyte.to_vec()),
        ("a length of 4 GB", vec![0xff; 4]),
        ("a length of 0", vec![0; 64]),
        ("noise", (0..=255).cycle().take(10_000).collect()),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        ("a frame of noise", tpsctl_near::p2p::frame(&[0xa5; 300])),
    ] {
        let answer = send(node.p2p, &bytes);
        assert!(!matches!(first(&answer), Some(Received::Handshake { .. })), "{name}");
    }
    for (name, rest) in [
        ("a length of 1 GB", gigabyte.to_vec()),
        ("half a frame", vec![200, 0, 0, 0, 1, 2, 3]),
        ("a frame of noise", tpsctl_near::p2p::frame(&[0xa5; 300])),
        ("another handshake", hello.clone()),
    ] {
        let answer = send(node.p2p, &with_hello(&rest));
        assert!(matches!(first(&answer), Some(Received::Handshake { .. })), "{name}");
    }
    node.end();
}

#[test]
fn network_handshakes_that_are_refused() {
    let node = Node::start();
    let own = "benchmarknet";
    let now = fresh_nonce(unix_seconds());
    let minutes = |count: u64| count * 60;
    let is_disconnect = |bytes: &[u8]| matches!(first(&send(node.p2p, bytes)), Some(Received::Disconnect));
    assert!(
        is_disconnect(&node.offer(own, |offer| offer.edge_nonce = now + minutes(31) + 1)),
        "a clock ahead"
    );
    assert!(
        is_disconnect(&node.offer(own, |offer| offer.edge_nonce = now - minutes(31))),
        "a clock behind, or a replay"
    );
    assert!(is_disconnect(&node.offer(own, |offer| offer.listen_port = 0)), "no port");
    let refusal = |bytes: &[u8]| match first(&send(node.p2p, bytes)) {
        Some(Received::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    };
    let elsewhere = refusal(&node.offer("elsewhere", |_| {}));
    let genesis = RefusalReason::Genesis { chain_id: own.to_owned(), genesis_hash: node.genesis_hash };
    assert_eq!(elsewhere, genesis, "the wrong chain, and which would be right");
    let old = refusal(&node.offer(own, |offer| offer.protocol_version = 60));
    assert!(matches!(old, RefusalReason::ProtocolVersion { .. }), "{old:?}");
    let other = refusal(&node.offer(own, |offer| offer.target = KeyPair::from_seed([5; 32]).public()));
    assert!(matches!(other, RefusalReason::Target { .. }), "{other:?}");
    node.end();
}

/// Whoever plays back what he overheard gets a stranger's connection at most, and does not cut the one that he overheard.
#[test]
fn network_a_handshake_that_is_replayed() {
    let node = Node::start();
    let hello = node.offer("benchmarknet", |_| {});
    let mut honest = connect(node.p2p);
    honest.write_all(&hello).expect("write");
    let mut answer = [0; 4_096];
    let len = honest.read(&mut answer).expect("an answer");
    assert!(matches!(first(&answer[..len]), Some(Received::Handshake { .. })));
    for _ in 0..3 {
        send(node.p2p, &hello);
    }
    // Nothing that was sent to the honest one means that it was cut; what a node sends by itself may be there.
    honest.set_nonblocking(true).expect("a socket");
    let mut rest = [0; 16_000];
    let is_open = loop {
        match honest.read(&mut rest) {
            Ok(0) => break false,
            Ok(_) => {}
            Err(error) => break error.kind() == std::io::ErrorKind::WouldBlock,
        }
    };
    assert!(is_open, "the first connection is as it was");
    drop(honest);
    node.end();
}

#[test]
fn network_requests_that_are_none() {
    let node = Node::start();
    let post = |body: &str, length: usize| {
        format!(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
    };
    let whole = |body: &str| post(body, body.len());
    let nested = "[".repeat(100_000);
    for (name, request, says) in [
        ("noise", "\u{0}\u{1}\u{2}\r\n\r\n".to_owned(), "400"),
        ("no JSON", post("nonsense", 8), "400"),
        ("nested JSON", post(&nested, nested.len()), "400"),
        ("no method", whole("{\"jsonrpc\":\"2.0\",\"id\":1}"), ""),
        (
            "an unknown method",
            whole("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{}}"),
            "METHOD_NOT_FOUND",
        ),
        ("a body of a terabyte", post("{", 1 << 40), "413"),
        (
            "an unknown path",
            "GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(),
            "404",
        ),
    ] {
        let answer = send(node.rpc, request.as_bytes());
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains(says) && !answer.contains("panicked"), "{name}: {answer}");
    }
    node.end();
}
