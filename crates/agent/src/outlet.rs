//! The bounded queue between the generator and a link.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use tokio::sync::{mpsc, oneshot};
use tpsctl_model::{Millis, NodeName, Tps, load::UnsentCause};

use crate::tally::LinkTally;

/// Batches that fit into the queue. The generator makes at most one a millisecond, so this many outlast any sensible
/// catch-up bound; [`queue_bound`] is what limits the queue.
const BATCHES_MAX: usize = 4_096;

/// A queue holds at least this many transfers, so that at low rates a link that is scheduled a little late is not taken
/// for a node that does not read.
const TRANSFERS_MIN: u64 = 64;

/// Signed transfers in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Frames, one after the other.
    pub(crate) frames: Vec<u8>,
    /// Where each frame ends in `frames`.
    pub(crate) ends: Vec<usize>,
    /// Index of each receiver's shard.
    pub(crate) to: Vec<u16>,
}

/// What a link gets.
#[derive(Debug)]
pub(crate) enum Item {
    /// To be sent.
    Batch(Batch),
    /// All of the load is in the queue before this: say what became of it.
    Finish(oneshot::Sender<LinkTally>),
}

/// What generator and link both see of the queue.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    connected: AtomicBool,
    queued: AtomicU64,
}

impl Gate {
    pub(crate) fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Relaxed);
    }

    /// `count` transfers have left the queue.
    pub(crate) fn leave(&self, count: u64) {
        self.queued.fetch_sub(count, Relaxed);
    }
}

/// The generator's end.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) producer: NodeName,
    queue: mpsc::Sender<Item>,
    gate: Arc<Gate>,
    bound: u64,
}

/// Transfers that may wait for a link: what falls due for it in the catch-up bound. Any more would be sent later than the
/// schedule allows; so a full queue counts as back-pressure instead of becoming hidden delay.
pub(crate) fn queue_bound(rate: Tps, producers: usize, catch_up: Millis) -> u64 {
    let in_catch_up = rate.0.saturating_mul(catch_up.0) / 1_000 / producers.max(1) as u64;
    in_catch_up.max(TRANSFERS_MIN)
}

/// A queue's two ends, and what both see.
pub(crate) fn outlet(producer: NodeName) -> (Outlet, mpsc::Receiver<Item>, Arc<Gate>) {
    let (queue, items) = mpsc::channel(BATCHES_MAX);
    let gate = Arc::new(Gate::default());
    (Outlet { producer, queue, gate: Arc::clone(&gate), bound: TRANSFERS_MIN }, items, gate)
}

impl Outlet {
    pub(crate) fn set_bound(&mut self, bound: u64) {
        self.bound = bound;
    }

    /// Room for up to `wanted` transfers, which is theirs from now on.
    pub(crate) fn reserve(&self, wanted: u64) -> Result<u64, UnsentCause> {
        if !self.gate.connected.load(Relaxed) {
            return Err(UnsentCause::NotConnected);
        }
        // Only this side adds, so the room can only grow between the two lines.
        let granted = wanted.min(self.bound.saturating_sub(self.gate.queued.load(Relaxed)));
        self.gate.queued.fetch_add(granted, Relaxed);
        Ok(granted)
    }

    /// Gives back room that [`Self::reserve`] gave.
    pub(crate) fn release(&self, count: u64) {
        self.gate.leave(count);
    }

    /// Hands over a batch whose room is reserved; on failure its room is given back.
    pub(crate) fn push(&self, batch: Batch) -> Result<(), UnsentCause> {
        let count = batch.ends.len() as u64;
        self.queue.try_send(Item::Batch(batch)).map_err(|error| {
            self.release(count);
            match error {
                mpsc::error::TrySendError::Full(_) => UnsentCause::BackPressure,
                mpsc::error::TrySendError::Closed(_) => UnsentCause::NotConnected,
            }
        })
    }

    /// What became of everything pushed since the last time; none when the link is gone. Waits until the link has come
    /// to the end of its queue, which the flush deadline bounds.
    pub(crate) async fn finish(&self) -> Option<LinkTally> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Item::Finish(reply)).await.ok()?;
        answer.await.ok()
    }
}
