//! `tpsctl scenario list | show | validate | schema | plan`.

use std::{io::Read, path::Path};

use anyhow::anyhow;
use tpsctl_scenario::{Fault, Faults, Override, SCENARIO_BYTES_MAX, Scenario, Source};

use crate::{
    cli::ScenarioArgs,
    exit::{self, Failure},
    output,
};

/// Reads a scenario: an existing path beats a bundled name. Every fault is told, those of `--set` as well.
pub(crate) fn load(args: &ScenarioArgs) -> Result<Scenario, Failure> {
    let (mut overrides, mut malformed) = (Vec::new(), Vec::new());
    for text in &args.set {
        match Override::parse(text) {
            Ok(own) => overrides.push(own),
            Err(error) => malformed.push(Fault::from(error)),
        }
    }
    let source = match source(&args.scenario) {
        Err(failure) if !malformed.is_empty() => {
            let error = anyhow!("{:#}\n{}", failure.error, Faults(malformed));
            return Err(Failure { error, ..failure });
        }
        found => found?,
    };
    match tpsctl_scenario::load(&source, &overrides) {
        Ok(scenario) if malformed.is_empty() => Ok(scenario),
        Ok(_) => Err(Failure::input(Faults(malformed))),
        Err(Faults(mut faults)) => {
            faults.append(&mut malformed);
            Err(Failure::input(Faults(faults)))
        }
    }
}

fn source(which: &str) -> Result<Source, Failure> {
    let path = Path::new(which);
    if path.is_file() {
        return Ok(Source { name: which.to_owned(), text: read_text(which)? });
    }
    if path.is_dir() {
        return Err(Failure::input(anyhow!("`{which}` is a directory: name a scenario's file in it")));
    }
    // A device or a pipe: reading it may never end.
    if path.exists() {
        return Err(Failure::input(anyhow!("`{which}` is no file: copy what it gives to one")));
    }
    tpsctl_scenario::resolve_name(which).ok_or_else(|| {
        let names: Vec<_> = tpsctl_scenario::bundled().iter().map(|(name, _)| *name).collect();
        Failure::input(anyhow!(
            "`{which}` is neither a file nor a bundled scenario; bundled are: {}",
            names.join(", ")
        ))
    })
}

/// The file's text; a file that cannot be a scenario is not read to its end.
fn read_text(which: &str) -> Result<String, Failure> {
    let fault = |error: std::io::Error| {
        Failure::input(anyhow::Error::new(error).context(format!("cannot read the scenario `{which}`")))
    };
    let file = fs_err::File::open(which).map_err(fault)?;
    let length = file.metadata().map_err(fault)?.len();
    if length > SCENARIO_BYTES_MAX as u64 {
        return Err(Failure::input(anyhow!(
            "`{which}` has {length} bytes; a scenario has at most {SCENARIO_BYTES_MAX}: name a scenario's file"
        )));
    }
    let mut bytes = Vec::new();
    file.take(SCENARIO_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(fault)?;
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        Failure::input(anyhow!("`{which}` is not text (its byte {place} is no UTF-8): name a YAML file"))
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
    let planned = tpsctl_plan::examine(&scenario, &tpsctl_controller::local_capabilities());
    if json {
        output::json(&planned)?;
    } else {
        output::data(&tpsctl_plan::render(&planned))?;
    }
    if let Some(error) = planned.refusal() {
        return Err(Failure::input(error));
    }
    Ok(exit::DONE)
}
