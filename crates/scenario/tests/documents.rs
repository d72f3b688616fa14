//! The files that people read say what the table of keys says.

use tpsctl_scenario::{Source, keys::KEYS, load, reference, resolve_name};

const QUICKSTART: &str = include_str!("../../../scenarios/quickstart.yaml");
const REFERENCE: &str = include_str!("../../../docs/scenario.md");

#[test]
fn quickstart_is_every_key_with_its_default_and_its_meaning() {
    let scenario = load(&resolve_name("quickstart").unwrap(), &[]).unwrap();
    let expected = reference::yaml(scenario.name(), scenario.description());
    assert!(
        QUICKSTART.ends_with(&expected),
        "below its heading scenarios/quickstart.yaml should be:\n{expected}"
    );
    for key in KEYS {
        let line = format!("{}: ", key.name);
        assert!(
            QUICKSTART.lines().any(|each| each.trim_start().starts_with(&line)),
            "{} is missing",
            key.path
        );
    }
}

#[test]
fn quickstart_equals_the_defaults_but_for_name_and_description() {
    let scenario = load(&resolve_name("quickstart").unwrap(), &[]).unwrap();
    let text = format!("name: {}\ndescription: {:?}\n", scenario.name(), scenario.description());
    let defaults = load(&Source { name: "defaults".to_owned(), text }, &[]).unwrap();
    assert_eq!(scenario, defaults);
}

#[test]
fn the_reference_lists_the_table_of_keys() {
    let (_, rest) = REFERENCE.split_once("<!-- keys: begin -->\n\n").expect("begin mark");
    let (tables, _) = rest.split_once("<!-- keys: end -->").expect("end mark");
    let expected = reference::markdown();
    assert_eq!(tables, expected, "between its marks docs/scenario.md should be:\n{expected}");
}
