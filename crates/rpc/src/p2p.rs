//! The client's side of a tier-2 connection: connect, shake hands, write ready frames, read what the node sends.
//!
//! A node takes transactions from any peer that completes the handshake and answers none of them
//! (chain/network/src/peer/peer_actor.rs:529-628, 996-1019 at f0c7706f); what it does send (routing table, peers,
//! blocks, requests for a new edge nonce) must be read, or its own writes block.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tpsctl_near::{
    CryptoHash, KeyPair, PROTOCOL_VERSION, PublicKey,
    p2p::{
        FrameDecoder, FrameError, HandshakeOffer, Identity, Received, RefusalReason, fresh_nonce,
        read_message,
    },
};

/// Longest message that is read. A node may send up to 512 MiB; the largest that concerns a load client is a block,
/// far below this.
pub const FRAME_READ_MAX: usize = 64 * 1024 * 1024;

/// The oldest version offered, as nearcore's own raw client offers it (chain/network/src/raw/connection.rs:200-220).
pub const OLDEST_VERSION_OFFERED: u32 = PROTOCOL_VERSION - 2;

/// A write that makes no progress at all for this long ends the connection; neard's own write timeout
/// (chain/network/src/peer/stream.rs:20).
pub const WRITE_STALL_MAX: Duration = Duration::from_mins(2);

/// Bytes asked of the socket at once.
const READ_BUFFER_LEN: usize = 64 * 1024;

/// The node that is meant; all but the address comes from its `status`
/// (see [`StatusView::peer_target`](crate::jsonrpc::StatusView::peer_target)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerTarget {
    /// Its peer-to-peer listener (`network.addr`).
    pub addr: SocketAddr,
    /// Its node key (`node_public_key`).
    pub peer_id: PublicKey,
    /// Its chain.
    pub chain_id: String,
    /// The hash of its genesis block.
    pub genesis_hash: CryptoHash,
    /// A recent height of the chain.
    pub height: u64,
}

/// A peer-to-peer connection could not be made or ended.
#[derive(Debug, thiserror::Error)]
pub enum P2pError {
    /// The TCP connection failed.
    #[error("connect to peer {addr}")]
    Connect {
        /// The node's address.
        addr: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No answer in time.
    #[error("{act} peer {addr} within {deadline:?}")]
    Deadline {
        /// What was attempted; reads before "peer".
        act: &'static str,
        /// The node's address.
        addr: SocketAddr,
        /// The time allowed.
        deadline: Duration,
    },
    /// The node refused the handshake and said why.
    #[error("shake hands with peer {addr}")]
    Refused {
        /// The node's address.
        addr: SocketAddr,
        /// Its reason.
        #[source]
        reason: RefusalReason,
    },
    /// The node has an edge with this key and a nonce that a second offer did not exceed.
    #[error("shake hands with peer {addr}: it holds an edge with nonce {nonce}, above the one offered again")]
    EdgeTaken {
        /// The node's address.
        addr: SocketAddr,
        /// The nonce of its edge.
        nonce: u64,
    },
    /// The node's handshake is signed with another key than the target's.
    #[error("shake hands with peer {addr}: it answered as {actual}")]
    OtherPeer {
        /// The node's address.
        addr: SocketAddr,
        /// The key that it names.
        actual: PublicKey,
    },
    /// The first answer was no answer to a handshake.
    #[error("shake hands with peer {addr}: it answered with message {field}")]
    UnexpectedAnswer {
        /// The node's address.
        addr: SocketAddr,
        /// The message's field number ([`tpsctl_near::p2p::field`]).
        field: u32,
    },
    /// The node said that it closes the connection (it gives no reason).
    #[error("keep the connection to peer {addr}: it sent a disconnect")]
    Disconnected {
        /// The node's address.
        addr: SocketAddr,
    },
    /// The node closed the connection without a word.
    #[error("keep the connection to peer {addr}: it closed")]
    Closed {
        /// The node's address.
        addr: SocketAddr,
    },
    /// Reading failed.
    #[error("read from peer {addr}")]
    Read {
        /// The node's address.
        addr: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The node announced a message over [`FRAME_READ_MAX`].
    #[error("read a message of peer {addr}")]
    Frame {
        /// The node's address.
        addr: SocketAddr,
        /// Why.
        #[source]
        source: FrameError,
    },
    /// Writing the handshake failed.
    #[error("write to peer {addr}")]
    Write {
        /// The node's address.
        addr: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A connection after the handshake.
#[derive(Debug)]
pub struct P2pConnection {
    reader: P2pReader,
    writer: P2pWriter,
}

/// The half that reads.
#[derive(Debug)]
pub struct P2pReader {
    half: OwnedReadHalf,
    link: Link,
}

/// The half that writes.
#[derive(Debug)]
pub struct P2pWriter {
    half: OwnedWriteHalf,
}

/// What reading needs beside the socket.
#[derive(Debug)]
struct Link {
    addr: SocketAddr,
    identity: Identity,
    peer: PublicKey,
    decoder: FrameDecoder,
    buffer: Vec<u8>,
}

/// Connects to `target` and shakes hands as a peer with `key`, all within `deadline`.
///
/// `unix_seconds` is the wall clock's: the edge nonce is made of it. Two connections with one key within a second
/// offer one nonce; the node then answers `LastEdge`, and the next higher nonce is offered once.
#[tracing::instrument(name = "p2p_connect", level = "debug", skip_all, fields(addr = %target.addr))]
pub async fn connect(
    target: &PeerTarget,
    key: KeyPair,
    unix_seconds: u64,
    deadline: Duration,
) -> Result<P2pConnection, P2pError> {
    let until = Instant::now() + deadline;
    let late = |act| P2pError::Deadline { act, addr: target.addr, deadline };
    let stream = timeout_at(until, open(target.addr)).await.map_err(|_| late("connect to"))??;
    let identity = Identity { key, chain_id: target.chain_id.clone(), genesis_hash: target.genesis_hash };
    timeout_at(until, shake_hands(stream, target, identity, unix_seconds))
        .await
        .map_err(|_| late("shake hands with"))?
}

async fn open(addr: SocketAddr) -> Result<TcpStream, P2pError> {
    let connect_error = |source| P2pError::Connect { addr, source };
    let stream = TcpStream::connect(addr).await.map_err(connect_error)?;
    stream.set_nodelay(true).map_err(connect_error)?;
    Ok(stream)
}

async fn shake_hands(
    mut stream: TcpStream,
    target: &PeerTarget,
    identity: Identity,
    unix_seconds: u64,
) -> Result<P2pConnection, P2pError> {
    let addr = target.addr;
    let listen_port = stream.local_addr().map_err(|source| P2pError::Connect { addr, source })?.port();
    let mut offer = HandshakeOffer {
        target: target.peer_id,
        protocol_version: PROTOCOL_VERSION,
        oldest_version: OLDEST_VERSION_OFFERED,
        // Nobody can connect to it; but a node closes the connection when it is 0.
        listen_port,
        height: target.height,
        tracked_shards: Vec::new(),
        edge_nonce: fresh_nonce(unix_seconds),
    };
    let mut link = Link::new(addr, identity, target.peer_id);
    let mut may_retry = true;
    loop {
        let frame = link.identity.offer(&offer);
        stream.write_all(&frame).await.map_err(|source| P2pError::Write { addr, source })?;
        match link.next(&mut stream).await? {
            Received::Handshake { sender, .. } if sender == target.peer_id => break,
            Received::Handshake { sender, .. } => {
                return Err(P2pError::OtherPeer { addr, actual: sender });
            }
            Received::LastEdge { nonce } if may_retry => {
                may_retry = false;
                // The next odd nonce: odd means an active edge (network_protocol/edge.rs:126-133).
                offer.edge_nonce = nonce.saturating_add(1) | 1;
            }
            Received::LastEdge { nonce } => return Err(P2pError::EdgeTaken { addr, nonce }),
            Received::Refused(reason) => return Err(P2pError::Refused { addr, reason }),
            Received::Disconnect => return Err(P2pError::Disconnected { addr }),
            other => return Err(P2pError::UnexpectedAnswer { addr, field: field_number(&other) }),
        }
    }
    let (read_half, write_half) = stream.into_split();
    Ok(P2pConnection { reader: P2pReader { half: read_half, link }, writer: P2pWriter { half: write_half } })
}

fn field_number(received: &Received) -> u32 {
    use tpsctl_near::p2p::field;
    match received {
        Received::Handshake { .. } => field::TIER2_HANDSHAKE,
        Received::Refused(_) => field::HANDSHAKE_FAILURE,
        Received::LastEdge { .. } => field::LAST_EDGE,
        Received::UpdateNonceRequest { .. } => field::UPDATE_NONCE_REQUEST,
        Received::Transaction(_) => field::TRANSACTION,
        Received::Disconnect => field::DISCONNECT,
        Received::Other(number) => *number,
    }
}

impl Link {
    fn new(addr: SocketAddr, identity: Identity, peer: PublicKey) -> Self {
        let decoder = FrameDecoder::with_limit(FRAME_READ_MAX);
        Self { addr, identity, peer, decoder, buffer: vec![0; READ_BUFFER_LEN] }
    }

    /// Cancel safe: what was read stays in the decoder.
    async fn next(&mut self, source: &mut (impl tokio::io::AsyncRead + Unpin)) -> Result<Received, P2pError> {
        let addr = self.addr;
        loop {
            let message = self.decoder.next_frame().map_err(|source| P2pError::Frame { addr, source })?;
            if let Some(message) = message {
                return Ok(read_message(message));
            }
            let len =
                source.read(&mut self.buffer).await.map_err(|source| P2pError::Read { addr, source })?;
            if len == 0 {
                return Err(P2pError::Closed { addr });
            }
            self.decoder.push(&self.buffer[..len]);
        }
    }
}

impl P2pConnection {
    /// The two halves, for two tasks.
    pub fn split(self) -> (P2pReader, P2pWriter) {
        (self.reader, self.writer)
    }
}

impl P2pReader {
    /// The next message. Cancel safe. No deadline: a node that has nothing to say is not at fault, so the caller
    /// selects between this and whatever ends its own work.
    pub async fn next(&mut self) -> Result<Received, P2pError> {
        self.link.next(&mut self.half).await
    }

    /// The frame that answers a request for the edge nonce `nonce`.
    pub fn nonce_answer(&self, nonce: u64) -> Vec<u8> {
        self.link.identity.update_nonce(self.link.peer, nonce)
    }

    /// Reads and drops what comes, and hands frames that the node must get to `answers`, whose receiver's task owns the
    /// [`P2pWriter`] and writes them between its own frames. A bound of a few suffices: a node asks for a new edge nonce
    /// every few minutes, one at a time.
    ///
    /// `Ok` when `cancel` fired or the receiver of `answers` is gone: the caller's own end. Else the error is why the
    /// connection closed.
    pub async fn serve(
        mut self,
        answers: mpsc::Sender<Vec<u8>>,
        cancel: CancellationToken,
    ) -> Result<(), P2pError> {
        loop {
            let received = tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(()),
                () = answers.closed() => return Ok(()),
                received = self.next() => received?,
            };
            match received {
                Received::UpdateNonceRequest { nonce } => self.answer_nonce(nonce, &answers),
                Received::Disconnect => return Err(P2pError::Disconnected { addr: self.link.addr }),
                _ => {}
            }
        }
    }

    /// Never waits: a writer that is stuck because the node does not read until we read would then never be freed. An
    /// answer that finds no room is left out; a node closes a connection that does not answer.
    fn answer_nonce(&self, nonce: u64, answers: &mpsc::Sender<Vec<u8>>) {
        if answers.try_send(self.nonce_answer(nonce)).is_err() {
            tracing::debug!(addr = %self.link.addr, nonce, "no room for the answer to a nonce request");
        }
    }
}

impl P2pWriter {
    /// Writes the first part of `bytes` that the operating system takes, at least one byte, and returns its length.
    /// Cancel safe: if this is cancelled, nothing was taken. Fails with [`io::ErrorKind::TimedOut`] when nothing is taken
    /// for [`WRITE_STALL_MAX`].
    pub async fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken =
            tokio::time::timeout(WRITE_STALL_MAX, self.half.write(bytes)).await.unwrap_or_else(|_| {
                Err(io::Error::new(io::ErrorKind::TimedOut, format!("no byte taken for {WRITE_STALL_MAX:?}")))
            })?;
        if taken == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(taken) }
    }

    /// Ends the writing side. The node reads what was written before, and then ends the connection.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.half.shutdown().await
    }
}

#[cfg(test)]
mod tests;
