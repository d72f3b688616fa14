//! `tpsctl scenario list | show | validate | schema | plan`.

use anyhow::anyhow;
use tpsctl_scenario::{Override, Scenario, Source};

use crate::{
    cli::ScenarioArgs,
    exit::{self, Failure},
    output,
};

/// Reads a scenario: an existing path beats a bundled name.
pub(crate) fn load(args: &ScenarioArgs) -> Result<Scenario, Failure> {
    let overrides = parse_overrides(&args.set)?;
    let source = source(&args.scenario)?;
    tpsctl_scenario::load(&source, &overrides).map_err(Failure::input)
}

fn parse_overrides(set: &[String]) -> Result<Vec<Override>, Failure> {
    set.iter().map(|text| Override::parse(text).map_err(Failure::input)).collect()
}

fn source(which: &str) -> Result<Source, Failure> {
    if std::path::Path::new(which).is_file() {
        let text = fs_err::read_to_string(which)
            .map_err(|error| Failure::input(anyhow::Error::new(error).context("cannot read the scenario")))?;
        return Ok(Source { name: which.to_owned(), text });
    }
    tpsctl_scenario::resolve_name(which).ok_or_else(|| {
        let names: Vec<_> = tpsctl_scenario::bundled().iter().map(|(name, _)| *name).collect();
        Failure::input(anyhow!(
            "`{which}` is neither a file nor a bundled scenario; bundled are: {}",
            names.join(", ")
        ))
    })
}

/// `scenario list`.
pub(crate) fn list() -> Result<u8, Failure> {
    let mut text = String::new();
    for (name, _) in tpsctl_scenario::bundled() {
        let scenario = load(&ScenarioArgs { scenario: (*name).to_owned(), set: Vec::new() })?;
        text.push_str(&format!("{name:<16} {}\n", scenario.description()));
    }
    output::data(&text)?;
    Ok(exit::DONE)
}

/// `scenario show`.
pub(crate) fn show(args: &ScenarioArgs) -> Result<u8, Failure> {
    output::data(&load(args)?.to_yaml())?;
    Ok(exit::DONE)
}

/// `scenario validate`: all files are checked, whatever the first one says.
pub(crate) fn validate(scenarios: &[String], set: &[String]) -> Result<u8, Failure> {
    let mut code = exit::DONE;
    for which in scenarios {
        match load(&ScenarioArgs { scenario: which.clone(), set: set.to_vec() }) {
            Ok(scenario) => output::data(&format!("{which}: valid (scenario `{}`)\n", scenario.name()))?,
            Err(failure) => {
                output::talk(&format!("{:#}", failure.error));
                code = failure.code;
            }
        }
    }
    Ok(code)
}

/// `scenario schema`.
pub(crate) fn schema() -> Result<u8, Failure> {
    output::data(&tpsctl_scenario::schema_text())?;
    Ok(exit::DONE)
}

/// `scenario plan`.
pub(crate) fn plan(args: &ScenarioArgs, json: bool) -> Result<u8, Failure> {
    let scenario = load(args)?;
    let planned =
        tpsctl_plan::plan(&scenario, &tpsctl_controller::local_capabilities()).map_err(Failure::input)?;
    if json {
        output::json(&planned.plan)?;
    } else {
        output::data(&tpsctl_plan::render(&planned))?;
    }
    Ok(exit::DONE)
}
