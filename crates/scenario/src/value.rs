//! How the value of a key is read from its text, shown again and compared with its bounds.

use std::{cmp::Ordering, fmt::Display, str::FromStr};

use tpsctl_model::{
    Bytes, Gas, Millis, Share, Tps, UnitError,
    plan::{KeyKind, NodeBinary, ProviderKind, Signing},
};

use crate::{schema, suggest::nearest};

/// A scalar as YAML gave it, before any meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Raw {
    /// Its text, escapes resolved.
    pub(crate) text: String,
    /// Whether it stood without quotes, so that YAML would take `4` for a number and `null` for nothing.
    pub(crate) plain: bool,
}

impl Raw {
    /// Whether this is YAML's null.
    pub(crate) fn is_null(&self) -> bool {
        self.plain && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }
}

/// Why a text is not a value of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// A value as scenario files and `run.json` write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shown {
    /// A YAML and JSON number.
    Number(String),
    /// A text, such as `600ms`.
    Text(String),
}

impl Shown {
    /// The text, without quotes.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Number(text) | Self::Text(text) => text,
        }
    }
}

/// A value that a key can hold.
pub(crate) trait Value: Sized {
    /// What should have been written; reads after "is not".
    const FORM: &'static str;

    /// Reads the value; bounds are checked elsewhere.
    fn read(raw: &Raw) -> Result<Self, Refusal>;

    /// The text that reads back as this value.
    fn show(&self) -> Shown;

    /// The JSON Schema of its texts, within `bounds` where there are some.
    fn schema(bounds: Option<(Self, Self)>) -> serde_json::Value;

    /// Compares with a bound; none for values that have no order.
    fn order(&self, _other: &Self) -> Option<Ordering> {
        None
    }
}

/// `text` in quotes for a message, on one line and not too long.
pub(crate) fn quote(text: &str) -> String {
    const LENGTH_MAX: usize = 60;
    let clipped: String = text.chars().take(LENGTH_MAX).flat_map(char::escape_debug).collect();
    let dots = if text.chars().nth(LENGTH_MAX).is_some() { "..." } else { "" };
    format!("`{}{dots}`", clipped.replace("\\'", "'").replace("\\\"", "\""))
}

/// The refusal that says what the text is not.
pub(crate) fn not_a(text: &str, form: &str) -> Refusal {
    Refusal { message: format!("{} is not {form}", quote(text)), help: None }
}

/// A quantity of the model: its own parser and writer are the scenario's text form.
fn read_unit<T: FromStr<Err = UnitError> + Display + PartialEq>(raw: &Raw) -> Result<T, Refusal> {
    let value: T = raw.text.parse().map_err(|fault: UnitError| not_a(&raw.text, fault.expected))?;
    // A share is written with four decimals of a percent: a finer one would silently change in the resolved scenario.
    if value.to_string().parse().ok().as_ref() != Some(&value) {
        return Err(Refusal { message: format!("{} has too many decimals", quote(&raw.text)), help: None });
    }
    Ok(value)
}

macro_rules! units {
    ($($unit:ty, $form:literal, $schema:expr;)*) => {$(
        impl Value for $unit {
            const FORM: &'static str = $form;
            fn read(raw: &Raw) -> Result<Self, Refusal> {
                read_unit(raw)
            }
            fn show(&self) -> Shown {
                Shown::Text(self.to_string())
            }
            fn schema(bounds: Option<(Self, Self)>) -> serde_json::Value {
                $schema(bounds)
            }
            fn order(&self, other: &Self) -> Option<Ordering> {
                self.partial_cmp(other)
            }
        }
    )*};
}

units! {
    Millis, "a length of time such as `600ms` or `2.5s`", time_schema;
    Tps, "a whole rate such as `1550tps`", |bounds| unit_schema(Tps::UNITS, numbers(bounds, |tps: Tps| tps.0));
    Gas, "an amount of gas such as `20Pgas` or `500Tgas`",
        |bounds| unit_schema(Gas::UNITS, numbers(bounds, |gas: Gas| gas.0));
    Bytes, "a size such as `100MB`", |bounds| unit_schema(Bytes::UNITS, numbers(bounds, |bytes: Bytes| bytes.0));
    Share, "a share from `0%` to `100%`", share_schema;
}

/// The bounds as numbers; all that fits where there are none.
fn numbers<T>(bounds: Option<(T, T)>, number: fn(T) -> u64) -> (u64, u64) {
    bounds.map_or((0, u64::MAX), |(least, most)| (number(least), number(most)))
}

fn unit_schema(units: &[(&str, u64)], (least, most): (u64, u64)) -> serde_json::Value {
    let units: Vec<_> = units.iter().map(|(unit, factor)| (*unit, u128::from(*factor))).collect();
    schema::quantity(&units, least.into(), most.into())
}

/// Of times alone the bare `0` is read.
fn time_schema(bounds: Option<(Millis, Millis)>) -> serde_json::Value {
    let (least, most) = numbers(bounds, |time| time.0);
    let text = unit_schema(Millis::UNITS, (least, most));
    if least > 0 { text } else { serde_json::json!({ "anyOf": [text, { "enum": [0, "0"] }] }) }
}

/// In ten-thousandths of a percent, finer than which no share is read.
fn share_schema(bounds: Option<(Share, Share)>) -> serde_json::Value {
    let number = |share: Share| (share.0 * 1e6).round() as u128;
    let (least, most) = bounds.map_or((0, 1_000_000), |(least, most)| (number(least), number(most)));
    schema::quantity(&[("%", 10_000)], least, most)
}

/// Refuses quoted numbers: in YAML they are texts, and a mistyped value is a fault, not a guess.
fn number_text(raw: &Raw, form: &str) -> Result<String, Refusal> {
    if raw.plain {
        return Ok(raw.text.replace('_', ""));
    }
    let help = Some("write the number without quotes".to_owned());
    Err(Refusal { message: format!("{} is text in quotes, not {form}", quote(&raw.text)), help })
}

macro_rules! whole_numbers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            const FORM: &'static str = "a whole number";
            fn read(raw: &Raw) -> Result<Self, Refusal> {
                let text = number_text(raw, Self::FORM)?;
                if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(not_a(&raw.text, "a whole number, 0 or more"));
                }
                // Only digits: the parser can fail for size alone.
                text.parse().map_err(|_| Refusal { message: format!("{} is too large", quote(&raw.text)), help: None })
            }
            fn show(&self) -> Shown {
                Shown::Number(self.to_string())
            }
            fn schema(bounds: Option<(Self, Self)>) -> serde_json::Value {
                let (least, most) = bounds.unwrap_or((Self::MIN, Self::MAX));
                schema::whole_number(least.into(), most.into())
            }
            fn order(&self, other: &Self) -> Option<Ordering> {
                self.partial_cmp(other)
            }
        }
    )*};
}

whole_numbers!(u8, u32, u64);

impl Value for f64 {
    const FORM: &'static str = "a number such as `1.5`";

    fn read(raw: &Raw) -> Result<Self, Refusal> {
        let text = number_text(raw, Self::FORM)?;
        let is_decimal = text.starts_with(|c: char| c.is_ascii_digit())
            && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let number = text.parse::<Self>().ok().filter(|number| is_decimal && number.is_finite());
        number.ok_or_else(|| not_a(&raw.text, Self::FORM))
    }

    fn show(&self) -> Shown {
        // Debug writes the shortest text that reads back, and keeps `2.0` a number with a point. Bounds keep it from
        // the exponents that it uses for huge numbers.
        Shown::Number(format!("{self:?}"))
    }

    fn schema(bounds: Option<(Self, Self)>) -> serde_json::Value {
        let (least, most) = bounds.unwrap_or((0.0, Self::MAX));
        serde_json::json!({ "type": "number", "minimum": least, "maximum": most })
    }

    fn order(&self, other: &Self) -> Option<Ordering> {
        self.partial_cmp(other)
    }
}

fn read_word<T: Copy>(raw: &Raw, words: &[(&str, T)], form: &str) -> Result<T, Refusal> {
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == raw.text) {
        return Ok(*value);
    }
    let help =
        nearest(&raw.text, words.iter().map(|(word, _)| *word)).map(|word| format!("did you mean `{word}`?"));
    Err(Refusal { help, ..not_a(&raw.text, form) })
}

fn show_word<T: PartialEq>(value: &T, words: &[(&str, T)]) -> Shown {
    Shown::Text(words.iter().find(|(_, known)| known == value).map_or("", |(word, _)| *word).to_owned())
}

macro_rules! words {
    ($($kind:ty, $form:literal, [$($word:literal => $value:expr),*];)*) => {$(
        impl Value for $kind {
            const FORM: &'static str = $form;
            fn read(raw: &Raw) -> Result<Self, Refusal> {
                read_word(raw, &[$(($word, $value)),*], Self::FORM)
            }
            fn show(&self) -> Shown {
                show_word(self, &[$(($word, $value)),*])
            }
            fn schema(_bounds: Option<(Self, Self)>) -> serde_json::Value {
                serde_json::json!({ "enum": [$($word),*] })
            }
        }
    )*};
}

words! {
    ProviderKind, "a provider (`local`)", ["local" => Self::Local];
    KeyKind, "a kind of keys (`row` or `seed`)", ["row" => Self::Row, "seed" => Self::Seed];
    Signing, "a way of signing (`fixed_nonce` or `rfc8032`)",
        ["fixed_nonce" => Self::FixedNonce, "rfc8032" => Self::Rfc8032];
}

impl Value for NodeBinary {
    const FORM: &'static str = "`embedded` or the path of a `neard`";

    fn read(raw: &Raw) -> Result<Self, Refusal> {
        match raw.text.as_str() {
            "embedded" => Ok(Self::Embedded),
            path if path.contains(char::is_control) => Err(not_a(path, Self::FORM)),
            path if path.contains('/') => Ok(Self::Neard(path.to_owned())),
            // Without this a slip such as `embeded` would be taken for a file that is not there, minutes later.
            word => {
                let help = match nearest(word, ["embedded"]) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None => format!("a path has a slash: `./{word}`"),
                };
                Err(Refusal { help: Some(help), ..not_a(word, Self::FORM) })
            }
        }
    }

    fn show(&self) -> Shown {
        Shown::Text(match self {
            Self::Embedded => "embedded".to_owned(),
            Self::Neard(path) => path.clone(),
        })
    }

    fn schema(_bounds: Option<(Self, Self)>) -> serde_json::Value {
        serde_json::json!({ "type": "string", "pattern": "^(?:embedded|[^\\u0000-\\u001f]*/[^\\u0000-\\u001f]*)$" })
    }
}
