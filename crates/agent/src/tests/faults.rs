//! Generator and links in paused time, over connections that fail in every way: whatever happens, the accounts add up.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use proptest::prelude::*;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep},
};
use tpsctl_model::{
    Millis, NodeName, Tps,
    load::{InjectTick, LoadOrder, UnsentCause},
};
use tpsctl_near::{CryptoHash, p2p::FrameDecoder};
use tpsctl_workload::{Keyring, NonceRange};

use super::{assert_adds_up, plan};
use crate::{
    generator::{Common, Generator, shard_loads},
    head::Head,
    link::{Connection, Dial, FrameSink, Link, LinkError, LinkState},
    outlet::{Outlet, outlet, queue_bound},
    tally::{Live, shard_inject},
};

const SHARDS: u64 = 2;

const BASE_HEIGHT: u64 = 9;

/// What goes wrong, drawn from a stream that a seed fixes (`SplitMix64`).
#[derive(Debug, Clone)]
struct Chance(Arc<Mutex<u64>>);

impl Chance {
    fn below(&self, bound: u64) -> u64 {
        let mut state = self.0.lock().expect("one thread");
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_in(&self, odds: u64) -> bool {
        self.below(odds) == 0
    }
}

/// What every connection took, one entry a connection.
type Taken = Arc<Mutex<Vec<Vec<u8>>>>;

struct FaultyDial {
    chance: Chance,
    taken: Taken,
}

struct FaultySink {
    chance: Chance,
    taken: Taken,
    number: usize,
    /// A node that has stopped reading never reads again.
    is_stuck: bool,
}

impl FaultyDial {
    fn connect(&self) -> Connection<FaultySink> {
        let mut taken = self.taken.lock().expect("one thread");
        taken.push(Vec::new());
        let chance = self.chance.clone();
        let sink = FaultySink {
            chance: chance.clone(),
            taken: Arc::clone(&self.taken),
            number: taken.len() - 1,
            is_stuck: false,
        };
        let (answers_in, answers) = mpsc::channel(4);
        let reading = Box::pin(async move {
            let answer_ms = chance.below(400);
            sleep(Duration::from_millis(answer_ms)).await;
            answers_in.try_send(tpsctl_near::p2p::frame(b"answer")).ok();
            let life_ms = if chance.one_in(3) { chance.below(1_000) } else { 1_000_000 };
            sleep(Duration::from_millis(life_ms)).await;
            LinkError::from("the node closed")
        });
        Connection { sink, reading, answers }
    }
}

impl Dial for FaultyDial {
    type Sink = FaultySink;

    async fn dial(&self) -> Result<Connection<FaultySink>, LinkError> {
        sleep(Duration::from_millis(self.chance.below(100))).await;
        if self.chance.one_in(3) { Err("refused".into()) } else { Ok(self.connect()) }
    }
}

impl FrameSink for FaultySink {
    async fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_stuck |= self.chance.one_in(500);
        if self.is_stuck {
            return std::future::pending().await;
        }
        if self.chance.one_in(20) {
            sleep(Duration::from_millis(self.chance.below(200))).await;
        }
        if self.chance.one_in(200) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let len = if self.chance.one_in(2) {
            bytes.len()
        } else {
            1 + self.chance.below(bytes.len() as u64) as usize
        };
        self.taken.lock().expect("one thread")[self.number].extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    async fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whole transactions among what was taken.
fn whole_transactions(taken: &Taken) -> u64 {
    let mut count = 0;
    for bytes in taken.lock().expect("one thread").iter() {
        let mut decoder = FrameDecoder::default();
        decoder.push(bytes);
        while let Some(frame) = decoder.next_frame().expect("frames") {
            count += u64::from(frame != b"answer");
        }
    }
    count
}

#[derive(Debug, Clone)]
struct Case {
    chance_seed: u64,
    producers: usize,
    rate: u64,
    duration_ms: u64,
    catch_up_ms: u64,
    steps_ms: Vec<u64>,
    stop_after: Option<usize>,
}

/// The links of one case, and what their connections took.
struct Links {
    live: Arc<Live>,
    flush_until: watch::Sender<Option<Instant>>,
    tasks: JoinSet<()>,
    /// By shard and producer.
    taken: Vec<Vec<Taken>>,
}

fn start_links(case: &Case) -> (Links, Vec<Vec<Outlet>>) {
    let chance = Chance(Arc::new(Mutex::new(case.chance_seed)));
    let (flush_until, flush_out) = watch::channel(None);
    let mut links = Links { live: Arc::default(), flush_until, tasks: JoinSet::new(), taken: Vec::new() };
    let mut outlets = Vec::new();
    for _ in 0..SHARDS {
        let (mut of_shard, mut taken) = (Vec::new(), Vec::new());
        for _ in 0..case.producers {
            let (mut outlet, queue, gate) = outlet(NodeName("cp".to_owned()));
            let catch_up = Duration::from_millis(case.catch_up_ms);
            assert!(outlet.begin(queue_bound(Tps(case.rate), case.producers, catch_up), catch_up));
            let dial = FaultyDial { chance: chance.clone(), taken: Taken::default() };
            taken.push(Arc::clone(&dial.taken));
            let first = dial.connect();
            let link = Link {
                producer: outlet.producer.clone(),
                dial: Arc::new(dial),
                queue,
                gate,
                live: Arc::clone(&links.live),
                flush_until: flush_out.clone(),
                state: LinkState::new(catch_up),
            };
            links.tasks.spawn(link.run(first));
            of_shard.push(outlet);
        }
        outlets.push(of_shard);
        links.taken.push(taken);
    }
    (links, outlets)
}

/// Ticks until the load is done or stopped.
async fn generate(case: &Case, generator: &mut Generator) {
    let head = Head { block_hash: CryptoHash::default(), height: BASE_HEIGHT, read_at: Instant::now() };
    let start = Instant::now();
    let elapsed = || start.elapsed().as_nanos() as u64;
    for (number, step) in case.steps_ms.iter().cycle().enumerate() {
        if case.stop_after.is_some_and(|stop_after| number >= stop_after) {
            return generator.stop(elapsed());
        }
        // Now and then no block hash can be had.
        generator.tick(elapsed, (number % 10 != 9).then_some(&head));
        if generator.is_done(elapsed()) {
            return;
        }
        sleep(Duration::from_millis(*step)).await;
    }
}

async fn run_case(case: Case) {
    let plan = Arc::new(plan(SHARDS, case.producers, case.catch_up_ms));
    let keyring = Arc::new(Keyring::build(&plan).expect("keys"));
    let (mut links, outlets) = start_links(&case);
    let loads = shard_loads(&plan, &keyring, outlets).expect("loads");
    let nonces = NonceRange::starting_at(BASE_HEIGHT);
    let common = Common { plan: Arc::clone(&plan), keyring, nonces, live: Arc::clone(&links.live) };
    let order = LoadOrder {
        trial: 1,
        rate_per_shard: Tps(case.rate),
        duration_ms: Millis(case.duration_ms),
        start_unix_ns: 0,
    };
    let mut generator = Generator::new(common, loads, &order);
    generate(&case, &mut generator).await;

    links.flush_until.send_replace(Some(Instant::now() + Duration::from_millis(case.catch_up_ms)));
    let (loads, generated) = generator.finish();
    let mut total = InjectTick::default();
    for ((load, tally), taken) in loads.iter().zip(&generated).zip(&links.taken) {
        let mut of_shard = Vec::new();
        for lane in &load.lanes {
            of_shard.push(lane.outlet.finish().await.expect("the link runs"));
        }
        let report = shard_inject(plan.chain.shard_ids[0], tally, &of_shard, &plan.chain.shard_ids);
        assert_adds_up(&report);
        assert_eq!(report.sent, taken.iter().map(whole_transactions).sum::<u64>(), "{report:?}");
        if case.stop_after.is_none() {
            assert_eq!(report.intended, case.rate * case.duration_ms / 1_000);
            assert!(!report.unsent.contains_key(&UnsentCause::Stopped));
        }
        total.intended += report.intended;
        total.sent += report.sent;
        total.unsent += report.unsent.values().sum::<u64>();
    }
    assert_eq!(links.live.tick(), total);
    drop(loads);
    links.flush_until.send_replace(Some(Instant::now()));
    while let Some(ended) = links.tasks.join_next().await {
        ended.expect("links end by themselves");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn every_transfer_has_one_fate(
        chance_seed in any::<u64>(),
        producers in 1_usize..4,
        rate in prop_oneof![0_u64..200, 200_u64..5_000],
        duration_ms in 1_u64..1_500,
        catch_up_ms in 0_u64..300,
        steps_ms in proptest::collection::vec(prop_oneof![5 => 1_u64..10, 1 => 1_u64..400], 1..20),
        stop_after in proptest::option::of(0_usize..100),
    ) {
        let case = Case {
            chance_seed, producers, rate, duration_ms, catch_up_ms, steps_ms, stop_after,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(run_case(case));
    }
}
