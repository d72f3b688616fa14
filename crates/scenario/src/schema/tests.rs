use std::collections::BTreeSet;

use boon::{Compiler, ErrorKind, SchemaIndex, Schemas, ValidationError};
use proptest::prelude::*;

use super::*;
use crate::{
    Place, Scenario, Source,
    keys::{KEYS, key},
    load,
    tree::{self, Kind, Node},
};

/// The compiled schema.
struct Validator {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Validator {
    fn new() -> Self {
        let mut compiler = Compiler::new();
        compiler.add_resource("scenario.json", schema()).expect("a document");
        let mut schemas = Schemas::new();
        let index = compiler.compile("scenario.json", &mut schemas).expect("valid under draft 2020-12");
        Self { schemas, index }
    }

    /// The paths at which the schema refuses `yaml`, as in faults: `chain.shards`.
    fn refused(&self, yaml: &str) -> BTreeSet<String> {
        let mut paths = BTreeSet::new();
        if let Err(error) = self.schemas.validate(&json_of_yaml(yaml), self.index) {
            collect(&error, &mut paths);
        }
        paths
    }

    fn refuses_value(&self, key: &Key, text: &str) -> bool {
        let value = match key.section {
            "" => format!("{}: {text}\n", key.name),
            section => format!("{section}:\n  {}: {text}\n", key.name),
        };
        let name = if key.path == "name" { "" } else { "name: x\n" };
        self.refused(&format!("{name}{value}")).contains(key.path)
    }
}

fn collect(error: &ValidationError<'_, '_>, paths: &mut BTreeSet<String>) {
    let place = error.instance_location.to_string().trim_start_matches('/').replace('/', ".");
    let below = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    match &error.kind {
        ErrorKind::AdditionalProperties { got } => paths.extend(got.iter().map(|name| below(name))),
        ErrorKind::Required { want } => paths.extend(want.iter().map(|name| below(name))),
        _ if error.causes.is_empty() => drop(paths.insert(place)),
        _ => error.causes.iter().for_each(|cause| collect(cause, paths)),
    }
}

/// YAML as an editor would read it: the core schema's numbers and words, all else texts.
fn json_of_yaml(text: &str) -> Json {
    tree::read(text).0.map_or(Json::Null, json_of_node)
}

fn json_of_node(node: Node) -> Json {
    match node.kind {
        Kind::Map(entries) => {
            let mut map = Map::new();
            for (name, node) in entries {
                map.entry(name.text).or_insert_with(|| json_of_node(node));
            }
            map.into()
        }
        Kind::List => json!([]),
        Kind::Broken => Json::Null,
        Kind::Scalar(raw) if raw.is_null() => Json::Null,
        Kind::Scalar(Raw { text, plain: false }) => text.into(),
        Kind::Scalar(Raw { text, .. }) => match text.as_str() {
            "true" | "True" | "TRUE" => true.into(),
            "false" | "False" | "FALSE" => false.into(),
            _ => serde_json::from_str::<serde_json::Number>(&text).map_or_else(|_| text.into(), Json::Number),
        },
    }
}

fn loaded(text: &str) -> Result<Scenario, crate::Faults> {
    load(&Source { name: "s.yaml".to_owned(), text: text.to_owned() }, &[])
}

#[test]
fn every_scenario_file_and_its_resolved_form_pass() {
    let schema = Validator::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let mut files = 0;
    for entry in fs_err::read_dir(folder).expect("scenarios") {
        let text = fs_err::read_to_string(entry.expect("an entry").path()).expect("text");
        assert_eq!(schema.refused(&text), BTreeSet::new());
        let resolved = loaded(&text).expect("a scenario").to_yaml();
        assert_eq!(schema.refused(&resolved), BTreeSet::new(), "{resolved}");
        files += 1;
    }
    assert_eq!(files, crate::bundled().len());
    assert_eq!(schema.refused("name: x\nchain:\ntrial: {warmup: 0}\n"), BTreeSet::new());
}

/// What one value shows is refused where the parser refuses it.
#[test]
fn the_faulty_document_is_refused_key_by_key() {
    let text = include_str!("../../tests/faulty.yaml");
    let crate::Faults(faults) = loaded(text).expect_err("faults");
    let refused = Validator::new().refused(text);
    let mut compared = 0;
    for fault in faults.iter().filter(|fault| matches!(fault.place, Place::File { .. })) {
        let is_of_two_keys = fault.message.contains(" is below ") || fault.message.contains("rfc8032");
        let is_repeated = fault.message.contains("is there twice");
        if !is_of_two_keys && !is_repeated {
            assert!(refused.contains(&fault.path), "{fault}: {refused:?}");
            compared += 1;
        }
    }
    assert!(compared > 25, "{compared}");
    assert!(!refused.contains("trial.window"), "and only there: {refused:?}");
}

#[test]
fn reserved_names_are_refused() {
    let schema = Validator::new();
    let refused =
        schema.refused("name: x\nlimits: unlimited\nprovider: kubernetes\nsearch: {strategy: ladder}\n");
    assert_eq!(refused.into_iter().collect::<Vec<_>>(), ["limits", "provider", "search.strategy"]);
}

/// Parser and schema agree on `text` as the value of `key`.
fn assert_agreed(schema: &Validator, key: &Key, text: &str) {
    let yaml = format!("{text}\n");
    let Some(Node { kind: Kind::Scalar(raw), .. }) = tree::read(&yaml).0 else { panic!("{text}: no scalar") };
    let is_refused = (key.check)(key, &raw).is_err();
    assert_eq!(schema.refuses_value(key, text), is_refused, "{}: {text}", key.path);
}

/// Keys, and texts apart by bars.
const VALUES: &[(&str, &str)] = &[
    (
        "node.stop_timeout",
        "99ms|100ms|0.1s|0.09s|0.099s|600s|600.001s|10m|10.1m|0.001m|0.002m|1h|0.1h|0.17h|0.00003h|0s|007s|5 s|5|s|5 min|-5s|5S",
    ),
    ("trial.warmup", "0|\"0\"|0s|1h|1.0h|1.5h|3600001ms|60.5m|1"),
    ("trial.window", "999ms|1s|0.9s|1.000s|24h|24.0h|24.1h|1441m|1440m"),
    (
        "load.amount",
        "0yocto|1000NEAR|1000.0NEAR|1001NEAR|999.999mNEAR|1000000mNEAR|1000001mNEAR|0.5yocto|1 near|NEAR|1_000 NEAR|1",
    ),
    (
        "chain.gas_limit",
        "1Tgas|999Ggas|0.5Pgas|0.0009Pgas|10000Pgas|10001Pgas|1000000000000gas|999999999999gas|1gas",
    ),
    ("chain.pool_size_limit", "1KB|999B|0.9KB|100GB|100.1GB|99_999MB|1GiB"),
    ("search.start", "1tps|0tps|1000000tps|1000001tps|999999tps|1.5tps|10"),
    ("search.resolution", "0.1%|0.09%|0.0999%|90%|90.0%|90.0001%|15|15 %"),
    ("goal.block_time_quantile", "1%|0.9%|100%|100.1%|99.9999%"),
    (
        "chain.min_gas_price",
        "1|0|\"1\"|\"0\"|1.5|1yocto|\"10000000000000000000000\"|\"10000000000000000000001\"",
    ),
    ("chain.shards", "1|0|256|257|\"4\"|-1|1.5|four|true"),
    ("chain.accounts_per_shard", "50_000|2|1|1000000|1000001"),
    ("search.growth", "1.05|1.04|10.0|10.1|2|\"2\""),
    ("chain.id", "benchmarknet|mainnet|MainNet-v2|near.testnet|mytestnets|a b|x/y"),
    ("chain.keys", "row|seed|rows|1"),
    ("node.binary", "embedded|./neard|neard|/a b"),
    ("name", "four-shards|7|-a|A|a_b|1.5"),
    ("chain.chunk_wait_mult", "1/3|0/1|1/0|1|a/b|1/3/5"),
    ("provider", "local|locall|kubernetes"),
];

#[test]
fn bounds_are_the_parsers_in_every_unit() {
    let schema = Validator::new();
    for (path, texts) in VALUES {
        let key = key(path).expect(path);
        texts.split('|').for_each(|text| assert_agreed(&schema, key, text));
    }
    assert!(schema.refuses_value(key("chain.shards").expect("a key"), "[1]"));
}

/// Numbers with units around the bounds of every key that has some.
fn quantities() -> impl Strategy<Value = (usize, String)> {
    let keys: Vec<_> = (0..KEYS.len())
        .filter(|index| {
            KEYS[*index].bounds.is_some_and(|(_, most)| !most.ends_with(|c: char| c.is_ascii_digit()))
        })
        .collect();
    let units = [
        "ms", "s", "m", "h", "tps", "gas", "Ggas", "Tgas", "Pgas", "B", "KB", "MB", "GB", "%", "yocto",
        "mNEAR", "NEAR",
    ];
    let number =
        prop_oneof!["[0-9]{1,8}", "(0|[1-9]|10|36|60|90|100|600|1000)", "[0-9]{1,3}[.][0-9]{1,4}", "10{0,9}"];
    (proptest::sample::select(keys), number, proptest::sample::select(units.to_vec()))
        .prop_map(|(key, number, unit)| (key, format!("{number}{unit}")))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2, ..ProptestConfig::default() })]

    #[test]
    fn parser_and_schema_agree_on_quantities(cases in proptest::collection::vec(quantities(), 1_000)) {
        let schema = Validator::new();
        for (index, text) in cases {
            let key = &KEYS[index];
            let raw = Raw { text: text.clone(), plain: true };
            let refusal = (key.check)(key, &raw).err();
            // That a number of a coarse unit is a whole one of the finest, or short enough a share, no pattern tells.
            let is_too_fine = text.contains('.') && refusal.as_ref().is_some_and(|refusal| !refusal.message.contains("range"));
            if !is_too_fine {
                prop_assert_eq!(schema.refuses_value(key, &text), refusal.is_some(), "{}: {}", key.path, text);
            }
        }
    }
}
