//! Pure crates take time, chance and data as arguments: they touch no clock, file system, network, process or
//! environment, and no async runtime.

use super::{
    Finding, Tree,
    manifest::{Section, dependencies},
    source::{Name, Sources},
};

const RULE: &str = "purity";

/// Folders of the pure crates.
const PURE: &[&str] = &["genesis", "model", "near", "plan", "report", "scenario", "search", "workload"];

/// What a pure crate may not name, and what it does instead.
const FORBIDDEN: &[(&[&str], &str)] = &[
    (&["std", "fs"], "take the bytes, or any `io::Read` or `io::Write`, as an argument"),
    (&["std", "net"], "`core::net` has the address types; connections belong to a shell crate"),
    (&["std", "process"], "processes belong to a shell crate"),
    (&["std", "env"], "pass values, not environment"),
    (&["std", "thread", "sleep"], "waiting belongs to a shell crate"),
    (&["std", "time", "*"], "name what is used, so that a clock cannot come in with it"),
    (&["std", "io", "stdin"], "take any `io::Read` as an argument"),
    (&["std", "io", "stdout"], "take any `io::Write` as an argument"),
    (&["std", "io", "stderr"], "take any `io::Write` as an argument"),
    (&["std", "time", "Instant"], "take the elapsed time as an argument"),
    (&["std", "time", "SystemTime"], "take the wall time as an argument"),
    (&["Instant", "now"], "take the elapsed time as an argument"),
    (&["SystemTime", "now"], "take the wall time as an argument"),
    (&["tokio"], "the async runtime belongs to a shell crate"),
    (&["reqwest"], "the network belongs to a shell crate"),
    (&["fs_err"], "the file system belongs to a shell crate"),
    (&["print!"], "return the text"),
    (&["println!"], "return the text"),
    (&["eprint!"], "return the text"),
    (&["eprintln!"], "return the text"),
];

/// What the manifest of a pure crate may not have outside its dev-dependencies.
const FORBIDDEN_DEPENDENCIES: &[&str] =
    &["axum", "fs-err", "hyper", "reqwest", "rustix", "tokio", "tokio-util"];

/// Names in the sources of pure crates, without their tests.
pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.files.iter().filter(|source| !source.is_test && is_pure(&source.path)) {
        for name in &source.names {
            for (pattern, instead) in FORBIDDEN.iter().filter(|(pattern, _)| matches(pattern, name)) {
                let message = format!("a pure crate may not name `{}`: {instead}", pattern.join("::"));
                findings.push(Finding::new(RULE, &source.path, name.line, message));
            }
        }
    }
    findings
}

/// Dependencies of pure crates.
pub(super) fn check_manifests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, path, text) in tree.manifests().filter(|(folder, ..)| PURE.contains(folder)) {
        for dependency in dependencies(text) {
            if dependency.section != Section::Dev
                && FORBIDDEN_DEPENDENCIES.contains(&dependency.package.as_str())
            {
                let message = format!("the pure crate `{folder}` may not depend on `{}`", dependency.package);
                findings.push(Finding::new(RULE, path, dependency.line, message));
            }
        }
    }
    findings
}

fn is_pure(path: &str) -> bool {
    path.split('/').nth(1).is_some_and(|folder| PURE.contains(&folder))
}

/// A pattern of a crate or of `std` stands at the start of a name, one of a type and its function anywhere.
fn matches(pattern: &[&str], name: &Name) -> bool {
    let at = |from: usize| {
        name.segments.get(from..from + pattern.len()).is_some_and(|part| part.iter().eq(pattern.iter()))
    };
    let is_anchored = pattern.first().is_some_and(|first| first.starts_with(|c: char| c.is_lowercase()));
    if is_anchored { at(0) } else { (0..name.segments.len()).any(at) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::read_all;

    fn found(path: &str, text: &str) -> Vec<Finding> {
        check(&read_all(&Tree::of(&[(path, text)])))
    }

    #[test]
    fn each_forbidden_name_is_found() {
        for text in [
            "use std::fs;",
            "use std::{io, net::TcpStream};",
            "use std::{time::{Duration, Instant}};",
            "use ::std::process::Command;",
            "fn f() { let t = time::Instant::now(); }",
            "fn f() { let t = SystemTime::now(); }",
            "fn f() { let a = std::env::args(); }",
            "fn f() { println!(\"x\"); }",
            "async fn f() { tokio::time::sleep(d).await }",
            "use fs_err as fs;",
            "use std::time::*;",
        ] {
            assert_eq!(found("crates/plan/src/lib.rs", text).len(), 1, "{text}");
        }
    }

    #[test]
    fn pure_code_and_shells_and_tests_pass() {
        let pure = "use std::{io, time::Duration};\nuse core::net::SocketAddr;\n/// Not `std::fs`.\n\
                    const A: &str = include_str!(\"std::fs\");\nfn f(now: Instant) { env!(\"X\"); }";
        assert_eq!(found("crates/plan/src/lib.rs", pure), []);
        assert_eq!(found("crates/plan/src/lib.rs", "#[cfg(test)]\nmod tests { use std::fs; }"), []);
        assert_eq!(found("crates/plan/tests/a.rs", "use std::fs;"), []);
        assert_eq!(found("crates/agent/src/lib.rs", "use std::net::TcpStream;"), []);
    }

    #[test]
    fn a_runtime_in_a_pure_manifest_is_found_with_its_line() {
        let text = "[package]\nname = \"tpsctl-near\"\n\n[dependencies]\nserde.workspace = true\n\
                    tokio.workspace = true\n\n[dev-dependencies]\ntokio-util.workspace = true\n";
        let findings = check_manifests(&Tree::of(&[("crates/near/Cargo.toml", text)]));
        assert_eq!(findings.iter().map(|f| f.line).collect::<Vec<_>>(), [6]);
        assert_eq!(check_manifests(&Tree::of(&[("crates/rpc/Cargo.toml", text)])), []);
    }
}
