//! `cargo xtask bench`: figures of the embedded node on this machine, as Markdown. Not tests: they want a machine that does
//! nothing else, and what they print says how busy it was.

mod idle;
mod machine;
mod network;
mod process;
mod quickstarts;
mod settle;
mod symptoms;
mod table;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Args, Subcommand};

use self::network::Tpsctl;

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Where the networks' run directories go; a new one below the target directory if left out
    #[arg(long, global = true, value_name = "DIR")]
    runs_dir: Option<PathBuf>,
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Load four shards at a fixed rate and say what settles and what it costs
    Settle {
        /// Seconds of load
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Transfers a second over all shards; of the last second or two, what is sent settles after the load
        #[arg(long, default_value_t = 12_800)]
        rate: u64,
    },
    /// Let networks idle and say what share of a core they take
    Idle {
        /// Seconds of looking on, for each network
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Producers of the large network
        #[arg(long, default_value_t = 70)]
        producers: u32,
    },
    /// Load one network at rising rates and say which symptom shows first
    Symptoms {
        /// Seconds of load at each rate
        #[arg(long, default_value_t = 20)]
        seconds: u64,
        /// Transfers a second over all shards: first
        #[arg(long, default_value_t = 8_000)]
        from: u64,
        /// And last
        #[arg(long, default_value_t = 40_000)]
        to: u64,
        /// How much more each time
        #[arg(long, default_value_t = 4_000)]
        step: u64,
    },
    /// Run the quickstart again and again and say how far its results agree
    Quickstarts {
        /// How often
        #[arg(long, default_value_t = 10)]
        count: usize,
    },
}

pub(crate) fn run(root: &Path, args: BenchArgs) -> anyhow::Result<ExitCode> {
    // Before anything is built or started: this is to be the machine's own load.
    let machine = machine::describe()?;
    let tpsctl = Tpsctl::new(build(root)?, root, args.runs_dir)?;
    println!("{machine}\n");
    let text = match args.bench {
        Bench::Settle { seconds, rate } => settle::run(&tpsctl, seconds, rate)?,
        Bench::Idle { seconds, producers } => idle::run(&tpsctl, seconds, producers)?,
        Bench::Symptoms { seconds, from, to, step } => {
            symptoms::run(&tpsctl, seconds, symptoms::rates(from, to, step))?
        }
        Bench::Quickstarts { count } => quickstarts::run(&tpsctl, count)?,
    };
    println!("{text}");
    Ok(ExitCode::SUCCESS)
}

/// Builds the program as users build it, and says where it is.
fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let mut command = crate::steps::cargo();
    // The features of the whole workspace: what the tests built is not built again.
    command.args(["build", "--release", "--workspace", "--bin", "tpsctl"]).current_dir(root);
    let status = command.status().context("start cargo")?;
    anyhow::ensure!(status.success(), "`cargo build --release --workspace --bin tpsctl` failed");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(root.join(target).join("release/tpsctl"))
}
