//! The load accounts' names and keys, from the plan's seed.
//!
//! Keys in a row: the secret scalar of account i is a + i, its public key A + iB, so a shard needs one multiplication
//! on the curve, one addition an account, and compression in batches that share one field inversion. Keys from seeds: each
//! account has a seed that other tools can read, at the price of a multiplication each. Nonce points (see
//! [`crate::signer`]) are always in a row, r + i and R + iB.

use std::{fmt, num::NonZeroUsize, thread};

use curve25519_dalek::{EdwardsPoint, Scalar, constants::ED25519_BASEPOINT_POINT, scalar::clamp_integer};
use sha2::{Digest, Sha512};
use tpsctl_model::{
    Seed, ShardId,
    plan::{KeyKind, RunPlan, Signing},
};
use tpsctl_near::{AccountId, KeyPair, PublicKey};

use crate::{
    WorkloadError,
    signer::{FixedNonce, Signer, ThrowawayChain},
};

/// Points that are compressed at once: enough to make the shared inversion cheap, few enough to stay in the cache.
const BATCH: usize = 512;

/// The names and keys of all load accounts of one throwaway chain.
#[derive(Debug, Clone)]
pub struct Keyring {
    chain: ThrowawayChain,
    shards: Vec<ShardKeys>,
}

/// The names and keys of one shard's load accounts.
#[derive(Clone)]
pub struct ShardKeys {
    shard: ShardId,
    prefix: String,
    run_seed: Seed,
    secrets: Secrets,
    public: Vec<PublicKey>,
}

#[derive(Clone)]
enum Secrets {
    /// The scalar of account 0; account i has this plus i.
    Row(Scalar),
    /// The scalar of each account, from its seed.
    Each(Vec<Scalar>),
}

impl Keyring {
    /// Makes the keys of every account in the plan. Uses all processors; the result does not depend on their number.
    ///
    /// Fails when the chain is not a throwaway or when a prefix makes no account id.
    pub fn build(plan: &RunPlan) -> Result<Self, WorkloadError> {
        let chain = ThrowawayChain::new(&plan.chain.chain_id)?;
        let (ids, prefixes) = (&plan.chain.shard_ids, &plan.accounts.prefixes);
        if ids.len() != prefixes.len() {
            return Err(WorkloadError::PrefixCount { shards: ids.len(), prefixes: prefixes.len() });
        }
        let len = plan.accounts.per_shard as usize;
        let mut shards = Vec::with_capacity(ids.len());
        for (shard, prefix) in ids.iter().zip(prefixes) {
            check_prefix(*shard, prefix, len)?;
            shards.push(match plan.accounts.keys {
                KeyKind::Row => row(plan.seed, *shard, prefix, len),
                KeyKind::Seed => from_seeds(plan.seed, *shard, prefix, len),
            });
        }
        Ok(Self { chain, shards })
    }

    /// By shard index, as in the plan.
    pub fn shards(&self) -> &[ShardKeys] {
        &self.shards
    }

    /// The chain that these keys are for.
    pub fn chain(&self) -> &ThrowawayChain {
        &self.chain
    }
}

impl ShardKeys {
    /// The shard's id.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Number of accounts.
    pub fn len(&self) -> usize {
        self.public.len()
    }

    /// Whether there is no account.
    pub fn is_empty(&self) -> bool {
        self.public.is_empty()
    }

    /// What the ids of this shard's accounts begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The id of account `index`: `<prefix>_user_<index>`, as nearcore's benchmark cases name theirs.
    pub fn account_id(&self, index: usize) -> AccountId {
        account_id(&self.prefix, index).expect("the prefix was checked when the keyring was built")
    }

    /// The public key of account `index`. Panics unless `index` is below [`Self::len`].
    pub fn public_key(&self, index: usize) -> PublicKey {
        self.public[index]
    }

    /// The seed of account `index`'s key, for key files; none for keys in a row.
    pub fn seed(&self, index: usize) -> Option<[u8; 32]> {
        match self.secrets {
            Secrets::Row(_) => None,
            Secrets::Each(_) => Some(account_seed(self.run_seed, self.shard, index)),
        }
    }

    /// The signer of account `index`. Panics unless `index` is below [`Self::len`].
    pub fn signer(&self, index: usize, signing: Signing) -> Result<Signer, WorkloadError> {
        let mut signers = self.signers(index..=index, signing)?;
        Ok(signers.pop().expect("one index gives one signer"))
    }

    /// The signers of many accounts at once, in the order of `indexes`; much cheaper than one by one.
    pub fn signers(
        &self,
        indexes: impl IntoIterator<Item = usize>,
        signing: Signing,
    ) -> Result<Vec<Signer>, WorkloadError> {
        match (signing, &self.secrets) {
            (Signing::FixedNonce, _) => {
                Ok(self.fixed_nonce_signers(&indexes.into_iter().collect::<Vec<_>>()))
            }
            (Signing::Rfc8032, Secrets::Row(_)) => Err(WorkloadError::NoSeed { shard: self.shard }),
            (Signing::Rfc8032, Secrets::Each(_)) => Ok(indexes
                .into_iter()
                .map(|index| account_seed(self.run_seed, self.shard, index))
                .map(|seed| Signer::rfc8032(KeyPair::from_seed(seed)))
                .collect()),
        }
    }

    fn fixed_nonce_signers(&self, indexes: &[usize]) -> Vec<Signer> {
        let nonce_first = scalar(self.run_seed, &format!("nonces/shard/{}", self.shard));
        let Some(first) = indexes.iter().min() else { return Vec::new() };
        let last = indexes.iter().max().unwrap_or(first);
        let points = compressed_row(nonce_first + Scalar::from(*first as u64), last - first + 1);
        let signer = |index: &usize| {
            let fixed = FixedNonce {
                secret: self.secret(*index),
                nonce: nonce_first + Scalar::from(*index as u64),
                nonce_point: points[index - first],
            };
            Signer::fixed_nonce(self.public[*index], fixed)
        };
        indexes.iter().map(signer).collect()
    }

    fn secret(&self, index: usize) -> Scalar {
        match &self.secrets {
            Secrets::Row(first) => first + Scalar::from(index as u64),
            Secrets::Each(scalars) => scalars[index],
        }
    }
}

impl fmt::Debug for ShardKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardKeys({}, {} accounts {}_user_*)", self.shard, self.len(), self.prefix)
    }
}

fn account_id(prefix: &str, index: usize) -> Result<AccountId, tpsctl_near::AccountIdError> {
    format!("{prefix}_user_{index}").parse()
}

/// The longest id decides: if the last account has a valid one, so have all.
fn check_prefix(shard: ShardId, prefix: &str, len: usize) -> Result<(), WorkloadError> {
    match account_id(prefix, len.saturating_sub(1)) {
        Ok(_) => Ok(()),
        Err(source) => Err(WorkloadError::Prefix { shard, prefix: prefix.to_owned(), source }),
    }
}

fn scalar(seed: Seed, label: &str) -> Scalar {
    Scalar::from_bytes_mod_order(seed.derive(label))
}

fn account_seed(seed: Seed, shard: ShardId, index: usize) -> [u8; 32] {
    seed.derive(&format!("keys/shard/{shard}/{index}"))
}

/// The compressed points (first + i)B for i below `len`.
fn compressed_row(first: Scalar, len: usize) -> Vec<[u8; 32]> {
    let mut point = EdwardsPoint::mul_base(&first);
    let mut bytes = Vec::with_capacity(len);
    let mut batch = Vec::with_capacity(BATCH);
    while bytes.len() < len {
        batch.clear();
        for _ in 0..BATCH.min(len - bytes.len()) {
            batch.push(point);
            point += ED25519_BASEPOINT_POINT;
        }
        bytes.extend(EdwardsPoint::compress_batch_alloc(&batch).iter().map(|point| point.0));
    }
    bytes
}

fn row(run_seed: Seed, shard: ShardId, prefix: &str, len: usize) -> ShardKeys {
    let first = scalar(run_seed, &format!("keys/shard/{shard}"));
    let public = compressed_row(first, len).into_iter().map(PublicKey).collect();
    ShardKeys { shard, prefix: prefix.to_owned(), run_seed, secrets: Secrets::Row(first), public }
}

fn from_seeds(run_seed: Seed, shard: ShardId, prefix: &str, len: usize) -> ShardKeys {
    let mut scalars = vec![Scalar::ZERO; len];
    let mut public = vec![PublicKey([0; 32]); len];
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    // Whole pieces a thread, so that which thread makes a key has no say in what the key is.
    let piece = len.div_ceil(threads).max(1);
    thread::scope(|scope| {
        for (number, (scalars, public)) in scalars.chunks_mut(piece).zip(public.chunks_mut(piece)).enumerate()
        {
            scope.spawn(move || fill_from_seeds(run_seed, shard, number * piece, scalars, public));
        }
    });
    ShardKeys { shard, prefix: prefix.to_owned(), run_seed, secrets: Secrets::Each(scalars), public }
}

/// Ed25519 key generation (RFC 8032, 5.1.5) for the accounts from `from` on, with compression in batches.
fn fill_from_seeds(
    run_seed: Seed,
    shard: ShardId,
    from: usize,
    scalars: &mut [Scalar],
    public: &mut [PublicKey],
) {
    let mut points = Vec::with_capacity(BATCH);
    let batches = scalars.chunks_mut(BATCH).zip(public.chunks_mut(BATCH));
    for (number, (scalars, public)) in batches.enumerate() {
        points.clear();
        for (offset, scalar) in scalars.iter_mut().enumerate() {
            let seed = account_seed(run_seed, shard, from + number * BATCH + offset);
            let hash: [u8; 64] = Sha512::digest(seed).into();
            let lower = hash.first_chunk::<32>().expect("a SHA-512 hash has 64 bytes");
            *scalar = Scalar::from_bytes_mod_order(clamp_integer(*lower));
            points.push(EdwardsPoint::mul_base(scalar));
        }
        for (key, point) in public.iter_mut().zip(EdwardsPoint::compress_batch_alloc(&points)) {
            *key = PublicKey(point.0);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use tpsctl_model::{
        NodeName, Yocto,
        plan::{NodePlan, NodeRole},
    };

    use super::*;

    /// The tiny plan with this many shards and accounts, and one producer a shard.
    pub(crate) fn plan(shards: u64, accounts: u32, keys: KeyKind) -> RunPlan {
        let mut plan: RunPlan =
            serde_json::from_str(include_str!("../../../testdata/plans/tiny.json")).expect("a plan");
        let producer = |shard| NodePlan {
            name: NodeName(format!("cp{shard}")),
            role: NodeRole::Producer { shards: vec![ShardId(shard)], stake: Yocto(1) },
        };
        plan.nodes = (0..shards).map(producer).collect();
        plan.chain.shard_ids = (0..shards).map(ShardId).collect();
        plan.accounts.prefixes = (0..shards).map(|shard| format!("{shard:03}")).collect();
        plan.accounts.per_shard = accounts;
        plan.accounts.keys = keys;
        plan
    }

    #[test]
    fn names_are_those_of_nearcores_cases() {
        let keyring = Keyring::build(&plan(2, 12, KeyKind::Row)).expect("plan");
        assert_eq!(keyring.shards()[1].account_id(11).as_str(), "001_user_11");
        assert_eq!(keyring.shards()[0].account_id(0).as_str(), "000_user_0");
        assert_eq!(keyring.chain().id(), "benchmarknet");
    }

    #[test]
    fn a_seed_makes_the_key_that_other_tools_read_from_it() {
        let keyring = Keyring::build(&plan(2, 700, KeyKind::Seed)).expect("plan");
        for keys in keyring.shards() {
            for index in [0, 1, 511, 512, 699] {
                let pair = KeyPair::from_seed(keys.seed(index).expect("keys from seeds"));
                assert_eq!(pair.public(), keys.public_key(index));
            }
        }
        let shards = keyring.shards();
        assert_ne!(shards[0].public_key(0), shards[1].public_key(0));
    }

    #[test]
    fn keys_in_a_row_are_a_row() {
        let keyring = Keyring::build(&plan(1, 1_100, KeyKind::Row)).expect("plan");
        let keys = &keyring.shards()[0];
        for index in [0, 1, 511, 512, 1_023, 1_024, 1_099] {
            let point = EdwardsPoint::mul_base(&keys.secret(index));
            assert_eq!(PublicKey(point.compress().0), keys.public_key(index));
            assert_eq!(keys.seed(index), None);
        }
        assert_eq!(
            keys.signer(0, Signing::Rfc8032).map(|_| ()),
            Err(WorkloadError::NoSeed { shard: ShardId(0) })
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_keys_for_ever() {
        // Written down once: a change here breaks every genesis that a seed stands for.
        let texts = |kind| {
            let keyring = Keyring::build(&plan(1, 3, kind)).expect("plan");
            keyring.shards()[0].public_key(2).to_string()
        };
        assert_eq!(texts(KeyKind::Row), "ed25519:2n8zmAVB59CqjjDqqq3eGssKyFz3qVpbmzTvU2duVTKY");
        assert_eq!(texts(KeyKind::Seed), "ed25519:7mGf2UeBrubavDWASs2fWSCFCnVWX8fziRL91zN1iznc");
    }

    #[test]
    fn what_the_plan_gets_wrong_is_said() {
        let mut wrong = plan(2, 3, KeyKind::Row);
        wrong.accounts.prefixes.pop();
        let error = Keyring::build(&wrong).expect_err("a prefix is missing");
        assert_eq!(error, WorkloadError::PrefixCount { shards: 2, prefixes: 1 });
        let mut wrong = plan(1, 3, KeyKind::Row);
        "A!".clone_into(&mut wrong.accounts.prefixes[0]);
        assert!(matches!(Keyring::build(&wrong), Err(WorkloadError::Prefix { .. })));
        let mut wrong = plan(1, 3, KeyKind::Row);
        "testnet".clone_into(&mut wrong.chain.chain_id);
        assert!(matches!(Keyring::build(&wrong), Err(WorkloadError::RealChain { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn one_by_one_or_many_at_once_is_the_same(
            indexes in proptest::collection::vec(0_usize..700, 0..20),
            kind in prop_oneof![Just(KeyKind::Row), Just(KeyKind::Seed)],
        ) {
            let keyring = Keyring::build(&plan(1, 700, kind)).expect("plan");
            let keys = &keyring.shards()[0];
            let many = keys.signers(indexes.iter().copied(), Signing::FixedNonce).expect("signers");
            prop_assert_eq!(many.len(), indexes.len());
            for (index, signer) in indexes.iter().zip(&many) {
                let one = keys.signer(*index, Signing::FixedNonce).expect("signer");
                prop_assert_eq!(one.sign(b"message"), signer.sign(b"message"));
                prop_assert_eq!(signer.public_key(), keys.public_key(*index));
            }
        }
    }
}
