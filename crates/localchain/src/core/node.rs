//! The node: one owner of all state, fed with events.

mod blocks;
mod chunks;
mod counted;
mod lookup;
mod orphans;
mod produce;
mod recheck;
mod relays;
mod sync;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tpsctl_near::{AccountId, CryptoHash, KeyPair, PublicKey};

pub use self::lookup::{ChunkRef, FoundChunk, NoChunk};
use self::{blocks::Processing, chunks::ChunkStore, orphans::Orphans, sync::Sync};
use super::{
    ApplyReason, Assignment, Block, BlockRef, Genesis, Insertion, Job, JobResult, Message, Now, Observation,
    Settings, Stats, Tuning, VerifiedTransaction, View, chain::Chain, doomslug::Doomslug, job::Finished,
    outcomes::Outcomes, pool::Pool, relay::Relay, stats::OBSERVATIONS_MAX, tally::Tallies, types::ArcBlock,
    witness::ValidationReport,
};

/// Blocks and chunks this far above the head are not looked at: pages bring them in their turn.
const HEIGHTS_AHEAD_MAX: u64 = 1_000;

/// Something happened.
#[derive(Debug)]
pub enum Event {
    /// Time passed; see [`Node::next_deadline`].
    Tick,
    /// Transactions for pools. Those of shards that the node does not produce are ignored.
    Transactions(Vec<Arc<VerifiedTransaction>>),
    /// A peer said something.
    Peer {
        /// Its key.
        from: PublicKey,
        /// What.
        message: Message,
    },
    /// A connection to a node was made.
    PeerUp {
        /// Its key.
        peer: PublicKey,
        /// The connection's number, above those before it.
        connection: u64,
        /// The validator's account, where it proved to be that validator's node. Others are heard, but not believed.
        account: Option<AccountId>,
        /// Whether it stands in the configuration: then it may pass messages on, as validators' nodes may.
        is_configured: bool,
        /// What it says of its head.
        height: u64,
    },
    /// The connection ended.
    PeerDown {
        /// Its key.
        peer: PublicKey,
        /// The connection's number.
        connection: u64,
    },
    /// A job is done.
    Job(JobResult),
    /// Delays and time limits change.
    Tune(Tuning),
    /// Somebody wants to know what becomes of a transaction; see [`Node::transaction`].
    Watch {
        /// Its signer.
        signer: AccountId,
        /// Its nonce.
        nonce: u64,
    },
}

/// To whom a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum To {
    /// Every connected node.
    All,
    /// Every connected node that proved to be a validator's.
    Validators,
    /// The node of a validator.
    Validator(AccountId),
    /// A node by its key.
    Peer(PublicKey),
    /// Nodes by their keys.
    Peers(Vec<PublicKey>),
}

/// What the shell is to do.
#[derive(Debug)]
pub enum Effect {
    /// Send.
    Send {
        /// To whom.
        to: To,
        /// What.
        message: Message,
    },
    /// Run, and bring the result back.
    Run(Job),
    /// A block was accepted: for peers that are no nodes.
    Accepted(ArcBlock),
    /// Stop: the peers no longer have the blocks that this node lacks.
    TooFarBehind {
        /// The first block lacking.
        needed: u64,
        /// The first that a peer has.
        earliest: u64,
    },
}

struct Me {
    account: AccountId,
    index: usize,
    key: KeyPair,
}

/// What a node is on its chain.
struct Roles {
    assignment: Assignment,
    me: Option<Me>,
    tracked: Vec<bool>,
}

impl Roles {
    fn of(genesis: &Genesis, validator: Option<&(AccountId, KeyPair)>, tracked: &[bool]) -> Self {
        let seed = genesis.block().hash();
        let ids = genesis.layout.shard_ids();
        let assignment = Assignment::new(&genesis.validators, ids, genesis.seats, seed);
        let me = validator.and_then(|(account, key)| {
            let index = assignment.index_of(account)?;
            let is_ours = assignment.validators()[index].public_key == key.public();
            is_ours.then(|| Me { account: account.clone(), index, key: key.clone() })
        });
        let produces =
            |shard: usize| me.as_ref().is_some_and(|me| assignment.producers(shard).contains(&me.index));
        let tracked = (0..ids.len()).map(|shard| tracked[shard] || produces(shard)).collect();
        Self { assignment, me, tracked }
    }
}

/// Shards whose state a node keeps, by index: those that it is told to track, and those that it produces. Only the roots
/// of genesis matter, so the states of other shards need not be there.
pub fn kept_shards(
    genesis: &Genesis,
    validator: Option<&(AccountId, KeyPair)>,
    tracked: &[bool],
) -> Vec<bool> {
    Roles::of(genesis, validator, tracked).tracked
}

/// A node without I/O and without a clock.
pub struct Node {
    settings: Settings,
    assignment: Assignment,
    me: Option<Me>,
    /// Shards whose state is kept, by index.
    tracked: Vec<bool>,
    chain: Chain,
    doomslug: Doomslug,
    pools: BTreeMap<usize, Pool>,
    chunks: ChunkStore,
    processing: BTreeMap<CryptoHash, Processing>,
    orphans: Orphans,
    relay: Relay,
    /// Blocks whose parent has just been accepted.
    unblocked: VecDeque<ArcBlock>,
    sync: Sync,
    /// The height that this node can make a block for, the parent, and since when.
    ready_since: Option<(u64, CryptoHash, Duration)>,
    largest_made: u64,
    outcomes: Outcomes,
    tallies: Tallies,
    stats: Stats,
    observations: Vec<Observation>,
    view: Arc<View>,
    is_view_new: bool,
    effects: Vec<Effect>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("me", &self.me.as_ref().map(|me| &me.account)).finish_non_exhaustive()
    }
}

impl Node {
    /// A node at genesis, at time zero.
    pub fn new(settings: Settings) -> Self {
        let genesis = &settings.genesis;
        let ids = genesis.layout.shard_ids();
        let Roles { assignment, me, tracked } =
            Roles::of(genesis, settings.validator.as_ref(), &settings.tracked);
        let produces =
            |shard: usize| me.as_ref().is_some_and(|me| assignment.producers(shard).contains(&me.index));
        let pool = |shard| (shard, Pool::new(settings.limits.pool_bytes));
        let pools: BTreeMap<usize, Pool> =
            (0..ids.len()).filter(|shard| produces(*shard)).map(pool).collect();
        let chain = Chain::new(genesis, &tracked);
        let head = Arc::clone(chain.head());
        let stats = Stats::new(ids.len());
        let tallies = Tallies::new(&assignment, ids.len(), genesis.height + 1);
        let kept = (false, tallies.clone(), Arc::default());
        let view = Arc::new(Self::make_view(&settings, &chain, &assignment, &pools, kept));
        let mut node = Self {
            doomslug: Doomslug::new(settings.timing, head.height(), head.hash()),
            chunks: ChunkStore::default(),
            processing: BTreeMap::new(),
            orphans: Orphans::default(),
            relay: Relay::new(assignment.validators().len(), me.as_ref().map(|me| me.index)),
            unblocked: VecDeque::new(),
            sync: Sync::default(),
            ready_since: None,
            largest_made: head.height(),
            outcomes: Outcomes::new(settings.limits.keeps_outcomes, settings.limits.kept_outcomes),
            observations: Vec::new(),
            is_view_new: true,
            effects: Vec::new(),
            settings,
            assignment,
            me,
            tracked,
            chain,
            pools,
            tallies,
            stats,
            view,
        };
        node.start_chunks();
        node.refresh_stats();
        node
    }

    /// Takes an event and says what is to be done.
    pub fn handle(&mut self, event: Event, now: Now) -> Vec<Effect> {
        match event {
            Event::Tick => {}
            Event::Transactions(transactions) => self.add_transactions(transactions),
            Event::Peer { from, message } => self.on_message(from, message, now),
            Event::PeerUp { peer, connection, account, is_configured, height } => {
                self.peer_up((peer, connection), account.as_ref(), height);
                self.relay_up((peer, connection), account.as_ref(), is_configured, now);
            }
            Event::PeerDown { peer, connection } => {
                self.peer_down(&peer, connection);
                self.relay.down(&peer, connection, now.elapsed);
            }
            Event::Job(JobResult(finished)) => self.on_finished(finished, now),
            Event::Tune(Tuning { timing, prepare_time }) => {
                self.settings.timing = timing;
                self.settings.limits.prepare_time = prepare_time;
                self.doomslug.retime(timing);
            }
            Event::Watch { signer, nonce } => self.outcomes.add_watch((signer, nonce), now.elapsed),
        }
        while let Some(block) = self.unblocked.pop_front() {
            self.begin(&block, None, now);
        }
        self.poll(now);
        self.refresh_stats();
        std::mem::take(&mut self.effects)
    }

    fn on_message(&mut self, from: PublicKey, message: Message, now: Now) {
        match message {
            Message::Block(block) => {
                self.on_block(&block, from, now);
            }
            Message::Chunk(chunk) => self.on_chunk(&chunk, Some(from), now),
            Message::Witness(witness) => self.on_witness(witness),
            Message::Endorsement(endorsement) => self.on_endorsement(&endorsement),
            Message::Approval(approval) => self.on_approval(approval),
            Message::Head { height } => self.heard(&from, height, now),
            Message::BlocksRequest { from_height } => self.serve_page(from, from_height, now),
            Message::Blocks(page) => self.on_page(from, page, now),
            Message::ChunkRequest { chunk_hash } => self.serve_chunk(from, &chunk_hash, now),
            Message::Reach { distances } => self.relay.heard(&from, distances),
            Message::Routed(routed) => self.on_routed(from, routed, now),
            // Forwarded transactions go through admission, outside.
            Message::Transactions(_) => {}
        }
    }

    fn on_finished(&mut self, finished: Finished, now: Now) {
        match finished {
            Finished::Applied { block, shard, pre, outcome, time } => {
                self.observe(Observation::Applied { shard, reason: ApplyReason::UpdateShard, time });
                self.on_applied(block, shard, (pre, outcome), now);
            }
            Finished::Produced(produced) => self.on_produced(*produced, now),
            Finished::Validated { chunk, shard, report } => {
                self.note_validation(shard, &report);
                self.on_validated(chunk, shard, report.verdict);
            }
            Finished::Rechecked { shard, refused } => self.on_rechecked(shard, &refused),
        }
    }

    /// Everything that time alone brings about.
    fn poll(&mut self, now: Now) {
        let was_syncing = self.view.is_syncing;
        self.poll_sync(now);
        self.poll_start(now);
        self.poll_relay(now);
        self.ask_for_missing(now);
        if self.is_behind() || !self.sync.is_started {
            // A node that is behind neither approves nor produces; its timers start anew with its next head.
            self.ready_since = None;
        } else {
            self.poll_approvals(now);
            self.make_block_if_due(now);
        }
        if was_syncing != self.is_behind() {
            self.renew_view();
        }
    }

    fn add_transactions(&mut self, transactions: Vec<Arc<VerifiedTransaction>>) {
        for transaction in transactions {
            let shard = self.settings.genesis.layout.index_of(&transaction.signed().transaction.signer_id);
            if let Some(pool) = self.pools.get_mut(&shard) {
                let insertion = pool.insert(transaction);
                self.stats.received += u64::from(insertion != Insertion::Duplicate);
                self.stats.pool_dropped += u64::from(insertion == Insertion::NoSpaceLeft);
            }
        }
    }

    fn send(&mut self, to: To, message: Message) {
        self.effects.push(Effect::Send { to, message });
    }

    /// When the node wants to be woken at the latest.
    pub fn next_deadline(&self) -> Duration {
        let mut at = self.doomslug.next_deadline();
        if let Some((target, _, since)) = self.ready_since {
            at = at.min(since + self.doomslug.chunk_wait(target));
        }
        let retries = self.processing.values().filter(|own| !own.missing.is_empty()).map(|own| own.asked_at);
        let retries = retries.chain(self.sync.asked_at());
        let retries = retries.map(|asked| asked + self.settings.timing.retry_period);
        retries.chain(self.relay.next_deadline()).fold(at, Duration::min)
    }

    /// The picture of the chain, if it changed since the last call.
    pub fn take_view(&mut self) -> Option<Arc<View>> {
        std::mem::take(&mut self.is_view_new).then(|| Arc::clone(&self.view))
    }

    /// The picture of the chain.
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// A block, if kept.
    pub fn block(&self, at: BlockRef) -> Option<&Arc<Block>> {
        self.chain.block(at)
    }

    /// What is kept of a block and the states after it.
    pub fn snapshot(&self, at: BlockRef) -> Option<super::Snapshot> {
        self.chain.snapshot(at)
    }

    /// The genesis block.
    pub fn genesis_block(&self) -> &Arc<Block> {
        self.chain.genesis()
    }

    /// Roles on this chain.
    pub fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    /// The validator account that this node acts for.
    pub fn account(&self) -> Option<&AccountId> {
        self.me.as_ref().map(|me| &me.account)
    }

    /// Shards whose state the node keeps, by index.
    pub fn tracked(&self) -> &[bool] {
        &self.tracked
    }

    /// Numbers since the start.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Blocks that wait for their parents.
    #[cfg(test)]
    pub(super) fn orphans(&self) -> usize {
        self.orphans.len()
    }

    /// What happened since the last call.
    pub fn take_observations(&mut self) -> Vec<Observation> {
        std::mem::take(&mut self.observations)
    }

    /// Where nobody takes them, later ones are lost.
    fn observe(&mut self, observation: Observation) {
        if self.observations.len() < OBSERVATIONS_MAX {
            self.observations.push(observation);
        }
    }

    fn note_validation(&mut self, shard: usize, report: &ValidationReport) {
        if let Some((executed, time)) = &report.executed {
            self.stats.executed(shard, executed);
            self.observe(Observation::Applied { shard, reason: ApplyReason::ValidateChunk, time: *time });
        }
        if let Some(time) = report.time {
            self.observe(Observation::Validated { shard, time });
        }
    }

    fn refresh_stats(&mut self) {
        self.stats.head_height = self.chain.head().height();
        self.stats.final_height = self.chain.final_height();
        self.stats.is_syncing = self.view.is_syncing;
        for (shard, pool) in &self.pools {
            let own = &mut self.stats.shards[*shard];
            own.pool_entries = Some(pool.len());
            own.pool_bytes = pool.bytes();
        }
    }
}

/// What is kept, for the test of bounds: names and numbers.
#[cfg(test)]
impl Node {
    pub(super) fn kept(&self) -> BTreeMap<&'static str, usize> {
        let own = [
            ("orphans", self.orphans.len()),
            ("blocks in work", self.processing.len()),
            ("observations", self.observations.len()),
            ("approvals", self.doomslug.kept()),
            ("pooled", self.pools.values().map(|pool| pool.len() as usize).sum()),
            ("epochs", self.tallies.kept()),
            ("neighbours", self.relay.kept()),
        ];
        let own = own.into_iter().chain(self.outcomes.kept());
        own.chain(self.chain.kept()).chain(self.chunks.kept()).collect()
    }
}
