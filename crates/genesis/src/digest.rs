//! Fingerprints of what was made, to show that two runs began alike.

use std::io;

use sha2::{Digest, Sha256};
use tpsctl_workload::Keyring;

use crate::NodeKeys;

/// Passes bytes on and hashes them on the way.
pub(crate) struct HashingWriter<W> {
    inner: W,
    hasher: Sha256,
    bytes: u64,
}

impl<W: io::Write> HashingWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, hasher: Sha256::new(), bytes: 0 }
    }

    /// Flushes, and returns the hash (hex) and the number of bytes.
    pub(crate) fn finish(mut self) -> io::Result<(String, u64)> {
        self.inner.flush()?;
        Ok((hex(&self.hasher.finalize()), self.bytes))
    }
}

impl<W: io::Write> io::Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..len]);
        self.bytes += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes every byte");
        text
    })
}

/// SHA-256 (hex) over the public keys of all load accounts, by shard index and account, then of all nodes in the
/// plan's order, validator key first.
pub fn keys_fingerprint(keyring: &Keyring, nodes: &[NodeKeys]) -> String {
    let mut hasher = Sha256::new();
    for keys in keyring.shards() {
        for index in 0..keys.len() {
            hasher.update(keys.public_key(index).0);
        }
    }
    for node in nodes {
        if let Some(validator) = &node.validator {
            hasher.update(validator.public().0);
        }
        hasher.update(node.node.public().0);
    }
    hex(&hasher.finalize())
}
