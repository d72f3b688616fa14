//! Load over the peer-to-peer port, restarts, and the end.

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tpsctl_near::{
    Action, CryptoHash, KeyPair, OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, TRANSFER_GAS_UNIT, Transaction,
    p2p::{HandshakeOffer, Identity, append_transaction, fresh_nonce},
};

use super::cluster::{Cluster, PATIENCE, user_key};

#[expect(clippy::disallowed_methods, reason = "a handshake is judged by the wall clock")]
fn unix_seconds() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Sends transfers of one user to one node as an anonymous peer does.
pub(crate) async fn inject(
    cluster: &Cluster,
    index: usize,
    (signer, receiver): (&str, &str),
    nonces: std::ops::Range<u64>,
) {
    let (target, genesis_hash) = cluster.identity(index).await;
    let seed = CryptoHash::of(format!("{signer}{}", nonces.start).as_bytes()).0;
    let identity =
        Identity { key: KeyPair::from_seed(seed), chain_id: "benchmarknet".to_owned(), genesis_hash };
    let mut bytes = identity.offer(&HandshakeOffer {
        target,
        protocol_version: PROTOCOL_VERSION,
        oldest_version: OLDEST_PROTOCOL_VERSION,
        listen_port: 24_567,
        height: 0,
        tracked_shards: Vec::new(),
        edge_nonce: fresh_nonce(unix_seconds()),
    });
    let key = user_key(signer);
    for nonce in nonces {
        let transaction = Transaction {
            signer_id: signer.parse().expect("id"),
            public_key: key.public(),
            nonce,
            receiver_id: receiver.parse().expect("id"),
            block_hash: genesis_hash,
            actions: vec![Action::Transfer { deposit: 1 }],
        };
        append_transaction(&mut bytes, &borsh::to_vec(&transaction.sign(&key)).expect("memory"));
    }
    let mut stream = TcpStream::connect(cluster.members[index].p2p).await.expect("connect");
    stream.write_all(&bytes).await.expect("write");
    // The handshake's answer; then all was read when the node sees the end of the stream.
    let mut answer = [0; 4096];
    assert!(stream.read(&mut answer).await.expect("answer") > 0);
    stream.shutdown().await.expect("shutdown");
    let mut rest = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    read.expect("the node closes").expect("read");
}

/// Gas units that the final blocks report, from a node's JSON-RPC.
async fn units(cluster: &Cluster, index: usize) -> u64 {
    let mut gas = 0;
    for height in 1..=cluster.height(index).await {
        let (code, answer) = cluster.call(index, "block", json!({"block_id": height})).await;
        if code == 422 {
            continue;
        }
        let chunks = answer["result"]["chunks"].as_array().expect("chunks").clone();
        let new = chunks.iter().filter(|chunk| chunk["height_included"] == height);
        gas += new.map(|chunk| chunk["gas_used"].as_u64().expect("gas")).sum::<u64>();
    }
    assert_eq!(gas % TRANSFER_GAS_UNIT, 0);
    gas / TRANSFER_GAS_UNIT
}

async fn settle(cluster: &Cluster, index: usize, expected_units: u64) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while units(cluster, index).await < expected_units {
        assert!(tokio::time::Instant::now() < deadline, "{} units", units(cluster, index).await);
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    assert_eq!(units(cluster, index).await, expected_units);
}

#[tokio::test(flavor = "multi_thread")]
async fn transfers_of_anonymous_peers_settle_exactly() {
    let cluster = Cluster::start(&["node0", "node1", "node2"]);
    cluster.reach(2, 2).await;
    inject(&cluster, 0, ("000_user_0", "000_user_1"), 1..301).await;
    inject(&cluster, 1, ("a01_user_0", "000_user_2"), 1..201).await;
    // The RPC node passes on what it cannot pool.
    inject(&cluster, 2, ("000_user_3", "a01_user_1"), 1..101).await;
    settle(&cluster, 2, 2 * 600).await;
    assert_eq!(cluster.nonce(2, "000_user_0").await, 300);
    assert_eq!(cluster.nonce(2, "a01_user_0").await, 200);
    let metrics = cluster.get(0, "/metrics").await.expect("metrics");
    assert!(metrics.contains("near_transaction_received_validator 400"), "{metrics}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_a_restarted_node_catches_up_and_takes_part() {
    let mut cluster = Cluster::start(&["node0", "node1", "node2"]);
    cluster.reach(2, 4).await;
    inject(&cluster, 0, ("000_user_0", "a01_user_1"), 1..101).await;
    settle(&cluster, 2, 200).await;
    cluster.stop_member(2).await;
    let height = cluster.height(0).await;
    cluster.reach(0, height + 3).await;
    cluster.start_member(2);
    cluster.reach(2, height + 5).await;
    assert_eq!(units(&cluster, 2).await, 200);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_named() {
    let cluster = Cluster::start(&["node0"]);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while cluster.status(0).await.is_none() {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let options = tpsctl_localchain::RunOptions { home: cluster.members[0].home.clone() };
    let error = tpsctl_localchain::run(options, tokio_util::sync::CancellationToken::new()).await;
    let text = error.expect_err("the port is taken").to_string();
    assert_eq!(text, format!("listen on {} for peers", cluster.members[0].p2p));
    cluster.stop().await;
}
