//! One connection: handshake, introduction, then messages until one side ends it.
//!
//! Everybody comes to one listener. A peer that never introduces itself (private field 1000) is a load client: its
//! transactions are read as fast as admission takes them, and nothing is told to it; neard would send it every block,
//! which nobody here needs. A peer that does is another embedded node.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::body::Bytes;
use borsh::{BorshDeserialize, BorshSerialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Notify, mpsc, watch},
};
use tokio_util::sync::CancellationToken;
use tpsctl_near::{
    AccountId, CryptoHash, KeyPair, OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, PublicKey, Signature,
    p2p::{
        FrameDecoder, HandshakeOffer, Identity, Judgement, NodeFacts, Received, fresh_nonce, read_message,
    },
};

use super::{
    admission::{Admission, Forwarding},
    clock,
    driver::Inputs,
    home::Home,
    peers::{Peer, Peers, QUEUE_FRAMES_MAX},
};
use crate::core::{Event, Message, View, message_field as field};

/// Longest frame read: a page of blocks with their bodies is below this.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;
/// Transactions admitted together: enough for a batch of signatures, short enough to keep order and memory small.
const BATCH_MAX: usize = 256;
/// A frame that is not written in this time means that the peer does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// What all connections share.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) identity: Identity,
    account: Option<(AccountId, KeyPair)>,
    validators: BTreeMap<AccountId, PublicKey>,
    listen_addr: SocketAddr,
    tracked_shards: Vec<u64>,
    view: watch::Receiver<Arc<View>>,
    inputs: Inputs,
    admission: Arc<Admission>,
    pub(super) peers: Arc<Peers>,
    handshake_timeout: Duration,
    /// Nodes that were heard of.
    pub(super) heard: Mutex<BTreeMap<PublicKey, SocketAddr>>,
    pub(super) is_heard: Notify,
}

/// How an embedded node introduces itself, after the handshake.
#[derive(Debug, BorshSerialize, BorshDeserialize)]
struct Hello {
    /// Its validator account, with that validator's signature of the node's key.
    account: Option<(AccountId, Signature)>,
    /// Where others reach it.
    addr: SocketAddr,
    head_height: u64,
    /// Other nodes that it is connected to.
    peers: Vec<(PublicKey, SocketAddr)>,
}

fn hello_hash(node_key: PublicKey) -> CryptoHash {
    CryptoHash::of_borsh(&(b"hello", node_key))
}

/// Why a connection ended, where that is not an ordinary end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("read or write")]
    Io(#[from] io::Error),
    #[error("refused the handshake: {0}")]
    Refused(String),
    #[error("the peer broke the protocol: {0}")]
    Protocol(String),
    #[error("the peer does not read")]
    Slow,
}

impl Context {
    pub(super) fn new(
        home: &Home,
        view: watch::Receiver<Arc<View>>,
        inputs: Inputs,
        admission: Arc<Admission>,
        peers: Arc<Peers>,
    ) -> Self {
        let genesis = &home.settings.genesis;
        let tracked = genesis.layout.shard_ids().iter().zip(&home.settings.tracked);
        let validators = genesis.validators.iter();
        Self {
            identity: Identity {
                key: home.node_key.clone(),
                chain_id: genesis.chain_id.clone(),
                genesis_hash: genesis.block().hash(),
            },
            account: home.settings.validator.clone(),
            validators: validators.map(|own| (own.account_id.clone(), own.public_key)).collect(),
            listen_addr: home.public_addr,
            tracked_shards: tracked.filter(|(_, is_tracked)| **is_tracked).map(|(id, _)| *id).collect(),
            view,
            inputs,
            admission,
            peers,
            handshake_timeout: home.handshake_timeout,
            heard: Mutex::new(home.boot_nodes.iter().map(|boot| (boot.id, boot.addr)).collect()),
            is_heard: Notify::new(),
        }
    }

    fn height(&self) -> u64 {
        self.view.borrow().head.block.height()
    }

    fn facts(&self) -> NodeFacts {
        NodeFacts {
            addr: Some(self.listen_addr),
            account_id: self.account.as_ref().map(|(account, _)| account.clone()),
            listen_port: self.listen_addr.port(),
            height: self.height(),
            tracked_shards: self.tracked_shards.clone(),
        }
    }

    fn hello(&self) -> Bytes {
        let own = hello_hash(self.identity.key.public());
        let hello = Hello {
            account: self.account.as_ref().map(|(account, key)| (account.clone(), key.sign(&own.0))),
            addr: self.listen_addr,
            head_height: self.height(),
            peers: self.peers.addrs(),
        };
        let payload = borsh::to_vec(&hello).expect("memory takes every byte");
        field::private_frame(field::FIELD_HELLO, &payload).into()
    }
}

/// A connection whose handshake is done.
struct Session {
    context: Arc<Context>,
    peer: PublicKey,
    remote: SocketAddr,
    dialer: PublicKey,
    queue: mpsc::Sender<Bytes>,
    cancel: CancellationToken,
    /// Its number among the nodes, once it introduced itself.
    node: Option<u64>,
}

/// Serves a connection that came in, until it ends.
pub(super) async fn accept(
    mut stream: TcpStream,
    context: Arc<Context>,
    cancel: CancellationToken,
) -> Result<(), Ended> {
    stream.set_nodelay(true)?;
    let mut decoder = FrameDecoder::with_limit(FRAME_BYTES_MAX);
    let first = tokio::time::timeout(context.handshake_timeout, read_frame(&mut stream, &mut decoder));
    let first = first.await.map_err(|_| Ended::Slow)??;
    let judgement = context.identity.judge(&first, &context.facts(), clock::unix_seconds());
    match judgement {
        Judgement::Refuse { answer, why } => {
            stream.write_all(&answer).await?;
            stream.shutdown().await?;
            Err(Ended::Refused(why))
        }
        Judgement::Accept { answer, peer, .. } => {
            stream.write_all(&answer).await?;
            context.peers.count("Tier2Handshake");
            serve(stream, decoder, context, (peer, peer), cancel).await
        }
    }
}

/// Dials a node and serves the connection until it ends.
pub(super) async fn dial(
    target: PublicKey,
    addr: SocketAddr,
    context: Arc<Context>,
    cancel: CancellationToken,
) -> Result<(), Ended> {
    let connected = tokio::time::timeout(context.handshake_timeout, TcpStream::connect(addr));
    let mut stream = connected.await.map_err(|_| Ended::Slow)??;
    stream.set_nodelay(true)?;
    let facts = context.facts();
    let offer = context.identity.offer(&HandshakeOffer {
        target,
        protocol_version: PROTOCOL_VERSION,
        oldest_version: OLDEST_PROTOCOL_VERSION,
        listen_port: facts.listen_port,
        height: facts.height,
        tracked_shards: facts.tracked_shards,
        edge_nonce: fresh_nonce(clock::unix_seconds()),
    });
    stream.write_all(&offer).await?;
    let mut decoder = FrameDecoder::with_limit(FRAME_BYTES_MAX);
    let first = tokio::time::timeout(context.handshake_timeout, read_frame(&mut stream, &mut decoder));
    match read_message(&first.await.map_err(|_| Ended::Slow)??) {
        Received::Handshake { sender, .. } if sender == target => {}
        Received::Refused(reason) => return Err(Ended::Refused(reason.to_string())),
        other => return Err(Ended::Protocol(format!("it answered the handshake with {other:?}"))),
    }
    let own = context.identity.key.public();
    stream.write_all(&context.hello()).await?;
    serve(stream, decoder, context, (target, own), cancel).await
}

async fn read_frame(stream: &mut TcpStream, decoder: &mut FrameDecoder) -> Result<Vec<u8>, Ended> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(frame) = decoder.next_frame().map_err(|e| Ended::Protocol(e.to_string()))? {
            return Ok(frame.to_vec());
        }
        let len = stream.read(&mut buffer).await?;
        if len == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        decoder.push(&buffer[..len]);
    }
}

/// Reads and writes until one side ends. What came right behind the handshake is in `decoder`.
async fn serve(
    stream: TcpStream,
    decoder: FrameDecoder,
    context: Arc<Context>,
    (peer, dialer): (PublicKey, PublicKey),
    cancel: CancellationToken,
) -> Result<(), Ended> {
    let remote = stream.peer_addr()?;
    let (reader, writer) = stream.into_split();
    let (queue, queued) = mpsc::channel(QUEUE_FRAMES_MAX);
    let cancel = cancel.child_token();
    let mut session = Session { context, peer, remote, dialer, queue, cancel: cancel.clone(), node: None };
    let ended = tokio::select! {
        () = cancel.cancelled() => Ok(()),
        ended = session.read(reader, decoder) => ended,
        ended = write(writer, queued) => ended,
    };
    if let Some(id) = session.node {
        session.context.peers.remove(peer, id);
    }
    ended
}

async fn write(mut writer: OwnedWriteHalf, mut queued: mpsc::Receiver<Bytes>) -> Result<(), Ended> {
    while let Some(frame) = queued.recv().await {
        tokio::time::timeout(WRITE_TIMEOUT, writer.write_all(&frame)).await.map_err(|_| Ended::Slow)??;
    }
    Ok(())
}

impl Session {
    async fn read(&mut self, mut reader: OwnedReadHalf, mut decoder: FrameDecoder) -> Result<(), Ended> {
        let mut buffer = vec![0; READ_BYTES];
        let mut batch = Vec::new();
        loop {
            loop {
                let frame = decoder.next_frame().map_err(|e| Ended::Protocol(e.to_string()))?;
                let Some(frame) = frame else { break };
                let event = self.take(frame, &mut batch)?;
                if batch.len() >= BATCH_MAX {
                    self.admit(&mut batch).await;
                }
                if let Some(event) = event {
                    self.hand_over(event).await?;
                }
            }
            self.admit(&mut batch).await;
            let len = reader.read(&mut buffer).await?;
            if len == 0 {
                return Ok(());
            }
            decoder.push(&buffer[..len]);
        }
    }

    async fn admit(&self, batch: &mut Vec<Vec<u8>>) {
        if !batch.is_empty() {
            self.context.admission.admit_encoded(std::mem::take(batch), Forwarding::Allowed).await;
        }
    }

    /// Waits while the core is busy, and with it the peer.
    async fn hand_over(&self, event: Event) -> Result<(), Ended> {
        if let Event::Peer { message: Message::Transactions(transactions), .. } = event {
            self.context.admission.admit_encoded(transactions, Forwarding::Done).await;
            return Ok(());
        }
        let closed = |_| Ended::Protocol("the node is ending".to_owned());
        self.context.inputs.events.send(event).await.map_err(closed)
    }

    fn take(&mut self, frame: &[u8], batch: &mut Vec<Vec<u8>>) -> Result<Option<Event>, Ended> {
        if let Some((number, content)) = field::private_field(frame) {
            return self.take_private(number, content);
        }
        match read_message(frame) {
            Received::Transaction(bytes) => {
                self.context.peers.count("Transaction");
                batch.push(bytes);
            }
            Received::Handshake { .. } => {
                return Err(Ended::Protocol("a second handshake".to_owned()));
            }
            Received::UpdateNonceRequest { nonce } => {
                let answer = self.context.identity.update_nonce(self.peer, nonce);
                // A peer that asks faster than it reads gets no answer.
                drop(self.queue.try_send(answer.into()));
            }
            Received::Disconnect => return Err(Ended::Protocol("it disconnects".to_owned())),
            Received::Refused(_) | Received::LastEdge { .. } | Received::Other(_) => {}
        }
        Ok(None)
    }

    fn take_private(&mut self, number: u32, content: &[u8]) -> Result<Option<Event>, Ended> {
        if number == field::FIELD_HELLO {
            let hello = Hello::try_from_slice(content).map_err(|e| Ended::Protocol(e.to_string()))?;
            return self.introduce(hello).map(Some);
        }
        if self.node.is_none() {
            return Err(Ended::Protocol(format!("private field {number} before an introduction")));
        }
        let message = Message::read(number, content).map_err(|e| Ended::Protocol(e.source.to_string()))?;
        let Some(message) = message else { return Ok(None) };
        self.context.peers.count(message.name());
        Ok(Some(Event::Peer { from: self.peer, message }))
    }

    fn introduce(&mut self, hello: Hello) -> Result<Event, Ended> {
        if self.node.is_some() {
            return Err(Ended::Protocol("a second introduction".to_owned()));
        }
        let account = match hello.account {
            Some((account, signature)) => {
                let key = self.context.validators.get(&account);
                let is_theirs = key.is_some_and(|key| key.verify(&hello_hash(self.peer).0, &signature));
                is_theirs.then_some(account)
            }
            None => None,
        };
        let mut addr = hello.addr;
        if addr.ip().is_unspecified() {
            addr.set_ip(self.remote.ip());
        }
        let peer = Peer {
            account,
            addr,
            dialer: self.dialer,
            queue: self.queue.clone(),
            cancel: self.cancel.clone(),
        };
        let id = self.context.peers.add(self.peer, peer);
        self.node = Some(id.ok_or_else(|| Ended::Protocol("there is another connection".to_owned()))?);
        let own = self.context.identity.key.public();
        if self.dialer != own {
            drop(self.queue.try_send(self.context.hello()));
        }
        tracing::info!(peer = %self.peer, %addr, "connected to a node");
        if let Ok(mut heard) = self.context.heard.lock() {
            heard.insert(self.peer, addr);
            for (key, addr) in hello.peers.into_iter().filter(|(key, _)| *key != own) {
                heard.entry(key).or_insert(addr);
            }
        }
        self.context.is_heard.notify_one();
        Ok(Event::PeerUp { peer: self.peer, height: hello.head_height })
    }
}
