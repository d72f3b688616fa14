use borsh::BorshDeserialize;
use near_primitives::{
    action::{Action as TheirAction, TransferAction},
    hash::CryptoHash as TheirHash,
    transaction::{SignedTransaction as TheirSigned, Transaction as Theirs, TransactionV0},
    types::Balance,
};
use proptest::prelude::*;
use tpsctl_near::{Action, CryptoHash, KeyPair, SignedTransaction, Transaction};

use super::account_id;

fn transaction() -> impl Strategy<Value = (Transaction, KeyPair)> {
    let fields = (
        any::<[u8; 32]>(),
        account_id(),
        account_id(),
        any::<u64>(),
        any::<[u8; 32]>(),
        proptest::collection::vec(any::<u128>(), 0..4),
    );
    fields.prop_map(|(seed, signer, receiver, nonce, block_hash, deposits)| {
        let key = KeyPair::from_seed(seed);
        let transaction = Transaction {
            signer_id: signer.parse().expect("id"),
            public_key: key.public(),
            nonce,
            receiver_id: receiver.parse().expect("id"),
            block_hash: CryptoHash(block_hash),
            actions: deposits.into_iter().map(|deposit| Action::Transfer { deposit }).collect(),
        };
        (transaction, key)
    })
}

fn theirs(ours: &Transaction) -> Theirs {
    let transfer = |action: &Action| {
        let Action::Transfer { deposit } = *action;
        TheirAction::Transfer(TransferAction { deposit: Balance::from_yoctonear(deposit) })
    };
    Theirs::V0(TransactionV0 {
        signer_id: ours.signer_id.as_str().parse().expect("id"),
        public_key: ours.public_key.to_string().parse().expect("key"),
        nonce: ours.nonce,
        receiver_id: ours.receiver_id.as_str().parse().expect("id"),
        block_hash: TheirHash(ours.block_hash.0),
        actions: ours.actions.iter().map(transfer).collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn transactions_have_the_same_bytes_hash_and_size((ours, key) in transaction()) {
        let theirs = theirs(&ours);
        prop_assert_eq!(borsh::to_vec(&ours)?, borsh::to_vec(&theirs)?);
        let (hash, _) = theirs.get_hash_and_size();
        prop_assert_eq!(ours.hash().0, hash.0);

        let signed = ours.sign(&key);
        let bytes = borsh::to_vec(&signed)?;
        let their_signed = TheirSigned::new(signed.signature.to_string().parse()?, theirs);
        prop_assert_eq!(&bytes, &borsh::to_vec(&their_signed)?);
        prop_assert_eq!(signed.size() as u64, their_signed.wire_size());
        prop_assert_eq!(signed.size(), bytes.len());
        prop_assert_eq!(signed.hash().0, their_signed.get_hash().0);
        prop_assert!(signed.is_signed());
        prop_assert!(their_signed.signature.verify(&hash.0, their_signed.transaction.public_key()));
        prop_assert_eq!(SignedTransaction::try_from_slice(&bytes)?, signed);
    }

    #[test]
    fn what_we_can_read_they_read_alike((ours, key) in transaction(), at in any::<usize>(), byte in any::<u8>()) {
        let mut bytes = borsh::to_vec(&ours.sign(&key))?;
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(read) = SignedTransaction::try_from_slice(&bytes) {
            let theirs = TheirSigned::try_from_slice(&bytes);
            prop_assert!(theirs.is_ok(), "{:?}", theirs);
            prop_assert_eq!(theirs?.get_hash().0, read.hash().0);
        }
    }
}
