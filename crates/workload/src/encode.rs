//! Signed transfers written straight into a buffer of peer-to-peer frames, without an allocation for each.

use tpsctl_model::Yocto;
use tpsctl_near::{CryptoHash, crypto::ED25519_TAG, p2p::append_transaction, transaction::TRANSFER_TAG};

use crate::{ShardKeys, Signer};

/// One end of a transfer.
#[derive(Debug, Clone, Copy)]
pub struct Party<'a> {
    /// The keys of its shard.
    pub keys: &'a ShardKeys,
    /// Its number in the shard.
    pub index: usize,
}

/// Who sends a transfer, under which nonce.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a> {
    /// The account.
    pub account: Party<'a>,
    /// The account's signer.
    pub signer: &'a Signer,
    /// The nonce.
    pub nonce: u64,
}

/// Encodes transfers of one amount. Holds what all of them share, and the space in which one is put together.
#[derive(Debug, Clone)]
pub struct TransferEncoder {
    amount: Yocto,
    block_hash: CryptoHash,
    scratch: Vec<u8>,
}

impl TransferEncoder {
    /// An encoder for transfers of `amount` that name the block `block_hash`.
    pub fn new(amount: Yocto, block_hash: CryptoHash) -> Self {
        Self { amount, block_hash, scratch: Vec::with_capacity(256) }
    }

    /// From now on, name this block.
    pub fn set_block_hash(&mut self, block_hash: CryptoHash) {
        self.block_hash = block_hash;
    }

    /// Appends the frame of one signed transfer to `out`: the bytes that
    /// [`append_transaction`] writes for the borsh of the
    /// [`SignedTransaction`](tpsctl_near::SignedTransaction). Returns the transaction's hash.
    pub fn append(&mut self, out: &mut Vec<u8>, sender: Sender<'_>, receiver: Party<'_>) -> CryptoHash {
        let bytes = &mut self.scratch;
        bytes.clear();
        push_account_id(bytes, sender.account);
        bytes.push(ED25519_TAG);
        bytes.extend_from_slice(&sender.signer.public_key().0);
        bytes.extend_from_slice(&sender.nonce.to_le_bytes());
        push_account_id(bytes, receiver);
        bytes.extend_from_slice(&self.block_hash.0);
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        bytes.push(TRANSFER_TAG);
        bytes.extend_from_slice(&self.amount.0.to_le_bytes());
        let hash = CryptoHash::of(bytes);
        let signature = sender.signer.sign(&hash.0);
        bytes.push(ED25519_TAG);
        bytes.extend_from_slice(&signature.0);
        append_transaction(out, bytes);
        hash
    }
}

/// Borsh of [`ShardKeys::account_id`], without making the id.
fn push_account_id(out: &mut Vec<u8>, party: Party<'_>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(party.keys.prefix().as_bytes());
    out.extend_from_slice(b"_user_");
    push_decimal(out, party.index);
    let len = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

fn push_decimal(out: &mut Vec<u8>, mut value: usize) {
    // u64::MAX has 20 digits.
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tpsctl_model::plan::{KeyKind, Signing};
    use tpsctl_near::{Action, SignedTransaction, Transaction};

    use super::*;
    use crate::{Keyring, keyring::tests::plan};

    #[test]
    fn decimals() {
        for value in [0, 7, 10, 99, 100, 49_999, usize::MAX] {
            let mut out = Vec::new();
            push_decimal(&mut out, value);
            assert_eq!(String::from_utf8(out).expect("digits"), value.to_string());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_bytes_are_those_of_the_formats(
            (from, to) in (0_usize..1_200, 0_usize..1_200),
            to_shard in 0_usize..2,
            nonce in any::<u64>(),
            amount in any::<u128>(),
            block_hash in any::<[u8; 32]>(),
            (kind, signing) in prop_oneof![
                Just((KeyKind::Row, Signing::FixedNonce)),
                Just((KeyKind::Seed, Signing::FixedNonce)),
                Just((KeyKind::Seed, Signing::Rfc8032)),
            ],
        ) {
            let keyring = Keyring::build(&plan(2, 1_200, kind)).expect("plan");
            let (keys, other) = (&keyring.shards()[0], &keyring.shards()[to_shard]);
            let signer = keys.signer(from, signing).expect("signer");
            let mut encoder = TransferEncoder::new(Yocto(amount), CryptoHash::default());
            encoder.set_block_hash(CryptoHash(block_hash));
            let mut out = b"before".to_vec();
            let sender = Sender { account: Party { keys, index: from }, signer: &signer, nonce };
            let hash = encoder.append(&mut out, sender, Party { keys: other, index: to });

            let transaction = Transaction {
                signer_id: keys.account_id(from),
                public_key: keys.public_key(from),
                nonce,
                receiver_id: other.account_id(to),
                block_hash: CryptoHash(block_hash),
                actions: vec![Action::Transfer { deposit: amount }],
            };
            let signature = signer.sign(&transaction.hash().0);
            let signed = SignedTransaction { transaction, signature };
            prop_assert!(signed.is_signed());
            prop_assert_eq!(signed.hash(), hash);
            let mut expected = b"before".to_vec();
            append_transaction(&mut expected, &borsh::to_vec(&signed).expect("memory"));
            prop_assert_eq!(out, expected);
        }
    }
}
