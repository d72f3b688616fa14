//! `tpsctl scenario` and the edges of the command line, as people see them.

use crate::support::Bench;

fn write(bench: &Bench, name: &str, text: &str) {
    fs_err::write(bench.dir.path().join(name), text).expect("write");
}

#[test]
fn list_and_validate() {
    let bench = Bench::new();
    insta::assert_snapshot!(bench.transcript(&["scenario", "list"]));
    insta::assert_snapshot!(bench.transcript(&["scenario", "validate", "quickstart", "quickstart.yaml"]));
}

#[test]
fn every_fault_in_one_pass() {
    let bench = Bench::new();
    write(
        &bench,
        "bad.yaml",
        "name: bad\nchain:\n  shrads: 4\n  block_time_min: 600\nload:\n  cross_shard: 130%\nseed: many\n",
    );
    insta::assert_snapshot!(bench.transcript(&[
        "scenario",
        "validate",
        "bad.yaml",
        "--set",
        "search.growht=2",
        "--set",
        "bad",
        "--set",
        "chain.rpc_nodes=many"
    ]));
}

#[test]
fn a_key_that_is_typed_as_a_flag_is_told_its_place() {
    let bench = Bench::new();
    let told = |args: &[&str]| {
        let output = bench.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let tip = "tip: keys are set with --set chain.shards=2\n";
    for flag in [&["--shards", "2"][..], &["--shards=2"]] {
        let said = told(&[&["scenario", "run", "quickstart"], flag].concat());
        assert!(said.contains("unexpected argument '--shards'") && said.ends_with(tip), "{said}");
    }
    let said = told(&["up", "quickstart", "--accounts-per-shard", "--json"]);
    assert!(said.ends_with("tip: keys are set with --set chain.accounts_per_shard=VALUE\n"), "{said}");
    let said = told(&["scenario", "run", "quickstart", "--frobnicate", "2"]);
    assert!(!said.contains("keys are set"), "{said}");
    let said = told(&["status", "--shards", "2"]);
    assert!(!said.contains("keys are set"), "{said}");
}

#[test]
fn an_override_is_checked_like_the_file() {
    let bench = Bench::new();
    insta::assert_snapshot!(bench.transcript(&[
        "scenario",
        "show",
        "quickstart",
        "--set",
        "chain.shards=-1"
    ]));
    let shown = bench.run(&["scenario", "show", "quickstart", "--set", "chain.shards=8"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("shards: 8"));
}

#[test]
fn what_is_shown_can_be_read_again() {
    let bench = Bench::new();
    let shown = bench.run(&["scenario", "show", "quickstart"]);
    fs_err::write(bench.dir.path().join("again.yaml"), &shown.stdout).expect("write");
    let again = bench.run(&["scenario", "show", "again.yaml"]);
    assert_eq!(String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&again.stdout));
}

#[test]
fn an_existing_file_beats_a_bundled_name() {
    let bench = Bench::new();
    write(&bench, "quickstart", "name: mine\n");
    let shown = bench.run(&["scenario", "show", "quickstart"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("name: mine"));
}

#[test]
fn bad_input_has_exit_code_2_and_says_what_to_do() {
    let bench = Bench::new();
    for args in [
        &["scenario", "run", "no-such-scenario"][..],
        &["scenario", "run", "quickstart", "--set", "chain.id=mainnet"],
        &["scenario", "run", "quickstart", "--set", "nonsense"],
        &["down"],
        &["status", "no-such-run"],
        &["inject", "no-such-run", "--rate", "5tps", "--duration", "1s"],
        &["report"],
        &["frobnicate"],
    ] {
        let output = bench.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{args:?}");
    }
    insta::assert_snapshot!(bench.transcript(&["scenario", "run", "no-such-scenario"]));
    insta::assert_snapshot!(bench.transcript(&["down"]));
}

#[test]
fn the_plan_is_printed_and_nothing_started() {
    let bench = Bench::new();
    let planned = bench.run(&["scenario", "plan", "quickstart", "--json"]);
    let plan: serde_json::Value = serde_json::from_slice(&planned.stdout).expect("JSON");
    assert_eq!(plan["schema"], "tpsctl.plan/1");
    assert_eq!(plan["nodes"].as_array().map(Vec::len), Some(5));
    assert!(plan["checks"].as_array().is_some_and(|checks| checks.len() > 20), "{plan}");
    // A plan that cannot work is told as well: with its figures on stdout and the reason on stderr.
    let set = "chain.transaction_validity=10001";
    let refused = bench.run(&["scenario", "plan", "quickstart", "--set", set]);
    assert_eq!(refused.status.code(), Some(2));
    let (told, error) = (String::from_utf8_lossy(&refused.stdout), String::from_utf8_lossy(&refused.stderr));
    assert!(
        told.contains("  error    validity_within_two_epochs: ") && told.contains("(10001 blocks"),
        "{told}"
    );
    assert!(error.contains("the plan cannot work") && !error.contains("nonces_below_ceiling"), "{error}");
    assert!(!bench.dir.path().join("runs").exists());
}

#[test]
fn help_is_data() {
    let bench = Bench::new();
    insta::assert_snapshot!(bench.transcript(&["--help"]));
    insta::assert_snapshot!(bench.transcript(&["scenario", "run", "--help"]));
}
