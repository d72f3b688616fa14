//! A node's two surfaces as far as the agent sees them: the peer-to-peer listener, with neard's own checks of the
//! handshake, and JSON-RPC. It counts what it gets.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use axum::{Router, extract::State, routing::post};
use borsh::BorshDeserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Notify,
    task::JoinSet,
    time::{Duration, sleep},
};
use tokio_util::sync::CancellationToken;
use tpsctl_model::{NodeName, ShardId};
use tpsctl_near::{
    CryptoHash, KeyPair, PublicKey, SignedTransaction,
    p2p::{FrameDecoder, Identity, Judgement, NodeFacts, Received, read_message},
};

use crate::{LoadTarget, clock::unix_now_ns};

/// What a node does after the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Reads everything.
    Reads,
    /// Reads nothing.
    NeverReads,
    /// Reads nothing on its first connection until [`FakeNode::read_on`]; then everything.
    ReadsLater,
    /// Closes its first connection after this many transactions; reads everything on later ones.
    ClosesAfter(usize),
    /// Says what is no message after the first transaction, on its first connection.
    Garbles,
    /// As [`Self::Reads`]; its height never changes.
    StandsStill,
}

/// A node that runs until it is dropped.
pub(super) struct FakeNode {
    pub(super) identity: Identity,
    pub(super) target: LoadTarget,
    got: Arc<Mutex<Vec<SignedTransaction>>>,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

struct Shared {
    identity: Identity,
    manner: Manner,
    height: AtomicU64,
    connections: AtomicU64,
    /// Ends all connections that stand.
    hang_up: Notify,
    read_on: CancellationToken,
    got: Arc<Mutex<Vec<SignedTransaction>>>,
}

/// The hash of every fake node's final block.
pub(super) const BLOCK_HASH: CryptoHash = CryptoHash([8; 32]);

impl FakeNode {
    pub(super) async fn start(producer: &str, shard: u64, manner: Manner) -> Self {
        let socket = TcpSocket::new_v4().expect("socket");
        if matches!(manner, Manner::NeverReads | Manner::ReadsLater) {
            socket.set_recv_buffer_size(4_096).expect("buffer");
        }
        socket.bind("127.0.0.1:0".parse().expect("address")).expect("bound");
        let p2p = socket.listen(16).expect("listening");
        let rpc = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let key = KeyPair::from_seed([shard as u8 + 1; 32]);
        let target = LoadTarget {
            shard: ShardId(shard),
            producer: NodeName(producer.to_owned()),
            peer_id: key.public(),
            p2p: p2p.local_addr().expect("address"),
            rpc: rpc.local_addr().expect("address"),
        };
        let identity =
            Identity { key, chain_id: "benchmarknet".to_owned(), genesis_hash: CryptoHash([5; 32]) };
        let got = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::new(Shared {
            identity: identity.clone(),
            manner,
            height: AtomicU64::new(40),
            connections: AtomicU64::new(0),
            hang_up: Notify::new(),
            read_on: CancellationToken::new(),
            got: Arc::clone(&got),
        });
        let mut tasks = JoinSet::new();
        let router = Router::new().route("/", post(answer)).with_state(Arc::clone(&shared));
        tasks.spawn(async move { axum::serve(rpc, router).await.expect("served") });
        tasks.spawn(accept_all(p2p, Arc::clone(&shared)));
        Self { identity, target, got, shared, _tasks: tasks }
    }

    /// Closes all connections; new ones are taken.
    pub(super) fn hang_up(&self) {
        self.shared.hang_up.notify_waiters();
    }

    /// A node that reads later begins now.
    pub(super) fn read_on(&self) {
        self.shared.read_on.cancel();
    }

    /// All transactions so far.
    pub(super) fn got(&self) -> Vec<SignedTransaction> {
        self.got.lock().expect("no panic").clone()
    }

    /// Waits until `count` transactions have come; what was written may still be on its way.
    pub(super) async fn got_at_least(&self, count: u64) -> Vec<SignedTransaction> {
        // 60 s, far more than a loaded host needs.
        for _ in 0..6_000 {
            if self.got.lock().expect("no panic").len() as u64 >= count {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
        self.got()
    }
}

async fn answer(State(node): State<Arc<Shared>>, request: String) -> String {
    let request: Value = serde_json::from_str(&request).expect("JSON");
    let height = match node.manner {
        Manner::StandsStill => node.height.load(SeqCst),
        _ => node.height.fetch_add(1, SeqCst),
    };
    let result = match request["method"].as_str() {
        Some("status") => json!({
            "version": { "version": "fake", "build": "fake" },
            "chain_id": node.identity.chain_id,
            "protocol_version": 86,
            "genesis_hash": node.identity.genesis_hash,
            "node_public_key": node.identity.key.public(),
            "validator_account_id": null,
            "sync_info": { "latest_block_hash": BLOCK_HASH, "latest_block_height": height, "syncing": false },
        }),
        Some("block") => json!({
            "author": "cp",
            "header": {
                "height": height, "prev_height": height - 1, "hash": BLOCK_HASH, "prev_hash": BLOCK_HASH,
                "timestamp_nanosec": "0", "chunk_mask": [], "last_final_block": BLOCK_HASH, "gas_price": "1000000000",
            },
            "chunks": [],
        }),
        method => panic!("the agent does not ask for {method:?}"),
    };
    json!({ "result": result }).to_string()
}

async fn accept_all(listener: TcpListener, node: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, from)) = listener.accept().await {
        let node = Arc::clone(&node);
        connections.spawn(async move {
            tokio::select! {
                () = node.hang_up.notified() => {}
                () = serve(stream, from, Arc::clone(&node)) => {}
            }
        });
    }
}

async fn serve(mut stream: TcpStream, from: SocketAddr, node: Arc<Shared>) {
    let len = stream.read_u32_le().await.expect("length");
    let mut offer = vec![0; len as usize];
    stream.read_exact(&mut offer).await.expect("handshake");
    let facts = NodeFacts { addr: Some(from), listen_port: 1, ..NodeFacts::default() };
    match node.identity.judge(&offer, &facts, unix_now_ns() / 1_000_000_000) {
        Judgement::Accept { answer, .. } => stream.write_all(&answer).await.expect("answer"),
        Judgement::Refuse { answer, .. } => return stream.write_all(&answer).await.expect("answer"),
    }
    let is_first = node.connections.fetch_add(1, SeqCst) == 0;
    let mut left = usize::MAX;
    match node.manner {
        Manner::NeverReads => return std::future::pending().await,
        Manner::ReadsLater if is_first => node.read_on.cancelled().await,
        Manner::ClosesAfter(count) if is_first => left = count,
        _ => {}
    }
    let mut decoder = FrameDecoder::default();
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(len @ 1..) = stream.read(&mut buffer).await {
        decoder.push(&buffer[..len]);
        while let Some(message) = decoder.next_frame().expect("whole frames") {
            let Received::Transaction(bytes) = read_message(message) else { continue };
            let transaction = SignedTransaction::try_from_slice(&bytes).expect("a transaction");
            node.got.lock().expect("no panic").push(transaction);
            if node.manner == Manner::Garbles && is_first {
                // The other side closes at the first, so the rest may fail.
                stream.write_all(&[0xff; 64]).await.ok();
            }
            left -= 1;
            if left == 0 {
                return;
            }
        }
    }
}

/// Every signature is right, every nonce above the key's last one and above `base`, every receiver another account.
pub(super) fn assert_valid(transactions: &[SignedTransaction], base: u64) {
    let mut nonces = std::collections::BTreeMap::<PublicKey, u64>::new();
    for signed in transactions {
        assert!(signed.is_signed());
        let transaction = &signed.transaction;
        assert_eq!(transaction.block_hash, BLOCK_HASH);
        assert_ne!(transaction.signer_id, transaction.receiver_id);
        let last = nonces.insert(transaction.public_key, transaction.nonce).unwrap_or(base);
        assert!(transaction.nonce > last, "{} after {last}", transaction.nonce);
    }
}
