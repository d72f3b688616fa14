use near_crypto::{ED25519PublicKey, KeyType, PublicKey as TheirPublic, Signature as TheirSignature};
use proptest::{prelude::*, test_runner::TestRng};
use tpsctl_model::plan::{KeyKind, Signing};
use tpsctl_near::{PublicKey, Signature};
use tpsctl_workload::{Keyring, Signer};

use super::tiny_plan;

/// Verifiers by name, each accepting or not.
fn verdicts(public: PublicKey, message: &[u8], signature: &Signature) -> [(&'static str, bool); 3] {
    let ring = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, public.0);
    let aws = aws_lc_rs::signature::UnparsedPublicKey::new(&aws_lc_rs::signature::ED25519, public.0);
    let near = TheirSignature::from_parts(KeyType::ED25519, &signature.0)
        .is_ok_and(|signature| signature.verify(message, &TheirPublic::ED25519(ED25519PublicKey(public.0))));
    [
        ("ring", ring.verify(message, &signature.0).is_ok()),
        ("aws-lc-rs", aws.verify(message, &signature.0).is_ok()),
        ("near-crypto", near),
    ]
}

fn signers(keys: KeyKind) -> Vec<Signer> {
    let mut plan = tiny_plan();
    plan.accounts.per_shard = 500;
    plan.accounts.keys = keys;
    let keyring = Keyring::build(&plan).expect("keyring");
    let shard = &keyring.shards()[0];
    (0..shard.len()).map(|index| shard.signer(index, Signing::FixedNonce).expect("signer")).collect()
}

#[test]
fn slow_every_verifier_takes_100_000_signatures_with_a_fixed_nonce() {
    let mut rng = TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
    for keys in [KeyKind::Row, KeyKind::Seed] {
        let signers = signers(keys);
        for number in 0..50_000 {
            let mut message = vec![0; number % 130];
            rng.fill_bytes(&mut message);
            let signer = &signers[number % signers.len()];
            let signature = signer.sign(&message);
            for (verifier, accepts) in verdicts(signer.public_key(), &message, &signature) {
                assert!(accepts, "{verifier} refuses signature {number} ({keys:?})");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_verifier_takes_a_changed_signature(
        message in proptest::collection::vec(any::<u8>(), 1..100),
        at in 0_usize..64,
        flip in 1_u8..=255,
        keys in prop_oneof![Just(KeyKind::Row), Just(KeyKind::Seed)],
    ) {
        let mut plan = tiny_plan();
        plan.accounts.keys = keys;
        let keyring = Keyring::build(&plan)?;
        let signer = keyring.shards()[1].signer(2, Signing::FixedNonce)?;
        let mut signature = signer.sign(&message);
        for (verifier, accepts) in verdicts(signer.public_key(), &message, &signature) {
            prop_assert!(accepts, "{}", verifier);
        }
        let mut other = message.clone();
        other[0] ^= flip;
        for (verifier, accepts) in verdicts(signer.public_key(), &other, &signature) {
            prop_assert!(!accepts, "{} takes another message", verifier);
        }
        signature.0[at] ^= flip;
        for (verifier, accepts) in verdicts(signer.public_key(), &message, &signature) {
            prop_assert!(!accepts, "{} takes another signature", verifier);
        }
    }
}
