use std::str::FromStr;

use borsh::BorshDeserialize;
use near_crypto::{
    ED25519PublicKey, PublicKey as TheirPublic, SecretKey as TheirSecret, Signature as TheirSignature,
};
use near_primitives::hash::CryptoHash as TheirHash;
use proptest::prelude::*;
use tpsctl_near::{
    CryptoHash, KeyPair, PublicKey, Signature,
    files::{KeyFile, from_text, to_text},
};

fn their_secret(pair: &KeyPair) -> TheirSecret {
    pair.secret_text().parse().expect("secret text")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn keys_have_the_same_texts_and_bytes(seed in any::<[u8; 32]>()) {
        let pair = KeyPair::from_seed(seed);
        let theirs = their_secret(&pair);
        prop_assert_eq!(theirs.to_string(), pair.secret_text());
        prop_assert_eq!(theirs.public_key().to_string(), pair.public().to_string());
        let bytes = borsh::to_vec(&pair.public())?;
        prop_assert_eq!(&bytes, &borsh::to_vec(&theirs.public_key())?);
        prop_assert_eq!(PublicKey::try_from_slice(&bytes)?, pair.public());
        prop_assert_eq!(serde_json::to_string(&pair.public())?, serde_json::to_string(&theirs.public_key())?);
    }

    #[test]
    fn signatures_have_the_same_texts_and_bytes(seed in any::<[u8; 32]>(), message in proptest::collection::vec(any::<u8>(), 0..200)) {
        let pair = KeyPair::from_seed(seed);
        let ours = pair.sign(&message);
        let theirs = their_secret(&pair).sign(&message);
        prop_assert_eq!(ours.to_string(), theirs.to_string(), "ordinary signatures are a function of key and message");
        let bytes = borsh::to_vec(&ours)?;
        prop_assert_eq!(&bytes, &borsh::to_vec(&theirs)?);
        prop_assert_eq!(Signature::try_from_slice(&bytes)?, ours);
        prop_assert_eq!(TheirSignature::from_str(&ours.to_string()).ok(), Some(theirs.clone()));
        let public = their_secret(&pair).public_key();
        prop_assert!(theirs.verify(&message, &public) && pair.public().verify(&message, &ours));
    }

    #[test]
    fn the_same_signatures_are_refused(
        seed in any::<[u8; 32]>(),
        at in 0_usize..96,
        flip in 1_u8..=255,
    ) {
        let pair = KeyPair::from_seed(seed);
        let mut both = [pair.public().0.as_slice(), pair.sign(b"message").0.as_slice()].concat();
        both[at] ^= flip;
        let (public, signature) = both.split_at(32);
        let (public, signature) = (public.try_into()?, signature.try_into()?);
        let ours = PublicKey(public).verify(b"message", &Signature(signature));
        let their_public = TheirPublic::ED25519(ED25519PublicKey(public));
        let theirs = TheirSignature::from_parts(near_crypto::KeyType::ED25519, &signature)
            .is_ok_and(|signature| signature.verify(b"message", &their_public));
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn keys_have_the_same_order(one in any::<[u8; 32]>(), other in any::<[u8; 32]>()) {
        let theirs = TheirPublic::ED25519(ED25519PublicKey(one)).cmp(&TheirPublic::ED25519(ED25519PublicKey(other)));
        prop_assert_eq!(PublicKey(one).cmp(&PublicKey(other)), theirs);
    }

    #[test]
    fn hashes_are_the_same(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (ours, theirs) = (CryptoHash::of(&bytes), TheirHash::hash_bytes(&bytes));
        prop_assert_eq!(ours.to_string(), theirs.to_string());
        prop_assert_eq!(ours.to_string().parse(), Ok(ours));
        prop_assert_eq!(borsh::to_vec(&ours)?, borsh::to_vec(&theirs)?);
    }

    #[test]
    fn the_same_texts_are_keys(text in r"(ed25519:|ED25519:|)[1-9A-HJ-NP-Za-km-z]{41,46}") {
        let ours = text.parse::<PublicKey>().map(|key| key.to_string()).ok();
        let theirs = text.parse::<TheirPublic>().map(|key| key.to_string()).ok();
        // neard also takes a text without a kind, and a kind in capitals; no file that it writes has either.
        if text.starts_with("ed25519:") {
            prop_assert_eq!(ours, theirs);
        } else {
            prop_assert_eq!(ours, None);
        }
    }

    #[test]
    fn key_files_are_read_by_neard(seed in any::<[u8; 32]>(), account in super::account_id()) {
        let file = KeyFile { account_id: Some(account.parse()?), key: KeyPair::from_seed(seed) };
        let text = to_text("key file", &file)?;
        let theirs: near_crypto::KeyFile = serde_json::from_str(&text)?;
        prop_assert_eq!(theirs.account_id.as_str(), account);
        prop_assert_eq!(&theirs.secret_key.public_key(), &theirs.public_key);
        let back: KeyFile = from_text("key file", &serde_json::to_vec(&theirs)?)?;
        prop_assert_eq!(back.key.seed(), seed);
    }
}
