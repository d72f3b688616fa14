//! Who does what at a height. Every node computes the same from genesis; nobody is kicked out.
//!
//! As in neard: the validators with the greatest stakes have the seats of block and chunk producers; chunk producers are dealt to the shard with fewest of them; who makes a block or a chunk is drawn by
//! stake from SHA-256 of seed, height and shard; mandates are shuffled per height by ChaCha20 and dealt to shuffled
//! shards (core/primitives/src/{epoch_info,validator_mandates}). Our own: the seed is the genesis hash, the draw is one
//! cumulative pick instead of the alias method, fractions of a mandate are not dealt.

use std::collections::BTreeMap;

use rand::seq::SliceRandom;
use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};
use tpsctl_near::{AccountId, CryptoHash};

use super::Validator;

/// How many of the validators, the greatest stakes first, have which role. All of them check chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seats {
    /// Most that make blocks.
    pub block_producers: u64,
    /// Most that make chunks.
    pub chunk_producers: u64,
    /// Fewest chunk producers of a shard; where there are too few, they serve several.
    pub producers_per_shard_min: u64,
    /// Mandates of each shard.
    pub mandates_per_shard: u64,
}

impl Seats {
    /// What the seats say; none where they are enough for every validator and every shard has one producer at least.
    pub(crate) fn scarce(self, validators: usize) -> Option<(u64, u64, u64)> {
        let is_enough =
            self.taken(validators) == (validators, validators) && self.producers_per_shard_min <= 1;
        (!is_enough).then_some((self.block_producers, self.chunk_producers, self.producers_per_shard_min))
    }

    /// How many of `validators` make blocks, and how many chunks.
    fn taken(self, validators: usize) -> (usize, usize) {
        let taken = |seats: u64| usize::try_from(seats).unwrap_or(usize::MAX).clamp(1, validators.max(1));
        (taken(self.block_producers), taken(self.chunk_producers))
    }
}

/// Roles of validators, by their index in [`Assignment::validators`].
#[derive(Debug, Clone)]
pub struct Assignment {
    validators: Vec<Validator>,
    /// The first so many make blocks.
    block_producers: usize,
    shard_ids: Vec<u64>,
    producers: Vec<Vec<usize>>,
    seed: CryptoHash,
    /// Mandates of each validator, and the stake that one stands for.
    mandates: Vec<u64>,
    price: u128,
}

impl Assignment {
    /// Deals the roles.
    pub fn new(validators: &[Validator], shard_ids: &[u64], seats: Seats, seed: CryptoHash) -> Self {
        let validators = Self::order(validators);
        let target = seats.mandates_per_shard.saturating_mul(shard_ids.len() as u64);
        let (price, mandates) = price_mandates(&validators, target);
        let (block_producers, chunk_producers) = seats.taken(validators.len());
        let min = usize::try_from(seats.producers_per_shard_min).unwrap_or(usize::MAX);
        let producers = deal_producers(chunk_producers, shard_ids.len(), min);
        Self { producers, validators, block_producers, shard_ids: shard_ids.to_vec(), seed, mandates, price }
    }

    /// Order of validator indices: stake, highest first, then account id.
    pub fn order(validators: &[Validator]) -> Vec<Validator> {
        let mut ordered = validators.to_vec();
        ordered.sort_by(|one, other| {
            other.stake.cmp(&one.stake).then_with(|| one.account_id.cmp(&other.account_id))
        });
        ordered
    }

    /// All validators.
    pub fn validators(&self) -> &[Validator] {
        &self.validators
    }

    /// Those that make blocks and approve them: the first of [`Self::validators`].
    pub fn block_producers(&self) -> &[Validator] {
        &self.validators[..self.block_producers.min(self.validators.len())]
    }

    /// The index of an account, if it is a validator.
    pub fn index_of(&self, account: &AccountId) -> Option<usize> {
        self.validators.iter().position(|own| own.account_id == *account)
    }

    /// Indices of the validators that may produce the shard's chunks.
    pub fn producers(&self, shard: usize) -> &[usize] {
        &self.producers[shard]
    }

    fn draw(&self, candidates: impl Iterator<Item = usize> + Clone, seed: CryptoHash) -> usize {
        let total: u128 = candidates.clone().map(|index| self.validators[index].stake).sum();
        let mut low = [0; 16];
        low.copy_from_slice(&seed.0[..16]);
        let mut point = u128::from_le_bytes(low).checked_rem(total).unwrap_or(0);
        let mut last = 0;
        for index in candidates {
            last = index;
            match point.checked_sub(self.validators[index].stake) {
                Some(rest) => point = rest,
                None => break,
            }
        }
        last
    }

    /// Who makes the block at `height`.
    pub fn block_producer(&self, height: u64) -> usize {
        self.draw(0..self.block_producers().len(), CryptoHash::of_borsh(&(self.seed, height)))
    }

    /// Who makes the shard's chunk at `height`.
    pub fn chunk_producer(&self, height: u64, shard: usize) -> usize {
        let seed = CryptoHash::of_borsh(&(self.seed, height, self.shard_ids[shard]));
        self.draw(self.producers[shard].iter().copied(), seed)
    }

    /// The validators of every shard's chunk at `height`, with the stake that each stands for.
    pub fn deal(&self, height: u64) -> Vec<BTreeMap<usize, u128>> {
        let seed = CryptoHash::of_borsh(&(self.seed, height, b"mandates"));
        let mut rng = ChaCha20Rng::from_seed(seed.0);
        let mut deck: Vec<usize> = (0..self.validators.len())
            .flat_map(|index| std::iter::repeat_n(index, self.mandates[index] as usize))
            .collect();
        deck.shuffle(&mut rng);
        let mut shards: Vec<usize> = (0..self.shard_ids.len()).collect();
        shards.shuffle(&mut rng);
        let mut dealt = vec![BTreeMap::new(); shards.len()];
        for (turn, validator) in deck.into_iter().enumerate() {
            *dealt[shards[turn % shards.len()]].entry(validator).or_insert(0) += self.price;
        }
        dealt
    }

    /// Whether endorsements by these validators carry a chunk whose validators are `assigned`: floor(2/3 of their
    /// stake) + 1 (stateless_validation/validator_assignment.rs:18-31).
    pub fn is_endorsed(assigned: &BTreeMap<usize, u128>, mut by: impl FnMut(usize) -> bool) -> bool {
        let total: u128 = assigned.values().sum();
        let endorsed: u128 = assigned.iter().filter(|(index, _)| by(**index)).map(|(_, stake)| stake).sum();
        endorsed > two_thirds(total)
    }

    /// Whether these validators hold more than 2/3 of all block producers' stake.
    pub fn is_approved(&self, by: impl Fn(usize) -> bool) -> bool {
        let total: u128 = self.block_producers().iter().map(|own| own.stake).sum();
        let stakes = self.block_producers().iter().enumerate();
        let approved: u128 = stakes.filter(|(index, _)| by(*index)).map(|(_, own)| own.stake).sum();
        approved > two_thirds(total)
    }

    /// Whether these validators hold more than 1/3 of all stake: then, if less than 1/3 are faulty, one is not.
    pub fn is_over_a_third(&self, by: impl Fn(usize) -> bool) -> bool {
        let total: u128 = self.validators.iter().map(|own| own.stake).sum();
        let stakes = self.validators.iter().enumerate();
        let held: u128 = stakes.filter(|(index, _)| by(*index)).map(|(_, own)| own.stake).sum();
        held > total / 3
    }
}

/// Floor of two thirds, without overflow.
fn two_thirds(total: u128) -> u128 {
    total / 3 * 2 + total % 3 * 2 / 3
}

/// The highest price of a mandate at which the validators hold at least `target`, and what each then holds
/// (validator_mandates/compute_price.rs:9-40).
fn price_mandates(validators: &[Validator], target: u64) -> (u128, Vec<u64>) {
    let held = |price: u128| -> u128 { validators.iter().map(|own| own.stake / price).sum() };
    let (mut low, mut high) = (1, validators.iter().map(|own| own.stake).max().unwrap_or(1).max(1));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if held(middle) >= u128::from(target) { low = middle } else { high = middle - 1 }
    }
    let mandates = validators.iter().map(|own| (own.stake / low) as u64).collect();
    (low, mandates)
}

/// Chunk producers by shard: each goes to the shard with fewest, ties to the lowest index; with too few producers for
/// `min` a shard, shards go round the producers (chain/epoch-manager/src/shard_assignment/mod.rs:102-134,325-345).
fn deal_producers(validators: usize, shards: usize, min: usize) -> Vec<Vec<usize>> {
    let min = min.clamp(1, validators.max(1));
    if validators < shards * min {
        let nth = |shard: usize, turn: usize| (shard * min + turn) % validators.max(1);
        return (0..shards).map(|shard| (0..min).map(|turn| nth(shard, turn)).collect()).collect();
    }
    let mut producers = vec![Vec::new(); shards];
    for validator in 0..validators {
        producers[validator % shards].push(validator);
    }
    producers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn validators(stakes: &[u128]) -> Vec<Validator> {
        let name = |(index, stake): (usize, &u128)| Validator {
            account_id: format!("node{index}").parse().expect("id"),
            public_key: tpsctl_near::KeyPair::from_seed([index as u8; 32]).public(),
            stake: *stake,
        };
        stakes.iter().enumerate().map(name).collect()
    }

    fn seats(mandates_per_shard: u64) -> Seats {
        Seats { block_producers: 100, chunk_producers: 100, producers_per_shard_min: 1, mandates_per_shard }
    }

    fn seated(stakes: &[u128], shards: u64, seats: Seats) -> Assignment {
        let ids: Vec<u64> = (0..shards).collect();
        Assignment::new(&validators(stakes), &ids, seats, CryptoHash([9; 32]))
    }

    fn assignment(stakes: &[u128], shards: u64, mandates: u64) -> Assignment {
        seated(stakes, shards, seats(mandates))
    }

    #[test]
    fn equal_stakes_share_the_mandates_exactly() {
        let dealt = assignment(&[50; 4], 4, 3);
        for shard in 0..4 {
            let stakes: u128 = dealt.deal(17)[shard].values().sum();
            assert_eq!(stakes, 3 * dealt.price);
        }
        assert_eq!(dealt.mandates, [3; 4]);
        assert_eq!(assignment(&[50], 3, 1).mandates, [3], "one node validates every shard");
    }

    /// Shares of neard: 68 mandates a shard on its own chains, 1 to 14 in published runs.
    #[test]
    fn mandates_from_one_to_many_are_shared_among_all() {
        for mandates in [1, 2, 3, 6, 14, 68] {
            for (validators, shards) in [(1, 50), (10, 10), (70, 70), (100, 4)] {
                let dealt = assignment(&vec![10_u128.pow(24); validators], shards, mandates);
                let held: u64 = dealt.mandates.iter().sum();
                assert!(held >= shards * mandates && held < shards * mandates + validators as u64);
                assert!(dealt.mandates.windows(2).all(|pair| pair[0] == pair[1]));
                for assigned in dealt.deal(7) {
                    assert!(!assigned.is_empty() && assigned.len() as u64 <= held / shards + 1);
                }
            }
        }
    }

    #[test]
    fn seats_go_by_stake() {
        let few = Seats { block_producers: 2, chunk_producers: 3, ..seats(2) };
        let dealt = seated(&[5, 9, 7, 8, 6], 3, few);
        let stakes = |validators: &[Validator]| validators.iter().map(|own| own.stake).collect::<Vec<_>>();
        assert_eq!(stakes(dealt.block_producers()), [9, 8]);
        assert_eq!([dealt.producers(0), dealt.producers(1), dealt.producers(2)], [&[0], &[1], &[2]]);
        assert!((0..200).all(|height| dealt.block_producer(height) < 2));
        assert!(dealt.is_approved(|index| index < 2) && !dealt.is_approved(|index| index > 0));
        let checks = |index: usize| {
            (0..50).any(|height| dealt.deal(height).iter().any(|assigned| assigned.contains_key(&index)))
        };
        assert!((0..5).all(checks), "everybody checks chunks");
        let none = Seats { block_producers: 0, chunk_producers: 0, ..seats(1) };
        assert_eq!(seated(&[5, 9], 2, none).block_producers().len(), 1, "somebody has to");
    }

    #[test]
    fn a_shard_has_at_least_so_many_producers() {
        let dealt = seated(&[9, 8, 7], 3, Seats { producers_per_shard_min: 2, ..seats(1) });
        assert_eq!([dealt.producers(0), dealt.producers(1), dealt.producers(2)], [&[0, 1], &[2, 0], &[1, 2]]);
        let dealt = seated(&[9, 8], 3, Seats { producers_per_shard_min: 5, ..seats(1) });
        assert_eq!(dealt.producers(2), [0, 1]);
    }

    #[test]
    fn two_of_three_mandates_are_not_enough() {
        let assigned = BTreeMap::from([(0, 10), (1, 10), (2, 10)]);
        assert!(!Assignment::is_endorsed(&assigned, |index| index < 2));
        assert!(Assignment::is_endorsed(&assigned, |_| true));
        assert!(!Assignment::is_endorsed(&BTreeMap::new(), |_| true), "nobody assigned endorses nothing");
    }

    #[test]
    fn few_producers_serve_several_shards() {
        let dealt = assignment(&[7, 9], 3, 1);
        assert_eq!(dealt.validators()[0].stake, 9, "stake first");
        assert_eq!([dealt.producers(0), dealt.producers(1), dealt.producers(2)], [&[0], &[1], &[0]]);
    }

    proptest! {
        #[test]
        fn draws_follow_the_stakes(stakes in proptest::collection::vec(1_u128..100, 1..6)) {
            let dealt = assignment(&stakes, 2, 1);
            let mut drawn = vec![0_u32; stakes.len()];
            for height in 0..2_000 {
                drawn[dealt.block_producer(height)] += 1;
            }
            let total: u128 = stakes.iter().sum();
            for (own, drawn) in dealt.validators().iter().zip(drawn) {
                let expected = 2_000.0 * own.stake as f64 / total as f64;
                prop_assert!((f64::from(drawn) - expected).abs() < 6.0 * expected.sqrt() + 6.0);
            }
        }

        #[test]
        fn all_mandates_are_dealt(stakes in proptest::collection::vec(1_u128..100, 1..9), shards in 1_u64..6, target in 1_u64..5) {
            let dealt = assignment(&stakes, shards, target);
            let held: u64 = dealt.mandates.iter().sum();
            let all: u128 = stakes.iter().sum();
            prop_assert!(held >= shards * target || all < u128::from(shards * target));
            let sum: u128 = dealt.deal(3).iter().map(|assigned| assigned.values().sum::<u128>()).sum();
            prop_assert_eq!(sum, u128::from(held) * dealt.price);
        }
    }
}
