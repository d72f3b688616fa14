//! Hashes, Ed25519 keys and signatures in NEAR's borsh and text forms (core/crypto/src/signature.rs).
//!
//! Only Ed25519 (borsh tag 0) is known: load and the embedded node need no other kind.

use std::{fmt, io, str::FromStr};

use borsh::{BorshDeserialize, BorshSerialize};
use ed25519_dalek::{Signer, SigningKey, Verifier, VerifyingKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// Borsh tag of Ed25519 keys and signatures.
pub const ED25519_TAG: u8 = 0;

/// A SHA-256 hash; base58 in text and JSON.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, BorshSerialize, BorshDeserialize)]
pub struct CryptoHash(pub [u8; 32]);

/// An Ed25519 public key; `ed25519:<base58>` in text. Its order is that of NEAR's `PublicKey`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

/// An Ed25519 signature; `ed25519:<base58>` in text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature(pub [u8; 64]);

/// An Ed25519 key pair made from a seed; its secret is written `ed25519:<base58 of seed and public key>`.
#[derive(Clone)]
pub struct KeyPair(SigningKey);

/// A key, hash or signature could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct KeyError {
    /// The text; only its first 16 characters where it may be a secret.
    pub text: String,
    /// What would have been right.
    pub expected: &'static str,
}

impl CryptoHash {
    /// SHA-256 of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// SHA-256 of `value`'s borsh encoding.
    pub fn of_borsh<T: BorshSerialize>(value: &T) -> Self {
        let mut sink = HashSink(Sha256::new());
        value.serialize(&mut sink).expect("a hasher takes every byte");
        Self(sink.0.finalize().into())
    }
}

struct HashSink(Sha256);

impl io::Write for HashSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl KeyPair {
    /// The key pair of a 32-byte seed.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&seed))
    }

    /// The seed.
    pub fn seed(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// An ordinary (RFC 8032) signature.
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.0.sign(message).to_bytes())
    }

    /// The secret's text as key files hold it.
    pub fn secret_text(&self) -> String {
        format!("ed25519:{}", bs58::encode(self.0.to_keypair_bytes()).into_string())
    }

    /// Reads a secret's text; its public half must match.
    pub fn from_secret_text(text: &str) -> Result<Self, KeyError> {
        let fault = || KeyError {
            text: text.chars().take(16).collect(),
            expected: "a secret key such as `ed25519:<base58 of 64 bytes>` whose halves belong together",
        };
        let bytes: [u8; 64] = decode(text.strip_prefix("ed25519:").ok_or_else(fault)?).ok_or_else(fault)?;
        SigningKey::from_keypair_bytes(&bytes).map(Self).map_err(|_| fault())
    }
}

impl PublicKey {
    /// Whether `signature` over `message` is this key's. Points of small order and non-canonical keys fail.
    pub fn verify(&self, message: &[u8], signature: &Signature) -> bool {
        VerifyingKey::from_bytes(&self.0)
            .is_ok_and(|key| key.verify(message, &ed25519_dalek::Signature::from_bytes(&signature.0)).is_ok())
    }
}

/// Decodes base58 of exactly `N` bytes.
fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let len = bs58::decode(text).onto(&mut bytes).ok()?;
    (len == N).then_some(bytes)
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.public())
    }
}

impl fmt::Display for CryptoHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&bs58::encode(self.0).into_string())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ed25519:{}", bs58::encode(self.0).into_string())
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ed25519:{}", bs58::encode(self.0).into_string())
    }
}

impl FromStr for CryptoHash {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Self, KeyError> {
        decode(text)
            .map(Self)
            .ok_or_else(|| KeyError { text: text.to_owned(), expected: "a base58 hash of 32 bytes" })
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let fault =
            || KeyError { text: text.to_owned(), expected: "a public key such as `ed25519:<base58>`" };
        decode(text.strip_prefix("ed25519:").ok_or_else(fault)?).map(Self).ok_or_else(fault)
    }
}

impl FromStr for Signature {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let fault = || KeyError { text: text.to_owned(), expected: "a signature such as `ed25519:<base58>`" };
        decode(text.strip_prefix("ed25519:").ok_or_else(fault)?).map(Self).ok_or_else(fault)
    }
}

impl BorshSerialize for PublicKey {
    fn serialize<W: io::Write>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(&[ED25519_TAG])?;
        writer.write_all(&self.0)
    }
}

impl BorshSerialize for Signature {
    fn serialize<W: io::Write>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(&[ED25519_TAG])?;
        writer.write_all(&self.0)
    }
}

fn read_tagged<const N: usize, R: io::Read>(reader: &mut R) -> io::Result<[u8; N]> {
    let tag = u8::deserialize_reader(reader)?;
    if tag != ED25519_TAG {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("key type {tag} is not Ed25519")));
    }
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl BorshDeserialize for PublicKey {
    fn deserialize_reader<R: io::Read>(reader: &mut R) -> io::Result<Self> {
        read_tagged(reader).map(Self)
    }
}

impl BorshDeserialize for Signature {
    /// Refuses what neard's reader refuses: a scalar with one of its three highest bits set cannot be below the group
    /// order, so no such signature is anyone's (core/crypto/src/signature.rs).
    fn deserialize_reader<R: io::Read>(reader: &mut R) -> io::Result<Self> {
        let bytes: [u8; 64] = read_tagged(reader)?;
        if bytes[63] & 0b1110_0000 != 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "signature scalar out of range"));
        }
        Ok(Self(bytes))
    }
}

macro_rules! text_forms {
    ($($type:ty),*) => {$(
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <String as Deserialize>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

text_forms!(CryptoHash, PublicKey, Signature);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_texts_read_back() {
        let pair = KeyPair::from_seed([7; 32]);
        let again = KeyPair::from_secret_text(&pair.secret_text()).expect("own text");
        assert_eq!(pair.public(), again.public());
        assert_eq!(pair.public().to_string().parse(), Ok(pair.public()));
        let signature = pair.sign(b"message");
        assert!(pair.public().verify(b"message", &signature));
        assert!(!pair.public().verify(b"massage", &signature));
        assert_eq!(signature.to_string().parse(), Ok(signature));
        assert!("ed25519:abc".parse::<PublicKey>().is_err());
        assert!("secp256k1:abc".parse::<PublicKey>().is_err());
    }

    #[test]
    fn an_error_shows_no_secret() {
        let text = format!("{}x", KeyPair::from_seed([9; 32]).secret_text());
        let error = KeyPair::from_secret_text(&text).expect_err("too long").to_string();
        assert!(!error.contains(&text[20..]), "{error}");
    }
}
