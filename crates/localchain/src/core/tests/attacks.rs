//! What strangers send, and what one validator says, must not harm the chain.

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use tpsctl_near::{CryptoHash, KeyPair};

use super::fixture::{Net, genesis, key_of};
use crate::core::{
    Block, BlockRef, BlocksPage, ChunkHeader, Effect, Event, Message, Now, SignedChunkHeader,
    witness::Witness,
};

const SECOND: Duration = Duration::from_secs(1);

fn stranger_key() -> KeyPair {
    KeyPair::from_seed([201; 32])
}

/// All went on as if nothing had been said: blocks without skips, chunks without misses.
fn assert_healthy(net: &mut Net, blocks: u64) {
    let before = net.watcher().stats().head_height;
    net.run(20 * SECOND);
    let head = net.watcher().stats().head_height;
    assert!(head >= before + blocks, "{head} after {before}");
    assert_eq!(net.missed(), 0);
    for index in 0..net.slots.len() {
        let stats = net.node(index).stats();
        assert!(!stats.is_syncing && stats.invalid_witnesses == 0, "{stats:?}");
        assert!(stats.head_height + 1 >= head, "node {index}");
        assert_eq!(net.slots[index].too_far_behind, None);
    }
}

fn header(height_created: u64, shard_id: u64) -> ChunkHeader {
    ChunkHeader {
        shard_id,
        height_created,
        prev_block_hash: CryptoHash([3; 32]),
        prev_state_root: CryptoHash::default(),
        prev_gas_used: 0,
        prev_balance_burnt: 0,
        delayed_count: 0,
        delayed_gas: 0,
        tx_root: CryptoHash::default(),
        receipts_root: CryptoHash::default(),
        encoded_length: 0,
        gas_limit: 0,
    }
}

#[test]
fn unsigned_witnesses_of_far_heights_are_not_kept() {
    let mut net = Net::new(genesis(4, 2, 4), 30);
    net.run(5 * SECOND);
    let key = stranger_key();
    let head = net.watcher().stats().head_height;
    for index in 0..4 {
        let from = net.stranger(index, 0);
        for turn in 0..60 {
            let height = if turn < 40 { u64::MAX - 1 - turn } else { head + 1 + turn / 10 };
            let header = header(height, turn % 2);
            let signed = SignedChunkHeader { signature: key.sign(&header.hash().0), header };
            net.tell(index, from, &Message::Witness(Arc::new(Witness::new(signed, None, &key))));
        }
    }
    assert_healthy(&mut net, 25);
}

/// Witnesses on their way, with the node that they go to.
type Seen = Rc<RefCell<Vec<(usize, Arc<Witness>)>>>;

#[test]
fn a_witness_put_under_a_true_chunk_is_not_taken_for_its_producers() {
    let mut net = Net::new(genesis(4, 2, 4), 31);
    let seen: Seen = Rc::default();
    let sink = Rc::clone(&seen);
    net.cut = Box::new(move |_, to, message| {
        let Message::Witness(witness) = message else { return false };
        sink.borrow_mut().push((to, Arc::clone(witness)));
        true
    });
    let from = net.stranger(0, 0);
    net.random_transfers(2, 4, 20);
    let mut forged = 0;
    for _ in 0..1_000 {
        net.run(Duration::from_millis(10));
        for (to, witness) in seen.take() {
            forged += 1;
            // The forged one is there first; then comes the true one.
            let other = Witness::new(witness.signed.clone(), None, &stranger_key());
            net.tell(to, from, &Message::Witness(Arc::new(other)));
            net.tell(to, from, &Message::Witness(witness));
        }
    }
    net.cut = Box::new(|_, _, _| false);
    assert!(forged > 10, "{forged}");
    assert_healthy(&mut net, 25);
}

#[test]
fn orphans_not_signed_by_their_heights_producer_are_not_kept() {
    let mut net = Net::new(genesis(4, 2, 4), 32);
    net.run(5 * SECOND);
    let head = Arc::clone(net.watcher().block(BlockRef::Head).expect("head"));
    let from = net.stranger(0, 0);
    for turn in 0..300 {
        let height = if turn % 2 == 0 { head.height() + 2 + turn } else { u64::MAX - turn };
        let header = crate::core::BlockHeader {
            height,
            prev_hash: CryptoHash([7; 32]),
            ordinal: turn,
            ..head.header.clone()
        };
        net.tell(0, from, &Message::Block(Arc::new(Block::sign(header, &stranger_key()))));
    }
    net.run(Duration::from_millis(1));
    assert_eq!(net.node(0).orphans(), 0);
    assert_healthy(&mut net, 25);
}

#[test]
fn a_producers_orphan_of_the_wrong_shape_is_not_kept() {
    let mut net = Net::new(genesis(4, 2, 4), 33);
    net.run(5 * SECOND);
    let head = Arc::clone(net.watcher().block(BlockRef::Head).expect("head"));
    let from = net.stranger(0, 0);
    let height = head.height() + 9;
    let producer = net.node(0).assignment().block_producer(height);
    let author = net.node(0).assignment().validators()[producer].account_id.clone();
    let key = key_of(&author);
    let good =
        crate::core::BlockHeader { height, author, prev_hash: CryptoHash([7; 32]), ..head.header.clone() };
    let long = crate::core::BlockHeader { endorsements: vec![vec![0; 1_000_000]; 2], ..good.clone() };
    net.tell(0, from, &Message::Block(Arc::new(Block::sign(long, &key))));
    net.run(Duration::from_millis(1));
    assert_eq!(net.node(0).orphans(), 0);
    net.tell(0, from, &Message::Block(Arc::new(Block::sign(good, &key))));
    net.run(Duration::from_millis(1));
    assert_eq!(net.node(0).orphans(), 1, "its producer's word that the chain is there");
}

fn page(height: u64) -> Message {
    let page =
        BlocksPage { blocks: Vec::new(), chunks: Vec::new(), head_height: height, earliest_height: height };
    Message::Blocks(page)
}

#[test]
fn strangers_heads_and_pages_have_no_weight() {
    let mut net = Net::new(genesis(4, 2, 4), 34);
    net.run(5 * SECOND);
    for index in 0..5 {
        let from = net.stranger(index, u64::MAX);
        for height in [u64::MAX, 1 << 63, 1_000] {
            net.tell(index, from, &Message::Head { height });
            net.tell(index, from, &page(height));
        }
    }
    assert_healthy(&mut net, 25);
}

#[test]
fn one_validators_word_ends_no_node() {
    let mut net = Net::new(genesis(4, 2, 4), 35);
    net.run(5 * SECOND);
    let liar = net.slots[1].peer;
    for _ in 0..5 {
        for index in [0, 2, 3, 4] {
            // Not asked.
            net.tell(index, liar, &page(1 << 63));
            net.tell(index, liar, &Message::Head { height: u64::MAX });
        }
        net.run(Duration::from_micros(100));
        for index in [0, 2, 3, 4] {
            // Asked, for it said to be ahead.
            net.tell(index, liar, &page(1 << 63));
        }
        net.run(SECOND);
    }
    assert_healthy(&mut net, 20);
}

#[test]
fn pages_for_strangers_are_bounded() {
    let mut net = Net::new(genesis(1, 1, 1), 36);
    net.run(5 * SECOND);
    let from = net.stranger(0, 0);
    let validator = net.slots[0].peer;
    net.run(Duration::from_millis(1));
    let mut ask = |elapsed: Duration| {
        let node = net.slots[0].node.as_mut().expect("running");
        let request = || Event::Peer { from, message: Message::BlocksRequest { from_height: 1 } };
        let now = Now { elapsed, unix_ns: 0 };
        let is_page = |effect: &Effect| matches!(effect, Effect::Send { message: Message::Blocks(_), .. });
        (0..3_000).filter(|_| node.handle(request(), now).iter().any(is_page)).count()
    };
    assert_ne!(from, validator);
    let first = ask(Duration::from_millis(5_100));
    assert!(first > 100 && first < 2_000, "{first}");
    assert_eq!(ask(Duration::from_millis(5_200)), 0);
    assert!(ask(Duration::from_millis(6_100)) > 100, "another second");
}
