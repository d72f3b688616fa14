//! Ed25519 signatures in batches: one sum over many signatures instead of an equation for each.
//!
//! The verdicts are those of [`PublicKey::verify`] (no cofactor; the encoding of R must be the canonical one, s below the
//! group order), by this way: what is malformed is refused at once; keys that are not in the prime-order group are
//! checked singly; where the sum of the others is not zero, smaller sums and then single checks find the culprits. Every
//! coefficient is odd, so that one R with a torsion component spoils the sum for certain. What remains is this: who
//! holds the keys can sign two or more transactions with such R on purpose, and if they meet in one batch, they may pass
//! it although none would pass alone. No ordinary signer makes any.
//!
//! Decompressed keys are remembered: load comes from few keys again and again.

use std::{
    collections::BTreeMap,
    iter::once,
    sync::{Mutex, PoisonError},
};

use curve25519_dalek::{
    EdwardsPoint, Scalar,
    constants::ED25519_BASEPOINT_POINT,
    edwards::CompressedEdwardsY,
    traits::{IsIdentity, VartimeMultiscalarMul},
};
use rand_chacha::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};
use sha2::{Digest, Sha256, Sha512};
use tpsctl_near::{CryptoHash, PublicKey, Signature, SignedTransaction};

/// Below this a sum costs no less than single checks.
const BATCH_MIN: usize = 4;
/// Where a sum fails, sums of so many look closer.
const PART: usize = 32;
/// Keys of a generation; two are kept, some megabytes.
const KEYS_MAX: usize = 16_384;

/// A signature to check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim<'c> {
    pub(crate) key: &'c PublicKey,
    pub(crate) message: CryptoHash,
    pub(crate) signature: &'c Signature,
}

impl<'c> Claim<'c> {
    /// That a transaction with this hash is signed by its key.
    pub(crate) fn of_transaction(signed: &'c SignedTransaction, hash: CryptoHash) -> Self {
        Self { key: &signed.transaction.public_key, message: hash, signature: &signed.signature }
    }

    fn holds(&self) -> bool {
        self.key.verify(&self.message.0, self.signature)
    }
}

/// What a key's bytes are.
#[derive(Debug, Clone, Copy)]
enum Point {
    /// No point.
    None,
    /// A point outside the prime-order group, which a sum does not judge as a single check does.
    Odd,
    Prime(EdwardsPoint),
}

impl Point {
    fn of(key: &PublicKey) -> Self {
        match CompressedEdwardsY(key.0).decompress() {
            None => Self::None,
            Some(point) if point.is_torsion_free() && !point.is_identity() => Self::Prime(point),
            Some(_) => Self::Odd,
        }
    }
}

/// Keys used lately, in two generations: when the younger is full, the older goes.
#[derive(Debug, Default)]
struct Keys {
    young: BTreeMap<PublicKey, Point>,
    old: BTreeMap<PublicKey, Point>,
}

impl Keys {
    fn point(&mut self, key: &PublicKey) -> Point {
        if let Some(point) = self.young.get(key) {
            return *point;
        }
        let point = self.old.get(key).copied().unwrap_or_else(|| Point::of(key));
        self.remember(*key, point);
        point
    }

    fn remember(&mut self, key: PublicKey, point: Point) {
        if self.young.len() >= KEYS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, point);
    }
}

/// Checks signatures, and remembers keys.
#[derive(Debug, Default)]
pub(crate) struct Signatures {
    keys: Mutex<Keys>,
}

/// A well-formed signature by a key of the prime-order group: it holds where sB - R - kA is zero.
struct Term {
    /// Whose claim it is.
    claim: usize,
    key: PublicKey,
    a: EdwardsPoint,
    r: EdwardsPoint,
    s: Scalar,
    k: Scalar,
}

impl Signatures {
    /// Whether each claim holds.
    pub(crate) fn check(&self, claims: &[Claim<'_>]) -> Vec<bool> {
        if claims.len() < BATCH_MIN {
            return claims.iter().map(Claim::holds).collect();
        }
        let mut verdicts = vec![false; claims.len()];
        let mut terms = Vec::with_capacity(claims.len());
        for (index, (claim, point)) in claims.iter().zip(self.points(claims)).enumerate() {
            match point {
                Point::None => {}
                Point::Odd => verdicts[index] = claim.holds(),
                Point::Prime(a) => terms.extend(term(index, claim, a)),
            }
        }
        judge(&terms, claims, &mut verdicts);
        verdicts
    }

    fn points(&self, claims: &[Claim<'_>]) -> Vec<Point> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        claims.iter().map(|claim| keys.point(claim.key)).collect()
    }
}

/// Writes the verdicts of the terms' claims.
fn judge(terms: &[Term], claims: &[Claim<'_>], verdicts: &mut [bool]) {
    if terms.len() >= BATCH_MIN && is_sum_zero(terms) {
        for term in terms {
            verdicts[term.claim] = true;
        }
    } else if terms.len() > PART {
        terms.chunks(PART).for_each(|part| judge(part, claims, verdicts));
    } else {
        for term in terms {
            verdicts[term.claim] = claims[term.claim].holds();
        }
    }
}

/// Nothing where no single check could pass: R is always compared with a canonical encoding.
fn term(claim: usize, own: &Claim<'_>, a: EdwardsPoint) -> Option<Term> {
    let (r_bytes, s_bytes) = own.signature.0.split_first_chunk::<32>()?;
    let s = Option::from(Scalar::from_canonical_bytes(s_bytes.try_into().ok()?))?;
    if !is_canonical(r_bytes) {
        return None;
    }
    let r = CompressedEdwardsY(*r_bytes).decompress()?;
    let mut hash = Sha512::new();
    hash.update(r_bytes);
    hash.update(own.key.0);
    hash.update(own.message.0);
    let k = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
    Some(Term { claim, key: *own.key, a, r, s, k })
}

/// Whether a point's encoding is the one that compression makes: y below 2^255 - 19, and no sign where x is zero, which
/// is where y is 1 or -1.
fn is_canonical(bytes: &[u8; 32]) -> bool {
    let [first, middle @ .., last] = bytes;
    let (high, is_negative) = (last & 0x7f, last & 0x80 != 0);
    if high == 0x7f && middle.iter().all(|byte| *byte == 0xff) && *first >= 0xec {
        return *first == 0xec && !is_negative;
    }
    !(is_negative && high == 0 && *first == 1 && middle.iter().all(|byte| *byte == 0))
}

/// Whether the sum of z(sB - R - kA) over all terms is zero, each with a z of its own that depends on all terms.
fn is_sum_zero(terms: &[Term]) -> bool {
    let mut seed = Sha256::new();
    for term in terms {
        seed.update(term.k.as_bytes());
        seed.update(term.s.as_bytes());
    }
    let mut rng = ChaCha20Rng::from_seed(seed.finalize().into());
    let mut base = Scalar::ZERO;
    let mut factors = Vec::with_capacity(2 * terms.len() + 1);
    let mut points = Vec::with_capacity(2 * terms.len() + 1);
    let mut keys: BTreeMap<PublicKey, (EdwardsPoint, Scalar)> = BTreeMap::new();
    for term in terms {
        let z = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64() | 1);
        let z = Scalar::from(z);
        base += z * term.s;
        factors.push(z);
        points.push(term.r);
        keys.entry(term.key).or_insert((term.a, Scalar::ZERO)).1 += z * term.k;
    }
    for (a, factor) in keys.into_values() {
        factors.push(factor);
        points.push(a);
    }
    let factors = once(-base).chain(factors);
    EdwardsPoint::vartime_multiscalar_mul(factors, once(ED25519_BASEPOINT_POINT).chain(points)).is_identity()
}

#[cfg(test)]
mod tests {
    use curve25519_dalek::constants::EIGHT_TORSION;
    use proptest::prelude::*;
    use tpsctl_near::KeyPair;

    use super::*;

    /// A signature made by hand, so that its parts can be what no ordinary signer makes.
    #[derive(Debug, Clone, Copy)]
    enum Kind {
        Good,
        /// One bit of the signature is another.
        Corrupted(usize),
        /// It is of another message.
        Other,
        /// It is of another key.
        Foreign,
        /// The group order was added to s.
        LargeScalar,
        /// The key has a torsion component; R has one, too.
        OddKey(usize, usize),
        /// The key is of small order.
        SmallKey(usize, usize),
        /// R is of small order, the key is not.
        SmallR(usize),
        /// R is the neutral point in one of its other encodings.
        UncanonicalR(u8),
        /// The key is no point.
        NoKey,
        /// R is no point.
        NoR,
    }

    fn kinds() -> impl Strategy<Value = Kind> {
        prop_oneof![
            20 => Just(Kind::Good),
            1 => (0_usize..512).prop_map(Kind::Corrupted),
            1 => Just(Kind::Other),
            1 => Just(Kind::Foreign),
            1 => Just(Kind::LargeScalar),
            1 => (1_usize..8, 0_usize..8).prop_map(|(a, r)| Kind::OddKey(a, r)),
            1 => (0_usize..8, 0_usize..8).prop_map(|(a, r)| Kind::SmallKey(a, r)),
            1 => Just(Kind::SmallR(0)),
            1 => (0_u8..3).prop_map(Kind::UncanonicalR),
            1 => Just(Kind::NoKey),
            1 => Just(Kind::NoR),
        ]
    }

    fn scalar(number: u64) -> Scalar {
        Scalar::from_bytes_mod_order_wide(&Sha512::digest(number.to_le_bytes()).into())
    }

    type Made = (PublicKey, CryptoHash, Signature);

    fn signature(a: (Scalar, [u8; 32]), r: (Scalar, [u8; 32]), message: CryptoHash) -> Made {
        let mut hash = Sha512::new();
        hash.update(r.1);
        hash.update(a.1);
        hash.update(message.0);
        let k = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(&r.1);
        bytes[32..].copy_from_slice(&(r.0 + k * a.0).to_bytes());
        (PublicKey(a.1), message, Signature(bytes))
    }

    fn not_a_point() -> [u8; 32] {
        let points = (2_u8..).map(|first| {
            let mut bytes = [0; 32];
            bytes[0] = first;
            bytes
        });
        points
            .into_iter()
            .find(|bytes| CompressedEdwardsY(*bytes).decompress().is_none())
            .expect("one of two")
    }

    /// Key `signer`, and number `number` of all.
    fn make(kind: Kind, signer: u64, number: u64) -> Made {
        let message = CryptoHash::of(&number.to_le_bytes());
        let a = scalar(1_000_000 + signer);
        let r = scalar(2_000_000 + number);
        let point = |factor: Scalar, torsion: usize| {
            (factor, (EdwardsPoint::mul_base(&factor) + EIGHT_TORSION[torsion]).compress().0)
        };
        let good = || signature(point(a, 0), point(r, 0), message);
        match kind {
            Kind::Good => good(),
            Kind::Corrupted(bit) => {
                let (key, message, mut own) = good();
                own.0[bit / 8] ^= 1 << (bit % 8);
                (key, message, own)
            }
            Kind::Other => (good().0, CryptoHash::of(b"other"), good().2),
            Kind::Foreign => (make(Kind::Good, signer + 500, number).0, message, good().2),
            Kind::LargeScalar => {
                let (key, message, mut own) = good();
                let mut carry = 0;
                let order = (-Scalar::ONE).to_bytes();
                for (byte, more) in own.0[32..].iter_mut().zip(order) {
                    let sum = u16::from(*byte) + u16::from(more) + carry;
                    (*byte, carry) = (sum as u8, sum >> 8);
                }
                // The order is one more than the greatest scalar; s is hardly ever the greatest.
                own.0[32] = own.0[32].wrapping_add(1);
                (key, message, own)
            }
            Kind::OddKey(key, torsion) => signature(point(a, key), point(r, torsion), message),
            Kind::SmallKey(key, torsion) => signature(point(Scalar::ZERO, key), point(r, torsion), message),
            Kind::SmallR(torsion) => signature(point(a, 0), point(Scalar::ZERO, torsion), message),
            Kind::UncanonicalR(way) => {
                let mut neutral = [0; 32];
                neutral[0] = 1;
                match way {
                    0 => neutral[31] = 0x80,
                    way => {
                        neutral = [0xff; 32];
                        neutral[0] = 0xee;
                        neutral[31] = if way == 1 { 0x7f } else { 0xff };
                    }
                }
                signature(point(a, 0), (Scalar::ZERO, neutral), message)
            }
            Kind::NoKey => signature((a, not_a_point()), point(r, 0), message),
            Kind::NoR => signature(point(a, 0), (r, not_a_point()), message),
        }
    }

    fn check(made: &[Made]) -> (Vec<bool>, Vec<bool>) {
        let claim = |(key, message, signature): &'_ Made| -> bool { key.verify(&message.0, signature) };
        let claims: Vec<Claim<'_>> = made
            .iter()
            .map(|(key, message, signature)| Claim { key, message: *message, signature })
            .collect();
        let signatures = Signatures::default();
        let first = signatures.check(&claims);
        assert_eq!(first, signatures.check(&claims), "a remembered key is the same key");
        (first, made.iter().map(claim).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn a_batch_says_what_single_checks_say(
            all in proptest::collection::vec((kinds(), 0_u64..6), 1..90),
            lone in proptest::option::of((0_usize..90, 1_usize..8)),
        ) {
            let mut made: Vec<Made> = all.iter().zip(0..).map(|((kind, signer), n)| make(*kind, *signer, n)).collect();
            if let Some((at, torsion)) = lone && at < made.len() {
                // One R with torsion under an ordinary key: found for certain.
                made[at] = make(Kind::SmallR(torsion), 3, 1_000);
            }
            let (batch, single) = check(&made);
            prop_assert_eq!(batch, single);
        }

        #[test]
        fn canonical_encodings_are_those_that_compression_makes(bytes in proptest::array::uniform32(any::<u8>())) {
            if let Some(point) = CompressedEdwardsY(bytes).decompress() {
                prop_assert_eq!(is_canonical(&bytes), point.compress().0 == bytes);
            }
        }
    }

    #[test]
    fn every_kind_alone_among_good_ones() {
        let odd = [Kind::Other, Kind::Foreign, Kind::LargeScalar, Kind::NoKey, Kind::NoR];
        let odd = odd.into_iter().chain((0..512).step_by(37).map(Kind::Corrupted));
        let odd = odd.chain((0..3).map(Kind::UncanonicalR)).chain((0..8).map(Kind::SmallR));
        let pairs = (0..8).flat_map(|a| (0..8).map(move |r| (a, r)));
        let odd = odd.chain(pairs.clone().map(|(a, r)| Kind::SmallKey(a, r)));
        for kind in odd.chain(pairs.map(|(a, r)| Kind::OddKey(a, r))) {
            let mut made: Vec<Made> = (0..8).map(|number| make(Kind::Good, number % 3, number)).collect();
            made[5] = make(kind, 4, 5);
            let (batch, single) = check(&made);
            assert_eq!(batch, single, "{kind:?}");
        }
    }

    #[test]
    fn encodings_near_the_prime() {
        for first in 0..=255 {
            for (fill, last) in [(0xff, 0x7f), (0xff, 0xff), (0, 0), (0, 0x80), (0xff, 0x7e)] {
                let mut bytes = [fill; 32];
                (bytes[0], bytes[31]) = (first, last);
                if let Some(point) = CompressedEdwardsY(bytes).decompress() {
                    assert_eq!(is_canonical(&bytes), point.compress().0 == bytes, "{bytes:?}");
                }
            }
        }
    }

    #[test]
    fn remembered_keys_are_bounded() {
        let mut keys = Keys::default();
        let key = |number: usize| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
            PublicKey(bytes)
        };
        for number in 0..3 * KEYS_MAX {
            keys.remember(key(number), Point::None);
            assert!(keys.young.len() <= KEYS_MAX && keys.old.len() <= KEYS_MAX);
        }
        assert!(keys.old.contains_key(&key(2 * KEYS_MAX - 1)), "the younger half of them stays");
    }

    #[test]
    fn ordinary_signatures_pass() {
        let key = KeyPair::from_seed([4; 32]);
        let message = CryptoHash::of(b"message");
        let made = (key.public(), message, key.sign(&message.0));
        let (batch, single) = check(&vec![made; 20]);
        assert_eq!((batch, single), (vec![true; 20], vec![true; 20]));
    }
}
