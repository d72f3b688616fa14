//! Messages for validators without a connection to this node, and what this node hands on for others.

use std::sync::Arc;

use tpsctl_near::{AccountId, PublicKey};

use super::{Message, Node, Now, To};
use crate::core::{
    Routed,
    message::private_field,
    relay::STEPS_MAX,
    types::{ArcBlock, ArcChunk},
};

impl Node {
    pub(super) fn relay_up(
        &mut self,
        (peer, connection): (PublicKey, u64),
        account: Option<&AccountId>,
        is_configured: bool,
        now: Now,
    ) {
        let validator = account.and_then(|account| self.assignment.index_of(account));
        if validator.is_some() || is_configured {
            self.relay.up(peer, connection, validator, now.elapsed);
        }
    }

    pub(super) fn poll_relay(&mut self, now: Now) {
        for (peer, distances) in self.relay.poll(now.elapsed) {
            self.send(To::Peer(peer), Message::Reach { distances });
        }
    }

    /// Sends to a validator, by others where there is no connection to it.
    pub(super) fn send_to(&mut self, validator: usize, message: &Message) {
        if self.relay.is_direct(validator) {
            let account = self.assignment.validators()[validator].account_id.clone();
            self.send(To::Validator(account), message.clone());
        } else if let Some(peer) = self.relay.way(validator) {
            // Without the frame's length.
            let message = message.frame().split_off(4);
            let routed = Routed { validator: validator as u32, steps: STEPS_MAX, message };
            self.send(To::Peer(peer), Message::Routed(routed));
        }
    }

    /// Takes a message that came by others, or hands it on.
    pub(super) fn on_routed(&mut self, from: PublicKey, routed: Routed, now: Now) {
        if !self.relay.is_neighbour(&from) {
            return;
        }
        let validator = routed.validator as usize;
        if self.me.as_ref().is_some_and(|me| me.index == validator) {
            self.open_routed(from, &routed, now);
            return;
        }
        let way = self.relay.way(validator).filter(|peer| *peer != from);
        if let (Some(peer), Some(steps)) = (way, routed.steps.checked_sub(1)) {
            self.send(To::Peer(peer), Message::Routed(Routed { steps, ..routed }));
        }
    }

    /// What is sent so bears its author's signature; all else has no business to come by others.
    fn open_routed(&mut self, from: PublicKey, routed: &Routed, now: Now) {
        let Some((field, content)) = private_field(&routed.message) else { return };
        if let Ok(Some(message)) = Message::read(field, content)
            && matches!(
                message,
                Message::Witness(_) | Message::Endorsement(_) | Message::Approval(_) | Message::Chunk(_)
            )
        {
            self.on_message(from, message, now);
        } else {
            tracing::debug!(peer = %from, field, "dropped a message that came by others");
        }
    }

    /// Hands a block on that has just been found right, to neighbours that do not have it from its author.
    pub(super) fn pass_block_on(&mut self, block: &ArcBlock, from: Option<PublicKey>) {
        let height = block.height();
        if height <= self.chain.head().height() || self.is_behind() {
            return;
        }
        let peers = self.onward(self.assignment.block_producer(height), from);
        let peers = peers.into_iter().filter(|peer| !self.sync.has(peer, height)).collect();
        self.pass_on(peers, Message::Block(Arc::clone(block)));
    }

    /// Hands a new chunk on. Those without a body are only for the next block producers, each of which is sent its own.
    pub(super) fn pass_chunk_on(&mut self, chunk: &ArcChunk, from: Option<PublicKey>) {
        let header = chunk.header();
        if header.encoded_length == 0 {
            return;
        }
        let Some(shard) = self.settings.genesis.layout.index_of_id(header.shard_id) else { return };
        let peers = self.onward(self.assignment.chunk_producer(header.height_created, shard), from);
        self.pass_on(peers, Message::Chunk(Arc::clone(chunk)));
    }

    /// Who gets what `origin` made from this node. What this node made itself all its neighbours have got already.
    fn onward(&self, origin: usize, from: Option<PublicKey>) -> Vec<PublicKey> {
        if self.me.as_ref().is_some_and(|me| me.index == origin) {
            return Vec::new();
        }
        self.relay.onward(origin).filter(|peer| Some(*peer) != from).collect()
    }

    fn pass_on(&mut self, peers: Vec<PublicKey>, message: Message) {
        if !peers.is_empty() {
            self.send(To::Peers(peers), message);
        }
    }
}
