//! What nodes count is what the blocks say, as often as neard counts it.

use std::{sync::Arc, time::Duration};

use tpsctl_near::{CryptoHash, TRANSFER_GAS_UNIT};

use super::fixture::{Net, genesis, transfer, user};
use crate::core::{ApplyReason, Block, Event, Limits, Now, Observation, Stats, VerifiedTransaction};

const SECOND: Duration = Duration::from_secs(1);
const SHARDS: usize = 3;

fn observations(net: &mut Net, index: usize) -> Vec<Observation> {
    net.slots[index].node.as_mut().expect("running").take_observations()
}

fn count(observations: &[Observation], is_meant: impl Fn(&Observation) -> bool) -> u64 {
    observations.iter().filter(|own| is_meant(own)).count() as u64
}

/// Height and shard of the chunks with transactions.
fn loaded_chunks(blocks: &[Arc<Block>]) -> Vec<(u64, usize)> {
    let mut found = Vec::new();
    for block in blocks {
        for (shard, chunk) in block.header.chunks.iter().enumerate() {
            if block.header.chunk_mask[shard] && chunk.signed.header.tx_root != CryptoHash::default() {
                found.push((block.height(), shard));
            }
        }
    }
    found
}

/// Nodes that execute the shard's chunk of this height: those that track the shard, and the validators of its next chunk
/// that do not.
fn executions(net: &Net, height: u64, shard: usize) -> u64 {
    let assigned = &net.watcher().assignment().deal(height + 1)[shard];
    let executes = |index: &usize| {
        let node = net.node(*index);
        let me = node.account().and_then(|account| node.assignment().index_of(account));
        node.tracked()[shard] || me.is_some_and(|me| assigned.contains_key(&me))
    };
    (0..net.slots.len()).filter(executes).count() as u64
}

#[test]
fn executing_and_executing_again_both_count() {
    let mut net = Net::new(genesis(4, SHARDS, 10), 50);
    net.run(5 * SECOND);
    let mut expected = 0;
    for wave in 0..12 {
        let (shard, size) = (wave % SHARDS, 5 + wave as u64);
        let before = net.blocks().len();
        for turn in 0..size {
            net.transfer(&user(shard, turn as usize % 10), &user((shard + 1) % SHARDS, 0));
        }
        net.run(5 * SECOND);
        let [(height, at)] = loaded_chunks(&net.blocks()[before..])[..] else { panic!("one chunk has all") };
        assert_eq!(at, shard);
        expected += size * executions(&net, height, shard);
    }
    let stats: Vec<&Stats> = (0..5).map(|index| net.node(index).stats()).collect();
    let (made, converted): (u64, u64) =
        (stats.iter().map(|own| own.transactions).sum(), stats.iter().map(|own| own.converted).sum());
    let sent: u64 = (0..12).map(|wave| 5 + wave).sum();
    assert_eq!((made, converted), (expected, expected));
    assert_eq!(stats[4].transactions, sent, "who tracks all and validates nothing counts each once");
    assert!(expected > 2 * sent, "a sum over nodes is no throughput: {expected} of {sent}");
    assert_eq!(net.settled(), sent);
}

#[test]
fn blocks_chunks_and_gas_are_the_same_on_every_node() {
    let mut net = Net::new(genesis(4, SHARDS, 10), 51);
    for _ in 0..8 {
        net.random_transfers(SHARDS, 10, 40);
        net.run(2 * SECOND);
    }
    net.run(10 * SECOND);
    assert_eq!((net.settled(), net.missed()), (320, 0));
    let gas = 2 * 320 * TRANSFER_GAS_UNIT;
    let (mut blocks_made, mut chunk_transactions) = (0, 0);
    for index in 0..5 {
        let own = net.node(index).stats().clone();
        assert_eq!((own.blocks, own.chunks), (own.head_height, own.head_height * SHARDS as u64));
        assert_eq!(own.gas_used, gas, "node {index}");
        assert!(own.shards.iter().all(|shard| shard.skipped == 0));
        let seen = observations(&mut net, index);
        assert_eq!(count(&seen, |own| matches!(own, Observation::BlockProcessed { .. })), own.blocks);
        let produced = count(&seen, |own| matches!(own, Observation::ChunkProduced { .. }));
        assert_eq!(produced, own.chunks_made);
        let rejected = count(&seen, |own| matches!(own, Observation::Rejected { count: 0, .. }));
        assert_eq!(rejected, 3 * own.chunks_made, "each preparation tells each reason");
        let is_full = |own: &Observation| matches!(own, Observation::Endorsed { endorsed, total, missing: 0, .. } if endorsed == total);
        assert_eq!(count(&seen, is_full), own.blocks_made * SHARDS as u64);
        let tracked = net.node(index).tracked().iter().filter(|own| **own).count() as u64;
        let is_update =
            |own: &Observation| matches!(own, Observation::Applied { reason: ApplyReason::UpdateShard, .. });
        assert_eq!(count(&seen, is_update), own.blocks * tracked);
        blocks_made += own.blocks_made;
        chunk_transactions += own.shards.iter().map(|shard| shard.chunk_transactions).sum::<u64>();
        if index < 4 {
            let endorsements: u64 = own.shards.iter().map(|shard| shard.endorsements).sum();
            assert!(endorsements > 0 && endorsements <= own.blocks * 4, "{endorsements}");
            let is_witness = |own: &Observation| matches!(own, Observation::ChunkProduced { witness_bytes, .. } if *witness_bytes > 200);
            assert_eq!(count(&seen, is_witness), own.chunks_made, "a chunk has a witness");
            // Some were late for a block that came from elsewhere, none for all.
            assert!(count(&seen, |own| matches!(own, Observation::Validated { .. })) > 0);
        }
    }
    assert_eq!((blocks_made, chunk_transactions), (net.watcher().stats().head_height, 320));
}

#[test]
fn what_is_missed_has_its_reasons() {
    let mut net = Net::new(genesis(4, 4, 10), 52);
    net.run(5 * SECOND);
    net.slots[2].cost.each = Duration::from_millis(1_500);
    net.run(25 * SECOND);
    net.slots[2].cost.each = Duration::from_millis(2);
    net.run(20 * SECOND);
    let missed = net.missed() as u64;
    assert!(missed > 3, "{missed}");
    let watcher = net.watcher().stats();
    assert_eq!(watcher.shards.iter().map(|shard| shard.skipped).sum::<u64>(), missed);
    assert_eq!(watcher.chunks + missed, 4 * watcher.blocks);
    let mut lacking = 0;
    for index in 0..4 {
        let own = net.node(index).stats().clone();
        let excluded: u64 = own.shards.iter().map(|shard| shard.excluded_endorsement).sum();
        let seen = observations(&mut net, index);
        let is_lacking = |own: &Observation| {
            matches!(own, Observation::Endorsed { endorsed, total, missing, .. }
                if 3 * endorsed <= 2 * total && *missing > 0)
        };
        assert_eq!(count(&seen, is_lacking), excluded, "each tells how much it lacked");
        lacking += excluded;
    }
    assert!(lacking > 0);
}

#[test]
fn a_queue_shows_where_it_is_executed() {
    let mut chain = genesis(2, 2, 10);
    chain.gas_limit = 20 * TRANSFER_GAS_UNIT;
    let mut net = Net::new(chain, 53);
    for turn in 0..200 {
        net.transfer(&user(0, turn % 10), &user(1, turn % 10));
    }
    let mut highest = 0;
    for _ in 0..200 {
        net.run(SECOND / 5);
        let queue = net.watcher().stats().shards[1].queue.unwrap_or_default();
        assert_eq!(queue.gas, u128::from(queue.receipts) * u128::from(TRANSFER_GAS_UNIT));
        highest = highest.max(queue.receipts);
    }
    assert!(highest > 20, "{highest}");
    let stranger = (0..2).find(|index| !net.node(*index).tracked()[1]).expect("one of two");
    let queue = net.node(stranger).stats().shards[1].queue;
    assert!(queue.is_some(), "it executed chunks of the other shard again");
    assert_eq!(net.watcher().stats().shards[1].queue.map(|queue| queue.receipts), Some(0));
}

#[test]
fn transactions_that_are_there_already_were_not_received() {
    let chain = genesis(1, 1, 4);
    let base = chain.block().hash();
    let verified = |nonce| {
        let signed = transfer(&user(0, 0), &user(0, 1), nonce, base);
        Arc::new(VerifiedTransaction::of_signed(signed).expect("signed"))
    };
    let limits = Limits { pool_bytes: Some(verified(1).size() * 2), ..Limits::of_chain(&chain) };
    let mut net = Net::with_limits(chain, limits, 54);
    let node = net.slots[0].node.as_mut().expect("running");
    let batch = vec![verified(1), verified(1), verified(2), verified(3)];
    node.handle(Event::Transactions(batch), Now { elapsed: Duration::ZERO, unix_ns: 2_000_000_000 });
    let stats = node.stats();
    assert_eq!((stats.received, stats.pool_dropped), (3, 1), "a full pool's drop counts, as in neard");
    assert_eq!(stats.shards[0].pool_entries, Some(2));
}
