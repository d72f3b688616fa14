//! Transactions that are signed in odd ways, or not at all: whatever admission takes, validators take, and nothing that
//! they refuse stays in a pool.

use std::{sync::Arc, time::Duration};

use curve25519_dalek::{EdwardsPoint, Scalar, constants::EIGHT_TORSION};
use sha2::{Digest, Sha512};
use tpsctl_near::{AccountId, CryptoHash, Signature, SignedTransaction};

use super::fixture::{Net, genesis, key_of, transfer, user};
use crate::core::{Event, InvalidTx, Now, Observation, Received, VerifiedTransaction, admit};

const SECOND: Duration = Duration::from_secs(1);
const SHARDS: usize = 2;

/// A transfer whose R has a torsion component; only who holds the key can make that.
fn with_torsion(signer: &AccountId, nonce: u64, torsion: usize, base: CryptoHash) -> SignedTransaction {
    let mut signed = transfer(signer, &user(1, 3), nonce, base);
    let seed = CryptoHash::of(signer.as_str().as_bytes()).0;
    let mut low = [0; 32];
    low.copy_from_slice(&Sha512::digest(seed)[..32]);
    low[0] &= 0xf8;
    low[31] = low[31] & 0x3f | 0x40;
    let (a, r) = (Scalar::from_bytes_mod_order(low), Scalar::from(nonce + 7));
    let public = key_of(signer).public().0;
    assert_eq!(EdwardsPoint::mul_base(&a).compress().0, public, "the key's scalar");
    let point = (EdwardsPoint::mul_base(&r) + EIGHT_TORSION[torsion]).compress().0;
    let mut hash = Sha512::new();
    hash.update(point);
    hash.update(public);
    hash.update(signed.hash().0);
    let k = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(&point);
    bytes[32..].copy_from_slice(&(r + k * a).to_bytes());
    signed.signature = Signature(bytes);
    signed
}

fn pool(net: &mut Net, transaction: &Arc<VerifiedTransaction>) {
    for slot in &mut net.slots {
        let node = slot.node.as_mut().expect("running");
        let now = Now { elapsed: net.now, unix_ns: 1_000_000_000 + net.now.as_nanos() as u64 };
        drop(node.handle(Event::Transactions(vec![Arc::clone(transaction)]), now));
    }
}

#[test]
fn a_pair_that_cancels_is_judged_as_each_alone() {
    let mut chain = genesis(4, SHARDS, 4);
    // Nobody endorses alone.
    chain.seats.mandates_per_shard = 16;
    let mut net = Net::new(chain, 70);
    net.run(5 * SECOND);
    let view = Arc::clone(net.watcher().view());
    let base = net.watcher().genesis_block().hash();
    // Of order two, in different shards: they meet at admission and never in a chunk.
    let pair = [with_torsion(&user(0, 0), 1, 4, base), with_torsion(&user(1, 0), 1, 4, base)];
    let unsigned =
        SignedTransaction { signature: Signature([3; 64]), ..transfer(&user(0, 1), &user(1, 1), 1, base) };
    let others = [transfer(&user(0, 2), &user(1, 1), 1, base), transfer(&user(1, 2), &user(0, 1), 1, base)];
    let all: Vec<_> = pair.into_iter().chain(others).chain([unsigned]).collect();
    let batch = admit(all.iter().cloned().map(Received::of_signed).collect(), &view);
    let alone = all.iter().map(|own| admit(vec![Received::of_signed(own.clone())], &view).remove(0));
    assert_eq!(batch, alone.collect::<Vec<_>>());
    assert_eq!(batch[4], Err(InvalidTx::InvalidSignature));
    for transaction in batch.iter().flatten() {
        pool(&mut net, transaction);
    }
    net.run(20 * SECOND);
    assert_eq!((net.settled(), net.missed()), (batch.iter().flatten().count() as u64, 0));
    for index in 0..4 {
        assert_eq!(net.node(index).stats().invalid_witnesses, 0);
    }
    net.assert_closed();
}

#[test]
fn what_validators_refuse_leaves_the_pool() {
    let mut chain = genesis(4, SHARDS, 4);
    chain.seats.mandates_per_shard = 16;
    let mut net = Net::new(chain, 71);
    net.run(5 * SECOND);
    let base = net.watcher().genesis_block().hash();
    let unsigned =
        SignedTransaction { signature: Signature([3; 64]), ..transfer(&user(0, 1), &user(1, 1), 1, base) };
    pool(&mut net, &Arc::new(VerifiedTransaction::unchecked(unsigned)));
    for turn in 0..8 {
        net.transfer(&user(turn % SHARDS, 0), &user(1, 1));
    }
    net.run(30 * SECOND);
    assert_eq!(net.settled(), 8, "all but that one");
    let missed = net.missed();
    let (mut refused, mut dropped) = (0, 0);
    for index in 0..4 {
        let node = net.slots[index].node.as_mut().expect("running");
        refused += node.stats().invalid_witnesses;
        assert!(
            node.stats().shards.iter().all(|own| own.pool_entries.unwrap_or(0) == 0),
            "{:?}",
            node.stats()
        );
        for own in node.take_observations() {
            if let Observation::Rejected { reason: "invalid_tx", count, .. } = own {
                dropped += count;
            }
        }
    }
    assert!(refused > 0, "validators saw it");
    let producers = net.node(0).assignment().producers(0).len();
    assert!(missed > 0 && missed <= 3 * producers, "{missed} chunks by {producers}");
    assert_eq!(dropped, producers as u64, "each from its own pool");
    net.run(20 * SECOND);
    assert_eq!(net.missed(), missed, "and that was all");
}
