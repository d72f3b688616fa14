//! Who sends to whom: one seeded stream a producer.
//!
//! A shard's accounts are dealt out to its producers, account i to producer i mod P, so that a key is only ever used
//! towards one of them: a transaction that overtakes another of its key makes the chain throw the slower one away. Within a
//! producer, senders take turns in one fixed order, so a key's nonces rise in the order of sending, and a
//! chunk can take one transaction of each key. Receivers are drawn; which transfers leave the shard is dealt out evenly,
//! not drawn, so that the ordered share is exact over any stretch, by less than one transfer.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use sha2::{Digest, Sha256};
use tpsctl_model::plan::RunPlan;

use crate::{Keyring, WorkloadError};

/// Transfers of each shard that go into [`stream_fingerprint`].
const FINGERPRINT_TRANSFERS: u64 = 1_000;

/// A share is taken as this many parts of a billion.
const SHARE_PARTS: u64 = 1_000_000_000;

/// Words of the random stream that belong to one transfer, so that any transfer's draw can be found.
const WORDS_PER_TRANSFER: u128 = 2;

/// One transfer, by numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Turn of the sender among this producer's senders: index into [`TransferStream::senders`].
    pub lane: usize,
    /// The sender's number in its shard.
    pub sender: usize,
    /// Index of the receiver's shard.
    pub receiver_shard: usize,
    /// The receiver's number in its shard.
    pub receiver: usize,
    /// Which transfer of this sender it is, from 1.
    pub nonce_offset: u64,
}

/// The transfers that go to one producer. Transfer k is a function of the plan and k; asking in order is fastest.
#[derive(Debug, Clone)]
pub struct TransferStream {
    shard: usize,
    producer: usize,
    producers: usize,
    /// Accounts by shard index.
    accounts: Vec<usize>,
    lanes: u64,
    cross_parts: u64,
    rng: ChaCha8Rng,
    rng_at: u64,
}

impl TransferStream {
    /// The stream of the shard with index `shard` towards its producer number `producer` (in plan order).
    pub fn new(
        plan: &RunPlan,
        keyring: &Keyring,
        shard: usize,
        producer: usize,
    ) -> Result<Self, WorkloadError> {
        let shards = keyring.shards();
        let Some(keys) = shards.get(shard) else {
            return Err(WorkloadError::NoShard { index: shard, shards: shards.len() });
        };
        let producers = plan.producers_of(keys.shard()).count();
        if producer >= producers {
            return Err(WorkloadError::NoProducer { shard: keys.shard(), number: producer, producers });
        }
        let cross = if shards.len() > 1 { plan.load.cross_shard.0 } else { 0.0 };
        let cross_parts = (cross * SHARE_PARTS as f64).round() as u64;
        // One account a producer, or it has no sender; two where transfers stay, or an account would have to pay itself.
        // All shards have equally many.
        let needed = producers.max(if cross_parts < SHARE_PARTS { 2 } else { 1 });
        if keys.len() < needed {
            let (shard, accounts) = (keys.shard(), keys.len());
            return Err(WorkloadError::TooFewAccounts { shard, accounts, needed, producers });
        }
        let seed = plan.seed.derive(&format!("stream/shard/{}/producer/{producer}", keys.shard()));
        Ok(Self {
            shard,
            producer,
            producers,
            accounts: shards.iter().map(crate::ShardKeys::len).collect(),
            lanes: (keys.len() - producer).div_ceil(producers) as u64,
            cross_parts,
            rng: ChaCha8Rng::from_seed(seed),
            rng_at: 0,
        })
    }

    /// The numbers of the accounts that send towards this producer, in the order of their turns.
    pub fn senders(&self) -> impl Iterator<Item = usize> + use<> {
        (self.producer..self.accounts[self.shard]).step_by(self.producers)
    }

    /// Transfer number `k`, from 0.
    pub fn transfer(&mut self, k: u64) -> Transfer {
        let lane = (k % self.lanes) as usize;
        let sender = self.producer + lane * self.producers;
        let draw = self.draw(k);
        let (high, low) = ((draw >> 32) as u32, draw as u32);
        let (receiver_shard, receiver) = if self.is_cross(k) {
            let shard = skip(pick(high, self.accounts.len() - 1), self.shard);
            (shard, pick(low, self.accounts[shard]))
        } else {
            (self.shard, skip(pick(low, self.accounts[self.shard] - 1), sender))
        };
        Transfer { lane, sender, receiver_shard, receiver, nonce_offset: k / self.lanes + 1 }
    }

    /// Whether transfer `k` is the one at which the even share of transfers across shards reaches its next whole number.
    fn is_cross(&self, k: u64) -> bool {
        let up_to = |k: u64| u128::from(k) * u128::from(self.cross_parts) / u128::from(SHARE_PARTS);
        up_to(k + 1) > up_to(k)
    }

    fn draw(&mut self, k: u64) -> u64 {
        if self.rng_at != k {
            self.rng.set_word_pos(u128::from(k) * WORDS_PER_TRANSFER);
        }
        self.rng_at = k + 1;
        self.rng.next_u64()
    }
}

/// A number below `count` from 32 random bits, by multiplication; some are likelier than others by a share of at most
/// count / 2^32.
fn pick(bits: u32, count: usize) -> usize {
    ((u64::from(bits) * count as u64) >> 32) as usize
}

/// Number `picked` of the numbers that are left when `left_out` is left out.
fn skip(picked: usize, left_out: usize) -> usize {
    picked + usize::from(picked >= left_out)
}

/// SHA-256 (hex) over the first 1 000 transfers of every shard: sender, receiver, nonce
/// offset and public key, without what only a running chain decides (block hash, base of the nonces).
pub fn stream_fingerprint(plan: &RunPlan, keyring: &Keyring) -> Result<String, WorkloadError> {
    let mut hasher = Sha256::new();
    for (shard, keys) in keyring.shards().iter().enumerate() {
        let producers = plan.producers_of(keys.shard()).count();
        let mut streams = (0..producers)
            .map(|producer| TransferStream::new(plan, keyring, shard, producer))
            .collect::<Result<Vec<_>, _>>()?;
        for number in 0..if producers == 0 { 0 } else { FINGERPRINT_TRANSFERS } {
            let producer = (number % producers as u64) as usize;
            let transfer = streams[producer].transfer(number / producers as u64);
            let receivers = &keyring.shards()[transfer.receiver_shard];
            for id in [keys.account_id(transfer.sender), receivers.account_id(transfer.receiver)] {
                hasher.update(id.as_str().as_bytes());
                hasher.update([0]);
            }
            hasher.update(transfer.nonce_offset.to_le_bytes());
            hasher.update(keys.public_key(transfer.sender).0);
        }
    }
    let bytes: [u8; 32] = hasher.finalize().into();
    Ok(hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use tpsctl_model::{
        NodeName, ShardId, Share, Yocto,
        plan::{KeyKind, NodePlan, NodeRole},
    };

    use super::*;
    use crate::keyring::tests::plan;

    /// A plan in which every shard has `producers` producers.
    fn plan_with(shards: u64, accounts: u32, producers: usize, cross: f64) -> RunPlan {
        let mut plan = plan(shards, accounts, KeyKind::Row);
        plan.nodes = (0..producers)
            .flat_map(|number| (0..shards).map(move |shard| (number, shard)))
            .map(|(number, shard)| NodePlan {
                name: NodeName(format!("cp{number}-{shard}")),
                role: NodeRole::Producer { shards: vec![ShardId(shard)], stake: Yocto(1) },
            })
            .collect();
        plan.load.cross_shard = Share(cross);
        plan
    }

    #[test]
    fn senders_take_turns_and_nonces_rise() {
        let plan = plan_with(2, 5, 2, 0.5);
        let keyring = Keyring::build(&plan).expect("plan");
        let mut stream = TransferStream::new(&plan, &keyring, 1, 0).expect("stream");
        assert_eq!(stream.senders().collect::<Vec<_>>(), [0, 2, 4]);
        let turns: Vec<_> =
            (0..7).map(|k| stream.transfer(k)).map(|t| (t.lane, t.sender, t.nonce_offset)).collect();
        assert_eq!(turns, [(0, 0, 1), (1, 2, 1), (2, 4, 1), (0, 0, 2), (1, 2, 2), (2, 4, 2), (0, 0, 3)]);
        let other = TransferStream::new(&plan, &keyring, 1, 1).expect("stream");
        assert_eq!(other.senders().collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn what_cannot_be_streamed_is_said() {
        let refusal = |plan: &RunPlan, shard, producer| {
            let keyring = Keyring::build(plan).expect("plan");
            TransferStream::new(plan, &keyring, shard, producer).expect_err("no stream").to_string()
        };
        assert_eq!(
            refusal(&plan_with(2, 1, 1, 0.0), 0, 0),
            "make a stream for shard 0: it has 1 accounts for 1 producers; raise `chain.accounts_per_shard` to 2 or more"
        );
        assert!(
            refusal(&plan_with(2, 2, 3, 1.0), 1, 0)
                .ends_with("raise `chain.accounts_per_shard` to 3 or more")
        );
        let plan = plan_with(2, 4, 1, 0.0);
        assert_eq!(
            refusal(&plan, 2, 0),
            "make a stream for the shard at index 2: the plan has only 2 shards"
        );
        assert_eq!(
            refusal(&plan, 0, 1),
            "make a stream towards producer number 1 of shard 0: the plan has only 1 there, counted from 0"
        );
    }

    #[test]
    fn a_single_account_pays_other_shards() {
        let plan = plan_with(3, 1, 1, 1.0);
        let keyring = Keyring::build(&plan).expect("plan");
        let mut stream = TransferStream::new(&plan, &keyring, 1, 0).expect("stream");
        for k in 0..1_000 {
            assert_ne!(stream.transfer(k).receiver_shard, 1);
        }
    }

    #[test]
    fn receivers_are_spread() {
        let plan = plan_with(3, 10, 1, 0.5);
        let keyring = Keyring::build(&plan).expect("plan");
        let mut stream = TransferStream::new(&plan, &keyring, 1, 0).expect("stream");
        let mut counts = BTreeMap::new();
        for k in 0..30_000 {
            let transfer = stream.transfer(k);
            *counts.entry((transfer.receiver_shard, transfer.receiver)).or_insert(0_u64) += 1;
        }
        assert_eq!(counts.len(), 30);
        for ((shard, _), count) in counts {
            let expected = if shard == 1 { 1_500 } else { 750 };
            assert!(count.abs_diff(expected) < expected / 5, "shard {shard}: {count}, not about {expected}");
        }
    }

    #[test]
    fn the_fingerprint_changes_with_what_it_stands_for() {
        let base = plan_with(2, 50, 2, 0.3);
        let fingerprint = |plan: &RunPlan| {
            let keyring = Keyring::build(plan).expect("plan");
            stream_fingerprint(plan, &keyring).expect("stream")
        };
        // Written down once: a change here is a change of the load that a seed stands for.
        assert_eq!(fingerprint(&base), "0b6d02f655607b6a37434732b334948ecb723304267c7a20e285a66454a03661");
        for change in [
            |plan: &mut RunPlan| plan.seed.0 += 1,
            |plan: &mut RunPlan| plan.load.cross_shard = Share(0.4),
            |plan: &mut RunPlan| plan.accounts.per_shard = 51,
            |plan: &mut RunPlan| plan.accounts.keys = KeyKind::Seed,
        ] {
            let mut changed = base.clone();
            change(&mut changed);
            assert_ne!(fingerprint(&changed), fingerprint(&base));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn the_share_across_shards_is_exact_and_nobody_pays_himself(
            shards in 1_u64..5,
            accounts in 2_u32..40,
            producers in 1_usize..3,
            cross in 0.0_f64..=1.0,
            (from, len) in (0_u64..10_000, 1_u64..2_000),
        ) {
            let plan = plan_with(shards, accounts, producers, cross);
            let keyring = Keyring::build(&plan).expect("plan");
            let own = (shards - 1) as usize;
            let mut stream = TransferStream::new(&plan, &keyring, own, producers - 1).expect("stream");
            let mut away = 0;
            for k in from..from + len {
                let transfer = stream.transfer(k);
                prop_assert!(transfer.receiver < accounts as usize && transfer.sender < accounts as usize);
                prop_assert_eq!(transfer.sender % producers, producers - 1);
                if transfer.receiver_shard == own {
                    prop_assert_ne!(transfer.receiver, transfer.sender);
                } else {
                    away += 1;
                }
            }
            let expected = if shards == 1 { 0.0 } else { cross * len as f64 };
            prop_assert!((f64::from(away) - expected).abs() <= 1.001, "{} of {}, not {}", away, len, expected);
        }

        #[test]
        fn any_order_of_asking_gives_the_same_transfers(ks in proptest::collection::vec(0_u64..5_000, 1..50)) {
            let plan = plan_with(3, 20, 2, 0.5);
            let keyring = Keyring::build(&plan).expect("plan");
            let mut stream = TransferStream::new(&plan, &keyring, 0, 1).expect("stream");
            for k in ks {
                let mut fresh = TransferStream::new(&plan, &keyring, 0, 1).expect("stream");
                prop_assert_eq!(stream.transfer(k), fresh.transfer(k));
            }
        }
    }
}
