//! The bounded queue between the generator and a link.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tpsctl_model::{NodeName, Tps, load::UnsentCause};

use crate::{tally::LinkTally, waiting::Waiting};

/// Batches that fit into the queue. The generator makes at most one a millisecond, so this many outlast any sensible
/// catch-up bound; [`queue_bound`] is what limits the queue.
const BATCHES_MAX: usize = 4_096;

/// A queue holds at least this many transfers, so that at low rates a link that is scheduled a little late is not taken
/// for one that does not get on.
const TRANSFERS_MIN: u64 = 64;

/// Signed transfers in one buffer.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Frames, one after the other.
    pub(crate) frames: Vec<u8>,
    /// Where each frame ends in `frames`.
    pub(crate) ends: Vec<usize>,
    /// Index of each receiver's shard.
    pub(crate) to: Vec<u16>,
    /// Each transfer's lag at the hand-over, nanoseconds after its intended send.
    pub(crate) lags_ns: Vec<u64>,
}

/// A batch in the queue.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) batch: Batch,
    pub(crate) since: Instant,
    /// [`Gate::waited`] at that time.
    pub(crate) waited_before: Duration,
}

/// What a link gets.
#[derive(Debug)]
pub(crate) enum Item {
    /// A load begins: counts start from nothing.
    Begin,
    /// To be sent.
    Batch(Queued),
    /// All of the load is in the queue before this: say what became of it.
    Finish(oneshot::Sender<LinkTally>),
}

/// What generator and link both see of the queue.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    connected: AtomicBool,
    queued: AtomicU64,
    waited_ns: AtomicU64,
    broken_since_finish: AtomicU64,
}

impl Gate {
    pub(crate) fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Relaxed);
    }

    /// `count` transfers have left the queue.
    pub(crate) fn leave(&self, count: u64) {
        self.queued.fetch_sub(count, Relaxed);
    }

    /// A write waited this long for the node.
    pub(crate) fn add_waited(&self, waited: Duration) {
        self.waited_ns.fetch_add(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// How long writes have waited for the node, since the link began.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_ns.load(Relaxed))
    }

    /// A connection broke while no load ran, with this many transfers of the last load that may not have been read.
    pub(crate) fn add_broken_since_finish(&self, count: u64) {
        self.broken_since_finish.fetch_add(count, Relaxed);
    }

    /// A load begins.
    pub(crate) fn forget_broken(&self) {
        self.broken_since_finish.store(0, Relaxed);
    }
}

/// The generator's end.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) producer: NodeName,
    queue: mpsc::Sender<Item>,
    gate: Arc<Gate>,
    bound: u64,
    waiting: Waiting,
}

/// Transfers that may wait for a link: what falls due for it in the catch-up bound. Any more would be sent later than the
/// schedule allows; so what finds a full queue counts as unsent instead of becoming hidden delay.
pub(crate) fn queue_bound(rate: Tps, producers: usize, catch_up: Duration) -> u64 {
    let catch_up_ms = u64::try_from(catch_up.as_millis()).unwrap_or(u64::MAX);
    let in_catch_up = rate.0.saturating_mul(catch_up_ms) / 1_000 / producers.max(1) as u64;
    in_catch_up.max(TRANSFERS_MIN)
}

/// A queue's two ends, and what both see.
pub(crate) fn outlet(producer: NodeName) -> (Outlet, mpsc::Receiver<Item>, Arc<Gate>) {
    let (queue, items) = mpsc::channel(BATCHES_MAX);
    let gate = Arc::new(Gate::default());
    let outlet = Outlet {
        producer,
        queue,
        gate: Arc::clone(&gate),
        bound: TRANSFERS_MIN,
        waiting: Waiting::over(Duration::ZERO),
    };
    (outlet, items, gate)
}

impl Outlet {
    /// Begins a load: up to `bound` transfers may wait, and who kept them waiting is judged by the last `catch_up`. False
    /// when the link is gone.
    pub(crate) fn begin(&mut self, bound: u64, catch_up: Duration) -> bool {
        self.bound = bound;
        self.waiting = Waiting::over(catch_up);
        self.queue.try_send(Item::Begin).is_ok()
    }

    /// Whether the link has a connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.gate.connected.load(Relaxed)
    }

    /// Of the last load's sent transfers, those on connections that broke after it and may not have been read.
    pub(crate) fn broken_since_finish(&self) -> u64 {
        self.gate.broken_since_finish.load(Relaxed)
    }

    /// Room for up to `wanted` transfers, which is theirs from now on. Those that get none are unsent for
    /// [`Self::why_full`].
    pub(crate) fn reserve(&mut self, wanted: u64) -> Result<u64, UnsentCause> {
        self.waiting.note(Instant::now(), self.gate.waited());
        if !self.is_connected() {
            return Err(UnsentCause::NotConnected);
        }
        // Only this side adds, so the room can only grow between the two lines.
        let granted = wanted.min(self.bound.saturating_sub(self.gate.queued.load(Relaxed)));
        self.gate.queued.fetch_add(granted, Relaxed);
        Ok(granted)
    }

    /// Why the queue is full: the node kept the link waiting, or our own link did not get on.
    pub(crate) fn why_full(&self) -> UnsentCause {
        if self.waiting.is_for_node(Instant::now(), self.gate.waited()) {
            UnsentCause::BackPressure
        } else {
            UnsentCause::GeneratorLate
        }
    }

    /// Gives back room that [`Self::reserve`] gave.
    pub(crate) fn release(&self, count: u64) {
        self.gate.leave(count);
    }

    /// Hands over a batch whose room is reserved; on failure its room is given back.
    pub(crate) fn push(&self, batch: Batch) -> Result<(), UnsentCause> {
        let count = batch.ends.len() as u64;
        let queued = Queued { batch, since: Instant::now(), waited_before: self.gate.waited() };
        self.queue.try_send(Item::Batch(queued)).map_err(|error| {
            self.release(count);
            match error {
                mpsc::error::TrySendError::Full(_) => self.why_full(),
                mpsc::error::TrySendError::Closed(_) => UnsentCause::NotConnected,
            }
        })
    }

    /// What became of everything pushed since [`Self::begin`]; none when the link is gone. Waits until the link has come
    /// to the end of its queue, which the flush deadline bounds.
    pub(crate) async fn finish(&self) -> Option<LinkTally> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Item::Finish(reply)).await.ok()?;
        answer.await.ok()
    }
}
