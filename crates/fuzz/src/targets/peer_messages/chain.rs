//! Nodes of a small chain in virtual time, without a network between them.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tpsctl_localchain::core::{
    Effect, Event, Genesis, Limits, Message, Node, Now, Seats, Settings, Timing, To, Validator,
};
use tpsctl_near::{AccountId, CryptoHash, KeyPair, PublicKey, ShardLayout};

/// Of each user, yocto.
pub(in crate::targets) const BALANCE: u128 = 100 * 10_u128.pow(24);
const STAKE: u128 = 50 * 10_u128.pow(30);
const TENTH: Duration = Duration::from_millis(100);
/// Events handled one after the other without time passing; a node that goes on for ever is at fault.
const EVENTS_MAX: usize = 10_000;
/// Effects of one event.
const EFFECTS_MAX: usize = 1_000;

fn id(text: &str) -> AccountId {
    text.parse().expect("an account id")
}

/// A user of one of the two shards.
pub(in crate::targets) fn user(shard: usize, user: usize) -> AccountId {
    id(&format!("{}_user_{user}", ["000", "a01"][shard]))
}

/// An account's key.
pub(in crate::targets) fn key_of(account: &str) -> KeyPair {
    KeyPair::from_seed(CryptoHash::of(account.as_bytes()).0)
}

fn peer(index: usize) -> PublicKey {
    KeyPair::from_seed([index as u8 + 1; 32]).public()
}

/// Settings of validator `index`, or of a node that validates nothing and tracks every shard.
pub(in crate::targets) fn settings(index: Option<usize>) -> Settings {
    let layout = ShardLayout::new(vec![id("a01")], vec![0, 1]).expect("a layout");
    let nodes = [id("node0"), id("node1")];
    let users: Vec<AccountId> = (0..4).map(|each| user(each / 2, each % 2)).collect();
    let stakes = nodes.iter().map(|own| (own.clone(), 0, STAKE));
    let accounts = users.iter().map(|own| (own.clone(), BALANCE, 0)).chain(stakes);
    let keys = users.iter().map(|own| (own.clone(), key_of(own.as_str()).public(), 0));
    let validator = |account_id: &AccountId| Validator {
        account_id: account_id.clone(),
        public_key: key_of(account_id.as_str()).public(),
        stake: STAKE,
    };
    let genesis = Genesis {
        chain_id: "benchmarknet".to_owned(),
        height: 0,
        time_unix_ns: 1,
        gas_limit: 20_000_000_000_000_000,
        gas_price: 1_000_000_000,
        epoch_length: 500,
        validity_period: 500,
        total_supply: 4 * BALANCE + 2 * STAKE,
        validators: nodes.iter().map(validator).collect(),
        seats: Seats {
            block_producers: 100,
            chunk_producers: 100,
            producers_per_shard_min: 1,
            mandates_per_shard: 1,
        },
        states: Genesis::states_of(&layout, accounts, keys),
        layout: Arc::new(layout),
    };
    Settings {
        timing: Timing {
            min_block_production_delay: Duration::from_millis(600),
            max_block_production_delay: Duration::from_secs(2),
            max_block_wait_delay: Duration::from_secs(6),
            chunk_wait_mult: (1, 3),
            retry_period: Duration::from_millis(400),
        },
        limits: Limits::of_chain(&genesis),
        validator: index.map(|index| (nodes[index].clone(), key_of(nodes[index].as_str()))),
        tracked: vec![index.is_none(); 2],
        genesis: Arc::new(genesis),
    }
}

/// A node, and what must hold of it after each event.
struct Checked {
    node: Node,
    elapsed: Duration,
}

impl Checked {
    fn new(settings: Settings) -> Self {
        Self { node: Node::new(settings), elapsed: Duration::ZERO }
    }

    fn height(&self) -> u64 {
        self.node.stats().head_height
    }

    /// Handles an event and the jobs that come of it; what else it wants done.
    fn handle(&mut self, event: Event) -> Vec<Effect> {
        let mut events = VecDeque::from([event]);
        let mut others = Vec::new();
        for _ in 0..EVENTS_MAX {
            let Some(event) = events.pop_front() else { return others };
            for effect in self.handle_one(event) {
                match effect {
                    Effect::Run(job) => events.push_back(Event::Job(job.run(&|| Duration::ZERO))),
                    other => others.push(other),
                }
            }
        }
        assert!(events.is_empty(), "jobs make jobs for ever");
        others
    }

    fn handle_one(&mut self, event: Event) -> Vec<Effect> {
        let before = self.height();
        let unix_ns = 1_000_000_000 + self.elapsed.as_nanos() as u64;
        let effects = self.node.handle(event, Now { elapsed: self.elapsed, unix_ns });
        let stats = self.node.stats();
        assert!(stats.head_height >= before, "the head goes back");
        assert!(stats.final_height <= stats.head_height);
        assert_eq!(self.node.view().head.block.height(), stats.head_height);
        assert!(effects.len() <= EFFECTS_MAX, "{} effects of one event", effects.len());
        effects
    }
}

/// A node without others.
pub(in crate::targets) struct Alone(Checked);

impl Alone {
    pub(in crate::targets) fn new(settings: Settings) -> Self {
        Self(Checked::new(settings))
    }

    pub(in crate::targets) fn height(&self) -> u64 {
        self.0.height()
    }

    /// Wakes it so many times, when it asks for it or a tenth of a second later.
    pub(in crate::targets) fn run(&mut self, times: usize) {
        for _ in 0..times {
            let at = self.0.node.next_deadline();
            self.0.elapsed = at.clamp(self.0.elapsed, self.0.elapsed + TENTH);
            self.0.handle(Event::Tick);
        }
    }
}

/// The chain of two validators. The first is the one under test.
pub(super) struct Pair {
    nodes: [Checked; 2],
    connection: u64,
}

impl Pair {
    /// After some blocks.
    pub(super) fn begun() -> Self {
        let node = |index| Checked::new(settings(Some(index)));
        let mut pair = Self { nodes: [node(0), node(1)], connection: 1 };
        for index in 0..2 {
            pair.nodes[index].handle(up(1 - index, 1));
        }
        let stranger =
            Event::PeerUp { peer: peer(7), connection: 1, account: None, is_configured: false, height: 0 };
        pair.nodes[0].handle(stranger);
        pair.run_both(30);
        assert!(pair.height() >= 3, "{}", pair.height());
        pair
    }

    pub(super) fn height(&self) -> u64 {
        self.nodes[0].height()
    }

    /// Says something to the node under test.
    pub(super) fn tell(&mut self, event: Event) -> Vec<Effect> {
        self.nodes[0].handle(event)
    }

    /// Time passes, in which the other node is silent.
    pub(super) fn pass_tenths(&mut self, tenths: u32) {
        for _ in 0..tenths {
            self.nodes[0].elapsed += TENTH;
            self.nodes[0].handle(Event::Tick);
        }
    }

    /// The other node goes and comes back.
    pub(super) fn reconnect(&mut self) {
        let down = Event::PeerDown { peer: peer(1), connection: self.connection };
        self.nodes[0].handle(down);
        self.connection += 1;
        self.nodes[0].handle(up(1, self.connection));
    }

    /// Both run for so many tenths of a second.
    pub(super) fn run_both(&mut self, tenths: usize) {
        self.converse(tenths, true);
    }

    /// What the other node says in so many tenths of a second.
    pub(super) fn listen(&mut self, tenths: usize) -> Vec<Message> {
        self.converse(tenths, false)
    }

    /// Messages of the second node; where they do not arrive, the first cannot answer them.
    fn converse(&mut self, tenths: usize, arrive: bool) -> Vec<Message> {
        let mut said = Vec::new();
        for _ in 0..tenths {
            let mut events = VecDeque::new();
            for (index, node) in self.nodes.iter_mut().enumerate() {
                node.elapsed += TENTH;
                events.push_back((index, Event::Tick));
            }
            for _ in 0..EVENTS_MAX {
                let Some((index, event)) = events.pop_front() else { break };
                for effect in self.nodes[index].handle(event) {
                    let Effect::Send { to, message } = effect else { continue };
                    if !is_for(&to, 1 - index) {
                        continue;
                    }
                    if index == 1 {
                        said.push(message.clone());
                    }
                    if index == 0 || arrive {
                        events.push_back((1 - index, Event::Peer { from: peer(index), message }));
                    }
                }
            }
            assert!(events.is_empty(), "messages make messages for ever");
        }
        said
    }
}

/// The other validator, or one who proved nothing.
pub(super) fn sender(is_stranger: bool) -> PublicKey {
    if is_stranger { peer(7) } else { peer(1) }
}

fn up(index: usize, connection: u64) -> Event {
    Event::PeerUp {
        peer: peer(index),
        connection,
        account: Some(id(&format!("node{index}"))),
        is_configured: true,
        height: 0,
    }
}

fn is_for(to: &To, index: usize) -> bool {
    match to {
        To::All | To::Validators => true,
        To::Validator(account) => account.as_str() == format!("node{index}"),
        To::Peer(key) => *key == peer(index),
        To::Peers(keys) => keys.contains(&peer(index)),
    }
}
