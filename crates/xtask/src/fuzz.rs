//! `cargo xtask fuzz`: the long form of the fuzz targets, under libFuzzer, on the stable toolchain. The short form is
//! part of the ordinary tests.
//!
//! Everything is built once more with coverage counters, in a target folder of its own, for the host named as a target:
//! so the flags do not reach build scripts.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, bail};
use clap::Args;
use fs_err as fs;

use crate::steps::{cargo, demand_success};

/// What LLVM must insert for libFuzzer to see where an input leads, and what a comparison wanted.
const COVERAGE_FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
     -Ccodegen-units=1";
/// Below the root: builds, corpora, artefacts.
const FOLDER: &str = "target/fuzz";
/// Names the targets.
const LIST: &str = "crates/fuzz/targets.txt";
/// A single input may take so long, and the process so much memory.
const LIMITS: &[&str] = &["-timeout=20", "-rss_limit_mb=3072", "-max_len=262144", "-print_final_stats=1"];

#[derive(Debug, Args)]
pub(crate) struct FuzzArgs {
    /// The target; `--list` names them
    #[arg(required_unless_present = "list")]
    target: Option<String>,
    /// Name the targets
    #[arg(long)]
    list: bool,
    /// How long
    #[arg(long, default_value = "60", value_name = "SECONDS")]
    seconds: u64,
    /// Run this input only: what a crash left, or a regression
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
}

/// Runs what `args` asks for.
pub(crate) fn run(root: &Path, args: &FuzzArgs) -> anyhow::Result<ExitCode> {
    let list = fs::read_to_string(root.join(LIST))?;
    let Some(target) = args.target.as_deref().filter(|_| !args.list) else {
        print!("{list}");
        return Ok(ExitCode::SUCCESS);
    };
    let names = names(&list);
    if !names.contains(&target) {
        bail!("no fuzz target is named `{target}`; there are {}", names.join(", "));
    }
    let program = build(root)?;
    let run = Run { root, target, program };
    match &args.input {
        Some(input) => run.on_input(input),
        None => run.for_seconds(args.seconds),
    }
}

fn names(list: &str) -> Vec<&str> {
    list.lines().filter_map(|line| line.split_whitespace().next()).collect()
}

/// Builds the instrumented program and says where it is.
fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let host = host()?;
    let mut command = cargo();
    command
        .args(["build", "--release", "--package", "tpsctl-fuzz", "--features", "libfuzzer"])
        .args(["--bin", "tpsctl-fuzz", "--target", &host, "--target-dir", FOLDER])
        .env("RUSTFLAGS", COVERAGE_FLAGS)
        // One codegen unit and incremental builds exclude each other.
        .env("CARGO_INCREMENTAL", "0")
        .current_dir(root);
    demand_success(&mut command)?;
    Ok(root.join(FOLDER).join(host).join("release/tpsctl-fuzz"))
}

fn host() -> anyhow::Result<String> {
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .arg("-vV")
        .output()
        .context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not name its host")?.to_owned())
}

struct Run<'a> {
    root: &'a Path,
    target: &'a str,
    program: PathBuf,
}

impl Run<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("TPSCTL_FUZZ_TARGET", self.target).args(LIMITS).current_dir(self.root);
        command
    }

    fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.root.join(FOLDER).join(name).join(self.target);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    fn on_input(&self, input: &Path) -> anyhow::Result<ExitCode> {
        let input = fs::canonicalize(input)?;
        demand_success(self.command().arg(&input))?;
        eprintln!("{} holds on {}", self.target, input.display());
        Ok(ExitCode::SUCCESS)
    }

    fn for_seconds(&self, seconds: u64) -> anyhow::Result<ExitCode> {
        let (corpus, artifacts) = (self.folder("corpus")?, self.folder("artifacts")?);
        let seeds = self.folder("seeds")?;
        let mut command = self.command();
        command
            .env("TPSCTL_FUZZ_SEEDS", &seeds)
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args([&corpus, &seeds]);
        let before = files(&artifacts)?;
        let status = command.status().with_context(|| format!("cannot start {}", self.program.display()))?;
        let found: Vec<PathBuf> =
            files(&artifacts)?.into_iter().filter(|path| !before.contains(path)).collect();
        for path in &found {
            eprintln!(
                "\n== {} broke: {}\n   again: cargo xtask fuzz {} --input {}\n   once mended, it belongs into \
                 crates/fuzz/regressions/{}/ under a name that says what it shows",
                self.target,
                path.display(),
                self.target,
                path.display(),
                self.target,
            );
        }
        if !status.success() || !found.is_empty() {
            return Ok(ExitCode::FAILURE);
        }
        eprintln!("\n== {} held for {seconds} s; its corpus is in {}", self.target, corpus.display());
        Ok(ExitCode::SUCCESS)
    }
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_listed_with_what_they_are_about() {
        let list = include_str!("../../fuzz/targets.txt");
        let names = names(list);
        assert!(names.contains(&"frames"), "{names:?}");
        assert!(list.lines().all(|line| line.split_whitespace().count() > 3), "{list}");
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), names.len());
    }
}
