//! Catching up: pages of blocks with their bodies from a peer that is ahead, replayed from where this node is.

use std::time::Duration;

use tpsctl_near::PublicKey;

use super::{Effect, Message, Node, Now, To};
use crate::core::message::BlocksPage;

/// A node this many heights below what it heard of is behind: it neither approves nor produces.
const HEIGHTS_BEHIND_MAX: u64 = 4;
/// A node a little below asks for blocks when nothing came for so long.
const STALL: Duration = Duration::from_secs(1);
/// A page that did not come in this time is asked for again.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Sync {
    /// The highest head heard of, and from whom.
    best: Option<(u64, PublicKey)>,
    asked: Option<(PublicKey, Duration)>,
    progress_at: Duration,
}

impl Sync {
    pub(super) fn new() -> Self {
        Self { best: None, asked: None, progress_at: Duration::ZERO }
    }

    pub(super) fn asked_at(&self) -> Option<Duration> {
        self.asked.map(|(_, at)| at)
    }

    pub(super) fn progressed(&mut self, now: Now) {
        self.progress_at = now.elapsed;
    }
}

impl Node {
    /// A peer has a block of this height.
    pub(super) fn heard(&mut self, peer: PublicKey, height: u64) {
        if self.sync.best.is_none_or(|(best, _)| height > best) {
            self.sync.best = Some((height, peer));
        }
    }

    fn heights_behind(&self) -> u64 {
        self.sync.best.map_or(0, |(best, _)| best.saturating_sub(self.chain.head().height()))
    }

    pub(super) fn is_behind(&self) -> bool {
        self.heights_behind() > HEIGHTS_BEHIND_MAX
    }

    pub(super) fn poll_sync(&mut self, now: Now) {
        if self.sync.asked.is_some_and(|(_, at)| now.elapsed >= at + PAGE_TIMEOUT) {
            self.sync.asked = None;
            // The peer may be gone: the next to be heard of is asked.
            self.sync.best = None;
        }
        let is_idle = self.processing.is_empty();
        let is_stalled = now.elapsed >= self.sync.progress_at + STALL;
        let behind = self.heights_behind();
        if is_idle
            && (behind > HEIGHTS_BEHIND_MAX || behind > 0 && is_stalled)
            && let Some((_, peer)) = self.sync.best
        {
            self.ask_for_blocks(peer, now);
        }
    }

    /// Asks `peer` for the chain above the last final block, unless somebody was asked already.
    pub(super) fn ask_for_blocks(&mut self, peer: PublicKey, now: Now) {
        if self.sync.asked.is_some() {
            return;
        }
        self.sync.asked = Some((peer, now.elapsed));
        self.sync.progress_at = now.elapsed;
        // On a fork of ours the peer's blocks from the final one on are needed; else from the head on.
        let from_height = if self.is_behind() && self.orphans.is_empty() {
            self.chain.head().height() + 1
        } else {
            self.chain.final_height() + 1
        };
        self.send(To::Peer(peer), Message::BlocksRequest { from_height });
    }

    pub(super) fn on_page(&mut self, from: PublicKey, page: BlocksPage, now: Now) {
        if self.sync.asked.is_some_and(|(asked, _)| asked == from) {
            self.sync.asked = None;
        }
        let needed = self.chain.head().height() + 1;
        if page.earliest_height > needed && page.head_height > needed {
            self.effects.push(Effect::TooFarBehind { needed, earliest: page.earliest_height });
            return;
        }
        self.heard(from, page.head_height);
        if page.blocks.is_empty() && self.sync.best.is_some_and(|(_, best)| best == from) {
            // It has no more than we have, whatever was heard before.
            self.sync.best = Some((page.head_height, from));
        }
        for chunk in page.chunks {
            self.keep_chunk(&chunk);
        }
        for block in page.blocks {
            self.on_block(&block, Some(from), now);
        }
    }
}
