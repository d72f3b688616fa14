//! The one binary: the controller's commands and the embedded node. It parses, composes, renders and exits; what it
//! does is done by the crates below it.

mod cli;
mod commands;
mod exit;
mod node_log;
mod output;
mod render;
mod signals;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    cli::{Cli, Command, LocalnodeCommand, ScenarioCommand},
    exit::Failure,
};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return commands::usage(&error),
    };
    match dispatch(cli) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output::fault(&failure);
            ExitCode::from(failure.code)
        }
    }
}

fn dispatch(cli: Cli) -> Result<u8, Failure> {
    let Cli { runs_dir, color, command } = cli;
    match command {
        Command::Scenario(ScenarioCommand::List) => commands::scenario::list(),
        Command::Scenario(ScenarioCommand::Show(args)) => commands::scenario::show(&args),
        Command::Scenario(ScenarioCommand::Validate { scenarios, set }) => {
            commands::scenario::validate(&scenarios, &set)
        }
        Command::Scenario(ScenarioCommand::Plan { scenario, json }) => {
            commands::scenario::plan(&scenario, json)
        }
        Command::Scenario(ScenarioCommand::Schema) => commands::scenario::schema(),
        Command::Scenario(ScenarioCommand::Run(args)) => commands::run::run(&runs_dir, color, &args),
        Command::Up(args) => commands::network::up(&runs_dir, color, &args),
        Command::Down(args) => commands::network::down(&runs_dir, &args),
        Command::Status(args) => commands::network::status(&runs_dir, &args),
        Command::Inject(args) => commands::inject::inject(&runs_dir, color, &args),
        Command::Report(args) => commands::report::report(&runs_dir, color, &args),
        Command::Localnode(LocalnodeCommand::Run { home }) => commands::localnode::run(home),
    }
}
