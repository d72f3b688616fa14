//! Account ids: 2 to 64 bytes of a-z, 0-9 and single separators `-`, `_`, `.` (near-account-id 2.0.0, src/validation.rs).

use std::{fmt, str::FromStr};

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A valid account id. Order is that of the bytes, as shard layouts compare them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize)]
pub struct AccountId(String);

/// A text is not an account id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an account id: {rule}")]
pub struct AccountIdError {
    /// The text, shortened to 80 characters.
    pub text: String,
    /// The rule that it breaks.
    pub rule: &'static str,
}

impl AccountId {
    /// Shortest length in bytes.
    pub const LEN_MIN: usize = 2;
    /// Longest length in bytes.
    pub const LEN_MAX: usize = 64;

    /// The id's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the id of an account that exists by its key alone: 64 lowercase hex digits.
    pub fn is_near_implicit(&self) -> bool {
        self.0.len() == 64 && self.0.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    }
}

fn broken_rule(text: &str) -> Option<&'static str> {
    if text.len() < AccountId::LEN_MIN {
        return Some("shorter than 2 characters");
    }
    if text.len() > AccountId::LEN_MAX {
        return Some("longer than 64 characters");
    }
    let mut after_separator = true;
    for byte in text.bytes() {
        let is_separator = matches!(byte, b'-' | b'_' | b'.');
        if !is_separator && !matches!(byte, b'a'..=b'z' | b'0'..=b'9') {
            return Some("only a-z, 0-9 and the separators - _ . are allowed");
        }
        if is_separator && after_separator {
            return Some("a separator may not come first or follow another");
        }
        after_separator = is_separator;
    }
    after_separator.then_some("a separator may not come last")
}

impl FromStr for AccountId {
    type Err = AccountIdError;
    fn from_str(text: &str) -> Result<Self, AccountIdError> {
        match broken_rule(text) {
            None => Ok(Self(text.to_owned())),
            Some(rule) => Err(AccountIdError { text: text.chars().take(80).collect(), rule }),
        }
    }
}

impl BorshDeserialize for AccountId {
    fn deserialize_reader<R: std::io::Read>(reader: &mut R) -> std::io::Result<Self> {
        let len = u32::deserialize_reader(reader)? as usize;
        if len > Self::LEN_MAX {
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                "account id longer than 64 bytes",
            ));
        }
        let mut bytes = vec![0; len];
        reader.read_exact(&mut bytes)?;
        let text =
            String::from_utf8(bytes).map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidData, e))?;
        text.parse().map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidData, e))
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl Serialize for AccountId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for AccountId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <String as Deserialize>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules() {
        for right in ["aa", "000_user_0", "a01", "node0", "a.b-c_d", &"f".repeat(64)] {
            assert!(right.parse::<AccountId>().is_ok(), "{right}");
        }
        for wrong in ["", "a", "A1", "a..b", "_a", "a-", "a b", "ä1", &"f".repeat(65)] {
            assert!(wrong.parse::<AccountId>().is_err(), "{wrong}");
        }
    }
}
