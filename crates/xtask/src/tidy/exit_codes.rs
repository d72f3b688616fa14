//! The table in docs/exit-codes.md names exactly the codes that the program has.

use std::collections::BTreeMap;

use super::{Finding, Tree};

const CODE: &str = "crates/tpsctl/src/exit.rs";
const TABLE: &str = "docs/exit-codes.md";

/// Compares the constants with the rows, both ways; nothing to say while one of the files is not there.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let text = |path| tree.files.get(path).and_then(Option::as_deref);
    let (Some(code), Some(table)) = (text(CODE), text(TABLE)) else { return Vec::new() };
    let constants = numbers(code, |line| line.split_once(": u8 = ")?.1.strip_suffix(';'));
    let rows = numbers(table, |line| line.strip_prefix("| ")?.split(" |").next());
    let lacks = |from: &BTreeMap<u8, usize>, to: &BTreeMap<u8, usize>, at: &str, other: &str| {
        from.iter()
            .filter(|(code, _)| !to.contains_key(code))
            .map(|(code, line)| {
                Finding::new("exit-code", at, *line, format!("exit code {code} is not in {other}"))
            })
            .collect::<Vec<_>>()
    };
    [lacks(&constants, &rows, CODE, TABLE), lacks(&rows, &constants, TABLE, CODE)].concat()
}

/// The numbers that `cut` finds, with their lines.
fn numbers(text: &str, cut: impl Fn(&str) -> Option<&str>) -> BTreeMap<u8, usize> {
    let found = text.lines().enumerate();
    found.filter_map(|(index, line)| Some((cut(line.trim())?.trim().parse().ok()?, index + 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_and_constants_are_compared_both_ways() {
        let code = "pub(crate) const A: u8 = 0;\npub(crate) const B: u8 = 2;\n";
        let table = "| code | meaning |\n|---|---|\n| 0 | done |\n| 3 | no |\n";
        let found: Vec<_> = check(&Tree::of(&[(CODE, code), (TABLE, table)]))
            .into_iter()
            .map(|finding| (finding.path, finding.line))
            .collect();
        assert_eq!(found, [(CODE.to_owned(), 2), (TABLE.to_owned(), 4)]);
        assert_eq!(check(&Tree::of(&[(CODE, code)])), []);
    }
}
