//! A signed transaction in borsh: any bytes, or one made of choices; read, written and admitted on a chain's genesis.

use std::sync::{Arc, LazyLock};

use borsh::BorshDeserialize;
use tpsctl_localchain::core::{InvalidTx, Node, Received as Arrived, View, admit};
use tpsctl_near::{
    AccountId, Action, CryptoHash, SignedTransaction, Transaction,
    p2p::{FrameDecoder, Received, append_transaction, read_message},
};

use super::{
    bytes::Bytes,
    peer_messages::chain::{BALANCE, key_of, settings, user},
};
use crate::corpus::recorded;

const RAW: u8 = 0;

/// Genesis of the chain that transactions are admitted to; its node tracks every shard.
static VIEW: LazyLock<Arc<View>> = LazyLock::new(|| Arc::clone(Node::new(settings(None)).view()));

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut decoder = FrameDecoder::default();
    decoder.push(&recorded("neard/p2p/accepted/client-to-node.bin"));
    let mut seeds = Vec::new();
    while let Ok(Some(message)) = decoder.next_frame() {
        if let Received::Transaction(borsh) = read_message(message) {
            seeds.push([vec![RAW], borsh].concat());
        }
    }
    // signer, receiver, key and base; then the nonce, a count of transfers and the deposit of each.
    for choices in [0_u8, 1, 4, 0x10, 0x20, 0x40, 0x80, 0xff] {
        let deposit = 7_u128.to_le_bytes();
        seeds.push([&[1, choices, 1, 0, 0, 0, 0, 0, 0, 0, 1][..], &deposit, &deposit].concat());
    }
    seeds
}

pub(super) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    if bytes.u8() & 1 == RAW {
        let arrived = Arrived::read(bytes.0.to_vec());
        let Ok(signed) = SignedTransaction::try_from_slice(bytes.0) else {
            assert!(arrived.is_none(), "two readers disagree");
            return;
        };
        assert!(arrived.is_some(), "two readers disagree");
        assert_eq!(borsh::to_vec(&signed).ok().as_deref(), Some(bytes.0), "one value has one encoding");
        // Whether it is admitted decides nothing here.
        drop(check(&signed));
    } else {
        check_chosen(bytes);
    }
}

/// Holds for any transaction; what admission says of it.
fn check(signed: &SignedTransaction) -> Result<(), InvalidTx> {
    let borsh = borsh::to_vec(signed).expect("memory takes every byte");
    assert_eq!(signed.size(), borsh.len());
    assert_eq!(SignedTransaction::try_from_slice(&borsh).as_ref().ok(), Some(signed));
    let mut framed = Vec::new();
    append_transaction(&mut framed, &borsh);
    assert_eq!(read_message(&framed[4..]), Received::Transaction(borsh));
    let mut answers = admit(vec![Arrived::of_signed(signed.clone())], &VIEW);
    assert_eq!(answers.len(), 1);
    match answers.remove(0) {
        Ok(verified) => {
            assert!(signed.is_signed());
            assert_eq!(verified.signed(), signed);
            assert!(VIEW.is_valid_base(&signed.transaction.block_hash));
            assert!(deposit_of(&signed.transaction).is_some_and(|deposit| deposit < BALANCE));
            Ok(())
        }
        Err(fault) => Err(fault),
    }
}

fn deposit_of(transaction: &Transaction) -> Option<u128> {
    transaction.actions.iter().try_fold(0_u128, |sum, Action::Transfer { deposit }| sum.checked_add(*deposit))
}

fn account(index: u8) -> AccountId {
    user(usize::from(index >> 1 & 1), usize::from(index & 1))
}

/// A transaction made of choices is admitted exactly when they say so, and the first fault is named.
fn check_chosen(mut bytes: Bytes<'_>) {
    let choices = bytes.u8();
    let is_set = |bit: u8| choices & bit != 0;
    let signer_id: AccountId =
        if is_set(0x10) { "nobody".parse().expect("an id") } else { account(choices & 3) };
    let key = if is_set(0x20) { key_of("a stranger") } else { key_of(signer_id.as_str()) };
    let nonce = bytes.u64();
    let actions = (0..bytes.u8() % 5).map(|_| Action::Transfer { deposit: bytes.u128() }).collect();
    let base = if is_set(0x40) { CryptoHash([3; 32]) } else { VIEW.head.block.hash() };
    let transaction = Transaction {
        signer_id: signer_id.clone(),
        public_key: key.public(),
        nonce,
        receiver_id: account(choices >> 2 & 3),
        block_hash: base,
        actions,
    };
    let deposit = deposit_of(&transaction);
    let mut signed = transaction.sign(&key);
    if is_set(0x80) {
        // The last byte is left alone: with its high bits set the signature would not even be read.
        signed.signature.0[usize::from(bytes.u8()) % 63] ^= 1 | bytes.u8();
    }
    let admitted = check(&signed);
    if is_set(0x40) {
        assert_eq!(admitted, Err(InvalidTx::Expired));
    } else if is_set(0x80) {
        assert_eq!(admitted, Err(InvalidTx::InvalidSignature));
    } else if is_set(0x10) {
        assert_eq!(admitted, Err(InvalidTx::SignerDoesNotExist(signer_id)));
    } else if is_set(0x20) {
        assert_eq!(admitted, Err(InvalidTx::AccessKeyNotFound(signer_id, key.public())));
    } else if nonce == 0 {
        assert_eq!(admitted, Err(InvalidTx::InvalidNonce { tx_nonce: 0, ak_nonce: 0 }));
    } else {
        match deposit {
            None => assert_eq!(admitted, Err(InvalidTx::CostOverflow)),
            Some(deposit) if deposit <= BALANCE / 2 => assert_eq!(admitted, Ok(())),
            Some(deposit) if deposit < BALANCE => {}
            Some(_) => {
                let is_refused =
                    matches!(admitted, Err(InvalidTx::NotEnoughBalance { .. } | InvalidTx::CostOverflow));
                assert!(is_refused, "{admitted:?}");
            }
        }
    }
}
