//! The peer-to-peer port, as an anonymous peer meets it.

use std::{
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use borsh::BorshDeserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tpsctl_near::{
    CryptoHash, KeyPair, OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, PublicKey,
    block::Block,
    p2p::{
        FrameDecoder, HandshakeOffer, Identity, Received, RefusalReason, append_transaction, field,
        fresh_nonce, read_block, read_message,
    },
};

use crate::{
    Report, Subject,
    report::{Checked, Outcome, ensure, equal, fail, skip},
    transactions::Sender,
};

/// Time for a message that must come.
const PATIENCE: Duration = Duration::from_secs(20);
/// neard's limit is 512 MiB, but nothing long comes to an anonymous peer of a small chain.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A nonce this far from the clock is still taken: less than twenty minutes.
const NEAR_SECONDS: u64 = 1_000;
/// And this far it is not.
const FAR_SECONDS: u64 = 3_000;

/// What a handshake needs to know of the node.
struct Door {
    addr: SocketAddr,
    target: PublicKey,
    chain_id: String,
    genesis_hash: CryptoHash,
    height: u64,
    /// Each connection has a key of its own: a node remembers edges.
    keys: std::cell::Cell<u8>,
}

/// A connection.
struct Link {
    stream: TcpStream,
    decoder: FrameDecoder,
}

pub(crate) async fn check(subject: &Subject, report: &mut Report) {
    let door = match Door::of(subject).await {
        Ok(door) => door,
        Err(outcome) => return report.add("p2p/status", Err(outcome)),
    };
    report.add("p2p/handshake", door.handshake().await);
    report.add("p2p/edge_nonce_near_the_clock", door.nonces_near().await);
    report.add("p2p/old_version_refused", door.old_version().await);
    report.add("p2p/other_chain_refused", door.other_chain().await);
    report.add("p2p/other_genesis_refused", door.other_genesis().await);
    report.add("p2p/other_target_refused", door.other_target().await);
    report.add("p2p/listen_port_zero_closed", door.closed(|offer| offer.listen_port = 0).await);
    let far = |offer: &mut HandshakeOffer| offer.edge_nonce += FAR_SECONDS & !1;
    report.add("p2p/edge_nonce_far_closed", door.closed(far).await);
    report.add("p2p/edge_nonce_zero_closed", door.closed(|offer| offer.edge_nonce = 0).await);
    report.add("p2p/second_handshake_closed", door.second_handshake().await);
    report.add("p2p/long_frame_closed", door.long_frame().await);
    report.add("p2p/unknown_message_passed_over", door.unknown_message().await);
    report.add("p2p/transaction_included", transaction_included(subject, &door).await);
    report.add("p2p/blocks_pushed", blocks_pushed(subject, &door).await);
}

#[expect(clippy::disallowed_methods, reason = "a handshake is judged by the wall clock")]
fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Door {
    async fn of(subject: &Subject) -> Result<Self, Outcome> {
        let status = subject.result("status", json!([])).await?;
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            addr: subject.p2p,
            target: text("node_public_key").parse().or_else(|error| fail("a node key", error))?,
            chain_id: text("chain_id"),
            genesis_hash: text("genesis_hash").parse().or_else(|error| fail("a genesis hash", error))?,
            height: status["sync_info"]["latest_block_height"].as_u64().unwrap_or(0),
            keys: std::cell::Cell::new(0),
        })
    }

    fn identity(&self) -> Identity {
        let turn = self.keys.get() + 1;
        self.keys.set(turn);
        let seed = CryptoHash::of(&[&unix_seconds().to_le_bytes()[..], &[turn]].concat()).0;
        Identity {
            key: KeyPair::from_seed(seed),
            chain_id: self.chain_id.clone(),
            genesis_hash: self.genesis_hash,
        }
    }

    fn offer(&self) -> HandshakeOffer {
        HandshakeOffer {
            target: self.target,
            protocol_version: PROTOCOL_VERSION,
            oldest_version: PROTOCOL_VERSION - 2,
            listen_port: 24_567,
            height: self.height,
            tracked_shards: Vec::new(),
            edge_nonce: fresh_nonce(unix_seconds()),
        }
    }

    async fn knock(&self, bytes: &[u8]) -> Result<Link, Outcome> {
        let connected = TcpStream::connect(self.addr).await;
        let stream = connected.or_else(|error| fail(format!("a connection to {}", self.addr), error))?;
        let mut link = Link { stream, decoder: FrameDecoder::with_limit(FRAME_BYTES_MAX) };
        link.write(bytes).await?;
        Ok(link)
    }

    /// What comes back first, for an offer changed by `change`.
    async fn answer(
        &self,
        identity: &Identity,
        change: impl FnOnce(&mut HandshakeOffer),
    ) -> Result<(Received, Link), Outcome> {
        let mut offer = self.offer();
        change(&mut offer);
        let mut link = self.knock(&identity.offer(&offer)).await?;
        match link.next().await? {
            Some(message) => Ok((read_message(&message), link)),
            None => fail("an answer to the handshake", "the node closed without a word"),
        }
    }

    /// A connection whose handshake is done.
    async fn enter(&self, change: impl FnOnce(&mut HandshakeOffer)) -> Result<Link, Outcome> {
        let (answer, link) = self.answer(&self.identity(), change).await?;
        match answer {
            Received::Handshake { sender, .. } => equal("sender", &sender, &self.target).map(|()| link),
            other => fail("a handshake in return", format!("{other:?}")),
        }
    }

    async fn handshake(&self) -> Checked {
        for version in OLDEST_PROTOCOL_VERSION..=PROTOCOL_VERSION {
            self.enter(|offer| offer.protocol_version = version).await?;
        }
        Ok(())
    }

    async fn nonces_near(&self) -> Checked {
        self.enter(|offer| offer.edge_nonce -= NEAR_SECONDS & !1).await?;
        self.enter(|offer| offer.edge_nonce += NEAR_SECONDS & !1).await.map(|_| ())
    }

    /// The node says `expected` and closes.
    async fn refused(
        &self,
        identity: Identity,
        change: impl FnOnce(&mut HandshakeOffer),
        expected: Received,
    ) -> Checked {
        let (answer, mut link) = self.answer(&identity, change).await?;
        equal("answer", &answer, &expected)?;
        link.must_close().await
    }

    async fn old_version(&self) -> Checked {
        let (answer, mut link) = self.answer(&self.identity(), |offer| offer.protocol_version = 50).await?;
        match answer {
            Received::Refused(RefusalReason::ProtocolVersion { version, oldest }) => {
                let is_so = version >= PROTOCOL_VERSION && (51..=PROTOCOL_VERSION).contains(&oldest);
                ensure(is_so, "the versions that it speaks", format!("{oldest} to {version}"))?;
            }
            other => return fail("a refusal for the version", format!("{other:?}")),
        }
        link.must_close().await
    }

    fn genesis_refusal(&self) -> Received {
        let (chain_id, genesis_hash) = (self.chain_id.clone(), self.genesis_hash);
        Received::Refused(RefusalReason::Genesis { chain_id, genesis_hash })
    }

    async fn other_chain(&self) -> Checked {
        let identity = Identity { chain_id: "elsewhere".to_owned(), ..self.identity() };
        self.refused(identity, |_| {}, self.genesis_refusal()).await
    }

    async fn other_genesis(&self) -> Checked {
        let identity = Identity { genesis_hash: CryptoHash([5; 32]), ..self.identity() };
        self.refused(identity, |_| {}, self.genesis_refusal()).await
    }

    async fn other_target(&self) -> Checked {
        let expected = Received::Refused(RefusalReason::Target { actual: self.target });
        let stranger = KeyPair::from_seed([5; 32]).public();
        self.refused(self.identity(), |offer| offer.target = stranger, expected).await
    }

    /// The node gives no reason: it disconnects, or just closes.
    async fn closed(&self, change: impl FnOnce(&mut HandshakeOffer)) -> Checked {
        let mut offer = self.offer();
        change(&mut offer);
        let mut link = self.knock(&self.identity().offer(&offer)).await?;
        match link.next().await? {
            None => Ok(()),
            Some(message) => {
                equal("answer", &read_message(&message), &Received::Disconnect)?;
                link.must_close().await
            }
        }
    }

    async fn second_handshake(&self) -> Checked {
        let identity = self.identity();
        let offer = identity.offer(&self.offer());
        let mut link = self.knock(&offer).await?;
        let first = link.next().await?.map(|message| read_message(&message));
        ensure(matches!(first, Some(Received::Handshake { .. })), "a handshake", format!("{first:?}"))?;
        link.write(&offer).await?;
        link.must_close().await
    }

    async fn long_frame(&self) -> Checked {
        let mut link = self.enter(|_| {}).await?;
        link.write(&u32::MAX.to_le_bytes()).await?;
        link.must_close().await
    }

    /// A message of a later version, then a valid request: the connection stays.
    async fn unknown_message(&self) -> Checked {
        let mut link = self.enter(|_| {}).await?;
        // Field 900, four bytes; no node knows it.
        let message = [0xa2_u8, 0x38, 4, 1, 2, 3, 4];
        link.write(&tpsctl_near::p2p::frame(&message)).await?;
        link.find(|received, _| matches!(received, Received::Other(field::BLOCK_RESPONSE))).await.map(|_| ())
    }
}

impl Link {
    async fn write(&mut self, bytes: &[u8]) -> Checked {
        self.stream.write_all(bytes).await.or_else(|error| fail("bytes taken", error))
    }

    /// The next message; none when the node closed.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Outcome> {
        self.next_until(Instant::now() + PATIENCE).await
    }

    async fn next_until(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, Outcome> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let frame = self.decoder.next_frame().or_else(|error| fail("a frame", error))?;
            if let Some(frame) = frame {
                return Ok(Some(frame.to_vec()));
            }
            match timeout_at(deadline, self.stream.read(&mut buffer)).await {
                // A reset is a close, too.
                Ok(Ok(0) | Err(_)) => return Ok(None),
                Ok(Ok(len)) => self.decoder.push(&buffer[..len]),
                Err(_) => return fail(format!("a message or the end within {PATIENCE:?}"), "neither"),
            }
        }
    }

    /// Whatever else comes, the end comes.
    async fn must_close(&mut self) -> Checked {
        let deadline = Instant::now() + PATIENCE;
        while self.next_until(deadline).await?.is_some() {}
        Ok(())
    }

    /// The first message that is wanted, with its bytes.
    async fn find(&mut self, is_wanted: impl Fn(&Received, &[u8]) -> bool) -> Result<Vec<u8>, Outcome> {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            let Some(message) = self.next_until(deadline).await? else {
                return fail("a message of the wanted kind", format!("the end after {seen:?}"));
            };
            let received = read_message(&message);
            if is_wanted(&received, &message) {
                return Ok(message);
            }
            seen.push(received);
        }
    }
}

async fn transaction_included(subject: &Subject, door: &Door) -> Checked {
    let Some(sender) = Sender::of(subject).await else {
        return skip(
            "no account whose key is known is of a shard that the node tracks; name a key file with --key",
        );
    };
    let signed = sender.transfer(|_| {}).await?;
    let mut bytes = Vec::new();
    append_transaction(&mut bytes, &borsh::to_vec(&signed).expect("memory takes every byte"));
    let mut link = door.enter(|_| {}).await?;
    link.write(&bytes).await?;
    sender.used(signed.transaction.nonce).await
}

/// An anonymous peer is sent new blocks, and they are those that JSON-RPC shows: their bytes contain the hash of the
/// parent and the height.
async fn blocks_pushed(subject: &Subject, door: &Door) -> Checked {
    let mut link = door.enter(|_| {}).await?;
    for _ in 0..3 {
        let is_block =
            |received: &Received, _: &[u8]| matches!(received, Received::Other(field::BLOCK_RESPONSE));
        let message = link.find(is_block).await?;
        is_of_the_chain(subject, &message).await?;
    }
    Ok(())
}

/// The message is a block in NEAR's encoding, and JSON-RPC shows the same one under its hash.
async fn is_of_the_chain(subject: &Subject, message: &[u8]) -> Checked {
    let Some(borsh) = read_block(message) else {
        return fail(
            "a block message with a block in it",
            format!("{} bytes of something else", message.len()),
        );
    };
    let block = Block::try_from_slice(borsh).or_else(|error| fail("a block in NEAR's encoding", error))?;
    let hash = block.hash();
    equal("the hash of the body", &block.body.hash(), &block.header.inner_rest.block_body_hash)?;
    let shown = subject.result("block", json!({"block_id": hash})).await?;
    let (lite, rest) = (&block.header.inner_lite, &block.header.inner_rest);
    let header = json!({
        "hash": hash,
        "height": lite.height,
        "prev_hash": block.header.prev_hash,
        "prev_height": rest.prev_height,
        "timestamp_nanosec": lite.timestamp.to_string(),
        "chunk_mask": rest.chunk_mask,
        "last_final_block": rest.last_final_block,
    });
    for (name, value) in header.as_object().into_iter().flatten() {
        equal(name, &shown["header"][name], value)?;
    }
    let chunks: Vec<Value> = block
        .body
        .chunks
        .iter()
        .map(|chunk| json!([chunk.inner.hash(), chunk.height_included, chunk.inner.prev_gas_used]))
        .collect();
    let shown: Vec<Value> = shown["chunks"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|chunk| json!([chunk["chunk_hash"], chunk["height_included"], chunk["gas_used"]]))
        .collect();
    equal("hash, height and gas of the chunks", &chunks, &shown)
}
