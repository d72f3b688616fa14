//! `journal.ndjson`: what happened in a run, one JSON value a line, in the order in which it happened.
//!
//! Each line is handed to the kernel before [`Journal::append`] returns, so it survives the end of the process, though not
//! that of the host: the ledger, not the journal, is what teardown relies on.

use std::{
    io::{self, Seek, Write},
    path::{Path, PathBuf},
};

use fs_err as fs;
use serde::{Deserialize, Serialize};
use tpsctl_model::event::RunEvent;

use crate::ProviderError;

/// The journal's name in a run directory.
pub const JOURNAL_FILE: &str = "journal.ndjson";

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalEntry {
    /// When, milliseconds since the Unix epoch.
    pub unix_ms: u64,
    /// What.
    pub event: RunEvent,
}

/// The journal, open for appending.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: fs::File,
}

impl Journal {
    /// Opens the journal of a run, new or old. A last line that was cut off in the middle is removed, so that the next
    /// one does not run on from it.
    pub fn open(run_directory: &Path) -> Result<Self, ProviderError> {
        let path = run_directory.join(JOURNAL_FILE);
        match open_at_line_start(&path) {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(ProviderError::Write { path, source }),
        }
    }

    /// Appends one line.
    pub fn append(&mut self, entry: &JournalEntry) -> Result<(), ProviderError> {
        let written = serde_json::to_vec(entry).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.file.write_all(&line)
        });
        written.map_err(|source| ProviderError::Write { path: self.path.clone(), source })
    }
}

/// Reads the journal of a run, empty where there is none. A last line that was cut off is left out; anything else that is
/// no entry is an error.
pub fn read_journal(run_directory: &Path) -> Result<Vec<JournalEntry>, ProviderError> {
    let path = run_directory.join(JOURNAL_FILE);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(ProviderError::Read { path, source }),
    };
    let whole = &bytes[..whole_lines_len(&bytes)];
    let lines = whole.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    lines
        .map(|(index, line)| {
            serde_json::from_slice(line).map_err(|source| ProviderError::JournalGarbled {
                path: path.clone(),
                line: index + 1,
                source,
            })
        })
        .collect()
}

fn open_at_line_start(path: &Path) -> io::Result<fs::File> {
    let mut file = fs::OpenOptions::new().create(true).read(true).write(true).truncate(false).open(path)?;
    let whole = whole_lines_len(&fs::read(path)?);
    file.set_len(whole as u64)?;
    file.seek(io::SeekFrom::End(0))?;
    Ok(file)
}

/// Length of the lines that were written to their end.
fn whole_lines_len(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(unix_ms: u64, text: &str) -> JournalEntry {
        JournalEntry { unix_ms, event: RunEvent::Warning { text: text.to_owned() } }
    }

    #[test]
    fn a_torn_last_line_is_left_out_and_not_continued() {
        let run = tempfile::tempdir().expect("directory");
        assert_eq!(read_journal(run.path()).expect("none yet"), []);
        let mut journal = Journal::open(run.path()).expect("open");
        journal.append(&warning(1, "one\ntwo")).expect("append");
        journal.append(&warning(2, "three")).expect("append");
        drop(journal);

        let path = run.path().join(JOURNAL_FILE);
        let bytes = fs::read(&path).expect("read");
        fs::write(&path, &bytes[..bytes.len() - 5]).expect("tear");
        assert_eq!(read_journal(run.path()).expect("tolerant"), [warning(1, "one\ntwo")]);

        let mut journal = Journal::open(run.path()).expect("open again");
        journal.append(&warning(3, "four")).expect("append");
        assert_eq!(read_journal(run.path()).expect("whole"), [warning(1, "one\ntwo"), warning(3, "four")]);
    }

    #[test]
    fn garbage_in_the_middle_is_named_by_its_line() {
        let run = tempfile::tempdir().expect("directory");
        let mut journal = Journal::open(run.path()).expect("open");
        journal.append(&warning(1, "one")).expect("append");
        let path = run.path().join(JOURNAL_FILE);
        let mut bytes = fs::read(&path).expect("read");
        bytes.extend_from_slice(b"\xff\xfe{\n");
        fs::write(&path, &bytes).expect("write");
        let error = read_journal(run.path()).expect_err("garbled");
        assert!(matches!(error, ProviderError::JournalGarbled { line: 2, .. }), "{error:?}");
    }
}
