//! A link: the task that owns the connection to one producer and settles the fate of every transfer in its queue.

use std::{
    collections::VecDeque,
    error::Error,
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until},
};
use tpsctl_model::{NodeName, load::UnsentCause};
use tpsctl_rpc::P2pError;

use crate::{
    outlet::{Gate, Item, Queued},
    tally::{LinkTally, Live},
    waiting::{BEAT, Waiting, proven},
};

/// First pause before a connection is made again; doubled after each failure.
const BACKOFF_MIN: Duration = Duration::from_millis(50);

/// Longest pause.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// What was written this long before a break may not have been read. A node that is well reads within milliseconds; how
/// much of what the operating system took was never read cannot be known on this side. So the count is
/// evidence for losses, not a proof: see [`Link::note_break`].
const UNREAD_WITHIN: Duration = Duration::from_secs(1);

/// After a cut the node may take this long to read what was written before: much more than what sockets hold. Only then is
/// the connection made again.
pub const WIND_UP_MAX: Duration = Duration::from_secs(20);

pub(crate) type LinkError = Box<dyn Error + Send + Sync>;

/// Where frames go.
pub(crate) trait FrameSink: Send + 'static {
    /// Writes a first part of `bytes`, at least one byte, and returns its length. When cancelled, nothing was taken.
    fn write_some(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<usize>> + Send;

    /// Says that nothing more comes. What was written is still read on the other side.
    fn finish(&mut self) -> impl Future<Output = io::Result<()>> + Send;
}

/// Makes connections to one producer.
pub(crate) trait Dial: Send + Sync + 'static {
    /// The connection's writing side.
    type Sink: FrameSink;

    /// Connects, within a deadline of its own.
    fn dial(&self) -> impl Future<Output = Result<Connection<Self::Sink>, LinkError>> + Send;
}

/// A connection that stands.
pub(crate) struct Connection<S> {
    pub(crate) sink: S,
    /// Reads, until the connection ends; then says why.
    pub(crate) reading: Pin<Box<dyn Future<Output = LinkError> + Send>>,
    /// Frames that the reading side wants written.
    pub(crate) answers: mpsc::Receiver<Vec<u8>>,
}

/// The task's state.
pub(crate) struct Link<D> {
    pub(crate) producer: NodeName,
    pub(crate) dial: Arc<D>,
    pub(crate) queue: mpsc::Receiver<Item>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) live: Arc<Live>,
    /// From this moment on, nothing in the queue is sent any more. None while load runs.
    pub(crate) flush_until: watch::Receiver<Option<Instant>>,
    pub(crate) state: LinkState,
}

/// What a link remembers beside its channels.
#[derive(Debug)]
pub(crate) struct LinkState {
    flight: Option<Flight>,
    /// When writes completed, and how many transfers each; those that may yet prove unread. Kept after the load's end.
    recent: VecDeque<(Instant, u64)>,
    /// Since when a write waits for the node.
    wait_began: Option<Instant>,
    /// How much of the last catch-up bound was spent waiting for the node.
    waiting: Waiting,
    tally: LinkTally,
    /// Whether a load runs: from its begin in the queue to its finish.
    is_loaded: bool,
}

/// What is being written.
#[derive(Debug)]
struct Flight {
    frames: Vec<u8>,
    /// Where each transfer's frame ends. An answer of the reading side has no transfers.
    ends: Vec<usize>,
    to: Vec<u16>,
    written: usize,
    sent: usize,
}

enum End {
    /// The agent closes.
    Closed,
    /// The other side, or the network, ended the connection.
    Broken(LinkError),
    /// We end it: the flush deadline came in the middle of a frame, and half a frame cannot be taken back.
    Cut,
    /// We ended it so, and the node has read all that was written before.
    WoundUp,
}

impl LinkState {
    /// Who keeps transfers from being sent is judged by the last `catch_up`.
    pub(crate) fn new(catch_up: Duration) -> Self {
        Self {
            flight: None,
            recent: VecDeque::new(),
            wait_began: None,
            waiting: Waiting::over(catch_up),
            tally: LinkTally::default(),
            is_loaded: false,
        }
    }
}

impl Flight {
    fn new(frames: Vec<u8>, ends: Vec<usize>, to: Vec<u16>) -> Self {
        Self { frames, ends, to, written: 0, sent: 0 }
    }

    fn unsent(&self) -> u64 {
        (self.ends.len() - self.sent) as u64
    }
}

impl<D: Dial> Link<D> {
    /// Runs until the queue's other end is dropped. `first` is the connection that the preparation made.
    pub(crate) async fn run(mut self, first: Connection<D::Sink>) {
        let mut connection = Some(first);
        loop {
            let standing = match connection.take() {
                Some(standing) => standing,
                None => match self.dial_again().await {
                    Some(standing) => standing,
                    None => return,
                },
            };
            self.gate.set_connected(true);
            let end = self.converse(standing).await;
            self.gate.set_connected(false);
            match end {
                End::Closed => return,
                End::Broken(error) => {
                    tracing::warn!(producer = %self.producer, %error, "the connection broke");
                }
                End::Cut => {
                    tracing::warn!(producer = %self.producer, "the node did not read; the connection was given up");
                }
                End::WoundUp => {
                    tracing::debug!(producer = %self.producer, "the connection ended with half a frame, all before it read");
                    self.state.recent.clear();
                }
            }
            self.note_break();
        }
    }

    /// Connects again, however often it takes. What comes into the queue meanwhile is not sent. None when the agent closes.
    async fn dial_again(&mut self) -> Option<Connection<D::Sink>> {
        let mut pause = BACKOFF_MIN;
        loop {
            let dial = Arc::clone(&self.dial);
            let mut attempt = Box::pin(async move {
                sleep(pause).await;
                dial.dial().await
            });
            let dialled = loop {
                tokio::select! {
                    dialled = &mut attempt => break dialled,
                    item = self.queue.recv() => self.refuse(item?, UnsentCause::NotConnected),
                }
            };
            match dialled {
                Ok(connection) => return Some(connection),
                Err(error) => tracing::debug!(producer = %self.producer, %error, "no connection yet"),
            }
            pause = (pause * 2).min(BACKOFF_MAX);
        }
    }

    async fn converse(&mut self, connection: Connection<D::Sink>) -> End {
        let Connection { mut sink, mut reading, mut answers } = connection;
        loop {
            tokio::select! {
                // The reading side first: it alone knows why a connection ended.
                biased;
                error = &mut reading => return End::Broken(error),
                end = self.step(&mut sink, &mut answers) => match end {
                    None => {}
                    Some(End::Cut) => return self.wind_up(sink, reading).await,
                    Some(end) => return end,
                },
            }
        }
    }

    /// Nothing more can be written behind half a frame. A node that is told so reads what came before and then ends the
    /// connection, so that nothing is lost on the way. What is still in the queue is as late as what was cut.
    async fn wind_up(
        &mut self,
        mut sink: D::Sink,
        mut reading: Pin<Box<dyn Future<Output = LinkError> + Send>>,
    ) -> End {
        let cause = self.why_late();
        self.gate.set_connected(false);
        let read_by = Instant::now() + WIND_UP_MAX;
        if let Err(error) = sink.finish().await {
            return End::Broken(error.into());
        }
        loop {
            tokio::select! {
                biased;
                error = &mut reading => {
                    let is_read = matches!(error.downcast_ref(), Some(P2pError::Closed { .. }));
                    return if is_read { End::WoundUp } else { End::Broken(error) };
                }
                item = self.queue.recv() => match item {
                    Some(item) => self.refuse(item, cause),
                    None => return End::Closed,
                },
                () = sleep_until(read_by) => return End::Cut,
            }
        }
    }

    /// One write, or one item. Cancel safe: all state is in `self`, and what a write took is noted as soon as it is known.
    async fn step(&mut self, sink: &mut D::Sink, answers: &mut mpsc::Receiver<Vec<u8>>) -> Option<End> {
        let LinkState { flight: Some(flight), wait_began, waiting, .. } = &mut self.state else {
            return self.next_item(answers).await;
        };
        let taken = {
            let mut write = pin!(sink.write_some(&flight.frames[flight.written..]));
            match poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await {
                Poll::Ready(taken) => Some(taken),
                Poll::Pending => {
                    wait_began.get_or_insert_with(Instant::now);
                    wait_for_node(write, &self.gate, waiting, &mut self.flush_until).await
                }
            }
        };
        let Some(taken) = taken else { return self.give_up_flight() };
        self.state.wait_began = None;
        match taken {
            Ok(len) => {
                self.note_written(len);
                None
            }
            Err(error) => Some(End::Broken(error.into())),
        }
    }

    async fn next_item(&mut self, answers: &mut mpsc::Receiver<Vec<u8>>) -> Option<End> {
        let item = tokio::select! {
            Some(answer) = answers.recv() => {
                self.state.flight = Some(Flight::new(answer, Vec::new(), Vec::new()));
                return None;
            }
            item = self.queue.recv() => match item {
                Some(item) => item,
                None => return Some(End::Closed),
            },
        };
        self.state.waiting.note(Instant::now(), self.gate.waited());
        match item {
            Item::Batch(queued) if !self.is_flush_over() => {
                self.note_lag(&queued);
                let batch = queued.batch;
                self.state.flight = Some(Flight::new(batch.frames, batch.ends, batch.to));
            }
            item => self.refuse(item, self.why_late()),
        }
        None
    }

    fn is_flush_over(&self) -> bool {
        self.flush_until.borrow().is_some_and(|until| Instant::now() >= until)
    }

    /// Why there was no time for what is in the queue: the node kept us waiting, or this task was not scheduled.
    fn why_late(&self) -> UnsentCause {
        if self.state.waiting.is_for_node(Instant::now(), self.gate.waited()) {
            UnsentCause::BackPressure
        } else {
            UnsentCause::GeneratorLate
        }
    }

    /// A write begins. Its lag is ours up to here, but for the time that the writes before it waited for the node.
    fn note_lag(&mut self, queued: &Queued) {
        let for_node = self.gate.waited().saturating_sub(queued.waited_before);
        let ours = queued.since.elapsed().saturating_sub(for_node);
        let ours_ns = u64::try_from(ours.as_nanos()).unwrap_or(u64::MAX);
        for lag_ns in &queued.batch.lags_ns {
            self.state.tally.lag.record_ns(lag_ns.saturating_add(ours_ns));
        }
    }

    /// Settles an item that cannot be sent, for `cause`; begin and finish of a load are no less than what they are.
    fn refuse(&mut self, item: Item, cause: UnsentCause) {
        match item {
            Item::Begin => {
                self.state.recent.clear();
                self.state.is_loaded = true;
                self.gate.forget_broken();
            }
            Item::Batch(queued) => self.count_unsent(queued.batch.ends.len() as u64, cause),
            Item::Finish(reply) => {
                self.state.is_loaded = false;
                // A run that was given up no longer waits for its counts.
                drop(reply.send(std::mem::take(&mut self.state.tally)));
            }
        }
    }

    fn count_unsent(&mut self, count: u64, cause: UnsentCause) {
        if count > 0 {
            *self.state.tally.unsent.entry(cause).or_insert(0) += count;
            self.gate.leave(count);
            self.live.add_unsent(count);
        }
    }

    fn note_written(&mut self, len: usize) {
        let LinkState { flight: Some(flight), tally, recent, .. } = &mut self.state else { return };
        flight.written += len;
        let before = flight.sent;
        while flight.ends.get(flight.sent).is_some_and(|end| *end <= flight.written) {
            *tally.sent_to.entry(flight.to[flight.sent]).or_insert(0) += 1;
            flight.sent += 1;
        }
        let count = (flight.sent - before) as u64;
        if count > 0 {
            let now = Instant::now();
            recent.push_back((now, count));
            while recent.front().is_some_and(|(at, _)| now.duration_since(*at) > UNREAD_WITHIN) {
                recent.pop_front();
            }
            self.gate.leave(count);
            self.live.add_sent(count);
        }
        if flight.written == flight.frames.len() {
            self.state.flight = None;
        }
    }

    /// The flush deadline came while a batch was being written.
    fn give_up_flight(&mut self) -> Option<End> {
        let flight = self.state.flight.take()?;
        let whole = flight.sent.checked_sub(1).map_or(0, |last| flight.ends[last]);
        self.count_unsent(flight.unsent(), self.why_late());
        if flight.written > whole {
            return Some(End::Cut);
        }
        self.state.wait_began = None;
        None
    }

    /// The connection is gone: what was not written is not sent, and what was written last may not have been read. That
    /// is everything written in the last [`UNREAD_WITHIN`] before the last write, since nothing has shown after it that the
    /// node was still reading; or, where a write was waiting for the node, before that wait began, since a node that had
    /// stopped reading then had not read that either.
    fn note_break(&mut self) {
        let wait_began = self.state.wait_began.take();
        let last_write = self.state.recent.back().map(|(at, _)| *at);
        let from = wait_began.into_iter().chain(last_write).min().unwrap_or_else(Instant::now);
        let is_doubtful = |(at, _): &&(Instant, u64)| from.saturating_duration_since(*at) <= UNREAD_WITHIN;
        let doubtful = self.state.recent.iter().filter(is_doubtful).map(|(_, count)| count).sum::<u64>();
        self.state.recent.clear();
        if self.state.is_loaded {
            self.state.tally.on_broken_connection += doubtful;
            self.state.tally.reconnects += 1;
        } else {
            self.gate.add_broken_since_finish(doubtful);
        }
        if let Some(flight) = self.state.flight.take() {
            self.count_unsent(flight.unsent(), UnsentCause::NotConnected);
        }
        while let Ok(item) = self.queue.try_recv() {
            self.refuse(item, UnsentCause::NotConnected);
        }
    }
}

/// Waits for the node to take something of a write that it has kept waiting, and notes for how long. None when the flush
/// deadline comes first.
async fn wait_for_node(
    mut write: Pin<&mut impl Future<Output = io::Result<usize>>>,
    gate: &Gate,
    waiting: &mut Waiting,
    flush_until: &mut watch::Receiver<Option<Instant>>,
) -> Option<io::Result<usize>> {
    let mut looked_at = Instant::now();
    waiting.note(looked_at, gate.waited());
    loop {
        let end = tokio::select! {
            biased;
            taken = &mut write => Some(Some(taken)),
            () = due(flush_until) => Some(None),
            () = sleep(BEAT) => None,
        };
        let now = Instant::now();
        gate.add_waited(proven(now.duration_since(looked_at)));
        waiting.note(now, gate.waited());
        looked_at = now;
        if let Some(end) = end {
            return end;
        }
    }
}

/// Waits until the moment that `flush_until` names, through all changes of it.
async fn due(flush_until: &mut watch::Receiver<Option<Instant>>) {
    loop {
        let until = *flush_until.borrow_and_update();
        let changed = match until {
            Some(until) => tokio::select! {
                () = sleep_until(until) => return,
                changed = flush_until.changed() => changed,
            },
            None => flush_until.changed().await,
        };
        if changed.is_err() {
            // The agent closes, which the queue says too.
            return std::future::pending().await;
        }
    }
}
