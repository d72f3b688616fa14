use proptest::prelude::*;
use tpsctl_near::{Action, KeyPair, Transaction};

use super::*;
use crate::core::{Chunk, ChunkBody, ChunkHeader, Genesis, tree::Tree};

const BALANCE: u128 = 10_u128.pow(22);
const UNIT: u64 = tpsctl_near::TRANSFER_GAS_UNIT;

fn user(shard: usize, number: u8) -> AccountId {
    let prefix = if shard == 0 { "000" } else { "a01" };
    format!("{prefix}_user_{number}").parse().expect("id")
}

fn key(id: &AccountId) -> KeyPair {
    KeyPair::from_seed(CryptoHash::of(id.as_str().as_bytes()).0)
}

/// One transfer of a random workload. Receivers may be missing, implicit, or the signer.
#[derive(Debug, Clone)]
struct Order {
    signer: (usize, u8),
    receiver: u8,
    nonce: u64,
    deposit: u128,
}

fn order() -> impl Strategy<Value = Order> {
    (0_usize..2, 0_u8..4, 0_u8..12, 1_u64..40, 0_u128..BALANCE / 3).prop_map(
        |(shard, number, receiver, nonce, deposit)| Order {
            signer: (shard, number),
            receiver,
            nonce,
            deposit,
        },
    )
}

fn transaction(order: &Order) -> SignedTransaction {
    let signer_id = user(order.signer.0, order.signer.1);
    let key = key(&signer_id);
    let receiver_id = match order.receiver {
        own @ 0..4 => user(0, own),
        own @ 4..8 => user(1, own - 4),
        8 => "nobody".parse().expect("id"),
        9 => "0a".repeat(32).parse().expect("id"),
        10 => "f0".repeat(32).parse().expect("id"),
        _ => signer_id.clone(),
    };
    Transaction {
        signer_id,
        public_key: key.public(),
        nonce: order.nonce,
        receiver_id,
        block_hash: CryptoHash::default(),
        actions: vec![Action::Transfer { deposit: order.deposit }],
    }
    .sign(&key)
}

fn chunk(transactions: &[SignedTransaction], receipts: Vec<Vec<u8>>) -> ArcChunk {
    let body = ChunkBody { transactions: list_bytes(transactions), receipts };
    let header = ChunkHeader {
        shard_id: 0,
        height_created: 0,
        prev_block_hash: CryptoHash::default(),
        prev_state_root: CryptoHash::default(),
        prev_gas_used: 0,
        prev_balance_burnt: 0,
        delayed_count: 0,
        delayed_gas: 0,
        tx_root: body.tx_root(),
        receipts_root: receipts_root(&body.receipts),
        encoded_length: body.encoded_length(),
        gas_limit: 0,
    };
    Arc::new(Chunk::sign(header, body, &KeyPair::from_seed([1; 32])))
}

fn amounts(state: &ShardState) -> u128 {
    state.tree().accounts().iter().map(|account| account.amount).sum()
}

fn in_flight(groups: &[Vec<u8>]) -> u128 {
    let receipts = groups.iter().flat_map(|group| read_list::<Receipt>(group).expect("own bytes"));
    receipts.map(|receipt| receipt.value()).sum()
}

/// Two shards, chunk after chunk; a shard may miss its turn.
struct World {
    layout: Arc<ShardLayout>,
    states: Vec<ShardState>,
    /// Receipts that the shard's last chunk made, not carried yet.
    made: Vec<Vec<Vec<u8>>>,
    /// Chunks not applied yet, by receiving shard.
    incoming: Vec<Vec<ArcChunk>>,
    burnt: u128,
    gas: u64,
}

impl World {
    fn new() -> Self {
        let layout =
            Arc::new(ShardLayout::new(vec!["a01".parse().expect("id")], vec![0, 1]).expect("layout"));
        let users: Vec<AccountId> = (0..2).flat_map(|s| (0..4).map(move |u| user(s, u))).collect();
        let accounts: Vec<_> = users.iter().map(|id| (id.clone(), BALANCE, 0)).collect();
        let keys: Vec<_> = users.iter().map(|id| (id.clone(), key(id).public(), 0)).collect();
        let states = Genesis::states_of(&layout, accounts, keys);
        Self {
            layout,
            states: states.iter().map(|state| (**state).clone()).collect(),
            made: vec![vec![Vec::new(); 2]; 2],
            incoming: vec![Vec::new(); 2],
            burnt: 0,
            gas: 0,
        }
    }

    fn total(&self) -> u128 {
        let states: u128 = self.states.iter().map(amounts).sum();
        let made: u128 = self.made.iter().map(|groups| in_flight(groups)).sum();
        let delayed = self.states.iter().flat_map(|state| state.delayed().iter()).map(Receipt::value);
        let carried = self.incoming.iter().enumerate().flat_map(|(shard, chunks)| {
            chunks.iter().map(move |chunk| in_flight(&chunk.body().receipts[shard..=shard]))
        });
        states + made + delayed.sum::<u128>() + carried.sum::<u128>() + self.burnt
    }

    fn step(&mut self, height: u64, orders: &[Order], taking: [bool; 2], (price, limit): (u128, u64)) {
        let chunks: Vec<Option<ArcChunk>> = (0..2)
            .map(|shard| {
                let own = orders.iter().filter(|order| order.signer.0 == shard);
                let transactions: Vec<_> = own.map(transaction).collect();
                let made = || std::mem::replace(&mut self.made[shard], vec![Vec::new(); 2]);
                taking[shard].then(made).map(|receipts| chunk(&transactions, receipts))
            })
            .collect();
        for shard in 0..2 {
            self.incoming[shard].extend(chunks.iter().flatten().cloned());
        }
        for (shard, chunk) in chunks.iter().enumerate() {
            let Some(chunk) = chunk else { continue };
            let input = ApplyInput {
                layout: Arc::clone(&self.layout),
                shard,
                height,
                gas_price: price,
                gas_limit: limit,
                chunk: Arc::clone(chunk),
                incoming: std::mem::take(&mut self.incoming[shard]),
                watch: Arc::default(),
                wants_keys: false,
            };
            let pre = &self.states[shard];
            let outcome = apply(pre, &input).expect("whole state");
            let again = apply(pre, &input).expect("whole state");
            assert_eq!(again.post.root(), outcome.post.root());
            self.check_witness(shard, &input, &outcome);
            self.burnt += outcome.balance_burnt;
            self.gas += outcome.gas_used;
            self.made[shard] = outcome.outgoing;
            self.states[shard] = outcome.post;
        }
    }

    fn check_witness(&self, shard: usize, input: &ApplyInput, outcome: &Outcome) {
        let pre = &self.states[shard];
        let bytes = borsh::to_vec(&pre.tree().prune(&outcome.touched)).expect("memory");
        let tree: Tree = borsh::from_slice(&bytes).expect("own bytes");
        let witness = ShardState::new(tree, Arc::clone(pre.delayed()));
        assert_eq!(witness.root(), pre.root());
        let again = apply(&witness, input).expect("the witness suffices");
        assert_eq!(again.post.root(), outcome.post.root());
        assert_eq!((again.gas_used, again.balance_burnt), (outcome.gas_used, outcome.balance_burnt));
        assert_eq!(again.receipts_root, outcome.receipts_root);
        assert_eq!(again.touched, outcome.touched);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn balances_are_conserved(
        rounds in proptest::collection::vec((proptest::collection::vec(order(), 0..12), any::<[bool; 2]>()), 1..8),
        is_cheap in any::<bool>(),
        limit in 1_u64..30,
    ) {
        let price = if is_cheap { 100_000_000 } else { 1_500_000_000 };
        let mut world = World::new();
        let total = world.total();
        let mut height = 0;
        for (orders, taking) in &rounds {
            height += 1;
            world.step(height, orders, *taking, (price, limit * UNIT));
            prop_assert_eq!(world.total(), total);
        }
        // With no more load everything settles, whatever the gas limit.
        for _ in 0..120 {
            height += 1;
            world.step(height, &[], [true; 2], (price, limit * UNIT));
        }
        prop_assert_eq!(world.total(), total);
        prop_assert_eq!(world.states.iter().map(amounts).sum::<u128>() + world.burnt, total);
        prop_assert_eq!(world.gas % UNIT, 0);
    }
}

#[test]
fn beyond_the_gas_limit_receipts_wait_in_order() {
    let mut world = World::new();
    let orders: Vec<Order> =
        (1..=6).map(|nonce| Order { signer: (0, 0), receiver: 5, nonce, deposit: 1 }).collect();
    world.step(1, &orders, [true; 2], (1_000_000_000, 2 * UNIT));
    world.step(2, &[], [true; 2], (1_000_000_000, 2 * UNIT));
    assert_eq!(world.states[1].delayed_count(), 4);
    world.step(3, &[], [true; 2], (1_000_000_000, 2 * UNIT));
    assert_eq!(world.states[1].delayed_count(), 2);
    let nonces: Vec<u64> = world.states[1].delayed().iter().map(|receipt| receipt.nonce).collect();
    assert_eq!(nonces, [5, 6]);
    world.step(4, &[], [true; 2], (1_000_000_000, 2 * UNIT));
    assert_eq!(world.gas, 12 * UNIT);
    assert_eq!(world.states[1].account(&user(1, 1)).expect("there").amount, BALANCE + 6);
}

#[test]
fn what_cannot_be_paid_or_was_used_changes_nothing() {
    let mut world = World::new();
    let root = world.states[0].root();
    let over = Order { signer: (0, 0), receiver: 1, nonce: 1, deposit: BALANCE };
    let stale = Order { signer: (0, 0), receiver: 1, nonce: 0, deposit: 1 };
    let far = Order { signer: (0, 0), receiver: 1, nonce: 1_000_000, deposit: 1 };
    world.step(1, &[over, stale, far], [true; 2], (1_000_000_000, 100 * UNIT));
    assert_eq!(world.states[0].root(), root);
    assert_eq!((world.gas, world.burnt), (0, 0));
}
