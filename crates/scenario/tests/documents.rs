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
    assert_marked("keys", &reference::markdown());
}

#[test]
fn the_reference_lists_what_is_reserved() {
    assert_marked("reserved", &reference::reserved_markdown());
}

/// What stands in docs/scenario.md between the marks called `mark`.
fn assert_marked(mark: &str, expected: &str) {
    let (_, rest) = REFERENCE.split_once(&format!("<!-- {mark}: begin -->\n\n")).expect("begin mark");
    let (tables, _) = rest.split_once(&format!("<!-- {mark}: end -->")).expect("end mark");
    assert_eq!(tables, expected, "between its marks docs/scenario.md should be:\n{expected}");
}

#[test]
fn the_schema_in_the_documentation_is_the_one_of_the_keys() {
    let written = include_str!("../../../docs/scenario.schema.json");
    assert_eq!(
        written,
        tpsctl_scenario::schema_text(),
        "run `tpsctl scenario schema > docs/scenario.schema.json` from the root of the clone"
    );
}
