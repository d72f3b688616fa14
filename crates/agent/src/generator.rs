//! The generator: takes what falls due, signs it, hands it to the links, and never waits for one.

use std::{collections::BTreeMap, ops::Range, sync::Arc, thread, time::Duration};

use sha2::{Digest, Sha256};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tpsctl_model::{
    load::{LoadOrder, UnsentCause},
    plan::RunPlan,
};
use tpsctl_workload::{
    Keyring, NonceRange, Pacer, Party, Sender, Signer, Transfer, TransferEncoder, TransferStream,
    WorkloadError,
};

use crate::{
    head::Head,
    outlet::{Batch, Outlet},
    tally::{Live, ShardTally},
};

/// Shortest pause between ticks. More ticks would cost more than they even out; a block is hundreds of times longer.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Longest pause, so that a cancelled load stops soon at any rate.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// The least catch-up bound that is applied, whatever the plan says. Ticks are a millisecond apart at best, and an operating
/// system may let a thread sleep some milliseconds longer: below this bound transfers would be given up that nothing
/// had held up, and at 0 every one.
const CATCH_UP_MIN: Duration = Duration::from_millis(20);

/// Bytes of a transfer's frame for which a batch reserves memory; a frame of nearcore's account names has about 200.
const FRAME_LEN: usize = 256;

/// What goes to one producer.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) outlet: Outlet,
    stream: TransferStream,
    /// In the order of the stream's senders.
    signers: Vec<Signer>,
}

/// One shard's load, across all orders of a session.
#[derive(Debug)]
pub(crate) struct ShardLoad {
    /// The shard's index.
    shard: usize,
    /// By the shard's producers, in plan order. The shard's transfers go to them in turn.
    pub(crate) lanes: Vec<Lane>,
    /// Number of the next transfer. Never goes back, or nonces would.
    next: u64,
}

/// What all shards share.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    pub(crate) plan: Arc<RunPlan>,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) nonces: NonceRange,
    pub(crate) live: Arc<Live>,
}

/// All shards' load during one order.
#[derive(Debug)]
pub(crate) struct Generator {
    common: Common,
    catch_up_ns: u64,
    duration_ns: u64,
    shards: Vec<ShardRun>,
}

#[derive(Debug)]
struct ShardRun {
    load: ShardLoad,
    pacer: Pacer,
    encoder: TransferEncoder,
    intended: u64,
    unsent: BTreeMap<UnsentCause, u64>,
    /// Over what was handed over, by lane. When ticks come decides in what order the lanes take turns, so each lane has
    /// its own.
    streams: Vec<Sha256>,
    /// The chain takes no more of this shard's nonces.
    is_exhausted: bool,
}

/// The transfers of one tick that go to one lane: every `step`-th number from `first` on.
#[derive(Debug, Clone, Copy)]
struct Due {
    lane: usize,
    first: u64,
    step: u64,
    count: u64,
}

/// How long after it fell due a transfer may still be sent.
pub(crate) fn catch_up(plan: &RunPlan) -> Duration {
    plan.load.catch_up_ms.as_duration().max(CATCH_UP_MIN)
}

/// Makes streams and signers for `outlets`, which are by shard index and then by producer.
pub(crate) fn shard_loads(
    plan: &RunPlan,
    keyring: &Keyring,
    outlets: Vec<Vec<Outlet>>,
) -> Result<Vec<ShardLoad>, WorkloadError> {
    let mut loads = Vec::with_capacity(outlets.len());
    for (shard, outlets) in outlets.into_iter().enumerate() {
        let mut lanes = Vec::with_capacity(outlets.len());
        for (producer, outlet) in outlets.into_iter().enumerate() {
            let stream = TransferStream::new(plan, keyring, shard, producer)?;
            let signers = keyring.shards()[shard].signers(stream.senders(), plan.load.signing)?;
            lanes.push(Lane { outlet, stream, signers });
        }
        loads.push(ShardLoad { shard, lanes, next: 0 });
    }
    Ok(loads)
}

impl Generator {
    pub(crate) fn new(common: Common, loads: Vec<ShardLoad>, order: &LoadOrder) -> Self {
        let amount = common.plan.load.amount;
        let shard_run = |load: ShardLoad| ShardRun {
            streams: vec![Sha256::new(); load.lanes.len()],
            load,
            pacer: Pacer::new(order.rate_per_shard, order.duration_ms),
            encoder: TransferEncoder::new(amount, tpsctl_near::CryptoHash::default()),
            intended: 0,
            unsent: BTreeMap::new(),
            is_exhausted: false,
        };
        Self {
            catch_up_ns: nanos(catch_up(&common.plan)),
            duration_ns: nanos(order.duration_ms.as_duration()),
            common,
            shards: loads.into_iter().map(shard_run).collect(),
        }
    }

    /// Hands over what has fallen due. `elapsed` reads the nanoseconds since the load's start; without a `head` that is
    /// recent enough nothing can be sent.
    pub(crate) fn tick(&mut self, elapsed: impl Fn() -> u64, head: Option<&Head>) {
        for shard in &mut self.shards {
            shard.tick(&self.common, self.catch_up_ns, &elapsed, head);
        }
    }

    /// Ends the load here: what has fallen due and was not handed over is unsent.
    pub(crate) fn stop(&mut self, elapsed_ns: u64) {
        for shard in &mut self.shards {
            let count = shard.pacer.stop(elapsed_ns);
            shard.count_intended(&self.common.live, count);
            shard.count_unsent(&self.common.live, UnsentCause::Stopped, count);
        }
    }

    /// Whether nothing more will fall due.
    pub(crate) fn is_done(&self, elapsed_ns: u64) -> bool {
        elapsed_ns >= self.duration_ns
            && self.shards.iter().all(|shard| shard.pacer.taken() == shard.pacer.total())
    }

    fn pause(&self, elapsed_ns: u64) -> Duration {
        let next = |shard: &ShardRun| shard.pacer.intended_ns(shard.pacer.taken());
        let next_ns = self.shards.iter().map(next).min().unwrap_or(u64::MAX);
        Duration::from_nanos(next_ns.saturating_sub(elapsed_ns)).clamp(PAUSE_MIN, PAUSE_MAX)
    }

    /// The load for the next order, and what was done for this one, both by shard index.
    pub(crate) fn finish(self) -> (Vec<ShardLoad>, Vec<ShardTally>) {
        self.shards.into_iter().map(ShardRun::finish).unzip()
    }
}

/// Runs `generator` from `start` to its end or until `cancel`, on a thread of its own: signing must not wait for other
/// tasks, nor they for signing.
pub(crate) fn drive(
    mut generator: Generator,
    start: Instant,
    heads: &watch::Receiver<Head>,
    cancel: &CancellationToken,
) -> Generator {
    let elapsed = || nanos(Instant::now().saturating_duration_since(start));
    let chain = &generator.common.plan.chain;
    // No chain makes blocks faster than its minimum block time, so a hash is valid for at least this long; half of it
    // leaves room for the time that a transfer waits in a pool.
    let age_max = chain.block_time_min_ms.as_duration()
        * u32::try_from(chain.transaction_validity_blocks / 2).unwrap_or(u32::MAX);
    loop {
        if cancel.is_cancelled() {
            generator.stop(elapsed());
            return generator;
        }
        let head = *heads.borrow();
        let is_recent = head.read_at.elapsed() < age_max;
        generator.tick(elapsed, is_recent.then_some(&head));
        let elapsed_ns = elapsed();
        if generator.is_done(elapsed_ns) {
            return generator;
        }
        thread::park_timeout(generator.pause(elapsed_ns));
    }
}

impl ShardRun {
    fn tick(&mut self, common: &Common, catch_up_ns: u64, elapsed: &impl Fn() -> u64, head: Option<&Head>) {
        let permits = self.pacer.take(elapsed(), catch_up_ns);
        self.count_intended(&common.live, permits.skipped + (permits.send.end - permits.send.start));
        self.count_unsent(&common.live, UnsentCause::GeneratorLate, permits.skipped);
        for lane in 0..self.load.lanes.len() {
            let due = self.due(lane, &permits.send);
            if due.count > 0 {
                self.hand_over(common, due, elapsed, head);
            }
        }
    }

    /// Those of `numbers` (within this order) that are this lane's turn.
    fn due(&self, lane: usize, numbers: &Range<u64>) -> Due {
        let step = self.load.lanes.len() as u64;
        let ahead = (lane as u64 + step - (self.load.next + numbers.start) % step) % step;
        let first = numbers.start + ahead;
        Due { lane, first, step, count: numbers.end.saturating_sub(first).div_ceil(step) }
    }

    fn hand_over(&mut self, common: &Common, due: Due, elapsed: &impl Fn() -> u64, head: Option<&Head>) {
        let live = &common.live;
        if self.is_exhausted {
            return self.count_unsent(live, UnsentCause::Stopped, due.count);
        }
        let Some(head) = head else {
            return self.count_unsent(live, UnsentCause::NoBlockHash, due.count);
        };
        let outlet = &mut self.load.lanes[due.lane].outlet;
        let granted = match outlet.reserve(due.count) {
            Ok(granted) => granted,
            Err(cause) => return self.count_unsent(live, cause, due.count),
        };
        if granted < due.count {
            let cause = outlet.why_full();
            self.count_unsent(live, cause, due.count - granted);
        }
        let stream_before = self.streams[due.lane].clone();
        let mut batch = self.encode(common, Due { count: granted, ..due }, head);
        let encoded = batch.ends.len() as u64;
        if encoded < granted {
            self.load.lanes[due.lane].outlet.release(granted - encoded);
            self.count_unsent(live, UnsentCause::Stopped, granted - encoded);
        }
        if encoded == 0 {
            return;
        }
        let now_ns = elapsed();
        let lag_ns = |turn| now_ns.saturating_sub(self.pacer.intended_ns(due.first + turn * due.step));
        batch.lags_ns.extend((0..encoded).map(lag_ns));
        if let Err(cause) = self.load.lanes[due.lane].outlet.push(batch) {
            self.streams[due.lane] = stream_before;
            self.count_unsent(live, cause, encoded);
        }
    }

    /// Signs what is due; fewer where the nonces reach the chain's bound. Lags are left to the hand-over.
    fn encode(&mut self, common: &Common, due: Due, head: &Head) -> Batch {
        let keyring = &common.keyring;
        let lane = &mut self.load.lanes[due.lane];
        let keys = &keyring.shards()[self.load.shard];
        let count = due.count as usize;
        let mut batch = Batch {
            frames: Vec::with_capacity(count * FRAME_LEN),
            ends: Vec::with_capacity(count),
            to: Vec::with_capacity(count),
            lags_ns: Vec::with_capacity(count),
        };
        self.encoder.set_block_hash(head.block_hash);
        for number in (0..due.count).map(|turn| due.first + turn * due.step) {
            let transfer = lane.stream.transfer((self.load.next + number) / due.step);
            let nonce = match common.nonces.nonce(transfer.nonce_offset, head.height) {
                Ok(nonce) => nonce,
                Err(error) => {
                    tracing::warn!(shard = %keys.shard(), %error, "no more load for this shard");
                    self.is_exhausted = true;
                    break;
                }
            };
            let account = Party { keys, index: transfer.sender };
            let sender = Sender { account, signer: &lane.signers[transfer.lane], nonce };
            let receivers = &keyring.shards()[transfer.receiver_shard];
            self.encoder.append(
                &mut batch.frames,
                sender,
                Party { keys: receivers, index: transfer.receiver },
            );
            batch.ends.push(batch.frames.len());
            batch.to.push(u16::try_from(transfer.receiver_shard).unwrap_or(u16::MAX));
            self.streams[due.lane].update(stream_entry(&transfer));
        }
        batch
    }

    fn count_intended(&mut self, live: &Live, count: u64) {
        self.intended += count;
        live.add_intended(count);
    }

    fn count_unsent(&mut self, live: &Live, cause: UnsentCause, count: u64) {
        if count > 0 {
            *self.unsent.entry(cause).or_insert(0) += count;
            live.add_unsent(count);
        }
    }

    fn finish(mut self) -> (ShardLoad, ShardTally) {
        self.load.next += self.pacer.taken();
        let mut stream = Sha256::new();
        for of_lane in self.streams {
            stream.update(of_lane.finalize());
        }
        let tally =
            ShardTally { intended: self.intended, unsent: self.unsent, stream: stream.finalize().into() };
        (self.load, tally)
    }
}

/// What a transfer is, without what only the running chain decides (block hash, base of the nonces).
fn stream_entry(transfer: &Transfer) -> [u8; 32] {
    let numbers = [
        transfer.sender as u64,
        transfer.receiver_shard as u64,
        transfer.receiver as u64,
        transfer.nonce_offset,
    ];
    let mut bytes = [0; 32];
    for (bytes, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
