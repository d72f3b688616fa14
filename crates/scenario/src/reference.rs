//! The key reference, made from the table of keys: Markdown for the documentation, annotated YAML for a first scenario.

use std::fmt::Write as _;

use crate::{
    keys::SECTIONS,
    reserved::{RESERVED, Reserved},
    value::{Raw, Shown},
    write::{keys_of, line},
};

/// The key tables of `docs/scenario.md`, one for each section.
pub fn markdown() -> String {
    let mut text = String::new();
    for section in SECTIONS {
        let title =
            if section.name.is_empty() { "Top level".to_owned() } else { format!("`{}`", section.name) };
        append(&mut text, format_args!("### {title}\n\n{}\n\n", section.doc.trim()));
        text.push_str("| key | default | range | meaning |\n|---|---|---|---|\n");
        for key in keys_of(section.name) {
            let default = match key.default {
                None => "required".to_owned(),
                Some("") => "empty".to_owned(),
                Some(default) => format!("`{default}`"),
            };
            let range = match key.bounds {
                Some((least, most)) => format!("`{least}` to `{most}`"),
                None => key.form.to_owned(),
            };
            append(
                &mut text,
                format_args!("| `{}` | {default} | {range} | {} |\n", key.name, key.doc.trim()),
            );
        }
        text.push('\n');
    }
    text
}

/// The table of names in `docs/scenario.md` that are kept for later.
pub fn reserved_markdown() -> String {
    let mut text = "| name | will | until then |\n|---|---|---|\n".to_owned();
    for Reserved { path, value, will, now } in RESERVED {
        let name = if value.is_empty() { format!("`{path}`") } else { format!("`{path}: {value}`") };
        append(&mut text, format_args!("| {name} | {will} | {now} |\n"));
    }
    text.push('\n');
    text
}

/// A scenario with every key at its default, each below the sentence that explains it.
pub fn yaml(name: &str, description: &str) -> String {
    let mut text = String::new();
    for section in SECTIONS {
        let indent = if section.name.is_empty() { "" } else { "  " };
        if !section.name.is_empty() {
            append(&mut text, format_args!("\n# {}\n{}:\n", section.doc.trim(), section.name));
        }
        for key in keys_of(section.name) {
            let value = match key.path {
                "name" => name,
                "description" => description,
                _ => key.default.unwrap_or_default(),
            };
            append(
                &mut text,
                format_args!("{indent}# {}\n{}", key.doc.trim(), line(indent, key, &shown(key, value))),
            );
        }
    }
    text
}

/// Numbers stand bare, all else as [`Scenario::to_yaml`](crate::Scenario::to_yaml) would write it.
fn shown(key: &crate::keys::Key, value: &str) -> Shown {
    // Only numbers are refused in quotes.
    let is_number = (key.check)(key, &Raw { text: value.to_owned(), plain: false }).is_err();
    if is_number { Shown::Number(value.to_owned()) } else { Shown::Text(value.to_owned()) }
}

fn append(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let written = text.write_fmt(arguments);
    debug_assert!(written.is_ok());
}
