//! One connection: handshake, introduction, then messages until one side ends it.
//!
//! Everybody comes to one listener. A peer that never introduces itself (private field 1000) is a guest, such as a load
//! client: its transactions are read as fast as admission takes them, and it is sent every block in NEAR's own form, as neard
//! does. A peer that does is another embedded node; where it proves to be a validator's it is believed
//! and may send much at once, else it is a stranger as a load client is.

use std::{io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use borsh::BorshDeserialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, tcp::OwnedReadHalf},
    sync::OwnedSemaphorePermit,
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tpsctl_near::{
    AccountId, OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, PublicKey,
    p2p::{FrameDecoder, HandshakeOffer, Judgement, Received, fresh_nonce, read_message},
};

pub(super) use super::context::Context;
use super::{
    admission::Forwarding,
    clock,
    contain::contain,
    hello::{Ends, Hello, peers_frame},
    lock::lock,
    outbox::{Outbox, outbox},
    peers::{Guest, Peer},
    seldom::Seldom,
};
use crate::core::{Event, Message, message_field as field};

/// Longest frame read before the handshake.
const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;
/// Longest frame read from strangers: a transaction of the longest kind (1 572 864 bytes) is below this.
const STRANGER_FRAME_BYTES_MAX: usize = 1_600_000;
/// Longest frame read from validators: a page of blocks with their bodies is below this.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;
/// Transactions admitted together: the more, the less each signature costs.
const BATCH_MAX: usize = 512;
/// And their bytes.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A transaction waits at most so long for others to be admitted with: little beside the time of a block.
const GATHER_TIME: Duration = Duration::from_millis(30);

/// Why a connection ended, where that is not an ordinary end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("read or write")]
    Io(#[from] io::Error),
    #[error("refused the handshake: {0}")]
    Refused(String),
    #[error("the peer broke the protocol: {0}")]
    Protocol(String),
    #[error("the peer does not read or write in time")]
    Slow,
    #[error("too many connections")]
    Full(SocketAddr),
    /// Our own mistake.
    #[error("a panic: {0}")]
    Panic(String),
}

/// A connection whose handshake is done.
struct Session {
    context: Arc<Context>,
    peer: PublicKey,
    remote: SocketAddr,
    dialer: PublicKey,
    outbox: Outbox,
    cancel: CancellationToken,
    /// Its number among the nodes, once it introduced itself.
    node: Option<u64>,
    /// Whether it proved to be a validator's.
    is_validator: bool,
    /// Its place among the strangers, where it takes one.
    place: Option<OwnedSemaphorePermit>,
    /// Its number among the guests, until it introduces itself.
    guest: Option<u64>,
    /// There was no place for another node; it is to go.
    is_refused: bool,
    /// When another request for a nonce is answered.
    nonces: Seldom,
}

/// Transactions that are to be admitted together.
#[derive(Default)]
struct Batch {
    transactions: Vec<Vec<u8>>,
    bytes: usize,
    /// When the first one came.
    began: Option<Instant>,
}

impl Batch {
    fn push(&mut self, transaction: Vec<u8>) {
        self.began.get_or_insert_with(Instant::now);
        self.bytes += transaction.len();
        self.transactions.push(transaction);
    }

    /// When it is to be admitted; never where there is nothing.
    fn due(&self) -> Option<Instant> {
        self.began.map(|began| began + GATHER_TIME)
    }

    fn is_due(&self) -> bool {
        let is_full = self.transactions.len() >= BATCH_MAX || self.bytes >= BATCH_BYTES_MAX;
        is_full || self.due().is_some_and(|due| due <= Instant::now())
    }
}

/// Both ends, and who dialed.
#[derive(Clone, Copy)]
struct Pair {
    peer: PublicKey,
    dialer: PublicKey,
}

/// Serves a connection that came in, until it ends.
pub(super) async fn accept(
    mut stream: TcpStream,
    context: Arc<Context>,
    cancel: CancellationToken,
) -> Result<(), Ended> {
    stream.set_nodelay(true)?;
    let addr = stream.peer_addr()?;
    let mut decoder = FrameDecoder::with_limit(HANDSHAKE_BYTES_MAX);
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
            // Who is known comes in even when strangers hold all their places.
            let is_known = lock(&context.heard).is_known(&peer);
            let place = if is_known { None } else { Some(context.place().ok_or(Ended::Full(addr))?) };
            stream.write_all(&answer).await?;
            context.peers.count("Tier2Handshake");
            serve(stream, decoder, context, (Pair { peer, dialer: peer }, place), cancel).await
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
    let mut decoder = FrameDecoder::with_limit(HANDSHAKE_BYTES_MAX);
    let first = tokio::time::timeout(context.handshake_timeout, read_frame(&mut stream, &mut decoder));
    match read_message(&first.await.map_err(|_| Ended::Slow)??) {
        Received::Handshake { sender, .. } if sender == target => {}
        Received::Refused(reason) => return Err(Ended::Refused(reason.to_string())),
        other => return Err(Ended::Protocol(format!("it answered the handshake with {other:?}"))),
    }
    let dialer = context.identity.key.public();
    stream.write_all(&context.hello(target)).await?;
    serve(stream, decoder, context, (Pair { peer: target, dialer }, None), cancel).await
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
    mut decoder: FrameDecoder,
    context: Arc<Context>,
    (Pair { peer, dialer }, place): (Pair, Option<OwnedSemaphorePermit>),
    cancel: CancellationToken,
) -> Result<(), Ended> {
    decoder.set_limit(STRANGER_FRAME_BYTES_MAX);
    let remote = stream.peer_addr()?;
    let (reader, writer) = stream.into_split();
    let (outbox, outgoing) = outbox();
    let cancel = cancel.child_token();
    // A stranger is a guest until it introduces itself.
    let guest = place.is_some().then(|| {
        let guest = Guest { outbox: outbox.clone(), cancel: cancel.clone() };
        let id = context.peers.add_guest(guest);
        outbox.push(context.latest_block());
        id
    });
    let mut session = Session {
        context,
        peer,
        remote,
        dialer,
        outbox,
        cancel: cancel.clone(),
        node: None,
        is_validator: false,
        place,
        guest,
        is_refused: false,
        nonces: Seldom::new(),
    };
    let ended = {
        let mut reading = pin!(contain(session.read(reader, decoder)));
        // What follows tells the core and the other connections of the end, whatever it was.
        tokio::select! {
            ended = reading.as_mut() => ended,
            ended = outgoing.write(writer) => {
                cancel.cancel();
                // Ends at once, but for what was read before and is not handed over yet.
                reading.await.and(ended.map_err(Ended::Io))
            }
        }
    };
    session.is_no_guest();
    if let Some(connection) = session.node {
        session.context.peers.remove(peer, connection);
        // Nobody listens any more when the node itself is ending.
        drop(session.context.inputs.events.send(Event::PeerDown { peer, connection }).await);
    }
    ended
}

impl Session {
    async fn read(&mut self, reader: OwnedReadHalf, decoder: FrameDecoder) -> Result<(), Ended> {
        let mut batch = Batch::default();
        let ended = self.read_frames(reader, decoder, &mut batch).await;
        // What came before the end counts, whatever the end was.
        self.admit(&mut batch).await;
        ended
    }

    async fn read_frames(
        &mut self,
        mut reader: OwnedReadHalf,
        mut decoder: FrameDecoder,
        batch: &mut Batch,
    ) -> Result<(), Ended> {
        let mut buffer = vec![0; READ_BYTES];
        let introduce_by = Instant::now() + self.context.handshake_timeout;
        let cancel = self.cancel.clone();
        loop {
            loop {
                let frame = decoder.next_frame().map_err(|e| Ended::Protocol(e.to_string()))?;
                let Some(frame) = frame else { break };
                let was_validator = self.is_validator;
                let event = self.take(frame, batch)?;
                if self.is_validator && !was_validator {
                    decoder.set_limit(FRAME_BYTES_MAX);
                }
                if batch.is_due() {
                    self.admit(batch).await;
                }
                if let Some(event) = event {
                    self.hand_over(event).await?;
                }
            }
            if batch.is_due() {
                self.admit(batch).await;
            }
            let is_dialed = self.node.is_none() && self.dialer == self.context.identity.key.public();
            // Who was dialed is to be a node, and who was refused to go.
            let must_introduce = is_dialed || self.is_refused;
            let introduce_by = must_introduce.then_some(introduce_by);
            let read = async {
                tokio::select! {
                    () = cancel.cancelled() => Ok(0),
                    len = reader.read(&mut buffer) => len,
                }
            };
            let len = match batch.due().into_iter().chain(introduce_by).min() {
                None => read.await?,
                Some(deadline) => match tokio::time::timeout_at(deadline, read).await {
                    Ok(len) => len?,
                    Err(_) if introduce_by.is_some_and(|by| by <= Instant::now()) => return Err(Ended::Slow),
                    Err(_) => continue,
                },
            };
            if len == 0 {
                return Ok(());
            }
            self.context.peers.count_received(len);
            decoder.push(&buffer[..len]);
        }
    }

    async fn admit(&self, batch: &mut Batch) {
        let Batch { transactions, .. } = std::mem::take(batch);
        if !transactions.is_empty() {
            self.context.admission.admit_encoded(transactions, Forwarding::Allowed).await;
        }
    }

    /// Waits while the core is busy, and with it the peer.
    async fn hand_over(&self, event: Event) -> Result<(), Ended> {
        if let Event::Peer { message: Message::Transactions(transactions), .. } = event {
            self.context.admission.admit_encoded(transactions, Forwarding::Done).await;
            return Ok(());
        }
        if !self.is_validator {
            self.context.pace().await;
        }
        let closed = |_| Ended::Protocol("the node is ending".to_owned());
        self.context.inputs.events.send(event).await.map_err(closed)
    }

    fn is_no_guest(&mut self) {
        if let Some(id) = self.guest.take() {
            self.context.peers.remove_guest(id);
        }
    }

    fn take(&mut self, frame: &[u8], batch: &mut Batch) -> Result<Option<Event>, Ended> {
        if self.is_refused {
            return Ok(None);
        }
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
                // An answer costs a signature. neard asks once in many minutes; who asks faster, or faster than it
                // reads, gets no answer.
                if self.outbox.has_room_for_guest() && self.nonces.is_due() {
                    let answer = self.context.identity.update_nonce(self.peer, nonce);
                    self.outbox.push(answer.into());
                }
            }
            Received::Disconnect => return Err(Ended::Protocol("it disconnects".to_owned())),
            Received::Refused(_) | Received::LastEdge { .. } | Received::Other(_) => {}
        }
        Ok(None)
    }

    fn take_private(&mut self, number: u32, content: &[u8]) -> Result<Option<Event>, Ended> {
        if number == field::FIELD_HELLO {
            let hello = Hello::try_from_slice(content).map_err(|e| Ended::Protocol(e.to_string()))?;
            return self.introduce(hello);
        }
        if number == field::FIELD_FULL && self.dialer == self.context.identity.key.public() {
            let hello = Hello::try_from_slice(content).map_err(|e| Ended::Protocol(e.to_string()))?;
            self.is_validator = self.proven(&hello).is_some();
            self.hear(hello.peers);
            lock(&self.context.heard).reached(&self.peer);
            return Err(Ended::Full(self.remote));
        }
        if self.node.is_none() {
            return Err(Ended::Protocol(format!("private field {number} before an introduction")));
        }
        if number == field::FIELD_PEERS {
            let peers = Vec::try_from_slice(content).map_err(|e| Ended::Protocol(e.to_string()))?;
            self.hear(peers);
            return Ok(None);
        }
        let message = Message::read(number, content).map_err(|e| Ended::Protocol(e.source.to_string()))?;
        let Some(message) = message else { return Ok(None) };
        self.context.peers.count(message.name());
        Ok(Some(Event::Peer { from: self.peer, message }))
    }

    /// Takes what a validator, or a node of the configuration, says of other nodes.
    fn hear(&self, peers: Vec<(PublicKey, SocketAddr)>) {
        let own = self.context.identity.key.public();
        let mut heard = lock(&self.context.heard);
        if !self.is_validator && !heard.is_boot(&self.peer) {
            return;
        }
        let new = heard.tell(peers.into_iter().filter(|(key, _)| *key != own));
        drop(heard);
        if !new.is_empty() {
            // Where not all can connect, news goes from neighbour to neighbour.
            self.context.peers.tell_others(self.peer, &peers_frame(&new));
            self.context.is_heard.notify_one();
        }
    }

    /// The validator that the peer proves to be.
    fn proven(&self, hello: &Hello) -> Option<AccountId> {
        let ends = Ends {
            genesis_hash: self.context.identity.genesis_hash,
            sender: self.peer,
            receiver: self.context.identity.key.public(),
        };
        hello.proven(ends, |account| self.context.validators.get(account).copied())
    }

    /// Whether the node may stay. Only those that are known count: strangers have places of their own.
    fn has_room(&self) -> bool {
        let context = &self.context;
        let most = context.peers_max;
        let wanted = lock(&context.heard).wanted(&context.identity.key.public(), most);
        context.peers.make_room(&self.peer, most, &wanted)
    }

    fn introduce(&mut self, hello: Hello) -> Result<Option<Event>, Ended> {
        if self.node.is_some() {
            return Err(Ended::Protocol("a second introduction".to_owned()));
        }
        self.is_no_guest();
        let own = self.context.identity.key.public();
        let account = self.proven(&hello);
        let mut addr = hello.addr;
        if addr.ip().is_unspecified() {
            addr.set_ip(self.remote.ip());
        }
        let (is_known, is_boot) = self.note_address(account.is_some(), addr);
        if is_known && !self.has_room() {
            if self.dialer == own {
                return Err(Ended::Full(self.remote));
            }
            self.outbox.push(self.context.full(self.peer));
            self.is_refused = true;
            return Ok(None);
        }
        let peer = Peer {
            account: account.clone(),
            addr,
            is_known,
            dialer: self.dialer,
            outbox: self.outbox.clone(),
            cancel: self.cancel.clone(),
        };
        if self.dialer != own {
            // Before anything else that is sent to a node.
            self.outbox.push(self.context.hello(self.peer));
        }
        let added = self.context.peers.add(self.peer, peer);
        let connection = added.ok_or_else(|| Ended::Protocol("there is another connection".to_owned()))?;
        self.node = Some(connection);
        self.is_validator = account.is_some();
        if let Some(account) = &account {
            tracing::info!(peer = %self.peer, %addr, %account, "connected to a validator");
            self.place = None;
        } else {
            tracing::debug!(peer = %self.peer, %addr, "connected to a node");
        }
        self.hear(hello.peers);
        let (peer, height) = (self.peer, hello.head_height);
        Ok(Some(Event::PeerUp { peer, connection, account, is_configured: is_boot, height }))
    }

    /// Notes where the node is reached, and tells others if that is news. Says whether the node is known, and whether it is
    /// of the configuration.
    fn note_address(&self, is_validator: bool, addr: SocketAddr) -> (bool, bool) {
        let mut heard = lock(&self.context.heard);
        heard.reached(&self.peer);
        let is_news = is_validator && heard.introduced(self.peer, addr);
        let known = (heard.is_known(&self.peer), heard.is_boot(&self.peer));
        drop(heard);
        if is_news {
            self.context.peers.tell_others(self.peer, &peers_frame(&[(self.peer, addr)]));
            self.context.is_heard.notify_one();
        }
        known
    }
}
