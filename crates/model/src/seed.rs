//! One seed a run; every stream of chance is derived from it by a label.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The run's seed. Two runs with one seed and one scenario have the same genesis, keys and transaction stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// The 32 bytes for the stream named `label`: SHA-256 of "tpsctl/seed/1", the seed (little-endian) and the label.
    pub fn derive(self, label: &str) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(b"tpsctl/seed/1");
        hasher.update(self.0.to_le_bytes());
        hasher.update(label.as_bytes());
        hasher.finalize().into()
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
