//! The short form: what once broke something, the seeds, and a series of mutated inputs, the same on every machine.

#![expect(clippy::print_stdout, reason = "which input it was, when a test fails")]

use std::collections::BTreeMap;

use tpsctl_fuzz::{Mutator, TARGETS, Target, regressions, seeds};

/// No target needs more memory than this at any time, whatever it is given.
const MEMORY_KIB_MAX: u64 = 512 * 1024;

fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).expect("a target")
}

fn short(name: &str) {
    let target = target(name);
    for (file, input) in regressions(target).expect("regressions can be read") {
        run(target, &input, &format!("regression {file}"));
    }
    let seeds = seeds(target);
    assert!(!seeds.is_empty());
    for (index, seed) in seeds.iter().enumerate() {
        run(target, seed, &format!("seed {index}"));
    }
    let mut mutator = Mutator::new(1);
    for turn in 0..target.short_runs {
        run(target, &mutator.input(&seeds), &format!("input {turn}"));
    }
    run(target, &[], "nothing");
    let peak_kib = peak_memory_kib();
    assert!(peak_kib <= MEMORY_KIB_MAX, "{peak_kib} KiB");
}

/// Runs one input; where it breaks, it is kept.
fn run(target: &Target, input: &[u8], what: &str) {
    if let Err(panic) = std::panic::catch_unwind(|| (target.run)(input)) {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}", target.name));
        fs_err::write(&path, input).expect("the input can be kept");
        println!("{what}; again: cargo xtask fuzz {} --input {}", target.name, path.display());
        std::panic::resume_unwind(panic);
    }
}

/// The most that this process, which runs one test only, ever had in memory.
fn peak_memory_kib() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").expect("the process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}

#[test]
fn scenario() {
    short("scenario");
}

#[test]
fn frames() {
    short("frames");
}

#[test]
fn handshake() {
    short("handshake");
}

#[test]
fn transaction() {
    short("transaction");
}

#[test]
fn metrics() {
    short("metrics");
}

#[test]
fn rpc_answer() {
    short("rpc_answer");
}

#[test]
fn rpc_request() {
    short("rpc_request");
}

#[test]
fn peer_messages() {
    short("peer_messages");
}

#[test]
fn home_files() {
    short("home_files");
}

#[test]
fn run_files() {
    short("run_files");
}

#[test]
fn every_target_is_listed_and_has_its_test() {
    let list = include_str!("../targets.txt");
    let listed: BTreeMap<&str, &str> = list.lines().filter_map(|line| line.split_once(' ')).collect();
    let source = include_str!("short.rs");
    for target in TARGETS {
        assert!(listed.contains_key(target.name), "{} in targets.txt", target.name);
        assert!(source.contains(&format!("short(\"{}\")", target.name)), "a test of {}", target.name);
    }
    assert_eq!(listed.len(), TARGETS.len());
}

#[test]
fn regressions_belong_to_targets() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let Ok(entries) = fs_err::read_dir(folder) else { return };
    for entry in entries {
        let name = entry.expect("an entry").file_name();
        assert!(TARGETS.iter().any(|target| *target.name == *name), "{}", name.display());
    }
}
