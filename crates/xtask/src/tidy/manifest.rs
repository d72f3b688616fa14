//! Manifests: what they depend on, and that they take edition, licence and lints from the workspace.

use toml::{Table, Value};

use super::{Finding, Tree};

/// Which section a dependency stands in. A build script's counts as normal: it is part of the crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Normal,
    Dev,
}

/// One dependency.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dependency {
    /// The package's name, also where the manifest gives it another.
    pub(super) package: String,
    pub(super) section: Section,
    pub(super) line: usize,
}

/// All dependencies in a manifest, also those of one target only; none where it is not TOML (cargo says so itself).
pub(super) fn dependencies(text: &str) -> Vec<Dependency> {
    let Ok(manifest) = text.parse::<Table>() else { return Vec::new() };
    let mut found = Vec::new();
    collect(&manifest, text, &mut found);
    let targets = manifest.get("target").and_then(Value::as_table);
    for target in targets.into_iter().flat_map(Table::values).filter_map(Value::as_table) {
        collect(target, text, &mut found);
    }
    found
}

fn collect(table: &Table, text: &str, found: &mut Vec<Dependency>) {
    for (section, kind) in [
        ("dependencies", Section::Normal),
        ("build-dependencies", Section::Normal),
        ("dev-dependencies", Section::Dev),
    ] {
        let Some(entries) = table.get(section).and_then(Value::as_table) else { continue };
        for (name, value) in entries {
            let package = value.get("package").and_then(Value::as_str).unwrap_or(name).to_owned();
            found.push(Dependency { package, section: kind, line: line_of(text, section, name) });
        }
    }
}

/// The line of `name` after the heading of its section; 0 where it is written in some rarer way.
fn line_of(text: &str, section: &str, name: &str) -> usize {
    let mut in_section = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            let heading = line.trim_matches(['[', ']']);
            in_section = heading == section || heading.ends_with(&format!(".{section}"));
            if heading.ends_with(&format!("{section}.{name}")) {
                return index + 1;
            }
        }
        let rest = line.strip_prefix(name).unwrap_or("-");
        if in_section && rest.starts_with([' ', '.', '=']) {
            return index + 1;
        }
    }
    0
}

/// Keys that every crate takes from the workspace.
const INHERITED: &[&[&str]] =
    &[&["package", "edition"], &["package", "license"], &["package", "rust-version"], &["lints"]];

/// Every crate inherits what the workspace sets, and is named after its folder.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, path, text) in tree.manifests() {
        let manifest: Table = match text.parse() {
            Ok(manifest) => manifest,
            Err(error) => {
                findings.push(Finding::new("manifest", path, 0, format!("not TOML: {error}")));
                continue;
            }
        };
        for keys in INHERITED {
            let value = keys.iter().skip(1).fold(manifest.get(keys[0]), |value, key| value?.get(key));
            if value.and_then(|value| value.get("workspace")).and_then(Value::as_bool) != Some(true) {
                let message = format!("`{}` must be `workspace = true`", keys.join("."));
                findings.push(Finding::new("inherit", path, 0, message));
            }
        }
        let name = manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
        if name.is_none_or(|name| name.strip_prefix("tpsctl-").unwrap_or(name) != folder) {
            let message =
                format!("the package in folder `{folder}` must be named `tpsctl-{folder}` or `{folder}`");
            findings.push(Finding::new("inherit", path, 0, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"tpsctl-x\"\nedition.workspace = true\nrust-version.workspace = true\n\
                        license.workspace = true\n\n[lints]\nworkspace = true\n";

    #[test]
    fn inheritance_is_demanded() {
        assert_eq!(check(&Tree::of(&[("crates/x/Cargo.toml", GOOD)])), []);
        let own_licence = GOOD.replace("license.workspace = true", "license = \"MIT\"");
        let findings = check(&Tree::of(&[("crates/x/Cargo.toml", &own_licence)]));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("package.license"));
        let no_lints = GOOD.replace("[lints]\nworkspace = true\n", "");
        assert_eq!(check(&Tree::of(&[("crates/x/Cargo.toml", &no_lints)])).len(), 1);
        assert_eq!(check(&Tree::of(&[("crates/y/Cargo.toml", GOOD)])).len(), 1, "folder and name differ");
        assert_eq!(check(&Tree::of(&[("crates/x/Cargo.toml", "=")])).len(), 1);
    }

    #[test]
    fn dependencies_are_read_from_every_section() {
        let text = "[dependencies]\na.workspace = true\nb = { package = \"c\", version = \"1\" }\n\
                    [target.'cfg(unix)'.dependencies]\nd = \"1\"\n[dev-dependencies.e]\nversion = \"1\"\n\
                    [build-dependencies]\nf = \"1\"\n";
        let mut found: Vec<_> =
            dependencies(text).into_iter().map(|d| (d.package, d.section, d.line)).collect();
        found.sort_by(|x, y| x.0.cmp(&y.0));
        let expected = [
            ("a", Section::Normal, 2),
            ("c", Section::Normal, 3),
            ("d", Section::Normal, 5),
            ("e", Section::Dev, 6),
            ("f", Section::Normal, 9),
        ];
        assert_eq!(found, expected.map(|(name, section, line)| (name.to_owned(), section, line)));
    }
}
