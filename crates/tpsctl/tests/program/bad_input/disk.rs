//! Places that cannot be written to.
//!
//! Tests may run as root, whom no permission stops: a file stands in the place of a directory, or a file system of a mount
//! namespace of its own is read-only or small.

use std::{
    io::Write,
    process::{Command, Output},
};

use serde_json::Value;

use super::{BAD_INPUT, OURS, assert_helpful, assert_refused};
use crate::{
    network::SMALL,
    support::{Bench, Running},
};

#[test]
fn a_file_in_the_place_of_the_runs_directory() {
    let bench = Bench::new();
    fs_err::write(bench.dir.path().join("file"), "x").expect("write");
    let says = &["`file` is a file, not a directory for runs"];
    assert_refused(&bench, &["up", "quickstart", "--runs-dir", "file"], BAD_INPUT, says);
    let says = &["use the run directory `file/runs`", "what helps: name a directory", "--runs-dir"];
    assert_refused(&bench, &["up", "quickstart", "--runs-dir", "file/runs"], BAD_INPUT, says);
    assert_refused(
        &bench,
        &["scenario", "run", "quickstart", "--runs-dir", "/proc/runs"],
        BAD_INPUT,
        &["`/proc/runs`", "--runs-dir"],
    );
}

/// Whether file systems can be mounted in a namespace of one's own. Where not, whoever lacks the right says so, and
/// nothing else passes for it.
fn has_mounts() -> bool {
    let script = "mount -t tmpfs tmpfs /mnt";
    let output = Command::new("unshare").args(["--mount", "sh", "-c", script]).output().expect("unshare");
    let said = String::from_utf8_lossy(&output.stderr);
    let is_refused = ["Operation not permitted", "permission denied", "must be superuser"]
        .iter()
        .any(|why| said.contains(why));
    assert!(output.status.success() || is_refused, "{said}");
    output.status.success()
}

/// Runs the program with `runs/` on a file system of its own, mounted with `options`.
fn run_on(bench: &Bench, options: &str, args: &[&str]) -> Output {
    let runs = bench.dir.path().join("runs");
    fs_err::create_dir_all(&runs).expect("create");
    let script = "mount -t tmpfs -o \"$0\" tmpfs runs || exit 99; exec \"$@\"";
    let program = env!("CARGO_BIN_EXE_tpsctl");
    Command::new("unshare")
        .args(["--mount", "sh", "-c", script, options, program])
        .args(args)
        .current_dir(bench.dir.path())
        .env_remove("RUST_LOG")
        .output()
        .expect("unshare")
}

#[test]
fn a_read_only_file_system() {
    if !has_mounts() {
        return eprintln!("skipped: no right to mount");
    }
    let bench = Bench::new();
    let output = run_on(&bench, "ro", &["up", "quickstart"]);
    assert_eq!(output.status.code(), Some(BAD_INPUT));
    let message = String::from_utf8_lossy(&output.stderr);
    assert_helpful(
        &message,
        &["use the run directory", "Read-only file system", "what helps: name a directory"],
    );
    assert_eq!(bench.processes(), Vec::<u32>::new());
}

/// Room for a ledger and not for a genesis: nothing is started.
#[test]
fn a_full_disk() {
    if !has_mounts() {
        return eprintln!("skipped: no right to mount");
    }
    for command in [&["up", "quickstart"][..], &["scenario", "run", "quickstart"]] {
        let bench = Bench::new();
        let output = run_on(&bench, "size=64k", &[command, SMALL].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(OURS), "{message}");
        assert_helpful(&message, &["error: failed to ", "No space left on device", "what helps: free space"]);
        assert_eq!(bench.processes(), Vec::<u32>::new(), "{message}");
    }
}

/// A disk that fills while a trial runs takes the artefacts, not the measurement: trials go on, teardown runs and, since it
/// removes the nodes' homes, makes room for the report; what could not be written is said.
#[test]
fn slow_a_disk_that_fills_in_mid_trial() {
    if !has_mounts() {
        return eprintln!("skipped: no right to mount");
    }
    let bench = Bench::new();
    fs_err::create_dir(bench.dir.path().join("runs")).expect("create");
    let script = "mount -t tmpfs -o size=64m tmpfs runs || exit 99; \"$@\"; code=$?; rm -f runs/filler; \
                  cp -a runs kept; exit $code";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_tpsctl")])
        .args(["scenario", "run", "quickstart", "--json"])
        .args(SMALL)
        .current_dir(bench.dir.path())
        .env_remove("RUST_LOG");
    let mut running = Running::of(command);
    running.wait_for("trial  0", 60);
    // The file system as the program sees it.
    let here = bench.dir.path().canonicalize().expect("exists");
    let runs = format!("/proc/{}/root{}/runs/filler", running.id(), here.display());
    let mut filler = fs_err::File::create(runs).expect("the other file system");
    while filler.write_all(&[0; 4_096]).is_ok() {}
    drop(filler);
    let (code, stdout, stderr) = running.finish();
    assert_eq!(code, Some(0), "the result stands, with warnings: {stderr}");
    for part in ["the journal ends here", "has no artefacts", "No space left on device"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let run: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    assert_eq!(run["outcome"]["kind"], "done", "what was measured is not lost: {stderr}");
    assert!(run["trials"].as_array().is_some_and(|trials| trials.len() > 1), "{run}");
    assert_eq!(run["processes_left"], 0);
    assert!(run["warnings"].to_string().contains("No space left on device"), "{run}");
    assert_eq!(bench.processes(), Vec::<u32>::new());
    let kept = super::listing(&bench.dir.path().join("kept"));
    let halves =
        kept.iter().filter(|path| path.extension().is_some_and(|end| end == "partial" || end == "tmp"));
    assert_eq!(halves.count(), 0, "{kept:?}");
}

/// A limit on the size of files is as a disk that is full for each file: the program goes on, and nothing is left behind.
#[test]
fn slow_a_limit_on_the_size_of_files_leaves_nothing_behind() {
    let bench = Bench::new();
    let mut command = Command::new("sh");
    // In blocks of 512 bytes: the genesis of ten accounts a shard fits, what nodes' metrics are kept in does not.
    command
        .args(["-c", "ulimit -f 56; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_tpsctl")])
        .args(["scenario", "run", "quickstart", "--json"])
        .args(SMALL)
        .args(["--set", "chain.accounts_per_shard=10"])
        .current_dir(bench.dir.path())
        .env_remove("RUST_LOG");
    let (code, stdout, stderr) = Running::of(command).finish();
    assert!(code.is_some(), "no signal ends it: {stderr}");
    assert!(stderr.contains("File too large"), "{stderr}");
    let run: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    assert!(run["trials"].as_array().is_some_and(|trials| trials.len() > 1), "{run}");
    assert_eq!(run["processes_left"], 0);
    assert_eq!(bench.processes(), Vec::<u32>::new());
}
