//! What strangers do to the sockets must not harm the chain.

use std::{
    io::{Read, Seek},
    net::SocketAddr,
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};
use tpsctl_near::{KeyPair, PublicKey, Signature};

use super::{
    cluster::{Cluster, PATIENCE},
    handshake::{offer, private},
};

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
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 2).await;
    let mut stream = TcpStream::connect(cluster.members[0].p2p).await.expect("connect");
    stream.write_all(&(64 * 1024 + 1_u32).to_le_bytes()).await.expect("write");
    let began = Instant::now();
    assert!(is_closed(&mut stream).await);
    assert!(began.elapsed() < Duration::from_secs(1), "not by the handshake's timeout");
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
    let began = Instant::now();
    assert!(cluster.status(0).await.is_some(), "who had a connection is answered at once");
    // Others wait: all 128 places are taken until the first are cut after ten seconds.
    let mut stream = TcpStream::connect(cluster.members[0].rpc).await.expect("connect");
    let request = b"GET /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.expect("write");
    let mut answer = String::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
    assert!(read.is_ok_and(|read| read.is_ok()) && answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(began.elapsed() > Duration::from_secs(5), "they did hold the places");
    assert!(is_closed(&mut held[0]).await && is_closed(&mut held[1]).await);
    cluster.stop().await;
}

/// User and system time of this process, from its opened `/proc/self/stat`.
fn cpu_seconds(stat: &mut fs_err::File) -> f64 {
    let mut text = String::new();
    stat.rewind().and_then(|()| stat.read_to_string(&mut text)).expect("stat");
    let fields: Vec<&str> = text.rsplit(')').next().expect("fields").split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().expect("ticks") / 100.0).sum()
}

/// Every test has a process of its own, so the limit is only this one's.
#[tokio::test(flavor = "multi_thread")]
async fn without_descriptors_the_node_rests() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 2).await;
    let mut stat = fs_err::File::open("/proc/self/stat").expect("stat");
    let before = getrlimit(Resource::Nofile);
    let open = fs_err::read_dir("/proc/self/fd").expect("descriptors").count() as u64;
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
    let began = cpu_seconds(&mut stat);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let spent = cpu_seconds(&mut stat) - began;
    assert!(spent < 0.8, "{spent} s of 2 s");
    drop(held);
    setrlimit(Resource::Nofile, before).expect("the old limit");
    let height = cluster.height(0).await;
    cluster.reach(0, height + 2).await;
    cluster.stop().await;
}
