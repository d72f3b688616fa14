//! Texts that have rules of their own: names, chain ids, fractions.

use std::{cmp::Ordering, fmt};

use crate::value::{Raw, Refusal, Shown, Value, not_a, quote};

/// A scenario's name: lower-case letters, digits and hyphens, at most 64; it becomes part of a folder's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

/// What a scenario is for, in a line; every run of white space counts as one space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description(String);

/// A NEAR chain id; never one that guards real funds (see [`ChainId::PROTECTED`]).
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

impl ChainId {
    /// Load keys are made to be thrown away, so the tool never touches these chains, in whatever case they are written.
    pub const PROTECTED: &[&str] = &["mainnet", "testnet"];
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
        if Self::PROTECTED.iter().any(|id| id.eq_ignore_ascii_case(text)) {
            let message = format!("{} is a chain with real accounts: load is never made for it", quote(text));
            let help = "use an id of your own; `benchmarknet` is the one on which neard lifts its limits";
            return Err(Refusal { message, help: Some(help.to_owned()) });
        }
        Ok(Self(text.clone()))
    }

    fn show(&self) -> Shown {
        Shown::Text(self.0.clone())
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

    fn order(&self, other: &Self) -> Option<Ordering> {
        let cross = |a: &Self, b: &Self| u64::from(a.numerator) * u64::from(b.denominator);
        Some(cross(self, other).cmp(&cross(other, self)))
    }
}
