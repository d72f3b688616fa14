//! `conformance --home DIR`: runs the checks on a node that is already running.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for a terminal")]

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Parser;
use tpsctl_conformance::{Addresses, Subject, check};

#[derive(Debug, Parser)]
#[command(name = "conformance", about = "Whether a running node shows what NEAR's nodes show")]
struct Cli {
    /// The node's home directory
    #[arg(long, value_name = "DIR")]
    home: PathBuf,
    /// Where it answers JSON-RPC, if not where its config.json says
    #[arg(long, value_name = "ADDR")]
    rpc: Option<SocketAddr>,
    /// Where it listens for peers, if not where its config.json says
    #[arg(long, value_name = "ADDR")]
    p2p: Option<SocketAddr>,
    /// Where it serves /metrics, if not where it answers JSON-RPC
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    /// A key file of an account with a balance, for transactions (repeatable)
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<bool> {
    let addresses = Addresses { rpc: cli.rpc, p2p: cli.p2p, metrics: cli.metrics };
    let subject = Subject::of_home(&cli.home, addresses, &cli.key)
        .with_context(|| format!("cannot look at {}", cli.home.display()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(check(&subject));
    if cli.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{report}");
    }
    Ok(report.passes())
}
