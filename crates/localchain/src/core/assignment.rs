//! Who does what at a height. Every node computes the same from genesis; nobody is kicked out.
//!
//! As in neard: chunk producers are dealt to the shard with fewest of them; who makes a block or a chunk is drawn by
//! stake from SHA-256 of seed, height and shard; mandates are shuffled per height by ChaCha20 and dealt to shuffled
//! shards (core/primitives/src/{epoch_info,validator_mandates}). Our own: the seed is the genesis hash, the draw is one
//! cumulative pick instead of the alias method, fractions of a mandate are not dealt.

use std::collections::BTreeMap;

use rand::seq::SliceRandom;
use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};
use tpsctl_near::{AccountId, CryptoHash};

use super::Validator;

/// Roles of validators, by their index in [`Assignment::validators`].
#[derive(Debug, Clone)]
pub struct Assignment {
    validators: Vec<Validator>,
    shard_ids: Vec<u64>,
    producers: Vec<Vec<usize>>,
    seed: CryptoHash,
    /// Mandates of each validator, and the stake that one stands for.
    mandates: Vec<u64>,
    price: u128,
}

impl Assignment {
    /// Deals the roles.
    pub fn new(
        validators: &[Validator],
        shard_ids: &[u64],
        mandates_per_shard: u64,
        seed: CryptoHash,
    ) -> Self {
        let validators = Self::order(validators);
        let target = mandates_per_shard.saturating_mul(shard_ids.len() as u64);
        let (price, mandates) = price_mandates(&validators, target);
        let producers = deal_producers(validators.len(), shard_ids.len());
        Self { producers, validators, shard_ids: shard_ids.to_vec(), seed, mandates, price }
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
        self.draw(0..self.validators.len(), CryptoHash::of_borsh(&(self.seed, height)))
    }

    /// Who makes the shard's chunk at `height`.
    pub fn chunk_producer(&self, height: u64, shard: usize) -> usize {
        let seed = CryptoHash::of_borsh(&(self.seed, height, self.shard_ids[shard]));
        self.draw(self.producers[shard].iter().copied(), seed)
    }

    /// The validators of the shard's chunk at `height`, with the stake that each stands for.
    pub fn chunk_validators(&self, height: u64, shard: usize) -> BTreeMap<usize, u128> {
        let seed = CryptoHash::of_borsh(&(self.seed, height, b"mandates"));
        let mut rng = ChaCha20Rng::from_seed(seed.0);
        let mut deck: Vec<usize> = (0..self.validators.len())
            .flat_map(|index| std::iter::repeat_n(index, self.mandates[index] as usize))
            .collect();
        deck.shuffle(&mut rng);
        let mut shards: Vec<usize> = (0..self.shard_ids.len()).collect();
        shards.shuffle(&mut rng);
        let mut dealt = BTreeMap::new();
        for (turn, validator) in deck.into_iter().enumerate() {
            if shards[turn % shards.len()] == shard {
                *dealt.entry(validator).or_insert(0) += self.price;
            }
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

    /// Whether these validators hold more than 2/3 of all stake.
    pub fn is_approved(&self, by: impl Fn(usize) -> bool) -> bool {
        let total: u128 = self.validators.iter().map(|own| own.stake).sum();
        let stakes = self.validators.iter().enumerate();
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

/// Chunk producers by shard: each goes to the shard with fewest, ties to the lowest index; with fewer producers than
/// shards, shards go round the producers (chain/epoch-manager/src/shard_assignment/mod.rs).
fn deal_producers(validators: usize, shards: usize) -> Vec<Vec<usize>> {
    if validators < shards {
        return (0..shards).map(|shard| vec![shard % validators.max(1)]).collect();
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

    fn assignment(stakes: &[u128], shards: u64, mandates: u64) -> Assignment {
        let ids: Vec<u64> = (0..shards).collect();
        Assignment::new(&validators(stakes), &ids, mandates, CryptoHash([9; 32]))
    }

    #[test]
    fn equal_stakes_share_the_mandates_exactly() {
        let dealt = assignment(&[50; 4], 4, 3);
        for shard in 0..4 {
            let stakes: u128 = dealt.chunk_validators(17, shard).values().sum();
            assert_eq!(stakes, 3 * dealt.price);
        }
        assert_eq!(dealt.mandates, [3; 4]);
        assert_eq!(assignment(&[50], 3, 1).mandates, [3], "one node validates every shard");
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
            let sum: u128 = (0..shards as usize).map(|s| dealt.chunk_validators(3, s).values().sum::<u128>()).sum();
            prop_assert_eq!(sum, u128::from(held) * dealt.price);
        }
    }
}
