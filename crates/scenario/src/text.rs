//! Texts that have rules of their own: names, chain ids, fractions.

use std::{cmp::Ordering, fmt};

use serde_json::json;
use tpsctl_near::is_protected_chain;

use crate::value::{Raw, Refusal, Shown, Value, not_a, quote};

/// A scenario's name: lower-case letters, digits and hyphens, at most 64; it becomes part of a folder's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

/// What a scenario is for, in a line; every run of white space counts as one space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description(String);

/// A NEAR chain id; never one that guards real funds (see [`is_protected_chain`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainId(String);

/// A share as numerator and denominator, the way NEAR writes it. Text: `1/3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fraction {
    /// Above the line.
    pub numerator: u32,
    /// Below the line; never 0.
    pub denominator: u32,
}

macro_rules! texts {
    ($($text:ident),*) => {$(
        impl $text {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $text {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    )*};
}

texts!(Name, Description, ChainId);

impl Value for Name {
    const FORM: &'static str =
        "a name of at most 64 lower-case letters, digits and hyphens, such as `four-shards`";

    fn read(raw: &Raw) -> Result<Self, Refusal> {
        let text = &raw.text;
        let is_name = (1..=64).contains(&text.len())
            && !text.starts_with('-')
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if is_name { Ok(Self(text.clone())) } else { Err(not_a(text, Self::FORM)) }
    }

    fn show(&self) -> Shown {
        Shown::Text(self.0.clone())
    }

    /// A bare number is a name too.
    fn schema(_bounds: Option<(Self, Self)>) -> serde_json::Value {
        json!({ "type": ["string", "integer"], "pattern": "^[a-z0-9][a-z0-9-]{0,63}$", "minimum": 0 })
    }
}

impl Value for Description {
    const FORM: &'static str = "a text of at most 300 characters";

    fn read(raw: &Raw) -> Result<Self, Refusal> {
        let text = raw.text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.chars().count() > 300 || text.contains(char::is_control) {
            return Err(not_a(&text, Self::FORM));
        }
        Ok(Self(text))
    }

    fn show(&self) -> Shown {
        Shown::Text(self.0.clone())
    }

    /// Every bare word is a text here, also one that YAML takes for a number.
    fn schema(_bounds: Option<(Self, Self)>) -> serde_json::Value {
        json!({ "type": ["string", "number", "boolean"], "maxLength": 300 })
    }
}

impl Value for ChainId {
    const FORM: &'static str = "a chain id of at most 64 letters, digits, dots, hyphens and underscores";

    fn read(raw: &Raw) -> Result<Self, Refusal> {
        let text = &raw.text;
        let is_id = (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
        if !is_id {
            return Err(not_a(text, Self::FORM));
        }
        if is_protected_chain(text) {
            let message = format!(
                "{} is named like a chain with real accounts: load is never made for it",
                quote(text)
            );
            let help = "use an id without the words mainnet and testnet; `benchmarknet` is the one on which neard \
                        lifts its limits";
            return Err(Refusal { message, help: Some(help.to_owned()) });
        }
        Ok(Self(text.clone()))
    }

    fn show(&self) -> Shown {
        Shown::Text(self.0.clone())
    }

    fn schema(_bounds: Option<(Self, Self)>) -> serde_json::Value {
        let net = "[Nn][Ee][Tt]";
        let protected = format!("(?:^|[._-])(?:[Mm][Aa][Ii][Nn]|[Tt][Ee][Ss][Tt]){net}(?:$|[._-])");
        json!({ "type": ["string", "number"], "pattern": "^[A-Za-z0-9._-]{1,64}$", "not": { "type": "string", "pattern": protected } })
    }
}

impl Value for Fraction {
    const FORM: &'static str = "a fraction such as `1/3`";

    fn read(raw: &Raw) -> Result<Self, Refusal> {
        let part = |text: &str| {
            let digits = text.trim();
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u32>().ok()).flatten()
        };
        let parts = raw.text.split_once('/').and_then(|(above, below)| Some((part(above)?, part(below)?)));
        match parts {
            Some((numerator, denominator)) if denominator > 0 => Ok(Self { numerator, denominator }),
            _ => Err(not_a(&raw.text, Self::FORM)),
        }
    }

    fn show(&self) -> Shown {
        Shown::Text(format!("{}/{}", self.numerator, self.denominator))
    }

    /// Only the form: how large a fraction is, no pattern tells.
    fn schema(_bounds: Option<(Self, Self)>) -> serde_json::Value {
        json!({ "type": "string", "pattern": "^ *[0-9]{1,10} */ *0*[1-9][0-9]{0,9} *$" })
    }

    fn order(&self, other: &Self) -> Option<Ordering> {
        let cross = |a: &Self, b: &Self| u64::from(a.numerator) * u64::from(b.denominator);
        Some(cross(self, other).cmp(&cross(other, self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Value>(text: &str) -> Result<T, Refusal> {
        T::read(&Raw { text: text.to_owned(), plain: false })
    }

    #[test]
    fn names_are_safe_as_folders() {
        let longest = "a".repeat(64);
        for name in ["four-shards", "7", "a-", &longest] {
            assert_eq!(read::<Name>(name).map(|name| name.0), Ok(name.to_owned()));
        }
        let too_long = "a".repeat(65);
        for unsafe_name in [
            "", ".", "..", "...", "a/b", "/a", "../a", "a\\b", "a.b", "-rf", "a b", "~", "A", "\u{e9}",
            "a\0", &too_long,
        ] {
            assert_eq!(read::<Name>(unsafe_name), Err(not_a(unsafe_name, Name::FORM)), "{unsafe_name}");
        }
    }

    #[test]
    fn every_form_of_a_protected_chain_is_refused_with_one_sentence() {
        for id in ["mainnet", "TestNet", "near-testnet", "x.mainnet", "testnet_2"] {
            let refusal = read::<ChainId>(id).unwrap_err();
            let sentence = "is named like a chain with real accounts: load is never made for it";
            assert_eq!(refusal.message, format!("`{id}` {sentence}"));
            assert!(refusal.help.is_some_and(|help| help.starts_with("use an id")));
        }
        assert!(read::<ChainId>("mytestnets").is_ok());
    }
}
