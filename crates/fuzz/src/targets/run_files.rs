//! A file of a run directory: the first byte says which. It is read as `report`, `status` and `down` read it.

use std::{cell::RefCell, path::Path};

use fs_err as fs;
use tempfile::TempDir;
use tpsctl_controller::RunDir;
use tpsctl_model::{event::RunEvent, plan::RunPlan, result::RunResult};
use tpsctl_provider::{Journal, JournalEntry, Ledger, read_journal};

use crate::corpus::testdata;

const FILES: &[&str] = &[
    "plan.json",
    "ledger.json",
    "journal.ndjson",
    "run.json",
    "genesis/fingerprints.json",
    "trials/00/verdict.json",
    "scenario.resolved.yaml",
];

thread_local! {
    static RUN: RefCell<Run> = RefCell::new(Run::new());
}

fn original(name: &str) -> Vec<u8> {
    fs::read(testdata("run").join(name)).expect("testdata/ is whole")
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    FILES.iter().enumerate().map(|(index, name)| [vec![index as u8], original(name)].concat()).collect()
}

/// A run directory of which one file at a time is another.
struct Run {
    _folder: TempDir,
    dir: RunDir,
}

impl Run {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let dir = RunDir::create(folder.path(), "fuzz").expect("a run's folder can be made");
        let run = Self { _folder: folder, dir };
        for name in FILES {
            run.write(name, &original(name));
        }
        run
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.dir.path(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder can be made");
        fs::write(path, bytes).expect("a file can be written");
    }
}

pub(super) fn run(data: &[u8]) {
    let Some((which, bytes)) = data.split_first() else { return };
    let name = FILES[usize::from(*which) % FILES.len()];
    RUN.with_borrow(|run| {
        run.write(name, bytes);
        match name {
            "plan.json" => check_plan(&run.dir),
            "ledger.json" => check_ledger(&run.dir),
            "journal.ndjson" => check_journal(&run.dir),
            "run.json" => check_result(RunDir::read_json(&run.dir.path(name)).ok()),
            _ => {}
        }
        run.write(name, bytes);
        check_result(tpsctl_controller::rebuild(&run.dir).ok());
        run.write(name, &original(name));
    });
}

fn check_plan(dir: &RunDir) {
    let Ok(plan) = RunDir::read_json::<RunPlan>(&dir.path("plan.json")) else { return };
    let text = serde_json::to_string(&plan).expect("a plan has a JSON form");
    assert_eq!(serde_json::from_str::<RunPlan>(&text).ok(), Some(plan));
}

fn check_ledger(dir: &RunDir) {
    let status = tpsctl_controller::status(dir);
    let Ok(mut ledger) = Ledger::open(dir.root()) else {
        assert!(status.is_err());
        return;
    };
    assert!(status.is_ok());
    // Nothing is ended here: a ledger may name any process. What is written down reads back.
    let ended: Vec<_> = ledger.entries().iter().map(|entry| (entry.id, None)).collect();
    ledger.record_ended(&ended).expect("every entry has its id");
    let again = Ledger::open(dir.root()).expect("what was written can be read");
    assert_eq!((again.header(), again.entries()), (ledger.header(), ledger.entries()));
    let mut ids: Vec<u64> = ledger.entries().iter().map(|entry| entry.id).collect();
    ids.dedup();
    if ids.len() == ledger.entries().len() && ids.is_sorted() {
        assert_eq!(ledger.open_entries().count(), 0);
    }
}

fn check_journal(dir: &RunDir) {
    let Ok(mut entries) = read_journal(dir.root()) else { return };
    let entry = JournalEntry { unix_ms: 1, event: RunEvent::Warning { text: "more\n".to_owned() } };
    let mut journal = Journal::open(dir.root()).expect("a journal can be opened");
    journal.append(&entry).expect("and written to");
    entries.push(entry);
    assert_eq!(read_journal(dir.root()).ok(), Some(entries));
}

/// A result can be written, read back, and shown.
fn check_result(result: Option<RunResult>) {
    let Some(result) = result else { return };
    let text = tpsctl_report::json(&result).expect("a result has a JSON form");
    assert_eq!(serde_json::from_str::<RunResult>(&text).ok().as_ref(), Some(&result));
    assert!(!tpsctl_report::summary(&result, "runs/fuzz", false).is_empty());
    assert!(tpsctl_report::html(&result).is_ok_and(|page| page.trim_end().ends_with("</html>")));
}
