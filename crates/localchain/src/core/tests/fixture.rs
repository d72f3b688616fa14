//! A network in one process: virtual clock, messages as frames with seeded delays and drops, jobs that take time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use tpsctl_near::{
    AccountId, Action, CryptoHash, KeyPair, PublicKey, ShardLayout, TRANSFER_GAS_UNIT, Transaction,
};

use crate::core::{
    Block, BlockRef, Effect, Event, Genesis, JobResult, Limits, Message, Node, Now, Seats, Settings, Timing,
    To, Validator, VerifiedTransaction,
    job::Finished,
    message::{Message as Wire, private_field},
};

pub(in crate::core) const PRICE: u128 = 1_000_000_000;
pub(in crate::core) const BALANCE: u128 = 100 * 10_u128.pow(24);
const STAKE: u128 = 50 * 10_u128.pow(30);

pub(in crate::core) fn id(text: &str) -> AccountId {
    text.parse().expect("id")
}

/// User `user` of `shard`.
pub(in crate::core) fn user(shard: usize, user: usize) -> AccountId {
    if shard == 0 { id(&format!("000_user_{user}")) } else { id(&format!("a{shard:02}_user_{user}")) }
}

pub(in crate::core) fn key_of(account: &AccountId) -> KeyPair {
    KeyPair::from_seed(CryptoHash::of(account.as_str().as_bytes()).0)
}

pub(in crate::core) fn genesis(validators: usize, shards: usize, users: usize) -> Genesis {
    let boundaries = (1..shards).map(|shard| id(&format!("a{shard:02}"))).collect();
    let layout = ShardLayout::new(boundaries, (0..shards as u64).collect()).expect("layout");
    let nodes: Vec<AccountId> = (0..validators).map(|index| id(&format!("node{index}"))).collect();
    let users: Vec<AccountId> = (0..shards).flat_map(|s| (0..users).map(move |u| user(s, u))).collect();
    let accounts = users.iter().map(|id| (id.clone(), BALANCE, 0));
    let accounts: Vec<_> = accounts.chain(nodes.iter().map(|id| (id.clone(), 0, STAKE))).collect();
    let keys: Vec<_> = users.iter().map(|id| (id.clone(), key_of(id).public(), 0)).collect();
    let validator = |account_id: &AccountId| Validator {
        account_id: account_id.clone(),
        public_key: key_of(account_id).public(),
        stake: STAKE,
    };
    Genesis {
        chain_id: "benchmarknet".to_owned(),
        height: 0,
        time_unix_ns: 1,
        gas_limit: 20_000_000_000_000_000,
        gas_price: PRICE,
        epoch_length: 500,
        validity_period: 500,
        total_supply: accounts.iter().map(|(_, amount, locked)| amount + locked).sum(),
        validators: nodes.iter().map(validator).collect(),
        seats: Seats {
            block_producers: validators as u64,
            chunk_producers: validators as u64,
            producers_per_shard_min: 1,
            mandates_per_shard: 1,
        },
        states: Genesis::states_of(&layout, accounts, keys),
        layout: Arc::new(layout),
    }
}

pub(in crate::core) fn timing() -> Timing {
    Timing {
        min_block_production_delay: Duration::from_millis(600),
        max_block_production_delay: Duration::from_secs(2),
        max_block_wait_delay: Duration::from_secs(6),
        chunk_wait_mult: (1, 3),
        retry_period: Duration::from_millis(400),
    }
}

/// How much simulated time a node's jobs take.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::core) struct Cost {
    pub(in crate::core) each: Duration,
    pub(in crate::core) per_transaction: Duration,
}

pub(in crate::core) struct Slot {
    pub(in crate::core) node: Option<Node>,
    pub(in crate::core) settings: Settings,
    pub(in crate::core) cost: Cost,
    busy_until: Duration,
    pub(in crate::core) peer: PublicKey,
    started: Duration,
    pub(in crate::core) too_far_behind: Option<(u64, u64)>,
}

enum Delivery {
    Event(Event),
    Frame { from: PublicKey, frame: Arc<Vec<u8>> },
}

type Cut = Box<dyn Fn(usize, usize, &Message) -> bool>;
type IsEdge = Box<dyn Fn(usize, usize) -> bool>;

pub(in crate::core) struct Net {
    pub(in crate::core) slots: Vec<Slot>,
    pub(in crate::core) now: Duration,
    queue: BTreeMap<(Duration, u64), (usize, Delivery)>,
    next: u64,
    rng: ChaCha8Rng,
    /// Messages of a thousand that get lost.
    pub(in crate::core) lost_per_mille: u32,
    /// Whether a message is lost, by sender and receiver.
    pub(in crate::core) cut: Cut,
    /// Whether two nodes are connected, the lower index first.
    is_edge: IsEdge,
    /// Messages that were sent, by name.
    pub(in crate::core) sent: BTreeMap<&'static str, u64>,
    nonces: BTreeMap<AccountId, u64>,
}

impl Net {
    /// `validators` nodes, then one that tracks all shards.
    pub(in crate::core) fn new(genesis: Genesis, seed: u64) -> Self {
        let limits = Limits::of_chain(&genesis);
        Self::with_limits(genesis, limits, seed)
    }

    pub(in crate::core) fn with_limits(genesis: Genesis, limits: Limits, seed: u64) -> Self {
        Self::connected(genesis, limits, seed, Box::new(|_, _| true))
    }

    /// With these connections only.
    pub(in crate::core) fn connected(genesis: Genesis, limits: Limits, seed: u64, is_edge: IsEdge) -> Self {
        let genesis = Arc::new(genesis);
        let accounts = genesis.validators.iter().map(|own| Some(own.account_id.clone()));
        let shards = genesis.layout.len();
        let settings = |account: Option<AccountId>| Settings {
            genesis: Arc::clone(&genesis),
            timing: timing(),
            limits,
            tracked: vec![account.is_none(); shards],
            validator: account.map(|account| (account.clone(), key_of(&account))),
        };
        let slot = |(index, account): (usize, Option<AccountId>)| Slot {
            node: None,
            settings: settings(account),
            cost: Cost { each: Duration::from_millis(2), ..Cost::default() },
            busy_until: Duration::ZERO,
            peer: KeyPair::from_seed([index as u8 + 1; 32]).public(),
            started: Duration::ZERO,
            too_far_behind: None,
        };
        let slots = accounts.chain([None]).enumerate().map(slot).collect();
        let mut net = Self {
            slots,
            now: Duration::ZERO,
            queue: BTreeMap::new(),
            next: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            lost_per_mille: 0,
            cut: Box::new(|_, _, _| false),
            is_edge,
            sent: BTreeMap::new(),
            nonces: BTreeMap::new(),
        };
        for index in 0..net.slots.len() {
            net.start(index);
        }
        net
    }

    pub(in crate::core) fn start(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.node = Some(Node::new(slot.settings.clone()));
        slot.started = self.now;
        slot.busy_until = self.now;
        self.meet(index);
        self.post(index, Duration::ZERO, Delivery::Event(Event::Tick));
    }

    /// Connects a node with all others that run.
    pub(in crate::core) fn meet(&mut self, index: usize) {
        let peers: Vec<(usize, u64)> = (0..self.slots.len())
            .filter(|other| self.is_connected(index, *other))
            .filter_map(|other| Some((other, self.height(other)?)))
            .collect();
        for (other, height) in peers {
            self.post(index, Duration::ZERO, Delivery::Event(self.peer_up(other, height)));
            let own = self.height(index).unwrap_or(0);
            self.post(other, Duration::ZERO, Delivery::Event(self.peer_up(index, own)));
        }
    }

    fn peer_up(&self, index: usize, height: u64) -> Event {
        let slot = &self.slots[index];
        let account = slot.settings.validator.as_ref().map(|(account, _)| account.clone());
        Event::PeerUp { peer: slot.peer, connection: self.next, account, is_configured: true, height }
    }

    fn is_connected(&self, one: usize, other: usize) -> bool {
        one != other && (self.is_edge)(one.min(other), one.max(other))
    }

    pub(in crate::core) fn stop(&mut self, index: usize) {
        self.slots[index].node = None;
        let peer = self.slots[index].peer;
        for other in (0..self.slots.len()).filter(|other| *other != index) {
            let down = Event::PeerDown { peer, connection: self.next };
            self.post(other, Duration::ZERO, Delivery::Event(down));
        }
    }

    pub(in crate::core) fn height(&self, index: usize) -> Option<u64> {
        Some(self.slots[index].node.as_ref()?.stats().head_height)
    }

    pub(in crate::core) fn node(&self, index: usize) -> &Node {
        self.slots[index].node.as_ref().expect("running")
    }

    /// The node that tracks all shards.
    pub(in crate::core) fn watcher(&self) -> &Node {
        self.node(self.slots.len() - 1)
    }

    fn post(&mut self, to: usize, after: Duration, delivery: Delivery) {
        self.next += 1;
        self.queue.insert((self.now + after, self.next), (to, delivery));
    }

    pub(in crate::core) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let due = self.queue.first_key_value().map(|((at, _), _)| *at);
            let wake = (0..self.slots.len())
                .filter_map(|index| Some((self.wake_at(index)?, index)))
                .min()
                .filter(|(at, _)| due.is_none_or(|due| *at < due));
            if let Some((at, index)) = wake {
                if at > end {
                    break;
                }
                self.now = at;
                self.feed(index, Delivery::Event(Event::Tick));
                continue;
            }
            if due.is_none_or(|at| at > end) {
                break;
            }
            let ((at, _), (index, delivery)) = self.queue.pop_first().expect("due");
            self.now = at;
            self.feed(index, delivery);
        }
        self.now = end;
    }

    fn wake_at(&self, index: usize) -> Option<Duration> {
        let slot = &self.slots[index];
        let at = slot.started + slot.node.as_ref()?.next_deadline();
        Some(at.max(self.now + Duration::from_millis(10)))
    }

    fn feed(&mut self, index: usize, delivery: Delivery) {
        let slot = &mut self.slots[index];
        let Some(node) = &mut slot.node else { return };
        let event = match delivery {
            Delivery::Event(event) => event,
            Delivery::Frame { from, frame } => {
                let (field, content) = private_field(&frame[4..]).expect("private frame");
                let message = Wire::read(field, content).expect("own message").expect("known message");
                Event::Peer { from, message }
            }
        };
        let unix_ns = 1_000_000_000 + self.now.as_nanos() as u64;
        let effects = node.handle(event, Now { elapsed: self.now.saturating_sub(slot.started), unix_ns });
        for effect in effects {
            self.perform(index, effect);
        }
    }

    fn perform(&mut self, index: usize, effect: Effect) {
        match effect {
            Effect::Send { to, message } => self.deliver(index, &to, &message),
            Effect::Accepted(_) => {}
            Effect::Run(job) => {
                // The clock is looked at once in 64 transactions.
                let looks = std::cell::Cell::new(0);
                let per_look = self.slots[index].cost.per_transaction * 64;
                let result = job.run(&|| per_look * looks.replace(looks.get() + 1));
                let slot = &mut self.slots[index];
                let time = slot.cost.each + slot.cost.per_transaction * transactions(&result);
                // One worker a node: jobs wait for those before them.
                slot.busy_until = slot.busy_until.max(self.now) + time;
                let after = slot.busy_until.saturating_sub(self.now);
                self.post(index, after, Delivery::Event(Event::Job(result)));
            }
            Effect::TooFarBehind { needed, earliest } => {
                self.slots[index].too_far_behind = Some((needed, earliest));
                self.stop(index);
            }
        }
    }

    fn deliver(&mut self, from: usize, to: &To, message: &Message) {
        let frame = Arc::new(message.frame());
        let sender = self.slots[from].peer;
        let others = (0..self.slots.len()).filter(|other| self.is_connected(from, *other));
        for other in others.collect::<Vec<_>>() {
            let slot = &self.slots[other];
            let is_meant = match to {
                To::All => true,
                To::Validators => slot.settings.validator.is_some(),
                To::Validator(account) => {
                    slot.settings.validator.as_ref().is_some_and(|(own, _)| own == account)
                }
                To::Peer(peer) => slot.peer == *peer,
                To::Peers(peers) => peers.contains(&slot.peer),
            };
            *self.sent.entry(message.name()).or_default() += u64::from(is_meant);
            let is_lost = self.rng.random_range(0..1000) < self.lost_per_mille;
            if is_meant && !is_lost && !(self.cut)(from, other, message) {
                let after = Duration::from_micros(self.rng.random_range(500..8_000));
                self.post(other, after, Delivery::Frame { from: sender, frame: Arc::clone(&frame) });
            }
        }
    }

    /// Connects a stranger to a node.
    pub(in crate::core) fn stranger(&mut self, index: usize, height: u64) -> PublicKey {
        let peer = KeyPair::from_seed([200; 32]).public();
        self.post(
            index,
            Duration::ZERO,
            Delivery::Event(Event::PeerUp {
                peer,
                connection: 0,
                account: None,
                is_configured: false,
                height,
            }),
        );
        peer
    }

    /// Sends a message to a node, as it would go over the wire.
    pub(in crate::core) fn tell(&mut self, index: usize, from: PublicKey, message: &Message) {
        let frame = Arc::new(message.frame());
        self.post(index, Duration::ZERO, Delivery::Frame { from, frame });
    }

    /// Sends a transfer with the signer's next nonce to every node; those that produce its shard pool it.
    pub(in crate::core) fn transfer(&mut self, signer: &AccountId, receiver: &AccountId) {
        // Every node knows this one, however far it is behind.
        let block_hash = self.watcher().genesis_block().hash();
        let nonce = self.nonces.entry(signer.clone()).or_default();
        *nonce += 1;
        let signed = transfer(signer, receiver, *nonce, block_hash);
        let verified = Arc::new(VerifiedTransaction::of_signed(signed).expect("signed"));
        for index in 0..self.slots.len() {
            let event = Event::Transactions(vec![Arc::clone(&verified)]);
            self.post(index, Duration::ZERO, Delivery::Event(event));
        }
    }

    /// Somebody asks every node to watch a transaction.
    pub(in crate::core) fn watch(&mut self, signer: &AccountId, nonce: u64) {
        for index in 0..self.slots.len() {
            let event = Event::Watch { signer: signer.clone(), nonce };
            self.post(index, Duration::ZERO, Delivery::Event(event));
        }
    }

    /// `count` transfers between random users, some to their own shard, some to themselves.
    pub(in crate::core) fn random_transfers(&mut self, shards: usize, users: usize, count: usize) {
        for _ in 0..count {
            let mut pick = || user(self.rng.random_range(0..shards), self.rng.random_range(0..users));
            let (signer, receiver) = (pick(), pick());
            self.transfer(&signer, &receiver);
        }
    }

    /// The blocks of the chain that the watcher sees, genesis left out.
    pub(in crate::core) fn blocks(&self) -> Vec<Arc<Block>> {
        let node = self.watcher();
        (1..=node.stats().head_height).filter_map(|at| node.block(BlockRef::Height(at)).cloned()).collect()
    }

    /// Settled transfers, from the gas of new chunks; what an observer counts.
    pub(in crate::core) fn settled(&self) -> u64 {
        let mut gas = 0;
        for block in self.blocks() {
            for (chunk, is_new) in block.header.chunks.iter().zip(&block.header.chunk_mask) {
                assert_eq!(chunk.height_included == block.height(), *is_new);
                if *is_new {
                    gas += chunk.signed.header.prev_gas_used;
                }
            }
        }
        // As in neard, blocks that left the chain again were counted, too.
        assert!(gas <= self.watcher().stats().gas_used);
        assert_eq!(gas % (2 * TRANSFER_GAS_UNIT), 0, "whole transfers");
        gas / (2 * TRANSFER_GAS_UNIT)
    }

    /// Chunk slots without a new chunk.
    pub(in crate::core) fn missed(&self) -> usize {
        self.blocks()
            .iter()
            .flat_map(|block| block.header.chunk_mask.clone())
            .filter(|is_new| !is_new)
            .count()
    }

    /// With nothing in flight, balances come to what genesis made less what was burnt.
    pub(in crate::core) fn assert_closed(&self) {
        let snapshot = self.watcher().snapshot(BlockRef::Head).expect("head");
        let states = snapshot.states.iter().map(|state| state.as_ref().expect("tracked"));
        let sum: u128 =
            states.flat_map(|state| state.tree().accounts()).map(|own| own.amount + own.locked).sum();
        assert_eq!(sum, snapshot.block.header.total_supply);
    }
}

pub(in crate::core) fn transfer(
    signer: &AccountId,
    receiver: &AccountId,
    nonce: u64,
    block_hash: CryptoHash,
) -> tpsctl_near::SignedTransaction {
    let key = key_of(signer);
    Transaction {
        signer_id: signer.clone(),
        public_key: key.public(),
        nonce,
        receiver_id: receiver.clone(),
        block_hash,
        actions: vec![Action::Transfer { deposit: 7 }],
    }
    .sign(&key)
}

fn transactions(result: &JobResult) -> u32 {
    match &result.0 {
        Finished::Applied { outcome: Some(outcome), .. } => outcome.transactions as u32,
        Finished::Produced(produced) => produced.used.len() as u32,
        Finished::Validated { report, .. } => {
            report.executed.map_or(0, |(executed, _)| executed.transactions as u32)
        }
        Finished::Applied { outcome: None, .. } | Finished::Rechecked { .. } => 0,
    }
}
