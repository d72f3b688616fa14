//! Every fault in one pass, each with its place, and no text that panics.

use proptest::prelude::*;
use tpsctl_scenario::{Fault, Faults, Override, Place, Scenario, Source, keys::KEYS, load};

fn load_text(text: &str, overrides: &[&str]) -> Result<Scenario, Faults> {
    let overrides: Vec<_> = overrides.iter().map(|text| Override::parse(text).expect("key=value")).collect();
    load(&Source { name: "s.yaml".to_owned(), text: text.to_owned() }, &overrides)
}

fn faults(text: &str, overrides: &[&str]) -> String {
    load_text(text, overrides).expect_err("a fault").to_string()
}

#[test]
fn all_faults_come_in_one_pass() {
    let text = include_str!("faulty.yaml");
    insta::assert_snapshot!(faults(text, &[]));
}

#[test]
fn overrides_are_checked_like_the_file_and_named_as_they_were_written() {
    let text = "name: x\nchain:\n  shards: 0\n  keys: seed\n";
    let overrides = [
        "chain.shards=8",
        "chain.shard=8",
        "chain.rpc_nodes=many",
        "trial={window: 1s, warmpu: 2s}",
        "search=5",
        "load.signing=",
        "chain.id=testnet",
        "chain.block_time_max=200ms",
        "goal.settled_min=a: b: c",
        "node.nice=[1, 2]",
        "node.binary=*anchor",
    ];
    insta::assert_snapshot!(faults(text, &overrides));
}

#[test]
fn what_is_still_to_come_says_so_and_what_to_use_today() {
    let text =
        "name: x\nlimits: unlimited\nprovider: kubernetes\nagents: {count: 3}\nsearch: {strategy: ladder}\n";
    insta::assert_snapshot!(faults(text, &["terraform.module=gcp", "faults=[kill]", "provider=simulated"]));
}

#[test]
fn an_override_replaces_even_a_wrong_value_and_the_last_one_counts() {
    let text = "chain:\n  shards: nonsense\n";
    let scenario = load_text(
        text,
        &["name=y", "chain.shards=2", "chain.shards=8", "load={signing: rfc8032}", "chain.keys=seed"],
    )
    .unwrap();
    assert_eq!((scenario.name(), scenario.chain().shards), ("y", 8));
}

#[test]
fn what_yaml_allows_and_a_scenario_does_not() {
    let cases = [
        ("empty", ""),
        ("only a comment", "# nothing\n"),
        ("null", "---\n"),
        ("a list", "- name: x\n"),
        ("a word", "quickstart\n"),
        ("two documents", "name: x\n---\nname: y\n"),
        ("anchors and aliases", "name: &n x\nchain: {id: *n}\n"),
        ("merge key", "name: x\nchain:\n  <<: {shards: 1}\n"),
        ("tags", "name: !!str x\nchain: !c {shards: 1}\n"),
        ("key that is a list", "name: x\n? [a, b]\n: c\n"),
        ("tab", "name: x\nchain:\n\tshards: 4\n"),
        ("unclosed quote", "name: \"x\n"),
        ("bad indentation", "name: x\nchain:\n    shards: 4\n  keys: row\n"),
        ("unknown alias", "name: *nobody\n"),
        ("NUL", "name: x\nseed: 1\0\n"),
        ("null name", "name: ~\n"),
        ("no name", "seed: 7\n"),
        ("hex", "name: x\nseed: 0x10\n"),
        ("exponent", "name: x\nsearch: {growth: 1e1}\n"),
    ];
    let shown: Vec<_> =
        cases.iter().map(|(what, text)| format!("[{what}]\n{}\n", faults(text, &[]))).collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn conflicts_stand_at_the_key_that_was_written() {
    let shown = [
        faults("name: x\nload: {signing: rfc8032}\n", &[]),
        faults("name: x\n\nchain:\n  block_time_max: 100ms\n", &[]),
        faults("name: x\nchain:\n  block_time_min: 2s\n", &[]),
        faults("name: x\nsearch: {start: 50tps, max: 20tps}\n", &[]),
        faults("name: x\nchain: {shards: 1}\nload: {cross_shard: 10%}\n", &[]),
        faults("name: x\ntrial: {drain_timeout: 2m}\n", &[]),
        faults("name: x\nsearch: {start: 50tps, max: 64000tps}\n", &["search.start=100000tps"]),
    ];
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn byte_order_mark_and_windows_line_ends_are_read() {
    let scenario = load_text("\u{feff}name: x\r\nchain:\r\n  shards: 3\r\n", &[]).unwrap();
    assert_eq!(scenario.chain().shards, 3);
    let fault = load_text("\u{feff}nam: x\r\nchain:\r\n  shards: 0\r\n", &[]).unwrap_err().0.pop().unwrap();
    assert_eq!(fault.place, Place::File { file: "s.yaml".to_owned(), line: 3, column: 11 });
}

#[test]
fn deep_and_large_texts_end_with_a_fault() {
    for open in ["[", "{a: ", "- ", "? ", "[{"] {
        let text = open.repeat(50_000);
        assert!(load_text(&text, &[]).is_err(), "{open}");
        assert!(load_text(&format!("name: x\nchain: {text}"), &[]).is_err(), "{open}");
    }
    let long = format!("name: x\n# {}\n", "x".repeat(300_000));
    assert!(faults(&long, &[]).contains("at most 262144"));
    let many = (0..2_000).map(|index| format!("k{index}: 1")).collect::<Vec<_>>().join("\n");
    // One for each unknown key, and the missing name.
    assert_eq!(load_text(&many, &[]).unwrap_err().0.len(), 2_001);
    // The billion laughs.
    let laugh = |n: u32| format!("a{n}: &a{n} [{}]", format!("*a{},", n - 1).repeat(9));
    let laughs = (1..9).map(laugh).collect::<Vec<_>>().join("\n");
    assert!(load_text(&format!("a0: &a0 ha\n{laughs}"), &[]).is_err());
}

/// Texts made of what YAML is made of reach further into a parser than random characters do.
fn yamlish() -> impl Strategy<Value = String> {
    let mut words = vec![
        "\n",
        "\n  ",
        "\n    ",
        " ",
        "\t",
        ": ",
        ":",
        "- ",
        "? ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "&a ",
        "*a",
        "!t ",
        "!!int ",
        "|\n",
        ">-\n  ",
        "'",
        "\"",
        "\\",
        "\\x",
        "\\u12",
        "%",
        "%YAML 1.2\n",
        "%TAG ! x\n",
        "---\n",
        "...\n",
        "#",
        "@",
        "`",
        "<<",
        "~",
        "\r\n",
        "\r",
        "\u{feff}",
        "\u{85}",
        "\u{2028}",
        "0",
        "1",
        "4tps",
        "🦀",
        "\0",
        "é",
        "=",
        "1/0",
    ];
    words.extend(KEYS.iter().map(|key| key.name));
    words.extend(["chain", "load", "trial", "search", "node", "goal"]);
    proptest::collection::vec(proptest::sample::select(words), 0..40).prop_map(|parts| parts.concat())
}

/// A scenario with arbitrary valid values: by the overrides that make it.
fn valid_overrides() -> impl Strategy<Value = Vec<String>> {
    let chain = (1_u32..=256, 1_u32..=16, 2_u32..=1_000_000, 0_u64..=9_700, 1_u64..=1_000_000).prop_map(
        |(shards, producers, accounts, more_ms, price)| {
            vec![
                format!("chain.shards={shards}"),
                format!("chain.producers_per_shard={producers}"),
                format!("chain.accounts_per_shard={accounts}"),
                format!("chain.block_time_min={}ms", more_ms + 10),
                format!("chain.block_time_max={}ms", 2 * (more_ms + 10)),
                format!("chain.block_wait_max={}ms", 5 * (more_ms + 10)),
                format!("chain.min_gas_price={price}"),
                format!("chain.chunk_wait_mult={}/{}", price % 7, price % 7 + 1),
                format!("chain.account_balance={}yocto", u128::from(price) * 1_000_000_000_000_000_007),
            ]
        },
    );
    let rest = (any::<u64>(), "\\PC{0,60}", 0_u32..=1_000_000, 105_u32..=1_000, "[./a-z0-9 #:'\"-]{0,12}")
        .prop_map(|(seed, description, share, growth, path)| {
            let text = |text: String| serde_json::Value::from(text).to_string();
            vec![
                format!("seed={seed}"),
                format!("description={}", text(description)),
                format!("goal.settled_min={}%", f64::from(share) / 10_000.0),
                format!("search.growth={:?}", f64::from(growth) / 100.0),
                format!("node.binary={}", text(format!("/{path}"))),
            ]
        });
    (chain, rest).prop_map(|(chain, rest)| [chain, rest].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in any::<String>(), yamlish in yamlish()) {
        for text in [text, format!("name: x\n{yamlish}"), yamlish] {
            if let Err(Faults(faults)) = load_text(&text, &[]) {
                prop_assert!(!faults.is_empty());
                for fault in &faults {
                    prop_assert!(!fault.message.contains('\n'), "{}", fault.message);
                }
            }
            let over = Override::parse(&format!("chain={text}")).unwrap();
            let source = Source { name: "s".to_owned(), text: "name: x\n".to_owned() };
            prop_assert!(!load(&source, &[over]).is_err_and(|Faults(faults)| faults.is_empty()));
        }
    }

    #[test]
    fn the_resolved_form_loads_back_equal(overrides in valid_overrides()) {
        let overrides: Vec<_> = overrides.iter().map(String::as_str).collect();
        let scenario = load_text("name: x\n", &overrides).unwrap_or_else(|faults| panic!("{faults}"));
        let yaml = scenario.to_yaml();
        let again = load_text(&yaml, &[]).unwrap_or_else(|faults| panic!("{faults}\n{yaml}"));
        prop_assert_eq!(&again, &scenario);
        // JSON is YAML: what run.json holds is the same scenario.
        let json = serde_json::to_string(&scenario).unwrap();
        let from_json = load_text(&json, &[]).unwrap_or_else(|faults| panic!("{faults}\n{json}"));
        prop_assert_eq!(from_json, scenario);
    }
}

#[test]
fn the_resolved_form_has_every_key() {
    let scenario = load_text("name: x\ndescription: 'a: b # c'\n", &[]).unwrap();
    insta::assert_snapshot!("resolved_yaml", scenario.to_yaml());
    insta::assert_snapshot!("resolved_json", serde_json::to_string_pretty(&scenario).unwrap());
}

#[test]
fn faults_are_ordered_file_first() {
    let Faults(faults) = load_text("zzz: 1\nname: x\nyyy: 1\n", &["aaa=1"]).unwrap_err();
    let paths: Vec<_> = faults.iter().map(|Fault { path, .. }| path.as_str()).collect();
    assert_eq!(paths, ["zzz", "yyy", "aaa"]);
}
