//! The project's own tasks: `test` runs everything that must hold before a commit, `tidy` checks the rules that a
//! compiler does not, `bench` measures the embedded node.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a developer's tool talks to a terminal")]

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};

mod bench;
mod fuzz;
mod steps;
mod tidy;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The project's own tasks", disable_version_flag = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run every check and every test, cheap ones first; stop at the first failure
    Test(TestArgs),
    /// Measure the embedded node on this machine; wants a quiet one
    Bench(bench::BenchArgs),
    /// Run one fuzz target under libFuzzer for some time, or on one input
    Fuzz(fuzz::FuzzArgs),
    /// Check the rules that a compiler does not: purity, arrows, lengths, words, links
    Tidy,
}

#[derive(Debug, Args)]
struct TestArgs {
    /// Name the steps and their commands, run nothing
    #[arg(long)]
    list: bool,
    /// Run this step only (repeatable)
    #[arg(long, value_name = "STEP", conflicts_with = "without")]
    only: Vec<String>,
    /// Leave this step out (repeatable)
    #[arg(long, value_name = "STEP")]
    without: Vec<String>,
}

fn main() -> ExitCode {
    // Not returned from main: a reader wants the chain of causes, not a backtrace.
    run(Cli::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let root = workspace_root()?;
    match cli.task {
        Task::Bench(args) => bench::run(&root, args),
        Task::Test(args) => steps::run(&root, &args),
        Task::Fuzz(args) => fuzz::run(&root, &args),
        Task::Tidy => {
            let findings = tidy::run(&root)?;
            for finding in &findings {
                println!("{finding}");
            }
            eprintln!("tidy: {} found", findings.len());
            Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

/// The checkout that this program was built from, so that the tasks work from any folder in it.
fn workspace_root() -> anyhow::Result<PathBuf> {
    let start = std::env::current_dir().context("cannot tell the current folder")?;
    start
        .ancestors()
        .find(|dir| dir.join("Cargo.lock").is_file() && dir.join("crates/xtask").is_dir())
        .map(PathBuf::from)
        .with_context(|| format!("{} is not inside a checkout of this project", start.display()))
}
