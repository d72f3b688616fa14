//! A scenario as text again: the resolved YAML, and the values for `run.json`.

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    Scenario,
    keys::{KEYS, Key, SECTIONS},
    value::Shown,
};

impl Scenario {
    /// The resolved form: every key with its value. Loads back to an equal scenario.
    pub fn to_yaml(&self) -> String {
        let mut yaml = String::new();
        for section in SECTIONS {
            let indent = if section.name.is_empty() { "" } else { "  " };
            if !section.name.is_empty() {
                yaml.push_str(section.name);
                yaml.push_str(":\n");
            }
            for key in keys_of(section.name) {
                yaml.push_str(&line(indent, key, &(key.show)(self)));
            }
        }
        yaml
    }
}

/// The keys of a section, in order.
pub(crate) fn keys_of(section: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.section == section)
}

/// One line of YAML.
pub(crate) fn line(indent: &str, key: &Key, value: &Shown) -> String {
    let name = key.name;
    match value {
        Shown::Number(number) => format!("{indent}{name}: {number}\n"),
        Shown::Text(text) if is_plain(text) => format!("{indent}{name}: {text}\n"),
        // A JSON string is a double-quoted YAML scalar.
        Shown::Text(text) => format!("{indent}{name}: {}\n", serde_json::Value::from(text.as_str())),
    }
}

/// Whether every YAML reader takes `text` for a text without quotes.
fn is_plain(text: &str) -> bool {
    let is_wordlike = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b'%'));
    let lower = text.to_ascii_lowercase();
    let is_special =
        matches!(lower.as_str(), "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n");
    // `1e5`, `0x1f` and `2026-01-01` are numbers or dates to some readers.
    let is_numberlike = text.starts_with(|c: char| c.is_ascii_digit()) && !has_unit(text);
    is_wordlike && !is_special && !is_numberlike
}

/// A decimal number, then a unit of letters, `%`, or a fraction's other half.
fn has_unit(text: &str) -> bool {
    const UNITS: &[&str] = &[
        "%", "ms", "s", "m", "h", "tps", "gas", "Ggas", "Tgas", "Pgas", "B", "KB", "MB", "GB", "yocto",
        "mNEAR", "NEAR",
    ];
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_fraction =
        rest.strip_prefix('/').is_some_and(|below| below.bytes().all(|byte| byte.is_ascii_digit()));
    is_fraction || UNITS.contains(&rest)
}

impl Serialize for Scenario {
    /// Nested like the file, with the same texts (`"600ms"`); plain numbers stay numbers.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for section in SECTIONS {
            if section.name.is_empty() {
                for key in keys_of("") {
                    map.serialize_entry(key.name, &json(&(key.show)(self)))?;
                }
            } else {
                map.serialize_entry(section.name, &SectionValues { scenario: self, section: section.name })?;
            }
        }
        map.end()
    }
}

struct SectionValues<'a> {
    scenario: &'a Scenario,
    section: &'static str,
}

impl Serialize for SectionValues<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for key in keys_of(self.section) {
            map.serialize_entry(key.name, &json(&(key.show)(self.scenario)))?;
        }
        map.end()
    }
}

pub(crate) fn json(value: &Shown) -> serde_json::Value {
    match value {
        // Every number that a key shows is a JSON number.
        Shown::Number(text) => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
        Shown::Text(text) => text.as_str().into(),
    }
}
