//! What can be typed: one definition for parsing, help and the documents.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tpsctl_model::{Millis, Tps, UnitError};

/// How many transfers per second a sharded network sustains before chunks are missed, and what stops it.
#[derive(Debug, Parser)]
#[command(name = "tpsctl", version, propagate_version = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// Where run directories live.
    #[arg(long, global = true, value_name = "DIR", default_value = "runs")]
    pub(crate) runs_dir: PathBuf,

    /// When to colour and animate.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tpsctl scenario run quickstart                  find the limit of a network on this machine
  tpsctl scenario run quickstart --set chain.shards=8 --json > run.json
  tpsctl up quickstart                            bring a network up and leave it
  tpsctl inject RUN --rate 500tps --duration 30s  load it by hand
  tpsctl down                                     tear down the newest run

Exit codes: 0 done, 2 bad input, 3 goal not met, 4 inconclusive, 5 invalid, 6 provider or
node failure, 130 interrupted.";

/// When to colour and animate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check, show, plan and run scenarios.
    #[command(subcommand)]
    Scenario(ScenarioCommand),
    /// Bring a scenario's network up and leave it running, for `inject` and for looking around.
    Up(UpArgs),
    /// End everything that a run's ledger holds; results and logs stay.
    Down(DownArgs),
    /// Say what a run is and what of it still runs.
    Status(StatusArgs),
    /// Load a network that `up` left running, at one rate, and say what became of every transfer.
    Inject(InjectArgs),
    /// Write a run's report again from its directory.
    Report(ReportArgs),
    /// The embedded node: a small sharded chain that speaks NEAR's formats.
    #[command(subcommand)]
    Localnode(LocalnodeCommand),
}

/// Which scenario, and what to change in it.
#[derive(Debug, Args)]
pub(crate) struct ScenarioArgs {
    /// A file, or the name of a bundled scenario (see `tpsctl scenario list`). An existing file wins.
    pub(crate) scenario: String,

    /// Set a key, such as `--set chain.shards=8`; checked like the file. May be given many times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScenarioCommand {
    /// List the bundled scenarios.
    List,
    /// Print a scenario with every key, defaults filled in.
    Show(ScenarioArgs),
    /// Check scenarios; every fault is reported at once.
    Validate {
        /// Files or names of bundled scenarios.
        #[arg(required = true)]
        scenarios: Vec<String>,
        /// Set a key in each of them first.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Print what a run would do: nodes, shards, accounts, limits, the longest it can take, and what each check of
    /// docs/plan-checks.md says. Starts nothing; exit code 2 where a run would be refused.
    Plan {
        #[command(flatten)]
        scenario: ScenarioArgs,
        /// Print the plan as JSON, with its checks.
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of scenario files, for editors and other programs.
    Schema,
    /// Make the network, find its limit, report, tear down.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
}

const RUN_EXAMPLES: &str = "\
Examples:
  tpsctl scenario run quickstart
  tpsctl scenario run my.yaml --set search.start=500tps --set trial.window=20s
  tpsctl scenario run quickstart --json | jq .knee

First Ctrl-C: the load stops, the network is torn down, the report is still written.
Second Ctrl-C: stop waiting; `tpsctl down` ends what is left.";

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,

    /// Print run.json on stdout; everything else goes to stderr.
    #[arg(long)]
    pub(crate) json: bool,

    /// No progress, only the result.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) scenario: ScenarioArgs,

    /// Print the deployment as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DownArgs {
    /// A run's id or directory; the newest if left out.
    pub(crate) run: Option<String>,

    /// Every run below the runs directory.
    #[arg(long, conflicts_with = "run")]
    pub(crate) all: bool,

    /// Only say what would be ended.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// A run's id or directory; the newest if left out.
    pub(crate) run: Option<String>,

    /// Print it as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InjectArgs {
    /// The id or directory of a run that `up` left running.
    pub(crate) run: String,

    /// Rate on each shard, such as `500tps`.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Tps,

    /// How long, such as `30s`.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) duration: Millis,

    /// Print the trial's record as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// A run's id or directory; the newest if left out.
    pub(crate) run: Option<String>,

    /// Print run.json instead of the summary.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LocalnodeCommand {
    /// Run a node from a home directory as `neard run` would: genesis.json, config.json, epoch_configs, keys.
    Run {
        /// The home directory.
        #[arg(long, value_name = "DIR")]
        home: PathBuf,
    },
}

/// A rate that the generator is built for; the same bound as the scenario's.
fn rate(text: &str) -> Result<Tps, String> {
    let rate: Tps = text.parse().map_err(|error: UnitError| error.to_string())?;
    if rate.0 > 1_000_000 { Err("more than 1000000tps a shard".to_owned()) } else { Ok(rate) }
}

/// A length of load; the same bounds as the scenario's window.
fn duration(text: &str) -> Result<Millis, String> {
    let duration: Millis = text.parse().map_err(|error: UnitError| error.to_string())?;
    if (1_000..=86_400_000).contains(&duration.0) {
        Ok(duration)
    } else {
        Err("not between 1s and 24h".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
