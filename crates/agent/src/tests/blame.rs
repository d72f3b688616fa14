//! Whose fault it is that transfers are late or unsent: in paused time, with one link whose node and whose runtime are
//! each held up on purpose.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, advance, sleep},
};
use tpsctl_model::{
    Millis, NodeName, Tps,
    load::{LoadOrder, ShardInject, UnsentCause},
    plan::RunPlan,
};
use tpsctl_near::CryptoHash;
use tpsctl_rpc::P2pError;
use tpsctl_workload::{Keyring, NonceRange};

use super::{assert_adds_up, plan};
use crate::{
    generator::{Common, Generator, catch_up, shard_loads},
    head::Head,
    link::{Connection, Dial, FrameSink, Link, LinkError, LinkState, WIND_UP_MAX},
    outlet::{Gate, Item, Outlet, outlet, queue_bound},
    tally::{LinkTally, Live, shard_inject},
};

const RATE: u64 = 10_000;

const CATCH_UP_MS: u64 = 50;

/// Keeps the writing side of answers, so that the connection stands.
struct Standing {
    _answers: mpsc::Sender<Vec<u8>>,
}

/// A node that reads while `reads`, and closes when told to.
#[derive(Clone)]
struct Node {
    reads: Arc<AtomicBool>,
    /// Stops reading after the next write.
    reads_once: Arc<AtomicBool>,
    /// Closes with all read, as a node does that is told that nothing more comes.
    has_read_all: Arc<AtomicBool>,
    close: watch::Sender<u32>,
}

impl Node {
    fn new() -> Self {
        Self {
            reads: Arc::new(AtomicBool::new(true)),
            reads_once: Arc::default(),
            has_read_all: Arc::default(),
            close: watch::channel(0).0,
        }
    }

    fn connect(&self) -> Connection<Node> {
        let (answers_in, answers) = mpsc::channel(1);
        let (standing, mut close) = (Standing { _answers: answers_in }, self.close.subscribe());
        let has_read_all = Arc::clone(&self.has_read_all);
        let reading = Box::pin(async move {
            close.changed().await.ok();
            drop(standing);
            if has_read_all.load(SeqCst) {
                P2pError::Closed { addr: ([127, 0, 0, 1], 1).into() }.into()
            } else {
                LinkError::from("the connection was reset")
            }
        });
        Connection { sink: self.clone(), reading, answers }
    }
}

impl Dial for Node {
    type Sink = Node;

    async fn dial(&self) -> Result<Connection<Node>, LinkError> {
        Ok(self.connect())
    }
}

impl FrameSink for Node {
    async fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while !self.reads.load(SeqCst) {
            sleep(Duration::from_millis(1)).await;
        }
        if self.reads_once.load(SeqCst) {
            self.reads.store(false, SeqCst);
        }
        Ok(bytes.len().min(1_000))
    }

    async fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One shard with one producer. Its link's task does not run before [`Self::spawn`].
struct Bench {
    plan: Arc<RunPlan>,
    keyring: Arc<Keyring>,
    node: Node,
    live: Arc<Live>,
    flush_until: watch::Sender<Option<Instant>>,
    outlet: Option<Outlet>,
    link: Option<(mpsc::Receiver<Item>, Arc<Gate>)>,
    tasks: JoinSet<()>,
}

impl Bench {
    fn new() -> Self {
        let plan = Arc::new(plan(1, 1, CATCH_UP_MS));
        let keyring = Arc::new(Keyring::build(&plan).expect("keys"));
        let (mut outlet, queue, gate) = outlet(NodeName("cp".to_owned()));
        gate.set_connected(true);
        let catch_up = catch_up(&plan);
        assert!(outlet.begin(queue_bound(Tps(RATE), 1, catch_up), catch_up));
        Self {
            plan,
            keyring,
            node: Node::new(),
            live: Arc::default(),
            flush_until: watch::channel(None).0,
            outlet: Some(outlet),
            link: Some((queue, gate)),
            tasks: JoinSet::new(),
        }
    }

    fn spawn(&mut self) {
        let (queue, gate) = self.link.take().expect("spawned once");
        let link = Link {
            producer: NodeName("cp".to_owned()),
            dial: Arc::new(self.node.clone()),
            queue,
            gate,
            live: Arc::clone(&self.live),
            flush_until: self.flush_until.subscribe(),
            state: LinkState::new(catch_up(&self.plan)),
        };
        self.tasks.spawn(link.run(self.node.connect()));
    }

    fn generator(&mut self, rate: u64, duration_ms: u64) -> Generator {
        let outlet = self.outlet.take().expect("one load");
        let loads = shard_loads(&self.plan, &self.keyring, vec![vec![outlet]]).expect("loads");
        let common = Common {
            plan: Arc::clone(&self.plan),
            keyring: Arc::clone(&self.keyring),
            nonces: NonceRange::starting_at(9),
            live: Arc::clone(&self.live),
        };
        Generator::new(common, loads, &order(rate, duration_ms))
    }

    /// Ends the load and lets the flush deadline pass; what is left after it is settled when the link's task runs.
    async fn end(mut self, generator: Generator) -> ShardInject {
        self.flush_until.send_replace(Some(Instant::now() + catch_up(&self.plan)));
        if self.link.is_some() {
            advance(catch_up(&self.plan)).await;
            self.spawn();
        }
        let (mut loads, generated) = generator.finish();
        let outlet = loads.remove(0).lanes.remove(0).outlet;
        let ids = &self.plan.chain.shard_ids;
        let report = shard_inject(ids[0], &generated[0], &[tally(&outlet).await], ids);
        assert_adds_up(&report);
        report
    }
}

async fn tally(outlet: &Outlet) -> LinkTally {
    outlet.finish().await.expect("the link runs")
}

fn order(rate: u64, duration_ms: u64) -> LoadOrder {
    LoadOrder { trial: 1, rate_per_shard: Tps(rate), duration_ms: Millis(duration_ms), start_unix_ns: 0 }
}

fn head() -> Head {
    Head { block_hash: CryptoHash::default(), height: 9, read_at: Instant::now() }
}

/// Ticks every millisecond until all has fallen due.
async fn generate(generator: &mut Generator) {
    let (start, head) = (Instant::now(), head());
    let elapsed = || start.elapsed().as_nanos() as u64;
    while !generator.is_done(elapsed()) {
        generator.tick(elapsed, Some(&head));
        // Moves the clock by exactly this, unlike a sleep, which would wait for other timers too.
        advance(Duration::from_millis(1)).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_of_ours_that_stalls_is_our_fault() {
    let mut bench = Bench::new();
    let mut generator = bench.generator(RATE, 200);
    // The link's task does not run for the whole load, nor in the time for the flush.
    generate(&mut generator).await;
    let report = bench.end(generator).await;
    assert_eq!((report.intended, report.sent), (2_000, 0));
    assert_eq!(report.unsent, [(UnsentCause::GeneratorLate, 2_000)].into());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_read_is_at_fault() {
    let mut bench = Bench::new();
    bench.node.reads.store(false, SeqCst);
    bench.spawn();
    let mut generator = bench.generator(RATE, 200);
    generate(&mut generator).await;
    let report = bench.end(generator).await;
    assert_eq!((report.intended, report.sent), (2_000, 0));
    assert_eq!(report.unsent, [(UnsentCause::BackPressure, 2_000)].into());
    // What it made to wait is no lag of ours.
    assert!(report.send_lag_ms.max <= 10.0, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_reads_late_adds_no_lag_of_ours() {
    let mut bench = Bench::new();
    bench.node.reads.store(false, SeqCst);
    bench.spawn();
    let mut generator = bench.generator(RATE, 100);
    let reads = Arc::clone(&bench.node.reads);
    bench.tasks.spawn(async move {
        sleep(Duration::from_millis(45)).await;
        reads.store(true, SeqCst);
    });
    generate(&mut generator).await;
    let report = bench.end(generator).await;
    assert_eq!((report.sent, report.send_lag_ms.count), (1_000, 1_000));
    // Without a node that holds it up, a transfer waits for a tick of 1 ms; the wait is known to two beats.
    assert!(report.send_lag_ms.max <= 15.0, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn time_in_our_queue_is_lag() {
    let mut bench = Bench::new();
    let mut generator = bench.generator(RATE, 20);
    generate(&mut generator).await;
    advance(Duration::from_millis(100)).await;
    bench.spawn();
    let report = bench.end(generator).await;
    assert_eq!((report.sent, report.send_lag_ms.count), (200, 200));
    assert!(report.send_lag_ms.p50 >= 100.0 && report.send_lag_ms.max < 125.0, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_block_hash_nothing_is_sent_and_the_cause_is_named() {
    let mut bench = Bench::new();
    bench.spawn();
    let mut generator = bench.generator(RATE, 10);
    generator.tick(|| 10_000_000, None);
    let report = bench.end(generator).await;
    assert_eq!(report.unsent, [(UnsentCause::NoBlockHash, 100)].into());
}

#[tokio::test(start_paused = true)]
async fn a_catch_up_of_nothing_still_sends_what_is_punctual() {
    let mut bench = Bench::new();
    Arc::make_mut(&mut bench.plan).load.catch_up_ms = Millis(0);
    bench.spawn();
    let mut generator = bench.generator(RATE, 100);
    generate(&mut generator).await;
    let report = bench.end(generator).await;
    assert_eq!((report.intended, report.sent), (1_000, 1_000));
}

#[tokio::test(start_paused = true)]
async fn a_break_after_the_load_is_told_and_is_not_of_the_next_load() {
    let mut bench = Bench::new();
    bench.spawn();
    let mut generator = bench.generator(RATE, 10);
    generate(&mut generator).await;
    let (mut loads, _) = generator.finish();
    let mut outlet = loads.remove(0).lanes.remove(0).outlet;
    let of_load = tally(&outlet).await;
    assert_eq!((of_load.sent_to.values().sum::<u64>(), of_load.on_broken_connection), (100, 0));
    assert_eq!(outlet.broken_since_finish(), 0);
    // However long after: nothing was written since, so nothing shows that the node went on reading.
    sleep(Duration::from_secs(30)).await;
    bench.node.close.send_modify(|times| *times += 1);
    sleep(Duration::from_secs(1)).await;
    assert!(outlet.is_connected());
    assert_eq!(outlet.broken_since_finish(), 100);
    // The same transfers are not told twice.
    bench.node.close.send_modify(|times| *times += 1);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(outlet.broken_since_finish(), 100);

    assert!(outlet.begin(64, Duration::from_millis(CATCH_UP_MS)));
    let next = tally(&outlet).await;
    assert_eq!((next.on_broken_connection, next.reconnects), (0, 0));
    assert_eq!(outlet.broken_since_finish(), 0);
}

/// How the connection ends that was cut in the middle of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CutEnd {
    AllRead,
    Reset,
    Never,
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_before_a_cut_is_in_doubt_unless_the_node_has_read_it() {
    for end in [CutEnd::AllRead, CutEnd::Reset, CutEnd::Never] {
        let mut bench = Bench::new();
        bench.node.reads_once.store(true, SeqCst);
        bench.spawn();
        let mut generator = bench.generator(RATE, 200);
        generate(&mut generator).await;
        bench.flush_until.send_replace(Some(Instant::now() + catch_up(&bench.plan)));
        let (mut loads, _) = generator.finish();
        let outlet = loads.remove(0).lanes.remove(0).outlet;
        // Told while the node has not read yet: what is left of the load need not wait for that.
        let of_load = tally(&outlet).await;
        let sent = of_load.sent_to.values().sum::<u64>();
        assert!(sent > 0, "{of_load:?}");
        assert!(of_load.unsent.keys().eq([&UnsentCause::BackPressure]), "{of_load:?}");
        assert_eq!((of_load.on_broken_connection, outlet.is_connected()), (0, false));
        bench.node.has_read_all.store(end == CutEnd::AllRead, SeqCst);
        if end != CutEnd::Never {
            bench.node.close.send_modify(|times| *times += 1);
        }
        sleep(WIND_UP_MAX + Duration::from_secs(1)).await;
        assert!(outlet.is_connected(), "{end:?}: made again");
        let doubtful = if end == CutEnd::AllRead { 0 } else { sent };
        assert_eq!(outlet.broken_since_finish(), doubtful, "{end:?}");
    }
}

/// What a load over two producers is, when ticks come at these milliseconds.
fn fingerprint(ticks_ms: &[u64]) -> [u8; 32] {
    let plan = Arc::new(plan(1, 2, 1_000));
    let keyring = Arc::new(Keyring::build(&plan).expect("keys"));
    let mut queues = Vec::new();
    let mut open = || {
        let (mut outlet, queue, gate) = outlet(NodeName("cp".to_owned()));
        gate.set_connected(true);
        assert!(outlet.begin(1_000, Duration::from_secs(1)));
        queues.push(queue);
        outlet
    };
    let loads = shard_loads(&plan, &keyring, vec![vec![open(), open()]]).expect("loads");
    let common = Common { plan, keyring, nonces: NonceRange::starting_at(9), live: Arc::default() };
    let mut generator = Generator::new(common, loads, &order(1_000, 100));
    for at_ms in ticks_ms {
        generator.tick(|| at_ms * 1_000_000, Some(&head()));
    }
    let (_, tallies) = generator.finish();
    assert_eq!((tallies[0].intended, tallies[0].unsent.len()), (100, 0));
    tallies[0].stream
}

#[test]
fn the_fingerprint_does_not_depend_on_when_ticks_came() {
    let whole = fingerprint(&[100]);
    assert_eq!(fingerprint(&[1, 4, 7, 30, 31, 100]), whole);
    assert_eq!(fingerprint(&(1..=100).collect::<Vec<_>>()), whole);
}
