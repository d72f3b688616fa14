//! Files and functions stay short. What is longer than the limits stands in a list with its length; an entry may
//! shrink and go, never grow, and none is added after the list's first commit.

use std::collections::BTreeMap;

use super::{Finding, RATCHET, source::Sources};

const RULE: &str = "length";

/// Most lines of a file, without its tests.
const FILE_LINES_MAX: usize = 500;

/// Most lines of code of a function; as in clippy.toml.
const FUNCTION_LINES_MAX: usize = 70;

/// Entries of the list: `path` or `path#function`, with its length and its line in the list.
type Ratchet = BTreeMap<String, (usize, usize)>;

/// Compares every length with the limits and the list. `first` is the list as first committed.
pub(super) fn check(sources: &Sources, list: Option<&str>, first: Option<&str>) -> Vec<Finding> {
    let (list, mut findings) = parse(list.unwrap_or_default());
    let first = first.map(|text| parse(text).0);
    let excess = excess(sources);
    for (what, (lines, limit, line)) in &excess {
        let path = what.split('#').next().unwrap_or(what);
        let message = match list.get(what) {
            Some((allowed, _)) if lines <= allowed => continue,
            Some((allowed, _)) => {
                format!("{lines} lines, and {RATCHET} allows {allowed}: it may shrink, never grow")
            }
            None => format!("{lines} lines, at most {limit}: split it along its stages"),
        };
        findings.push(Finding::new(RULE, path, *line, format!("{what}: {message}")));
    }
    for (what, (allowed, line)) in &list {
        let message = match excess.get(what) {
            None => format!("{what} is no longer over the limit: remove the entry"),
            Some((lines, ..)) if lines < allowed => format!("{what} has shrunk: lower the entry to {lines}"),
            Some(_) => String::new(),
        };
        if !message.is_empty() {
            findings.push(Finding::new(RULE, RATCHET, *line, message));
        }
        let is_new = first
            .as_ref()
            .is_some_and(|first| first.get(what).is_none_or(|(first_allowed, _)| first_allowed < allowed));
        if is_new {
            let message =
                format!("{what} was not in the list's first version with {allowed} or more: no new entries");
            findings.push(Finding::new(RULE, RATCHET, *line, message));
        }
    }
    findings
}

/// Everything over its limit: lines, limit, and where it begins.
fn excess(sources: &Sources) -> BTreeMap<String, (usize, usize, usize)> {
    let mut excess = BTreeMap::new();
    for source in sources.files.iter().filter(|source| !source.is_test) {
        if source.lines > FILE_LINES_MAX {
            excess.insert(source.path.clone(), (source.lines, FILE_LINES_MAX, 0));
        }
        for function in source.functions.iter().filter(|function| function.lines > FUNCTION_LINES_MAX) {
            let what = format!("{}#{}", source.path, function.name);
            // Of two functions of one name (methods of two types) the longer one counts.
            let entry = excess.entry(what).or_insert((0, FUNCTION_LINES_MAX, function.line));
            if function.lines > entry.0 {
                *entry = (function.lines, FUNCTION_LINES_MAX, function.line);
            }
        }
    }
    excess
}

/// Reads `LINES PATH[#FUNCTION]` per line; `#` at the start is a comment.
fn parse(text: &str) -> (Ratchet, Vec<Finding>) {
    let mut ratchet = Ratchet::new();
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = line.split_once(' ').and_then(|(lines, what)| Some((lines.parse().ok()?, what.trim())));
        match entry {
            Some((lines, what)) => drop(ratchet.insert(what.to_owned(), (lines, index + 1))),
            None => {
                findings.push(Finding::new(RULE, RATCHET, index + 1, "must read `LINES PATH[#FUNCTION]`"));
            }
        }
    }
    (ratchet, findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{Tree, source::read_all};

    fn sources(text: &str) -> Sources {
        read_all(&Tree::of(&[("crates/x/src/a.rs", text)]))
    }

    fn long_file() -> Sources {
        sources(&"const A: u8 = 1;\n".repeat(510))
    }

    fn messages(sources: &Sources, list: &str, first: Option<&str>) -> Vec<String> {
        check(sources, Some(list), first).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn long_files_and_functions_are_found() {
        let found = check(&long_file(), None, None);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("510 lines, at most 500"));
        let function = format!("fn long() {{\n{}}}\n", "    x();\n".repeat(71));
        let found = check(&sources(&format!("\n{function}")), None, None);
        assert_eq!(found[0].line, 2);
        assert!(found[0].message.contains("a.rs#long: 71 lines"));
    }

    #[test]
    fn tests_may_be_long() {
        let text = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    const A: u8 = 1;\n".repeat(600));
        assert_eq!(check(&sources(&text), None, None), []);
    }

    #[test]
    fn entries_may_shrink_never_grow() {
        let file = long_file();
        assert_eq!(messages(&file, "510 crates/x/src/a.rs", None), [""; 0]);
        assert!(messages(&file, "509 crates/x/src/a.rs", None)[0].contains("never grow"));
        assert!(messages(&file, "511 crates/x/src/a.rs", None)[0].contains("lower the entry to 510"));
        assert!(messages(&sources(""), "511 crates/x/src/a.rs", None)[0].contains("remove the entry"));
        assert!(messages(&sources(""), "many a.rs", None)[0].contains("must read"));
    }

    #[test]
    fn new_entries_fail() {
        let file = long_file();
        let list = "# why\n510 crates/x/src/a.rs";
        assert!(messages(&file, list, Some(""))[0].contains("no new entries"));
        assert_eq!(messages(&file, list, Some("600 crates/x/src/a.rs")), [""; 0]);
        assert!(messages(&file, list, Some("505 crates/x/src/a.rs"))[0].contains("no new entries"));
    }
}
