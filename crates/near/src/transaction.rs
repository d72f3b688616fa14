//! Transactions V0 with transfers (core/primitives/src/transaction.rs): the only kind that load needs.

use std::io;

use borsh::{BorshDeserialize, BorshSerialize};

use crate::{AccountId, CryptoHash, KeyPair, PublicKey, Signature};

/// Borsh tag of a transfer among NEAR's actions (core/primitives/src/action/mod.rs:347-370).
pub const TRANSFER_TAG: u8 = 3;

/// What a transaction does. Actions other than transfers are refused when read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Moves `deposit` yocto to the receiver.
    Transfer {
        /// Yocto.
        deposit: u128,
    },
}

/// An unsigned transaction V0. V0 has no version byte; its hash is SHA-256 of its borsh encoding.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Transaction {
    /// Who pays and signs.
    pub signer_id: AccountId,
    /// The signer's access key.
    pub public_key: PublicKey,
    /// Above the key's last nonce, below the height times [`crate::NONCE_RANGE_PER_HEIGHT`].
    pub nonce: u64,
    /// Who receives.
    pub receiver_id: AccountId,
    /// A recent block; the transaction expires a validity period after it.
    pub block_hash: CryptoHash,
    /// What is done.
    pub actions: Vec<Action>,
}

/// A transaction with its signature. The signature is over the transaction's hash.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct SignedTransaction {
    /// What is signed.
    pub transaction: Transaction,
    /// By [`Transaction::public_key`].
    pub signature: Signature,
}

impl Transaction {
    /// The transaction's hash.
    pub fn hash(&self) -> CryptoHash {
        CryptoHash::of_borsh(self)
    }

    /// Signs in the ordinary way.
    pub fn sign(self, key: &KeyPair) -> SignedTransaction {
        let signature = key.sign(&self.hash().0);
        SignedTransaction { transaction: self, signature }
    }
}

impl SignedTransaction {
    /// The transaction's hash.
    pub fn hash(&self) -> CryptoHash {
        self.transaction.hash()
    }

    /// Whether the signature is the named key's.
    pub fn is_signed(&self) -> bool {
        self.transaction.public_key.verify(&self.hash().0, &self.signature)
    }

    /// Size on the wire in bytes; what NEAR's limits count from protocol version 85 on.
    pub fn size(&self) -> usize {
        let actions: usize = 17 * self.transaction.actions.len();
        let ids = self.transaction.signer_id.as_str().len() + self.transaction.receiver_id.as_str().len();
        4 + 33 + 8 + 4 + 32 + 4 + 65 + ids + actions
    }
}

impl BorshSerialize for Action {
    fn serialize<W: io::Write>(&self, writer: &mut W) -> io::Result<()> {
        let Self::Transfer { deposit } = self;
        writer.write_all(&[TRANSFER_TAG])?;
        deposit.serialize(writer)
    }
}

impl BorshDeserialize for Action {
    fn deserialize_reader<R: io::Read>(reader: &mut R) -> io::Result<Self> {
        match u8::deserialize_reader(reader)? {
            TRANSFER_TAG => Ok(Self::Transfer { deposit: u128::deserialize_reader(reader)? }),
            tag => Err(io::Error::new(io::ErrorKind::InvalidData, format!("action {tag} is not a transfer"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn transfer(signer: &str, receiver: &str, nonce: u64) -> SignedTransaction {
        let key = KeyPair::from_seed([3; 32]);
        Transaction {
            signer_id: signer.parse().expect("id"),
            public_key: key.public(),
            nonce,
            receiver_id: receiver.parse().expect("id"),
            block_hash: CryptoHash([5; 32]),
            actions: vec![Action::Transfer { deposit: 1 }],
        }
        .sign(&key)
    }

    #[test]
    fn sizes_are_those_of_the_facts() {
        let signed = transfer("a01_user_00001", "a01_user_00002", 1);
        assert_eq!(borsh::to_vec(&signed).expect("memory").len(), 195);
        assert_eq!(signed.size(), 195);
        assert!(signed.is_signed());
    }

    proptest! {
        #[test]
        fn reading_garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let read = SignedTransaction::try_from_slice(&bytes);
            if let Ok(transaction) = read {
                prop_assert_eq!(borsh::to_vec(&transaction).expect("memory"), bytes);
            }
        }

        #[test]
        fn a_changed_byte_breaks_the_signature(at in 0_usize..195, flip in 1_u8..=255) {
            let mut bytes = borsh::to_vec(&transfer("a01_user_00001", "a01_user_00002", 7)).expect("memory");
            bytes[at] ^= flip;
            prop_assert!(!SignedTransaction::try_from_slice(&bytes).is_ok_and(|t| t.is_signed()));
        }
    }
}
