//! Relative links in the documentation lead to files that are there.

use super::{Finding, Tree, has_extension};

/// Checks every Markdown file outside the test data.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in
        tree.texts().filter(|(path, _)| has_extension(path, "md") && !path.starts_with("testdata/"))
    {
        for (line, target) in links(text) {
            let message = match resolve(path, target) {
                Some(Err(())) => format!("`{target}` leads out of the project"),
                Some(Ok(file)) if !tree.contains(&file) => {
                    format!("`{target}` leads to {file}, which is not there")
                }
                None | Some(Ok(_)) => continue,
            };
            findings.push(Finding::new("link", path, line, message));
        }
    }
    findings
}

/// The targets of `[text](target)` and `[name]: target`, with their lines; code is left out.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_fence = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
            continue;
        }
        if in_fence {
            continue;
        }
        // Every second part is code: `a [b](c)` is not a link.
        for (number, part) in line.split('`').enumerate() {
            // A link's text may itself be code, so its end is looked for in what comes after the code too.
            if number % 2 == 1 {
                continue;
            }
            found.extend(
                part.split("](").skip(1).filter_map(|rest| Some((index + 1, rest.split_once(')')?.0))),
            );
        }
        if let Some((_, target)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
            found.push((index + 1, target));
        }
    }
    found
}

/// The path from the root that a link of the file at `from` means; `None` for a web address or a place in the same
/// file, an error where it climbs out of the project.
fn resolve(from: &str, target: &str) -> Option<Result<String, ()>> {
    let target = target.split([' ', '#']).next().unwrap_or_default().trim_matches(['<', '>']);
    if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return Some(Err(()));
                }
            }
            name => parts.push(name),
        }
    }
    Some(Ok(parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        let tree = Tree::of(&[("docs/a.md", text), ("docs/b.md", ""), ("crates/x/src/lib.rs", "")]);
        check(&tree).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let text = "[b](b.md) and [`b`](./b.md#part \"title\")\n[x](../crates/x) [root](/docs/b.md)\n\
                    [web](https://example.com/none) [here](#here)\n`[code](none.md)`\n```\n[code](none.md)\n```\n\
                    [ref]: b.md\n";
        assert_eq!(found(text), [0; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        assert_eq!(found("fine\n[gone](gone.md) [b](b.md) [too](gone/b.md)\n[ref]: c.md\n"), [2, 2, 3]);
        assert_eq!(found("[`code`](gone.md)"), [1]);
        assert_eq!(found("[out](../../x)"), [1]);
    }
}
