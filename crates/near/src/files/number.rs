//! Forms of numbers that differ from serde's own.

use serde::{Deserialize, Serialize};

/// A ratio of whole numbers, `[numerator, denominator]` in JSON (num-rational's form). Not reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(u32, u32)", into = "(u32, u32)")]
pub struct Ratio {
    numerator: u32,
    denominator: u32,
}

/// A ratio with denominator 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a ratio's denominator is 0")]
pub struct RatioError;

impl Ratio {
    /// `numerator` / `denominator`; the denominator may not be 0.
    pub fn new(numerator: u32, denominator: u32) -> Result<Self, RatioError> {
        if denominator == 0 { Err(RatioError) } else { Ok(Self { numerator, denominator }) }
    }

    /// For constants of this crate, whose denominators are literals.
    pub(super) const fn literal(numerator: u32, denominator: u32) -> Self {
        assert!(denominator != 0, "a literal denominator is not 0");
        Self { numerator, denominator }
    }

    /// Above the line.
    pub fn numerator(self) -> u32 {
        self.numerator
    }

    /// Below the line; never 0.
    pub fn denominator(self) -> u32 {
        self.denominator
    }

    /// This share of `duration`, rounded down to nanoseconds; saturates.
    pub fn of(self, duration: std::time::Duration) -> std::time::Duration {
        let nanos =
            duration.as_nanos().saturating_mul(u128::from(self.numerator)) / u128::from(self.denominator);
        std::time::Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl TryFrom<(u32, u32)> for Ratio {
    type Error = RatioError;
    fn try_from((numerator, denominator): (u32, u32)) -> Result<Self, RatioError> {
        Self::new(numerator, denominator)
    }
}

impl From<Ratio> for (u32, u32) {
    fn from(ratio: Ratio) -> Self {
        (ratio.numerator, ratio.denominator)
    }
}

/// Balances in yocto: decimal strings in JSON. For `#[serde(with = "...")]`.
pub mod decimal {
    use std::fmt;

    use serde::{Deserializer, Serializer, de};

    /// Writes `balance` as a string.
    pub fn serialize<S: Serializer>(balance: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(balance)
    }

    struct Decimal;

    impl de::Visitor<'_> for Decimal {
        type Value = u128;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a balance in yocto as a decimal string")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<u128, E> {
            text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
        }
    }

    /// Reads a string of digits.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        deserializer.deserialize_str(Decimal)
    }
}
