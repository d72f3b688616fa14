//! Scenario files, overrides and flags.

use std::io::Write;

use super::{BAD_INPUT, assert_refused};
use crate::support::Bench;

/// Each command that reads a scenario refuses `text` and says each of `says`.
fn assert_text_refused(text: &[u8], says: &[&str]) {
    let bench = Bench::new();
    fs_err::write(bench.dir.path().join("s.yaml"), text).expect("write");
    for command in [&["scenario", "run"][..], &["scenario", "validate"], &["scenario", "plan"], &["up"]] {
        assert_refused(&bench, &[command, &["s.yaml"]].concat(), BAD_INPUT, says);
    }
}

#[test]
fn a_key_that_does_not_exist() {
    assert_text_refused(
        b"name: x\nchain:\n  shrads: 4\n",
        &["s.yaml:3:3", "chain.shrads: unknown key", "did you mean `shards`?"],
    );
}

#[test]
fn a_wrong_unit_or_none() {
    let says = &["s.yaml:2:19", "trial.window", "is not a length of time such as `600ms`"];
    for value in ["6", "6tps", "6 seconds"] {
        assert_text_refused(format!("name: x\ntrial:   {{window: {value}}}\n").as_bytes(), says);
    }
}

#[test]
fn no_shard_at_all() {
    assert_text_refused(
        b"name: x\nchain: {shards: 0}\n",
        &["chain.shards: `0` is out of range", "from `1` to `256`"],
    );
}

#[test]
fn text_that_is_not_yaml() {
    assert_text_refused(b"name: \"x\nchain: {shards: 4}\n", &["s.yaml:1:7", "not YAML"]);
    assert_text_refused(b"name: x\nchain:\n\tshards: 4\n", &["s.yaml:3:2", "indented with spaces"]);
}

#[test]
fn a_file_that_is_not_text() {
    let elf: Vec<u8> = (0..=255).cycle().take(4_096).collect();
    assert_text_refused(&elf, &["`s.yaml` is not text", "name a YAML file"]);
    assert_text_refused(b"name: x\0y\n", &["s.yaml:1:8", "control character U+0000"]);
}

#[test]
fn an_empty_file() {
    assert_text_refused(b"", &["s.yaml:1:1", "name: the key is missing", "such as `four-shards`"]);
}

#[test]
fn text_that_is_nested_too_deep() {
    for (depth, says) in [(100, "nested deeper than 16 levels"), (100_000, "recursion limit exceeded")] {
        let brackets = "[".repeat(depth);
        assert_text_refused(format!("name: {brackets}").as_bytes(), &["s.yaml:1:", says]);
    }
}

/// A terabyte with nothing in it: it must not be read.
#[test]
fn a_huge_file() {
    let bench = Bench::new();
    let file = fs_err::File::create(bench.dir.path().join("s.yaml")).expect("create");
    file.set_len(1 << 40).expect("sparse");
    let says = &["`s.yaml`", "1099511627776 bytes", "a scenario has at most 262144"];
    assert_refused(&bench, &["scenario", "run", "s.yaml"], BAD_INPUT, says);
}

#[test]
fn what_is_there_and_no_file() {
    let bench = Bench::new();
    fs_err::create_dir(bench.dir.path().join("dir")).expect("create");
    let says = &["`dir` is a directory", "name a scenario's file"];
    assert_refused(&bench, &["scenario", "run", "dir"], BAD_INPUT, says);
    assert_refused(&bench, &["scenario", "validate", "/dev/zero"], BAD_INPUT, &["`/dev/zero` is no file"]);
    let says = &["`none.yaml` is neither a file nor a bundled scenario", "quickstart"];
    assert_refused(&bench, &["scenario", "plan", "none.yaml"], BAD_INPUT, says);
}

#[test]
fn a_chain_with_real_accounts() {
    for id in ["mainnet", "TestNet", "near-testnet"] {
        let says = &["is named like a chain with real accounts", "use an id without"];
        assert_text_refused(format!("name: x\nchain: {{id: {id}}}\n").as_bytes(), says);
    }
}

#[test]
fn names_that_are_kept_for_later() {
    assert_text_refused(
        b"name: x\nprovider: kubernetes\n",
        &["`kubernetes` is not yet there", "until then: `provider: local`"],
    );
    assert_text_refused(
        b"name: x\nlimits: unlimited\n",
        &["limits: not yet there", "until then: `chain.id: benchmarknet`"],
    );
}

#[test]
fn overrides_that_are_none() {
    let bench = Bench::new();
    for (set, says) in [
        ("nonsense", "is not `key=value`, such as `chain.shards=8`"),
        ("=4", "is not `key=value`"),
        ("chain.shards=", "chain.shards: has no value"),
        ("chain.shards=[1", "not YAML"),
        ("chain=4", "is a section: it takes keys"),
        ("chain.shards={a: b}", "a mapping is not a whole number"),
        ("limits=protocol", "limits: not yet there"),
        ("search.max=99999999999999999999tps", "search.max"),
        ("chain.shards=\u{1b}[31m8", "control character"),
    ] {
        assert_refused(&bench, &["scenario", "run", "quickstart", "--set", set], BAD_INPUT, &[says]);
    }
}

#[test]
fn plans_that_cannot_work() {
    let bench = Bench::new();
    for (set, check) in [
        ("chain.transaction_validity=10001", "validity_within_two_epochs"),
        ("chain.block_time_max=400ms", "skip_after_two_block_times"),
        ("chain={producers_per_shard: 3, accounts_per_shard: 2}", "accounts_suffice"),
        ("chain.account_balance=1yocto", "balance_lasts"),
    ] {
        for command in [&["scenario", "run"][..], &["up"]] {
            let args = [command, &["quickstart", "--set", set]].concat();
            assert_refused(&bench, &args, BAD_INPUT, &["error: ", check]);
        }
    }
}

#[test]
fn flags_that_are_none() {
    let bench = Bench::new();
    for (args, says) in [
        (
            &["inject", "RUN", "--rate", "5", "--duration", "1s"][..],
            "`5` is not a whole rate such as `1550tps`",
        ),
        (&["inject", "RUN", "--rate", "2000000tps", "--duration", "1s"], "more than 1000000tps a shard"),
        (&["inject", "RUN", "--rate", "5tps", "--duration", "0s"], "not between 1s and 24h"),
        (&["inject", "RUN", "--rate", "5tps"], "--duration <DURATION>"),
        (&["scenario", "run"], "<SCENARIO>"),
        (&["scenario", "rum", "quickstart"], "'run'"),
        (&["down", "RUN", "--all"], "cannot be used with"),
        (&["--color", "sometimes", "status"], "possible values"),
        (&["scenario", "run", "quickstart", "extra"], "unexpected argument 'extra'"),
        (&["localnode", "run"], "--home <DIR>"),
    ] {
        assert_refused(&bench, args, BAD_INPUT, &["error: ", says]);
    }
}

/// stdout is for the JSON that was asked for and stays empty without it; what is wrong is on stderr as ever.
#[test]
fn json_that_cannot_be_given() {
    let bench = Bench::new();
    for args in [
        &["scenario", "run", "quickstart", "--json", "--set", "chain.shards=0"][..],
        &["up", "quickstart", "--json", "--set", "chain.shards=0"],
        &["status", "--json"],
        &["report", "none", "--json"],
        &["inject", "none", "--rate", "5tps", "--duration", "1s", "--json"],
    ] {
        assert_refused(&bench, args, BAD_INPUT, &["error: "]);
    }
}

/// Whoever reads the output may go away at any time.
#[test]
fn a_reader_that_goes_away() {
    let bench = Bench::new();
    let mut child = bench
        .command(&["scenario", "schema"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("own child");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

/// Output that cannot be written is a failure, and said.
#[test]
fn a_full_device_for_the_output() {
    let bench = Bench::new();
    let full = fs_err::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let output = bench
        .command(&["scenario", "schema"])
        .stdout(full.into_parts().0)
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(6));
    super::assert_helpful(&String::from_utf8_lossy(&output.stderr), &["cannot write to stdout"]);
}

#[test]
fn file_names_that_are_not_text() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new();
    let name = std::ffi::OsStr::from_bytes(b"runs-\xff");
    let output =
        bench.command(&["up", "quickstart", "--runs-dir"]).arg(name).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(BAD_INPUT));
    super::assert_helpful(&String::from_utf8_lossy(&output.stderr), &["is not UTF-8", "--runs-dir"]);
    assert!(!bench.dir.path().join(name).exists());
    let mut out = fs_err::File::create(bench.dir.path().join("s.yaml")).expect("create");
    out.write_all(b"name: \xff\n").expect("write");
    assert_refused(&bench, &["scenario", "show", "s.yaml"], BAD_INPUT, &["`s.yaml` is not text"]);
}
