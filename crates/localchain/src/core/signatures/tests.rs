//! Verdicts of batches, of single checks and of neard's rule.

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
    /// R has a torsion component, the key has none.
    OddR(usize),
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
        1 => (0_usize..8).prop_map(Kind::SmallR),
        4 => (1_usize..8).prop_map(Kind::OddR),
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
    points.into_iter().find(|bytes| CompressedEdwardsY(*bytes).decompress().is_none()).expect("one of two")
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
        Kind::OddR(torsion) => signature(point(a, 0), point(r, torsion), message),
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

/// What a batch says, and what the rule says of each alone.
fn check(made: &[Made]) -> (Vec<bool>, Vec<bool>) {
    let claims: Vec<Claim<'_>> =
        made.iter().map(|(key, message, signature)| Claim { key, message: *message, signature }).collect();
    let signatures = Signatures::default();
    let first = signatures.check(&claims);
    assert_eq!(first, signatures.check(&claims), "a remembered key is the same key");
    let singly: Vec<bool> = claims.iter().map(|claim| signatures.check(&[*claim])[0]).collect();
    assert!(claims.iter().map(Claim::holds).eq(singly.iter().copied()), "one of one is a single check");
    (first, singly)
}

/// What neard says of each.
fn strict(made: &[Made]) -> Vec<bool> {
    made.iter().map(|(key, message, signature)| key.verify(&message.0, signature)).collect()
}

/// The one thing that neard refuses and this rule takes.
fn is_torsion_of_r(kind: Kind) -> bool {
    matches!(kind, Kind::SmallR(torsion) | Kind::OddR(torsion) | Kind::OddKey(0, torsion) if torsion > 0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_batch_says_what_single_checks_say(all in proptest::collection::vec((kinds(), 0_u64..6), 1..90)) {
        let made: Vec<Made> = all.iter().zip(0..).map(|((kind, signer), n)| make(*kind, *signer, n)).collect();
        let (batch, single) = check(&made);
        prop_assert_eq!(&batch, &single);
        for ((own, strict), (kind, _)) in batch.iter().zip(strict(&made)).zip(&all) {
            prop_assert_eq!(*own, strict || is_torsion_of_r(*kind), "{:?}", kind);
        }
    }

    #[test]
    fn torsion_is_judged_alike_in_any_company(torsions in proptest::collection::vec(0_usize..8, 2..40), cut in 1_usize..39) {
        let made: Vec<Made> = torsions.iter().zip(0..).map(|(own, n)| make(Kind::OddR(*own), n % 3, n)).collect();
        let (left, right) = made.split_at(cut.min(made.len()));
        let parts: Vec<bool> = [left, right].iter().flat_map(|part| check(part).0).collect();
        prop_assert_eq!(check(&made).0, parts);
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
    let odd = odd.chain((0..8).map(Kind::OddR));
    let pairs = (0..8).flat_map(|a| (0..8).map(move |r| (a, r)));
    let odd = odd.chain(pairs.clone().map(|(a, r)| Kind::SmallKey(a, r)));
    for kind in odd.chain(pairs.map(|(a, r)| Kind::OddKey(a, r))) {
        let mut made: Vec<Made> = (0..8).map(|number| make(Kind::Good, number % 3, number)).collect();
        made[5] = make(kind, 4, 5);
        let (batch, single) = check(&made);
        assert_eq!(batch, single, "{kind:?}");
        assert_eq!(batch[5], strict(&made)[5] || is_torsion_of_r(kind), "{kind:?}");
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
