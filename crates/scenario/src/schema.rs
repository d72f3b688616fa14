//! The JSON Schema of scenario files (draft 2020-12), made from the table of keys.
//!
//! It refuses what can be refused by looking at one value: unknown keys, wrong types, units and ranges. What two keys have to
//! do with each other is checked by [`load`](crate::load) alone.

mod pattern;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value as Json, json};

use crate::{
    keys::{Key, SECTIONS, Section},
    value::{Raw, Shown, Value},
    write::keys_of,
};

/// The schema as the text of `docs/scenario.schema.json`.
pub fn schema_text() -> String {
    format!("{:#}\n", schema())
}

/// The schema.
pub fn schema() -> Json {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for section in SECTIONS {
        if section.name.is_empty() {
            properties.extend(keys_of("").map(|key| (key.name.to_owned(), of_key(key))));
            required.extend(keys_of("").filter(|key| key.default.is_none()).map(|key| key.name));
        } else {
            properties.insert(section.name.to_owned(), of_section(section));
        }
    }
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Scenario of tpsctl",
        "description": "What network to make, how to load it, what it has to keep up, and how to search for its limit.",
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    // The same text whether or not some other crate has serde_json keep the order of keys.
    schema.sort_all_objects();
    schema
}

fn of_section(section: &Section) -> Json {
    let properties: Map<_, _> = keys_of(section.name).map(|key| (key.name.to_owned(), of_key(key))).collect();
    json!({
        "description": section.doc.trim(),
        // With all of its keys commented out a section is null.
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": false,
    })
}

fn of_key(key: &Key) -> Json {
    let mut schema = (key.schema)(key);
    let range = key.bounds.map_or_else(
        || format!("It is {}.", key.form),
        |(least, most)| format!("It is {}, from `{least}` to `{most}`.", key.form),
    );
    if let Some(object) = schema.as_object_mut() {
        object.insert("description".to_owned(), format!("{} {range}", key.doc.trim()).into());
        if let Some(default) = key.default {
            object.insert("default".to_owned(), json_of(key, default));
        }
    }
    schema
}

/// A text as a file would have it: a number where only a number is read.
fn json_of(key: &Key, text: &str) -> Json {
    let is_number = (key.check)(key, &Raw { text: text.to_owned(), plain: false }).is_err();
    if is_number { crate::write::json(&Shown::Number(text.to_owned())) } else { text.into() }
}

/// The schema of a key's values.
pub(crate) fn of<T: Value>(key: &Key) -> Json {
    let bound = |text: &str| T::read(&Raw { text: text.to_owned(), plain: true }).ok();
    T::schema(key.bounds.and_then(|(least, most)| Some((bound(least)?, bound(most)?))))
}

/// A text of a quantity in `units`, from `least` to `most` of the smallest.
pub(crate) fn quantity(units: &[(&str, u128)], least: u128, most: u128) -> Json {
    json!({ "type": "string", "pattern": pattern::quantity(units, least, most) })
}

/// A whole number: bare, or bare with underscores, which is a text to YAML.
pub(crate) fn whole_number(least: u64, most: u64) -> Json {
    json!({
        "type": ["integer", "string"],
        "minimum": least,
        "maximum": most,
        "pattern": "^[0-9]+(?:_+[0-9]*)+$",
    })
}
