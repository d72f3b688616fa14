//! Texts of amounts of NEAR and of the gas price.

use std::cmp::Ordering;

use tpsctl_model::{Yocto, ids::YOCTO_PER_NEAR};

use crate::{
    schema,
    value::{Raw, Refusal, Shown, Value, not_a},
};

/// A price of gas in yocto per gas. Text: the bare number, as genesis writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GasPrice(pub Yocto);

/// The units of an amount, smallest first, with their worth in yocto.
const UNITS: &[(&str, u128)] = &[("yocto", 1), ("mNEAR", YOCTO_PER_NEAR / 1_000), ("NEAR", YOCTO_PER_NEAR)];

/// `text` (digits, at most one point, underscores) times `factor`, exactly; none when that is no whole number or too
/// large.
fn times(text: &str, factor: u128) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = whole.chars().chain(fraction.chars()).filter(|c| *c != '_').collect();
    if whole.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let places = fraction.chars().filter(|c| *c != '_').count();
    // 2.50NEAR: dividing the factor first keeps 10^24 times a large number within u128.
    let scale = 10_u128.checked_pow(u32::try_from(places).ok()?)?;
    let number: u128 = digits.parse().ok()?;
    if factor.is_multiple_of(scale) {
        return number.checked_mul(factor / scale);
    }
    let product = number.checked_mul(factor)?;
    product.is_multiple_of(scale).then_some(product / scale)
}

fn amount(text: &str) -> Option<u128> {
    let text = text.trim();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '_'));
    let (_, factor) = UNITS.iter().find(|(known, _)| *known == unit.trim_start())?;
    times(text.strip_suffix(unit)?, *factor)
}

impl Value for Yocto {
    const FORM: &'static str = "an amount such as `100NEAR`, `5mNEAR` or `1yocto`";

    fn read(raw: &Raw) -> Result<Self, Refusal> {
        amount(&raw.text).map(Yocto).ok_or_else(|| not_a(&raw.text, Self::FORM))
    }

    fn show(&self) -> Shown {
        let (unit, factor) = UNITS
            .iter()
            .rev()
            .find(|(_, factor)| self.0 != 0 && self.0.is_multiple_of(*factor))
            .unwrap_or(&UNITS[0]);
        Shown::Text(format!("{}{unit}", self.0 / factor))
    }

    fn schema(bounds: Option<(Self, Self)>) -> serde_json::Value {
        let (least, most) = bounds.map_or((0, u128::MAX), |(least, most)| (least.0, most.0));
        schema::quantity(UNITS, least, most)
    }

    fn order(&self, other: &Self) -> Option<Ordering> {
        self.partial_cmp(other)
    }
}

impl Value for GasPrice {
    const FORM: &'static str = "a whole number of yocto per gas such as `\"1000000000\"`";

    fn read(raw: &Raw) -> Result<Self, Refusal> {
        let text = raw.text.trim();
        if text.contains('.') {
            return Err(not_a(text, Self::FORM));
        }
        times(text, 1).map(|price| Self(Yocto(price))).ok_or_else(|| not_a(text, Self::FORM))
    }

    fn show(&self) -> Shown {
        Shown::Text(self.0.to_string())
    }

    /// Bare or in quotes.
    fn schema(bounds: Option<(Self, Self)>) -> serde_json::Value {
        let (least, most) = bounds.map_or((0, u128::MAX), |(least, most)| (least.0.0, most.0.0));
        let text = schema::quantity(&[("", 1)], least, most);
        // Larger than a JSON reader's whole numbers can be, so as a float.
        let number =
            serde_json::json!({ "type": "integer", "minimum": least as f64, "maximum": most as f64 });
        serde_json::json!({ "anyOf": [text, number] })
    }

    fn order(&self, other: &Self) -> Option<Ordering> {
        self.partial_cmp(other)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read<T: Value>(text: &str) -> Option<T> {
        T::read(&Raw { text: text.to_owned(), plain: true }).ok()
    }

    #[test]
    fn amounts_of_scenario_files() {
        assert_eq!(read("100NEAR"), Some(Yocto(100 * YOCTO_PER_NEAR)));
        assert_eq!(read("2.5 NEAR"), Some(Yocto(5 * YOCTO_PER_NEAR / 2)));
        assert_eq!(read("7mNEAR"), Some(Yocto(7 * YOCTO_PER_NEAR / 1_000)));
        assert_eq!(read("1_000yocto"), Some(Yocto(1_000)));
        assert_eq!(read("0.5yocto"), None::<Yocto>);
        for wrong in ["", "NEAR", "1", "-1NEAR", "1.2.3NEAR", "1e3NEAR", ".5NEAR", "999999999999999NEAR"] {
            assert_eq!(read::<Yocto>(wrong), None, "{wrong}");
        }
        assert_eq!(read("1000000000"), Some(GasPrice(Yocto(1_000_000_000))));
        assert_eq!(read::<GasPrice>("1.5"), None);
        assert_eq!(read::<GasPrice>("1yocto"), None);
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(value in any::<u128>(), near in 0_u128..300_000_000_000_000) {
            for amount in [Yocto(value), Yocto(near * YOCTO_PER_NEAR)] {
                prop_assert_eq!(read(amount.show().text()), Some(amount));
            }
            prop_assert_eq!(read(GasPrice(Yocto(value)).show().text()), Some(GasPrice(Yocto(value))));
        }
    }
}
