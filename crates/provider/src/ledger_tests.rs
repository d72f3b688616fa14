use std::os::unix::fs::symlink;

use super::*;
use crate::{
    durable::temporary_of,
    test_support::{TestRun, intent},
};

#[test]
fn what_is_recorded_is_on_disk_at_once() {
    let run = TestRun::new();
    let mut ledger = run.ledger();
    let on_disk = || Ledger::open(&run.path()).expect("whole").contents;

    let id = ledger.intend(intent("node0")).expect("intend");
    assert_eq!(on_disk(), ledger.contents);
    assert_eq!(on_disk().entries[0].state, EntryState::Intended);

    let own = ProcessIdentity::current().expect("proc");
    ledger.record_running(id, own.clone()).expect("running");
    assert_eq!(on_disk(), ledger.contents);
    assert_eq!(on_disk().entries[0].process(), Some(&own));

    ledger.record_ended(&[(id, Some(ExitKind::Signal(9)))]).expect("ended");
    ledger.record_ended(&[(id, None)]).expect("again");
    assert_eq!(on_disk(), ledger.contents);
    let EntryState::Ended { process, exit, .. } = &on_disk().entries[0].state else { panic!("ended") };
    assert_eq!((process.as_ref(), *exit), (Some(&own), Some(ExitKind::Signal(9))), "the first word stands");
    assert_eq!(ledger.open_entries().count(), 0);

    ledger.keep().expect("keep");
    assert!(on_disk().header.is_kept);
    assert_ne!(ledger.intend(intent("node1")).expect("intend"), id);
}

#[test]
fn the_file_reads_as_documented() {
    let run = TestRun::new();
    let mut ledger = run.ledger();
    let process = ProcessIdentity { pid: 4711, start_time_ticks: 99, boot_id: "b".to_owned() };
    let id = ledger.intend(intent("node0")).expect("intend");
    ledger.record_running(id, process).expect("running");
    let text = fs::read_to_string(run.path().join(LEDGER_FILE)).expect("read");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["schema"], "tpsctl.ledger/1");
    assert_eq!(value["header"]["controller"]["pid"], std::process::id());
    let entry = &value["entries"][0];
    assert_eq!(entry["kind"], "node_process");
    assert_eq!(entry["node"], "node0");
    assert_eq!(entry["p2p"], "127.0.0.1:24567");
    assert_eq!(entry["state"]["running"]["process"]["pid"], 4711);
}

#[test]
fn a_run_is_made_once() {
    let run = TestRun::new();
    let mut ledger = run.ledger();
    ledger.intend(intent("node0")).expect("intend");
    let error = Ledger::create(&run.path(), run.header()).expect_err("there already");
    assert!(matches!(error, ProviderError::Write { .. }), "{error:?}");
    assert_eq!(Ledger::open(&run.path()).expect("untouched").entries().len(), 1);
}

#[test]
fn a_torn_or_foreign_file_is_reported_with_what_to_do() {
    let run = TestRun::new();
    let missing = Ledger::open(&run.path()).expect_err("none yet");
    assert!(matches!(missing, ProviderError::NoRun { .. }), "{missing:?}");
    drop(run.ledger());
    let path = run.path().join(LEDGER_FILE);
    let whole = fs::read(&path).expect("read");
    let other_version = String::from_utf8(whole.clone()).expect("text").replace("ledger/1", "ledger/2");
    let extra_key = String::from_utf8(whole.clone()).expect("text").replacen('{', "{\"pids\": [1],", 1);
    let mut garbled: Vec<Vec<u8>> = (0..whole.len()).map(|len| whole[..len].to_vec()).collect();
    garbled.extend([b"\0\xff\xfe".to_vec(), b"null".to_vec(), other_version.into(), extra_key.into()]);
    for bytes in garbled {
        fs::write(&path, &bytes).expect("write");
        let error = Ledger::open(&run.path()).expect_err("garbled");
        assert!(matches!(error, ProviderError::LedgerGarbled { .. }), "{error:?}");
        assert!(error.hint().is_some_and(|hint| hint.contains("tpsctl down")));
        assert_eq!(error.exit_code(), 6);
    }
}

#[test]
fn a_full_disk_changes_nothing() {
    let run = TestRun::new();
    let mut ledger = run.ledger();
    let id = ledger.intend(intent("node0")).expect("intend");
    let before = ledger.contents.clone();

    // Writing the new content goes to a device that is always full.
    let temporary = temporary_of(&run.path().join(LEDGER_FILE));
    let fill = || symlink("/dev/full", &temporary).expect("link");
    fill();
    let error = ledger.intend(intent("node1")).expect_err("full");
    assert!(error.hint().is_some_and(|hint| hint.contains("free space")), "{error:?}");
    fill();
    ledger.record_running(id, ProcessIdentity::current().expect("proc")).expect_err("full");
    fill();
    ledger.keep().expect_err("full");
    assert_eq!(ledger.contents, before);
    assert_eq!(Ledger::open(&run.path()).expect("whole").contents, before);

    // The link went with the half-written file: there is space again.
    ledger.intend(intent("node1")).expect("space again");
    assert_eq!(Ledger::open(&run.path()).expect("whole").entries().len(), 2);
}

#[test]
fn an_unknown_entry_is_an_error() {
    let run = TestRun::new();
    let error = run.ledger().record_ended(&[(5, None)]).expect_err("unknown");
    assert!(matches!(error, ProviderError::UnknownEntry { id: 5 }), "{error:?}");
}
