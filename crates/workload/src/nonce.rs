//! Nonces without asking for them.
//!
//! NEAR takes a transaction whose nonce is above the key's last one and below the height of its block times 10^6
//! (runtime/runtime/src/verifier.rs:211-237); gaps are allowed. So a height gives every key a million nonces of its own,
//! which leads to this rule for a chain whose load keys only this tool uses:
//!
//! A session reads the highest head h among its producers, waits until each of them has passed it, and uses
//! `(h + 1) * 10^6 + 1`, `+ 2`, ... for every key. Each of these is checked against the bound of the next block after the
//! head then known. An earlier session ended before this one began, so its heads were h at most, and its nonces below
//! `(h + 1) * 10^6`. So nonces never repeat and never fall, across processes too, and 200 000 queries for the
//! nonces of 200 000 keys need not be made. It would not hold for keys that somebody else also uses.

use tpsctl_near::NONCE_RANGE_PER_HEIGHT;

use crate::WorkloadError;

/// The nonces of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NonceRange {
    base_height: u64,
}

impl NonceRange {
    /// The range of a session whose producers have all reached `base_height`, and which no session saw that has ended.
    pub fn starting_at(base_height: u64) -> Self {
        Self { base_height }
    }

    /// The height that the range starts at.
    pub fn base_height(&self) -> u64 {
        self.base_height
    }

    /// The nonce of a key's transaction number `offset`, counted from 1, while the head is at `head_height`. Fails where
    /// the next block would not take it: then the key was used a million times in fewer heights than that.
    pub fn nonce(&self, offset: u64, head_height: u64) -> Result<u64, WorkloadError> {
        let nonce = self.base_height.saturating_mul(NONCE_RANGE_PER_HEIGHT).saturating_add(offset);
        let height = head_height.max(self.base_height);
        let bound = height.saturating_add(1).saturating_mul(NONCE_RANGE_PER_HEIGHT);
        if nonce < bound { Ok(nonce) } else { Err(WorkloadError::NonceCeiling { nonce, height, bound }) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_million_for_each_height() {
        let range = NonceRange::starting_at(41);
        assert_eq!(range.nonce(1, 41), Ok(41_000_001));
        assert_eq!(range.nonce(999_999, 41), Ok(41_999_999));
        assert_eq!(
            range.nonce(1_000_000, 41),
            Err(WorkloadError::NonceCeiling { nonce: 42_000_000, height: 41, bound: 42_000_000 })
        );
        assert_eq!(range.nonce(1_000_000, 42), Ok(42_000_000));
        let refusal = range.nonce(1_000_000, 41).expect_err("too high").to_string();
        assert!(refusal.contains("raise `chain.accounts_per_shard` or lower `search.max`"), "{refusal}");
    }

    proptest! {
        #[test]
        fn a_later_session_is_above_every_earlier_one(
            base in 0_u64..1_000_000,
            grown in 0_u64..1_000,
            offset in 1_u64..2_000_000_000,
            pause in 0_u64..1_000,
        ) {
            let head = base + grown;
            let earlier = NonceRange::starting_at(base).nonce(offset, head);
            // The later session sees this head or a higher one, and waits for the one after it.
            let later = NonceRange::starting_at(head + pause + 1).nonce(1, head + pause + 1);
            let later = later.expect("the first nonce of a session");
            prop_assert!(earlier.is_err() || earlier.is_ok_and(|earlier| earlier < later));
        }
    }
}
