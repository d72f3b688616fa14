//! The rules that a compiler does not check. Each is a pure function from the [`Tree`] of tracked files to
//! [`Finding`]s; all are reported in one pass.

use std::{collections::BTreeMap, fmt, path::Path, process::Command};

use anyhow::{Context as _, bail};

mod arrows;
mod exit_codes;
mod length;
mod links;
mod manifest;
mod purity;
mod source;
mod words;

/// The list of what is longer than the limits, relative to the root.
const RATCHET: &str = "crates/xtask/ratchet.txt";

/// One broken rule, at one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, relative to the root.
    path: String,
    /// From 1; 0 where the finding is about the file as a whole.
    line: usize,
    /// Which rule.
    rule: &'static str,
    /// What is wrong and what would be right, in a sentence.
    message: String,
}

impl Finding {
    fn new(rule: &'static str, path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: [{}] {}", self.path, self.rule, self.message),
            line => write!(f, "{}:{line}: [{}] {}", self.path, self.rule, self.message),
        }
    }
}

/// The files that git tracks or would track, by path from the root; the text is `None` where it is not UTF-8.
#[derive(Debug, Default)]
struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Every file that is text.
    fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// The manifest of each crate, with the crate's folder name.
    fn manifests(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.texts().filter_map(|(path, text)| {
            let folder = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            Some((folder, path, text))
        })
    }

    /// A file, or a folder with something in it.
    fn contains(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.keys().any(|file| file.starts_with(&folder))
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned()))).collect();
        Self { files }
    }
}

/// Applies every rule to the checkout at `root`.
pub(crate) fn run(root: &Path) -> anyhow::Result<Vec<Finding>> {
    Ok(check(&read_tree(root)?, first_ratchet(root)?.as_deref()))
}

/// All rules over one tree; `first_ratchet` is the ratchet list as it was first committed.
fn check(tree: &Tree, first_ratchet: Option<&str>) -> Vec<Finding> {
    let sources = source::read_all(tree);
    let mut findings = sources.faults.clone();
    findings.extend(purity::check(&sources));
    findings.extend(purity::check_manifests(tree));
    findings.extend(arrows::check(tree));
    findings.extend(length::check(
        &sources,
        tree.files.get(RATCHET).and_then(Option::as_deref),
        first_ratchet,
    ));
    findings.extend(manifest::check(tree));
    findings.extend(exit_codes::check(tree));
    findings.extend(words::check(tree));
    findings.extend(words::check_attributes(&sources));
    findings.extend(links::check(tree));
    findings.extend(layout(tree));
    findings.sort();
    findings.dedup();
    findings
}

fn has_extension(path: &str, wanted: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == wanted)
}

/// Where files lie: no `mod.rs`, and every scenario file is bundled.
fn layout(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in tree.files.keys() {
        if path.ends_with("/mod.rs") {
            let better = path.replace("/mod.rs", ".rs");
            findings.push(Finding::new(
                "mod-rs",
                path,
                0,
                format!("name the file after its module: {better}"),
            ));
        }
        let name = path.strip_prefix("scenarios/").filter(|name| !name.contains('/'));
        let is_scenario = name.is_some_and(|name| has_extension(name, "yaml"));
        let is_bundled = || {
            tree.texts()
                .any(|(file, text)| file.starts_with("crates/scenario/src/") && text.contains(path.as_str()))
        };
        if is_scenario && !is_bundled() {
            let message = "the scenario is not in the bundled list of crates/scenario/src, so `tpsctl scenario list` \
                           does not know it";
            findings.push(Finding::new("bundled", path, 0, message));
        }
    }
    findings
}

fn read_tree(root: &Path) -> anyhow::Result<Tree> {
    // New files count before they are added; ignored ones never do.
    let listing = git(root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    let mut tree = Tree::default();
    for path in listing.split('\0').filter(|path| !path.is_empty()) {
        let absolute = root.join(path);
        // Deleted in the checkout but still in the index, or a symbolic link to a folder.
        if absolute.is_file() {
            tree.files.insert(path.to_owned(), String::from_utf8(fs_err::read(absolute)?).ok());
        }
    }
    if !tree.files.contains_key("Cargo.toml") {
        bail!("git lists no Cargo.toml in {}", root.display());
    }
    Ok(tree)
}

/// The ratchet list in the commit that added it; `None` before there is one.
fn first_ratchet(root: &Path) -> anyhow::Result<Option<String>> {
    if git(root, &["rev-parse", "--verify", "--quiet", "HEAD"]).is_err() {
        return Ok(None);
    }
    let commits = git(root, &["log", "--diff-filter=A", "--format=%H", "--", RATCHET])?;
    commits.lines().last().map(|commit| git(root, &["show", &format!("{commit}:{RATCHET}")])).transpose()
}

fn git(root: &Path, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").args(args).current_dir(root).output().context("cannot start git")?;
    if !output.status.success() {
        bail!("git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("git named a path that is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_name_file_and_line() {
        assert_eq!(Finding::new("r", "a.rs", 3, "wrong").to_string(), "a.rs:3: [r] wrong");
        assert_eq!(Finding::new("r", "a.rs", 0, "wrong").to_string(), "a.rs: [r] wrong");
    }

    #[test]
    fn mod_rs_is_refused() {
        let findings = layout(&Tree::of(&[("crates/x/src/a/mod.rs", "")]));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("crates/x/src/a.rs"));
    }

    #[test]
    fn a_scenario_that_is_not_bundled_is_found() {
        let list = r#"include_str!("../../../scenarios/a.yaml")"#;
        let tree = Tree::of(&[
            ("crates/scenario/src/bundled.rs", list),
            ("scenarios/a.yaml", ""),
            ("scenarios/b.yaml", ""),
            ("scenarios/notes.md", ""),
        ]);
        let findings = layout(&tree);
        assert_eq!(findings.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(), ["scenarios/b.yaml"]);
    }

    #[test]
    fn rules_are_reported_in_one_pass() {
        let tree = Tree::of(&[
            ("crates/model/src/lib.rs", "use std::fs;\n#[ignore]\nfn f() {}\n"),
            ("crates/x/src/mod.rs", "fn ("),
        ]);
        let rules: Vec<_> = check(&tree, None).into_iter().map(|finding| finding.rule).collect();
        assert_eq!(rules, ["purity", "attribute", "mod-rs", "lex"]);
    }
}
