//! Catching up: pages of blocks with their bodies from a peer that is ahead, replayed from where this node is.
//!
//! Whoever connects may ask, but only nodes that proved to be a validator's are heard and asked: what others say of their
//! head has no weight, and a page that nobody asked for is dropped. A validator whose page does not come or brings nothing
//! is not heard for a while either, and one validator's word alone neither stops a node nor ends it.
//!
//! Only a node that has just started follows any one validator, for a bounded time, before it takes part: where all others
//! come back with nothing but genesis, the one that stayed has the chain, and they could outvote it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tpsctl_near::{AccountId, CryptoHash, PublicKey};

use super::{Effect, Message, Node, Now, To};
use crate::core::types::BlocksPage;

/// A node this many heights below what validators with more than a third of the stake say is behind: it neither approves
/// nor produces.
const HEIGHTS_BEHIND_MAX: u64 = 4;
/// A node a little below asks for blocks when nothing came for so long.
const STALL: Duration = Duration::from_secs(1);
/// A page that did not come in this time is asked for again, of somebody else; for as long the peer's word is nothing.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// A node that has just started waits this long for validators that it has not met: they may have a chain.
const START_WAIT: Duration = Duration::from_secs(3);
/// And so long it follows a single validator that says to be ahead.
const START_FOLLOW_MAX: Duration = Duration::from_mins(1);
/// Bytes a second that go to nodes that are not validators', together, in answers.
const SERVED_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// What an answer counts for beside its bodies.
const SERVED_BYTES_MIN: u64 = 16 * 1024;

/// What a connected validator says of itself.
#[derive(Debug)]
struct Claim {
    /// Its index.
    validator: usize,
    /// The connection that it came by.
    connection: u64,
    /// The highest head heard of; 0 where it is not believed.
    height: u64,
    /// What it says before is not believed.
    ignored_until: Duration,
    /// It no longer has the block that is needed; the first that it has.
    earliest: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Sync {
    claims: BTreeMap<PublicKey, Claim>,
    asked: Option<(PublicKey, Duration)>,
    progress_at: Duration,
    /// Whether the node takes part; see [`Node::poll_start`].
    pub(super) is_started: bool,
    /// Bytes served to others than validators in this second.
    served: (u64, u64),
}

impl Sync {
    pub(super) fn asked_at(&self) -> Option<Duration> {
        self.asked.map(|(_, at)| at)
    }

    pub(super) fn progressed(&mut self, now: Now) {
        self.progress_at = now.elapsed;
        self.claims.values_mut().for_each(|claim| claim.earliest = None);
    }

    /// Whether the peer proved to be a validator's node.
    pub(super) fn is_validator(&self, peer: &PublicKey) -> bool {
        self.claims.contains_key(peer)
    }

    /// Whether the peer proved to be a validator's and said to have this height.
    pub(super) fn has(&self, peer: &PublicKey, height: u64) -> bool {
        self.claims.get(peer).is_some_and(|claim| claim.height >= height)
    }

    /// The validator's node that says to be highest above `height` and can serve what is needed.
    fn best_above(&self, height: u64) -> Option<PublicKey> {
        let useful =
            self.claims.iter().filter(|(_, claim)| claim.height > height && claim.earliest.is_none());
        useful.max_by_key(|(_, claim)| claim.height).map(|(peer, _)| *peer)
    }

    /// The peer did not do what it said: its word is nothing for a while.
    fn distrust(&mut self, peer: PublicKey, now: Now) {
        self.asked.take_if(|(asked, _)| *asked == peer);
        if let Some(claim) = self.claims.get_mut(&peer) {
            tracing::debug!(%peer, height = claim.height, "a peer did not serve what it said to have");
            claim.height = 0;
            claim.ignored_until = now.elapsed + PAGE_TIMEOUT;
        }
    }
}

impl Node {
    pub(super) fn peer_up(
        &mut self,
        (peer, connection): (PublicKey, u64),
        account: Option<&AccountId>,
        height: u64,
    ) {
        // What was said on a connection before this one is void.
        self.peer_down(&peer, connection);
        if let Some(validator) = account.and_then(|account| self.assignment.index_of(account)) {
            let claim =
                Claim { validator, connection, height, ignored_until: Duration::ZERO, earliest: None };
            self.sync.claims.insert(peer, claim);
        }
    }

    /// Forgets a peer's word, unless it was given on a later connection.
    pub(super) fn peer_down(&mut self, peer: &PublicKey, connection: u64) {
        if self.sync.claims.get(peer).is_some_and(|claim| claim.connection <= connection) {
            self.sync.claims.remove(peer);
            self.sync.asked.take_if(|(asked, _)| asked == peer);
        }
    }

    /// A peer says that it has a block of this height.
    pub(super) fn heard(&mut self, peer: &PublicKey, height: u64, now: Now) {
        if let Some(claim) = self.sync.claims.get_mut(peer)
            && now.elapsed >= claim.ignored_until
        {
            claim.height = claim.height.max(height);
        }
    }

    /// The height that validators with more than a third of the stake say to have reached: one of them is honest.
    fn credible_height(&self) -> u64 {
        let mut claims: Vec<(u64, usize)> =
            self.sync.claims.values().map(|claim| (claim.height, claim.validator)).collect();
        claims.sort_unstable_by(|one, other| other.cmp(one));
        let mut by = BTreeSet::new();
        for (height, validator) in claims {
            by.insert(validator);
            if self.assignment.is_over_a_third(|index| by.contains(&index)) {
                return height;
            }
        }
        0
    }

    pub(super) fn is_behind(&self) -> bool {
        let height = self.chain.head().height().saturating_add(HEIGHTS_BEHIND_MAX);
        // Asked at every event: most of the time nobody is above, and no stakes need to be summed.
        self.sync.claims.values().any(|claim| claim.height > height) && self.credible_height() > height
    }

    /// A node takes part once it has met all validators, or waited for them, and none of them has more than it.
    pub(super) fn poll_start(&mut self, now: Now) {
        if self.sync.is_started {
            return;
        }
        let own = self.me.as_ref().map(|me| me.index);
        let met: BTreeSet<usize> =
            self.sync.claims.values().map(|claim| claim.validator).chain(own).collect();
        let has_met_all = met.len() == self.assignment.validators().len();
        let head = Arc::clone(self.chain.head());
        let follows = self.sync.asked.is_some()
            || self.sync.best_above(head.height()).is_some()
            || !self.processing.is_empty();
        let may_follow = now.elapsed < START_FOLLOW_MAX;
        if (has_met_all || now.elapsed >= START_WAIT) && !(follows && may_follow) {
            self.sync.is_started = true;
            // Its delays count from now on.
            self.doomslug.set_tip(now.elapsed, (head.height(), head.hash()), self.chain.final_height());
        }
    }

    pub(super) fn poll_sync(&mut self, now: Now) {
        if let Some((peer, at)) = self.sync.asked
            && now.elapsed >= at + PAGE_TIMEOUT
        {
            self.sync.distrust(peer, now);
        }
        let is_idle = self.processing.is_empty();
        let is_stalled = now.elapsed >= self.sync.progress_at + STALL;
        // One validator's word is enough to ask, though not to stop.
        if is_idle && (is_stalled || self.is_behind() || !self.sync.is_started) {
            self.ask_for_blocks(None, now);
        }
    }

    /// Asks `peer`, if it is a validator's, or else the highest validator for the chain above the last final block,
    /// unless somebody was asked already.
    pub(super) fn ask_for_blocks(&mut self, peer: Option<PublicKey>, now: Now) {
        let head = self.chain.head().height();
        let peer = peer.filter(|peer| self.sync.is_validator(peer)).or_else(|| self.sync.best_above(head));
        let (Some(peer), None) = (peer, self.sync.asked) else { return };
        self.sync.asked = Some((peer, now.elapsed));
        self.sync.progress_at = now.elapsed;
        // On a fork of ours the peer's blocks from the final one on are needed; else from the head on.
        let from_height = if self.is_behind() && self.orphans.is_empty() {
            head + 1
        } else {
            self.chain.final_height() + 1
        };
        self.send(To::Peer(peer), Message::BlocksRequest { from_height });
    }

    pub(super) fn on_page(&mut self, from: PublicKey, page: BlocksPage, now: Now) {
        if self.sync.asked.take_if(|(asked, _)| *asked == from).is_none() {
            tracing::debug!(peer = %from, "dropped blocks that nobody asked for");
            return;
        }
        let needed = self.chain.head().height() + 1;
        if page.earliest_height > needed && page.head_height > needed {
            if let Some(claim) = self.sync.claims.get_mut(&from) {
                claim.height = page.head_height;
                claim.earliest = Some(page.earliest_height);
            }
            self.give_up_if_all_agree(needed);
            return;
        }
        for chunk in page.chunks {
            self.keep_chunk(&chunk);
        }
        let mut is_useful = false;
        for block in page.blocks {
            is_useful |= self.on_block(&block, from, now);
        }
        if is_useful {
            self.heard(&from, page.head_height, now);
        } else if page.head_height >= needed {
            self.sync.distrust(from, now);
        } else if let Some(claim) = self.sync.claims.get_mut(&from) {
            // It has no more than we have, whatever was heard before.
            claim.height = page.head_height;
        }
    }

    /// Ends the node when every validator that is ahead says that the next block is gone, and these hold more than a
    /// third of the stake: then one of them at least is honest.
    fn give_up_if_all_agree(&mut self, needed: u64) {
        let ahead = || self.sync.claims.values().filter(|claim| claim.height >= needed);
        let agreed: Option<Vec<u64>> = ahead().map(|claim| claim.earliest).collect();
        let validators: BTreeSet<usize> = ahead().map(|claim| claim.validator).collect();
        let Some(earliest) = agreed.and_then(|all| all.into_iter().min()) else { return };
        if self.assignment.is_over_a_third(|index| validators.contains(&index)) {
            self.effects.push(Effect::TooFarBehind { needed, earliest });
        }
    }

    pub(super) fn serve_page(&mut self, to: PublicKey, from_height: u64, now: Now) {
        let page = self.chain.page(from_height);
        let bytes = page.chunks.iter().map(|chunk| chunk.header().encoded_length).sum();
        if self.may_serve(&to, bytes, now) {
            self.send(To::Peer(to), Message::Blocks(page));
        }
    }

    pub(super) fn serve_chunk(&mut self, to: PublicKey, hash: &CryptoHash, now: Now) {
        if let Some(chunk) = self.chunk(hash)
            && self.may_serve(&to, chunk.header().encoded_length, now)
        {
            self.send(To::Peer(to), Message::Chunk(chunk));
        }
    }

    /// Validators are always answered; all others share what the budget leaves, so that asking costs the chain little.
    fn may_serve(&mut self, to: &PublicKey, bytes: u64, now: Now) -> bool {
        if self.sync.is_validator(to) {
            return true;
        }
        let (second, served) = &mut self.sync.served;
        if *second != now.elapsed.as_secs() {
            (*second, *served) = (now.elapsed.as_secs(), 0);
        }
        let may = *served < SERVED_BYTES_MAX;
        if may {
            *served += SERVED_BYTES_MIN + bytes;
        }
        may
    }
}
