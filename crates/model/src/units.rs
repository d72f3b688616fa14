//! Quantities that carry their unit in the type; their text forms are those of scenario files.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

/// A quantity's text could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct UnitError {
    /// The text as it was written.
    pub text: String,
    /// What would have been right, with an example; reads after "is not".
    pub expected: &'static str,
}

/// A length of time in whole milliseconds. Text: `600ms`, `2.5s`, `3m`, `1h`. A bare number only if it is `0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

/// Transfers per second, a whole number. Text: `1550tps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tps(pub u64);

/// Gas. Text: `20Pgas`, `500Tgas`, `223182562500gas`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Gas(pub u64);

/// A number of bytes. Text: `100MB`, `4KB`, `512B` (powers of 1000, as NEAR's limits are written).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A share of a whole, between 0 and 1. Text: `2%`, `0.1%`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Share(pub f64);

impl Millis {
    /// The same length for the standard library.
    pub fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// The same length in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.as_duration().as_secs_f64()
    }
}

/// Splits `2.5s` into `2.5` and `s`; the number may have one decimal point and underscores.
fn split(text: &str) -> Option<(String, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.replace('_', "");
    (!number.is_empty()).then_some((number, unit.trim()))
}

/// `number` (a decimal such as `2.5`) times `factor`, exactly; none when the product is not a whole number or too big.
fn times(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let places = u32::try_from(fraction.len()).ok()?;
    let scale = 10_u128.checked_pow(places)?;
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let product = digits.checked_mul(u128::from(factor))?;
    (product % scale == 0).then_some(product / scale).and_then(|value| u64::try_from(value).ok())
}

fn parse_with(text: &str, factors: &[(&str, u64)], expected: &'static str) -> Result<u64, UnitError> {
    let fault = || UnitError { text: text.to_owned(), expected };
    let (number, unit) = split(text).ok_or_else(fault)?;
    let factor =
        factors.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor).ok_or_else(fault)?;
    times(&number, factor).ok_or_else(fault)
}

/// The largest unit in which `value` is a whole number, or the smallest unit.
fn write_with(f: &mut fmt::Formatter<'_>, value: u64, factors: &[(&str, u64)]) -> fmt::Result {
    let (unit, factor) = factors
        .iter()
        .rev()
        .find(|(_, factor)| value != 0 && value.is_multiple_of(*factor))
        .or_else(|| factors.first())
        .copied()
        .unwrap_or(("", 1));
    f.pad(&format!("{}{unit}", value / factor))
}

type Units = &'static [(&'static str, u64)];

const MILLIS: Units = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
const TPS: Units = &[("tps", 1)];
const GAS: Units =
    &[("gas", 1), ("Ggas", 1_000_000_000), ("Tgas", 1_000_000_000_000), ("Pgas", 1_000_000_000_000_000)];
const BYTES: Units = &[("B", 1), ("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)];

macro_rules! named_units {
    ($($quantity:ty = $units:expr;)*) => {$(
        impl $quantity {
            /// The units of its texts with their worth in the smallest, the smallest first.
            pub const UNITS: &'static [(&'static str, u64)] = $units;
        }
    )*};
}

named_units! {
    Millis = MILLIS;
    Tps = TPS;
    Gas = GAS;
    Bytes = BYTES;
}

impl FromStr for Millis {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text.trim() == "0" {
            return Ok(Self(0));
        }
        parse_with(text, MILLIS, "a length of time such as `600ms` or `2.5s`").map(Self)
    }
}

impl FromStr for Tps {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_with(text, TPS, "a whole rate such as `1550tps`").map(Self)
    }
}

impl FromStr for Gas {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_with(text, GAS, "an amount of gas such as `20Pgas` or `500Tgas`").map(Self)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_with(text, BYTES, "a size such as `100MB`").map(Self)
    }
}

impl FromStr for Share {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let fault = || UnitError { text: text.to_owned(), expected: "a share from `0%` to `100%`" };
        let number = text.trim().strip_suffix('%').ok_or_else(fault)?;
        let (number, rest) = split(number).ok_or_else(fault)?;
        let percent: f64 = number.parse().map_err(|_| fault())?;
        if !rest.is_empty() || !(0.0..=100.0).contains(&percent) {
            return Err(fault());
        }
        // Not divided by 100, which would round once more: `1.1%` is 0.011.
        format!("{number}e-2").parse().map(Self).map_err(|_| fault())
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 1_000 && !self.0.is_multiple_of(1_000) && self.0.is_multiple_of(100) && self.0 < 60_000 {
            return f.pad(&format!("{}.{}s", self.0 / 1_000, self.0 % 1_000 / 100));
        }
        write_with(f, self.0, MILLIS)
    }
}

impl fmt::Display for Tps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with(f, self.0, TPS)
    }
}

impl fmt::Display for Gas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with(f, self.0, GAS)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with(f, self.0, BYTES)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = format!("{:.4}", self.0 * 100.0);
        let percent = percent.trim_end_matches('0').trim_end_matches('.');
        f.pad(&format!("{percent}%"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_of_scenario_files() {
        assert_eq!("600ms".parse(), Ok(Millis(600)));
        assert_eq!("2.5s".parse(), Ok(Millis(2500)));
        assert_eq!("1550tps".parse(), Ok(Tps(1550)));
        assert_eq!("20Pgas".parse(), Ok(Gas(20_000_000_000_000_000)));
        assert_eq!("100MB".parse(), Ok(Bytes(100_000_000)));
        assert_eq!("0.1%".parse(), Ok(Share(0.001)));
        assert_eq!("1.1%".parse(), Ok(Share(0.011)));
        assert_eq!(Share(0.011).to_string(), "1.1%");
        for wrong in ["", "5", "5 parsecs", "-1s", "1.2.3s", "0.0001s", "99999999999999999h", "s"] {
            assert!(wrong.parse::<Millis>().is_err(), "{wrong}");
        }
        for wrong in ["101%", "2", "-1%", "%", "1%%"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
        assert!("1.5tps".parse::<Tps>().is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in any::<u64>()) {
            prop_assert_eq!(Millis(value).to_string().parse(), Ok(Millis(value)));
            prop_assert_eq!(Gas(value).to_string().parse(), Ok(Gas(value)));
            prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
            prop_assert_eq!(Tps(value).to_string().parse(), Ok(Tps(value)));
        }

        #[test]
        fn shares_of_four_decimals_read_back(millionths in 0_u64..=1_000_000) {
            let share = Share(millionths as f64 / 1e6);
            prop_assert_eq!(share.to_string().parse(), Ok(share));
            let json = serde_json::to_string(&share).expect("a number");
            prop_assert_eq!(serde_json::from_str(&json).ok(), Some(share));
        }
    }
}
