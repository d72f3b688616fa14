//! What strangers do to the sockets must not harm the chain.

use std::{
    io::{self, Write},
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};
use tpsctl_near::{
    KeyPair, PublicKey, Signature,
    p2p::{FrameDecoder, Identity, Received, read_block, read_message},
};

use super::{
    cluster::{Cluster, PATIENCE},
    conformance::{encoded, signed},
    handshake::{offer, private},
};

/// Logged at every accept that fails for want of a descriptor.
const NO_DESCRIPTOR: &str = "an accept failed";

/// A stranger whose handshake is done.
async fn stranger(cluster: &Cluster, index: usize, seed: u8) -> Option<TcpStream> {
    let bytes = offer(cluster, index, KeyPair::from_seed([seed; 32])).await;
    let mut stream = TcpStream::connect(cluster.members[index].p2p).await.expect("connect");
    stream.write_all(&bytes).await.expect("write");
    let mut answer = [0; 4096];
    let len = stream.read(&mut answer).await.unwrap_or(0);
    (len > 0).then_some(stream)
}

/// An introduction without proof.
fn hello(head_height: u64, peers: &[(PublicKey, SocketAddr)]) -> Vec<u8> {
    let account: Option<(String, Signature)> = None;
    let addr = SocketAddr::from(([127, 0, 0, 1], 9));
    private(1_000, &borsh::to_vec(&(account, addr, head_height, peers)).expect("memory"))
}

/// Every answer costs the node a signature.
#[tokio::test(flavor = "multi_thread")]
async fn requests_for_nonces_are_answered_seldom() {
    const REQUESTS: u64 = 20_000;
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 3).await;
    let (node, genesis_hash) = cluster.identity(0).await;
    let began = Instant::now();
    let mut stream = stranger(&cluster, 0, 92).await.expect("a place");
    let key = KeyPair::from_seed([92; 32]);
    let stranger = Identity { key, chain_id: "benchmarknet".to_owned(), genesis_hash };
    let request = stranger.update_nonce(node, 77);
    stream.write_all(&request.repeat(REQUESTS as usize)).await.expect("all are read");
    let (mut decoder, mut buffer) = (FrameDecoder::default(), [0; 4096]);
    let (mut answers, mut blocks) = (0_u64, 0);
    // Blocks tell that the node goes on, and that time passes.
    while blocks < 4 || answers == 0 {
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await.expect("in time");
        let len = read.expect("the connection stays");
        assert!(len > 0, "the connection stays");
        decoder.push(&buffer[..len]);
        while let Some(frame) = decoder.next_frame().expect("frames") {
            blocks += u32::from(read_block(frame).is_some());
            answers += u64::from(matches!(read_message(frame), Received::UpdateNonceRequest { nonce: 77 }));
        }
    }
    let most = began.elapsed().as_secs() + 1;
    assert!(answers <= most, "{answers} answers, {most} at most");
    cluster.stop().await;
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_words_have_no_weight() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 3).await;
    let mut stream = stranger(&cluster, 0, 90).await.expect("a place");
    let gossip: Vec<(PublicKey, SocketAddr)> = (0..20_000_u32)
        .map(|n| (KeyPair::from_seed([n as u8; 32]).public(), cluster.members[1].p2p))
        .collect();
    stream.write_all(&hello(u64::MAX, &gossip)).await.expect("write");
    stream.write_all(&private(1_006, &u64::MAX.to_le_bytes())).await.expect("write");
    let page = borsh::to_vec(&(1_u64 << 63, 1_u64 << 63, 0_u32, 0_u32)).expect("memory");
    stream.write_all(&private(1_008, &page)).await.expect("write");
    stream.write_all(&private(1_011, &borsh::to_vec(&gossip).expect("memory"))).await.expect("write");
    let height = cluster.height(0).await;
    cluster.reach(0, height + 4).await;
    let status = cluster.status(0).await.expect("status");
    assert_eq!(status["sync_info"]["syncing"], false);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_introduced_sends_no_long_frame() {
    // Closed by the bound, since not by the handshake's timeout.
    let cluster = Cluster::start_with(&["node0", "node1"], |config| {
        config["network"]["handshake_timeout"]["secs"] = json!(PATIENCE.as_secs() * 2);
    });
    cluster.reach(0, 2).await;
    let mut stream = TcpStream::connect(cluster.members[0].p2p).await.expect("connect");
    stream.write_all(&(64 * 1024 + 1_u32).to_le_bytes()).await.expect("write");
    assert!(is_closed(&mut stream).await);
    for introduction in [Vec::new(), hello(0, &[])] {
        let mut stream = stranger(&cluster, 0, 91).await.expect("a place");
        stream.write_all(&introduction).await.expect("write");
        stream.write_all(&1_600_001_u32.to_le_bytes()).await.expect("write");
        assert!(is_closed(&mut stream).await);
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validator_comes_back_though_strangers_hold_all_places() {
    let mut cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 3).await;
    let mut held = Vec::new();
    while let Some(stream) = stranger(&cluster, 0, 100 + held.len() as u8).await {
        held.push(stream);
    }
    assert_eq!(held.len(), 40, "the home's max_num_peers");
    cluster.stop_member(1).await;
    let height = cluster.height(0).await;
    cluster.start_member(1);
    cluster.reach(1, height + 3).await;
    drop(held);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_http_clients_are_cut() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 2).await;
    let mut held = Vec::new();
    for turn in 0..140 {
        let mut stream = TcpStream::connect(cluster.members[0].rpc).await.expect("connect");
        let part: &[u8] = if turn % 2 == 0 {
            b"GET /sta"
        } else {
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{"
        };
        stream.write_all(part).await.expect("write");
        held.push(stream);
    }
    assert!(cluster.status(0).await.is_some(), "who had a connection is answered at once");
    // Others wait: all 128 places are taken until the first are cut after ten seconds.
    let mut stream = TcpStream::connect(cluster.members[0].rpc).await.expect("connect");
    let request = b"GET /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.expect("write");
    let mut answer = String::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
    assert!(read.is_ok_and(|read| read.is_ok()) && answer.starts_with("HTTP/1.1 200"), "{answer}");
    let is_cut = held.split_off(2).into_iter().filter(has_ended).count();
    assert!(is_cut >= 140 - 128, "who came later was answered while {is_cut} of the others were cut");
    assert!(is_closed(&mut held[0]).await && is_closed(&mut held[1]).await);
    cluster.stop().await;
}

/// A client that ends its sending has asked all the same.
#[tokio::test(flavor = "multi_thread")]
async fn half_closed_http_clients_are_answered() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 2).await;
    // An answer that takes a block's time: the node sees the end of the request long before.
    let base = cluster.base(0).await;
    let params = json!([encoded(&signed("000_user_0", 1, 1, base))]);
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "broadcast_tx_commit", "params": params}).to_string();
    let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length";
    for (request, starts, contains) in [
        (format!("{head}: {}\r\n\r\n{body}", body.len()), "HTTP/1.1 200", "final_execution_status"),
        (format!("{head}: {}\r\n\r\n{body}", body.len() + 1), "HTTP/1.1 400", "did not come whole"),
        (format!("{head}: {}\r\n\r\n{body}", 1_u64 << 40), "HTTP/1.1 413", "length limit exceeded"),
    ] {
        let mut stream = TcpStream::connect(cluster.members[0].rpc).await.expect("connect");
        stream.write_all(request.as_bytes()).await.expect("write");
        stream.shutdown().await.expect("half closed");
        let mut answer = String::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
        assert!(read.is_ok_and(|read| read.is_ok()), "{answer}");
        assert!(answer.starts_with(starts) && answer.contains(contains), "{answer}");
    }
    cluster.stop().await;
}

/// Whether the other side has ended the connection, as far as is known now.
fn has_ended(stream: &TcpStream) -> bool {
    let mut part = [0; 4096];
    loop {
        // Asked of the operating system, not of the runtime, which may not have been told yet.
        match rustix::io::read(stream, &mut part) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error != rustix::io::Errno::WOULDBLOCK,
        }
    }
}

/// What is logged, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn count(&self, text: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().expect("no panic")).matches(text).count()
    }
}

/// Every test has a process of its own, so the limit and the log are only this one's.
#[tokio::test(flavor = "multi_thread")]
async fn without_descriptors_the_node_rests() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 2).await;
    let before = getrlimit(Resource::Nofile);
    let open = fs_err::read_dir("/proc/self/fd").expect("descriptors").count() as u64;
    let began = Instant::now();
    setrlimit(Resource::Nofile, Rlimit { current: Some(open + 30), ..before }).expect("a limit");
    let mut held = Vec::new();
    let rpc = cluster.members[0].rpc;
    let p2p = cluster.members[0].p2p;
    for addr in [rpc, p2p].into_iter().cycle() {
        match TcpStream::connect(addr).await {
            Ok(stream) => held.push(stream),
            Err(_) => break,
        }
    }
    let deadline = Instant::now() + PATIENCE;
    while log.count(NO_DESCRIPTOR) < 8 {
        assert!(Instant::now() < deadline, "each listener tries again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Two nodes with two listeners each, of which each tries four times a second.
    let tries = log.count(NO_DESCRIPTOR);
    let most = 4 * (1 + began.elapsed().as_millis() / 250);
    assert!(tries as u128 <= most, "{tries} tries, {most} at most");
    drop(held);
    setrlimit(Resource::Nofile, before).expect("the old limit");
    let height = cluster.height(0).await;
    cluster.reach(0, height + 2).await;
    cluster.stop().await;
}
