//! How an embedded node introduces itself after the handshake (private field 1000), and how it proves to be a
//! validator's: by that validator's signature over the genesis hash and the keys of both ends, so that what one node was
//! shown is worth nothing at another.

use std::net::SocketAddr;

use axum::body::Bytes;
use borsh::{BorshDeserialize, BorshSerialize};
use tpsctl_near::{AccountId, CryptoHash, KeyPair, PublicKey, Signature};

use crate::core::message_field as field;

/// An introduction. Without a proof the sender may ask for blocks and gets them, but its word has no weight.
#[derive(Debug, BorshSerialize, BorshDeserialize)]
pub(super) struct Hello {
    /// Its validator account, with that validator's signature.
    account: Option<(AccountId, Signature)>,
    /// Where others reach it.
    pub(super) addr: SocketAddr,
    /// What it says of its head.
    pub(super) head_height: u64,
    /// Nodes of validators and of its configuration that it knows.
    pub(super) peers: Vec<(PublicKey, SocketAddr)>,
}

/// The two ends of an introduction, on one chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) genesis_hash: CryptoHash,
    pub(super) sender: PublicKey,
    pub(super) receiver: PublicKey,
}

impl Ends {
    fn message(self) -> CryptoHash {
        CryptoHash::of_borsh(&(b"hello", self.genesis_hash, self.sender, self.receiver))
    }
}

impl Hello {
    pub(super) fn new(
        ends: Ends,
        account: Option<&(AccountId, KeyPair)>,
        (addr, head_height): (SocketAddr, u64),
        peers: Vec<(PublicKey, SocketAddr)>,
    ) -> Self {
        let prove = |(account, key): &(AccountId, KeyPair)| (account.clone(), key.sign(&ends.message().0));
        Self { account: account.map(prove), addr, head_height, peers }
    }

    /// The validator's account, if `key_of` knows it and its key signed for these ends.
    pub(super) fn proven(
        &self,
        ends: Ends,
        key_of: impl FnOnce(&AccountId) -> Option<PublicKey>,
    ) -> Option<AccountId> {
        let (account, signature) = self.account.as_ref()?;
        key_of(account)?.verify(&ends.message().0, signature).then(|| account.clone())
    }

    /// As this private field.
    pub(super) fn frame(&self, number: u32) -> Bytes {
        let payload = borsh::to_vec(self).expect("memory takes every byte");
        field::private_frame(number, &payload).into()
    }
}

/// Tells of validators' nodes that connected since the introduction (private field 1011).
pub(super) fn peers_frame(peers: &[(PublicKey, SocketAddr)]) -> Bytes {
    let payload = borsh::to_vec(peers).expect("memory takes every byte");
    field::private_frame(field::FIELD_PEERS, &payload).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_two_ends_only() {
        let key = |seed: u8| KeyPair::from_seed([seed; 32]);
        let account: AccountId = "node0".parse().expect("id");
        let ends =
            Ends { genesis_hash: CryptoHash([1; 32]), sender: key(1).public(), receiver: key(2).public() };
        let hello = |validator: &KeyPair| {
            let own = (account.clone(), validator.clone());
            Hello::new(ends, Some(&own), (SocketAddr::from(([127, 0, 0, 1], 1)), 7), Vec::new())
        };
        let staking = key(9);
        let key_of = |_: &AccountId| Some(staking.public());
        assert_eq!(hello(&staking).proven(ends, key_of), Some(account.clone()));
        assert_eq!(hello(&staking).proven(ends, |_| None), None, "not a validator");
        assert_eq!(hello(&key(8)).proven(ends, key_of), None, "another key");
        let relayed = Ends { receiver: key(3).public(), ..ends };
        assert_eq!(hello(&staking).proven(relayed, key_of), None);
        let stolen = Ends { sender: key(3).public(), ..ends };
        assert_eq!(hello(&staking).proven(stolen, key_of), None);
        let elsewhere = Ends { genesis_hash: CryptoHash([2; 32]), ..ends };
        assert_eq!(hello(&staking).proven(elsewhere, key_of), None);
        let anonymous = Hello::new(ends, None, (SocketAddr::from(([127, 0, 0, 1], 1)), 7), Vec::new());
        assert_eq!(anonymous.proven(ends, key_of), None);
    }
}
