//! Ed25519 signatures in batches: one sum over many signatures instead of an equation for each.
//!
//! One rule judges every signature on the chain, alone or in a batch, and its verdict depends on nothing but key, message
//! and signature. The encoding of R must be the canonical one and s below the group order; then a key of the prime-order
//! group signed where 8(sB - R - kA) is zero, any other key where [`PublicKey::verify`] says so. The factor is what makes
//! sums and single checks agree: without it, two signatures whose R have torsion components can cancel each other in a
//! sum, and which of them meet in one is chance.
//!
//! Whatever neard takes is taken here. neard has no factor, so it refuses one thing that this rule takes: a signature
//! whose R has a torsion component. Only who holds the key can make one, on purpose; no ordinary signer does.
//!
//! In a batch, what is malformed is refused at once; where the sum of the others is not zero, smaller sums and then
//! single checks find the culprits.
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

    /// The rule, for one signature.
    pub(crate) fn holds(&self) -> bool {
        // Nearly all that comes is this, or nothing.
        self.is_strict()
            || matches!(Point::of(self.key), Point::Prime(a) if term(0, self, a).is_some_and(|term| term.holds()))
    }

    /// What neard says.
    fn is_strict(&self) -> bool {
        self.key.verify(&self.message.0, self.signature)
    }
}

/// Whether the key signed the message.
pub(crate) fn is_signed(key: &PublicKey, message: CryptoHash, signature: &Signature) -> bool {
    Claim { key, message, signature }.holds()
}

/// What a key's bytes are.
#[derive(Debug, Clone, Copy)]
enum Point {
    /// No point.
    None,
    /// A point outside the prime-order group.
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

/// A well-formed signature by a key of the prime-order group: it holds where 8(sB - R - kA) is zero.
struct Term {
    /// Whose claim it is.
    claim: usize,
    key: PublicKey,
    a: EdwardsPoint,
    r: EdwardsPoint,
    s: Scalar,
    k: Scalar,
}

impl Term {
    fn holds(&self) -> bool {
        let own = EdwardsPoint::vartime_double_scalar_mul_basepoint(&-self.k, &self.a, &self.s);
        (own - self.r).is_small_order()
    }
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
                Point::Odd => verdicts[index] = claim.is_strict(),
                Point::Prime(a) => terms.extend(term(index, claim, a)),
            }
        }
        judge(&terms, &mut verdicts);
        verdicts
    }

    fn points(&self, claims: &[Claim<'_>]) -> Vec<Point> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        claims.iter().map(|claim| keys.point(claim.key)).collect()
    }
}

/// Writes the verdicts of the terms' claims.
fn judge(terms: &[Term], verdicts: &mut [bool]) {
    if terms.len() >= BATCH_MIN && is_sum_zero(terms) {
        for term in terms {
            verdicts[term.claim] = true;
        }
    } else if terms.len() > PART {
        terms.chunks(PART).for_each(|part| judge(part, verdicts));
    } else {
        for term in terms {
            verdicts[term.claim] = term.holds();
        }
    }
}

/// Nothing where the signature is malformed.
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

/// Whether the sum of 8z(sB - R - kA) over all terms is zero, each with a z of its own that depends on all terms. All of
/// it is in the prime-order group, so terms that are not zero make a sum that is with a chance of one in 2^128.
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
        let z = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
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
    EdwardsPoint::vartime_multiscalar_mul(factors, once(ED25519_BASEPOINT_POINT).chain(points))
        .is_small_order()
}

#[cfg(test)]
mod tests;
