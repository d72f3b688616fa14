//! Which crate may depend on which: from the specific to the general only. A new arrow is a decision, so it is a line
//! in this table and an ADR in `docs/adr/`.

use std::collections::BTreeSet;

use super::{
    Finding, Tree,
    manifest::{Section, dependencies},
};

/// A crate's row.
struct Row {
    name: &'static str,
    may: May,
    /// What its tests may use besides.
    in_tests: &'static [&'static str],
}

/// What a crate may depend on.
enum May {
    /// These only.
    Only(&'static [&'static str]),
    /// The composition root: everything meets here.
    Anything,
}

const fn row(name: &'static str, may: &'static [&'static str]) -> Row {
    Row { name, may: May::Only(may), in_tests: &[] }
}

const ARROWS: &[Row] = &[
    row("model", &[]),
    row("near", &[]),
    row("scenario", &["model", "near"]),
    row("plan", &["model", "near", "scenario"]),
    row("workload", &["model", "near"]),
    row("genesis", &["model", "near", "workload"]),
    row("search", &["model", "near"]),
    row("report", &["model"]),
    row("rpc", &["near"]),
    row("observe", &["model", "near", "rpc"]),
    row("agent", &["model", "near", "rpc", "workload"]),
    Row { name: "localchain", may: May::Only(&["near"]), in_tests: &["testports"] },
    row("provider", &["genesis", "model", "near"]),
    row(
        "controller",
        &[
            "agent", "genesis", "model", "near", "observe", "plan", "provider", "report", "rpc", "scenario",
            "search", "workload",
        ],
    ),
    Row { name: "tpsctl", may: May::Anything, in_tests: &[] },
    Row {
        name: "near-oracle",
        may: May::Only(&["near"]),
        in_tests: &["genesis", "localchain", "model", "testports", "workload"],
    },
    row(
        "fuzz",
        &[
            "controller",
            "localchain",
            "model",
            "near",
            "observe",
            "plan",
            "provider",
            "report",
            "rpc",
            "scenario",
        ],
    ),
    Row { name: "conformance", may: May::Only(&["near"]), in_tests: &["localchain", "testports"] },
    row("testports", &[]),
    row("xtask", &[]),
];

/// Every arrow between crates of the workspace is in the table.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let crates: BTreeSet<&str> = tree.manifests().map(|(folder, ..)| folder).collect();
    let mut findings = Vec::new();
    for (folder, path, text) in tree.manifests() {
        let Some(row) = ARROWS.iter().find(|row| row.name == folder) else {
            let message = format!("the crate `{folder}` has no row in the table of arrows");
            findings.push(Finding::new("arrow", path, 0, message));
            continue;
        };
        for dependency in dependencies(text) {
            let target = dependency.package.strip_prefix("tpsctl-").unwrap_or(&dependency.package);
            if crates.contains(target) && !row.allows(target, dependency.section) {
                let message = format!(
                    "`{folder}` may not depend on `{target}`: arrows point from the specific to the general, and \
                     {}",
                    row.say()
                );
                findings.push(Finding::new("arrow", path, dependency.line, message));
            }
            let is_oracle = target.starts_with("near-") && !crates.contains(target);
            if is_oracle && (folder != "near-oracle" || dependency.section != Section::Dev) {
                let message = format!(
                    "`{target}` is one of NEAR's own crates: an oracle for tests, so it belongs to the \
                     dev-dependencies of `near-oracle` only"
                );
                findings.push(Finding::new("arrow", path, dependency.line, message));
            }
        }
    }
    findings
}

impl Row {
    fn allows(&self, target: &str, section: Section) -> bool {
        let in_tests = section == Section::Dev && self.in_tests.contains(&target);
        match self.may {
            May::Only(targets) => targets.contains(&target) || in_tests,
            May::Anything => true,
        }
    }

    fn say(&self) -> String {
        match self.may {
            May::Anything => format!("`{}` may use everything", self.name),
            May::Only([]) => format!("`{}` depends on no crate of the workspace", self.name),
            May::Only(targets) => format!("`{}` may use {}", self.name, targets.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(section: &str, dependency: &str) -> String {
        format!("[{section}]\n{dependency}.workspace = true\n")
    }

    #[test]
    fn an_arrow_that_runs_back_is_found() {
        let back = manifest("dependencies", "tpsctl-plan");
        let tree = Tree::of(&[("crates/model/Cargo.toml", &back), ("crates/plan/Cargo.toml", "")]);
        let findings = check(&tree);
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].path.as_str(), findings[0].line), ("crates/model/Cargo.toml", 2));
        assert!(
            findings[0].message.starts_with("`model` may not depend on `plan`"),
            "{}",
            findings[0].message
        );
    }

    #[test]
    fn arrows_in_the_table_pass() {
        let forth = manifest("dependencies", "tpsctl-model");
        let tree = Tree::of(&[("crates/plan/Cargo.toml", &forth), ("crates/model/Cargo.toml", "")]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn an_arrow_of_the_tests_is_for_tests_only() {
        for (section, expected) in [("dev-dependencies", 0), ("dependencies", 1), ("build-dependencies", 1)] {
            let text = manifest(section, "tpsctl-genesis");
            let tree =
                Tree::of(&[("crates/near-oracle/Cargo.toml", &text), ("crates/genesis/Cargo.toml", "")]);
            assert_eq!(check(&tree).len(), expected, "{section}");
        }
        let dev = manifest("dev-dependencies", "tpsctl-plan");
        let tree = Tree::of(&[("crates/model/Cargo.toml", &dev), ("crates/plan/Cargo.toml", "")]);
        assert_eq!(check(&tree).len(), 1, "a test may not turn an arrow round either");
    }

    #[test]
    fn crates_of_near_itself_are_for_tests_of_the_oracle_only() {
        for (folder, section, expected) in [
            ("near-oracle", "dev-dependencies", 0),
            ("near-oracle", "dependencies", 1),
            ("near", "dev-dependencies", 1),
        ] {
            let (path, text) = (format!("crates/{folder}/Cargo.toml"), manifest(section, "near-crypto"));
            assert_eq!(
                check(&Tree::of(&[(path.as_str(), text.as_str())])).len(),
                expected,
                "{folder} {section}"
            );
        }
    }

    #[test]
    fn a_new_crate_needs_a_row() {
        let findings = check(&Tree::of(&[("crates/helpers/Cargo.toml", "")]));
        assert!(findings[0].message.contains("no row"));
    }

    #[test]
    fn the_table_has_no_cycle() {
        // Each row names only crates of rows above it.
        for (index, row) in ARROWS.iter().enumerate() {
            if let May::Only(targets) = row.may {
                for target in targets {
                    assert!(
                        ARROWS[..index].iter().any(|above| above.name == *target),
                        "{} -> {target}",
                        row.name
                    );
                }
            }
        }
    }
}
