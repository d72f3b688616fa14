//! Scenario text, then overrides, each after a zero byte.

use tpsctl_plan::{Capabilities, Planned, render};
use tpsctl_scenario::{Faults, Override, Place, Scenario, Source, load};

use crate::corpus::{files_of, testdata};

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let folder = testdata("../scenarios");
    let scenarios = files_of(&folder).expect("scenarios/ is there");
    let mut seeds: Vec<Vec<u8>> =
        scenarios.iter().map(|path| fs_err::read(path).expect("a scenario can be read")).collect();
    let with_override =
        [seeds[0].clone(), b"\0chain.shards=8\0load={cross_shard: 0.1}\0seed=~".to_vec()].concat();
    seeds.push(with_override);
    seeds.push(b"name: x\nchain:\n  shards: 0\n  shards: &a 3\ngoal: [1, 2]\n<<: *a\n".to_vec());
    seeds
}

pub(super) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.split('\0');
    let source = source(parts.next().unwrap_or_default().to_owned());
    let overrides: Vec<Override> = parts.filter_map(|part| Override::parse(part).ok()).collect();
    match load(&source, &overrides) {
        Ok(scenario) => check_scenario(&scenario),
        Err(faults) => check_faults(&faults, &source.text),
    }
}

fn source(text: String) -> Source {
    Source { name: "fuzz.yaml".to_owned(), text }
}

fn check_scenario(scenario: &Scenario) {
    let yaml = scenario.to_yaml();
    let again = load(&source(yaml.clone()), &[]);
    assert_eq!(again.as_ref(), Ok(scenario), "the resolved text loads back:\n{yaml}");
    assert!(serde_json::to_value(scenario).is_ok_and(|value| value.is_object()));
    let capabilities = Capabilities {
        name: "local".to_owned(),
        nodes_max: None,
        cores: 2,
        memory_bytes: 8 << 30,
        files_max: 1_024,
        files_hard_max: 65_535,
    };
    match tpsctl_plan::plan(scenario, &capabilities) {
        Ok(planned) => check_plan(&planned),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn check_plan(planned: &Planned) {
    assert!(!render(planned).is_empty());
    let text = serde_json::to_string(&planned.plan).expect("a plan has a JSON form");
    let again: tpsctl_model::plan::RunPlan = serde_json::from_str(&text).expect("which can be read");
    assert_eq!(again, planned.plan);
}

fn check_faults(faults: &Faults, text: &str) {
    assert!(!faults.0.is_empty(), "an error says what is wrong");
    let is_line_end = |c: char| matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let lines = text.chars().filter(|c| is_line_end(*c)).count() + 1;
    for fault in &faults.0 {
        assert!(!fault.message.is_empty());
        if let Place::File { line, column, .. } = &fault.place {
            assert!(*line >= 1 && *column >= 1 && *line as usize <= lines + 1, "{fault} of {lines} lines");
        }
    }
    assert!(!faults.to_string().is_empty());
}
