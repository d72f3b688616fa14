//! Signatures for keys that guard nothing.
//!
//! An Ed25519 signature is (R, s) with R = rB and s = r + H(R, A, m)*a mod l. RFC 8032 derives r from the message,
//! because whoever sees two messages signed with one r can solve for the secret a. Load keys are made by genesis for
//! one throwaway chain, so r and R are fixed for each key here: one SHA-512 block and one scalar multiply-add instead of
//! a multiplication on the curve. Every verifier accepts the result, strict and batched ones too.
//!
//! The safety of that rests on two things. A [`Signer`] can be had only from [`crate::ShardKeys`], which derives its keys
//! from the run's seed: there is no way to hand in a foreign key. And [`crate::Keyring::build`] refuses a chain that is
//! not a [`ThrowawayChain`].

use std::fmt;

use curve25519_dalek::Scalar;
use sha2::{Digest, Sha512};
use tpsctl_near::{KeyPair, PublicKey, Signature, is_protected_chain};

use crate::WorkloadError;

/// The id of a chain that guards nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThrowawayChain(String);

impl ThrowawayChain {
    /// Takes `chain_id` unless it [is protected](is_protected_chain).
    pub fn new(chain_id: &str) -> Result<Self, WorkloadError> {
        if is_protected_chain(chain_id) {
            return Err(WorkloadError::RealChain { chain_id: chain_id.to_owned() });
        }
        Ok(Self(chain_id.to_owned()))
    }

    /// The chain id.
    pub fn id(&self) -> &str {
        &self.0
    }
}

/// Signs for one load account. Made by [`crate::ShardKeys`] only.
#[derive(Clone)]
pub struct Signer {
    public: PublicKey,
    way: Way,
}

#[derive(Clone)]
enum Way {
    FixedNonce(FixedNonce),
    Rfc8032(Box<KeyPair>),
}

#[derive(Clone)]
pub(crate) struct FixedNonce {
    pub(crate) secret: Scalar,
    pub(crate) nonce: Scalar,
    pub(crate) nonce_point: [u8; 32],
}

impl Signer {
    pub(crate) fn fixed_nonce(public: PublicKey, fixed: FixedNonce) -> Self {
        Self { public, way: Way::FixedNonce(fixed) }
    }

    pub(crate) fn rfc8032(pair: KeyPair) -> Self {
        Self { public: pair.public(), way: Way::Rfc8032(Box::new(pair)) }
    }

    /// The key that verifies.
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// An Ed25519 signature over `message` (for a transaction: its hash).
    pub fn sign(&self, message: &[u8]) -> Signature {
        match &self.way {
            Way::FixedNonce(fixed) => fixed.sign(&self.public, message),
            Way::Rfc8032(pair) => pair.sign(message),
        }
    }
}

impl FixedNonce {
    fn sign(&self, public: &PublicKey, message: &[u8]) -> Signature {
        let mut hasher = Sha512::new();
        hasher.update(self.nonce_point);
        hasher.update(public.0);
        hasher.update(message);
        let challenge = Scalar::from_bytes_mod_order_wide(&hasher.finalize().into());
        let s = self.nonce + challenge * self.secret;
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&self.nonce_point);
        signature[32..].copy_from_slice(s.as_bytes());
        Signature(signature)
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.way {
            Way::FixedNonce(_) => "fixed nonce",
            Way::Rfc8032(_) => "rfc8032",
        };
        write!(f, "Signer({}, {way})", self.public)
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Verifier, VerifyingKey};
    use proptest::prelude::*;
    use tpsctl_model::plan::{KeyKind, Signing};

    use super::*;
    use crate::{Keyring, keyring::tests::plan};

    #[test]
    fn real_chains_are_refused() {
        for real in ["mainnet", "TESTNET", "near-testnet"] {
            assert!(matches!(ThrowawayChain::new(real), Err(WorkloadError::RealChain { .. })), "{real}");
        }
        for ours in ["benchmarknet", "mytestnets"] {
            assert_eq!(ThrowawayChain::new(ours).expect("a throwaway").id(), ours);
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let keyring = Keyring::build(&plan(1, 2, KeyKind::Seed)).expect("plan");
        let signer = keyring.shards()[0].signer(0, Signing::FixedNonce).expect("signer");
        assert_eq!(format!("{signer:?}"), format!("Signer({}, fixed nonce)", signer.public_key()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn every_signature_verifies_also_strictly(
            message in proptest::collection::vec(any::<u8>(), 0..300),
            other in proptest::collection::vec(any::<u8>(), 0..300),
            index in 0_usize..40,
            kind in prop_oneof![Just(KeyKind::Row), Just(KeyKind::Seed)],
            seed in any::<u64>(),
        ) {
            let mut plan = plan(1, 40, kind);
            plan.seed = tpsctl_model::Seed(seed);
            let keyring = Keyring::build(&plan).expect("plan");
            let keys = &keyring.shards()[0];
            let ways: &[Signing] =
                if kind == KeyKind::Seed { &[Signing::FixedNonce, Signing::Rfc8032] } else { &[Signing::FixedNonce] };
            for way in ways {
                let signer = keys.signer(index, *way).expect("signer");
                let signature = signer.sign(&message);
                let key = VerifyingKey::from_bytes(&keys.public_key(index).0).expect("a point");
                let parsed = ed25519_dalek::Signature::from_bytes(&signature.0);
                prop_assert!(key.verify(&message, &parsed).is_ok());
                prop_assert!(key.verify_strict(&message, &parsed).is_ok());
                prop_assert_eq!(signature, signer.sign(&message));
                prop_assert!(message == other || key.verify(&other, &parsed).is_err());
            }
        }
    }
}
