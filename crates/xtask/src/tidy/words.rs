//! Words that may not stand in the project: names of the places where it happens to be built, notes without an issue,
//! and attributes that silence a test or a lint.

use super::{Finding, Tree, has_extension, source::Sources};

/// Built from pieces, so that this file passes its own rule.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("../sha", "red/"), "a folder beside the clone"),
    (concat!("sub", "agent"), "a word about how the project is made"),
    (concat!("crates", ".io"), "a registry's host: cargo knows it"),
    (concat!("pypi", ".org"), "a registry's host: pip knows it"),
    (concat!("pythonhosted", ".org"), "a registry's host: pip knows it"),
    (concat!("deb.", "debian", ".org"), "a registry's host: apt knows it"),
    (concat!("registry.", "npmjs", ".org"), "a registry's host: npm knows it"),
];

/// Notes that need an issue's number.
const NOTES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Files in which a note is a note; elsewhere (documentation, data) it may be spoken about.
const NOTED_IN: &[&str] = &["rs", "sh", "toml", "yaml", "yml", "html", "css", "js", "py", "tf"];

/// Words in every text file. The lock file is cargo's, and names its registry.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| *path != "Cargo.lock") {
        let has_notes = NOTED_IN.iter().any(|extension| has_extension(path, extension));
        for (index, line) in text.lines().enumerate() {
            for (word, why) in FORBIDDEN.iter().filter(|(word, _)| names(line, word)) {
                let message = format!("`{word}` may not stand here: {why}");
                findings.push(Finding::new("word", path, index + 1, message));
            }
            for note in NOTES.iter().filter(|note| has_notes && lacks_issue(line, note)) {
                let message = format!("a {note} names its issue, `{note}(#7):`, or is not there");
                findings.push(Finding::new("note", path, index + 1, message));
            }
        }
    }
    findings
}

/// `#[ignore]` and `allow`, in tests too.
pub(super) fn check_attributes(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &sources.files {
        for attribute in &source.attributes {
            let acts = |word: &str| match attribute.idents.first().map(String::as_str) {
                Some("cfg_attr") => attribute.idents.iter().skip(1).any(|ident| ident == word),
                first => first == Some(word),
            };
            let message = if acts("ignore") {
                "an ignored test is no test: name it `slow_...` and it runs in the slow pass"
            } else if acts("allow") {
                "use `#[expect(lint, reason = \"...\")]`, which says why and fails when it is no longer needed"
            } else {
                continue;
            };
            findings.push(Finding::new("attribute", &source.path, attribute.line, message));
        }
    }
    findings
}

/// Does the line have `word`? One that begins with a slash must be a path's start, not `src/` and the like in the middle
/// of another path.
fn names(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !word.starts_with('/') || before.is_none_or(|c| !(c.is_alphanumeric() || "_-./}".contains(c)))
    })
}

/// Does the line have the note as a word of its own, without `(#number)` after it?
fn lacks_issue(line: &str, note: &str) -> bool {
    line.match_indices(note).any(|(at, _)| {
        let is_word_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let rest = &line[at + note.len()..];
        if is_word_part(line[..at].chars().next_back()) || is_word_part(rest.chars().next()) {
            return false;
        }
        let issue = rest.strip_prefix("(#").and_then(|rest| rest.split_once(')')).map(|(issue, _)| issue);
        issue.is_none_or(|issue| issue.is_empty() || !issue.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::read_all;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn forbidden_words_are_found_where_they_stand() {
        let root = concat!("/wo", "rk/");
        assert_eq!(lines("README.md", &format!("fine\ncd {root}main\n")), [2]);
        assert_eq!(lines("docs/a.md", &format!("`{root}x`")), [1]);
        assert_eq!(lines("docs/a.md", &format!("see docs{root}x.md, homework/")), [0; 0]);
        assert_eq!(lines("deny.toml", concat!("allow = [\"crates", ".io\"]")), [1]);
        assert_eq!(lines("Cargo.lock", concat!("crates", ".io")), [0; 0]);
    }

    #[test]
    fn notes_need_an_issue() {
        let note = concat!("TO", "DO");
        assert_eq!(
            lines("a.rs", &format!("// {note}: later\n// {note}(#12): why\n// {note}(#): x\n")),
            [1, 3]
        );
        assert_eq!(lines("a.rs", &format!("let {note}_LIST = 1;\n")), [0; 0]);
        assert_eq!(lines("CONTRIBUTING.md", &format!("no {note} without an issue\n")), [0; 0]);
    }

    #[test]
    fn silencing_attributes_are_found_in_tests_too() {
        let text = "#[allow(dead_code)]\nfn a() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    #[ignore = \"slow\"]\n    \
                    fn b() {}\n}\n#[cfg_attr(unix, allow(x))]\nfn c() {}\n#[expect(x, reason = \"allow\")]\nfn d() {}\n\
                    /// allow\nfn allow() {}\n";
        let tree = Tree::of(&[("crates/x/src/a.rs", text)]);
        let found: Vec<_> =
            check_attributes(&read_all(&tree)).into_iter().map(|finding| finding.line).collect();
        assert_eq!(found, [1, 6, 9]);
    }
}
