//! Bad input of every kind: the exit code is the documented one, the message says what was attempted, on what, and what
//! to do; nothing is started, and nothing stays behind.

mod disk;
mod node;
mod runs;
mod scenario;
mod wire;

use std::path::{Path, PathBuf};

use crate::support::Bench;

/// Bad input.
const BAD_INPUT: i32 = 2;
/// Our side failed.
const OURS: i32 = 5;
/// The provider or a node failed.
const PROVIDER: i32 = 6;

/// Runs the program, which must refuse: with `code`, with a message that has each of `says`, without data on stdout, with
/// no file more or less than before and no process left. The message.
fn assert_refused(bench: &Bench, args: &[&str], code: i32, says: &[&str]) -> String {
    let before = listing(bench.dir.path());
    let output = bench.run(args);
    let message = String::from_utf8(output.stderr).expect("the message is text");
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    assert!(output.stdout.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
    assert_helpful(&message, says);
    assert_eq!(listing(bench.dir.path()), before, "{args:?} leaves the files as they are");
    assert_eq!(bench.processes(), Vec::<u32>::new(), "{args:?}");
    message
}

/// A message for people, with each of `says`.
fn assert_helpful(message: &str, says: &[&str]) {
    for text in says {
        assert!(message.contains(text), "no `{text}` in: {message}");
    }
    for text in ["panicked", "RUST_BACKTRACE", "unwrap", "Some("] {
        assert!(!message.contains(text), "`{text}` in: {message}");
    }
    let longest = message.lines().map(str::len).max().unwrap_or(0);
    assert!((1..=600).contains(&longest), "a message of {longest} characters: {message}");
}

/// Everything below `root`.
fn listing(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("a type").is_dir() {
                folders.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}
