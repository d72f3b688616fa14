//! The run directory: every stage's value is written here as it is made, so that any stage can be looked at, rerun or
//! reported from disk.

use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::{Serialize, de::DeserializeOwned};
use tpsctl_provider::Ledger;

use crate::error::ControllerError;

/// One run's directory, `runs/<id>/`.
#[derive(Debug, Clone)]
pub struct RunDir {
    root: PathBuf,
    id: String,
}

impl RunDir {
    /// Makes `runs/<id>/`; an existing one is an error.
    pub fn create(runs: &Path, id: &str) -> Result<Self, ControllerError> {
        fs::create_dir_all(runs)
            .map_err(|source| ControllerError::RunDirectory { path: runs.to_owned(), source })?;
        let root = runs.join(id);
        fs::create_dir(&root)
            .map_err(|source| ControllerError::RunDirectory { path: root.clone(), source })?;
        let root =
            root.canonicalize().map_err(|source| ControllerError::RunDirectory { path: root, source })?;
        Ok(Self { root, id: id.to_owned() })
    }

    /// Opens an existing run: `which` is a path to its directory, or an id below `runs`; none means the newest.
    pub fn open(runs: &Path, which: Option<&str>) -> Result<Self, ControllerError> {
        let candidate = match which {
            Some(which) if Path::new(which).join("ledger.json").is_file() => PathBuf::from(which),
            Some(which) => runs.join(which),
            None => newest(runs).ok_or_else(|| ControllerError::NoRuns { runs: runs.to_owned() })?,
        };
        if !candidate.join("ledger.json").is_file() {
            return Err(ControllerError::NotARun { path: candidate });
        }
        let root = candidate
            .canonicalize()
            .map_err(|source| ControllerError::RunDirectory { path: candidate.clone(), source })?;
        let id = root.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Ok(Self { root, id })
    }

    /// All runs below `runs`, by id.
    pub fn all(runs: &Path) -> Result<Vec<Self>, ControllerError> {
        let fault = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::NotFound => ControllerError::NoRuns { runs: runs.to_owned() },
            _ => ControllerError::RunDirectory { path: runs.to_owned(), source },
        };
        let mut found = Vec::new();
        for entry in fs::read_dir(runs).map_err(fault)? {
            let path = entry.map_err(fault)?.path();
            if path.join("ledger.json").is_file() {
                found.push(Self::open(runs, Some(&path.to_string_lossy()))?);
            }
        }
        found.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(found)
    }

    /// The run's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path inside.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The folder of a trial.
    pub fn trial(&self, trial: u32) -> PathBuf {
        self.root.join("trials").join(format!("{trial:02}"))
    }

    /// Writes a text file whole: to a temporary file beside it, then renamed, so that a reader never sees half of it.
    pub fn write_text(path: &Path, text: &str) -> Result<(), ControllerError> {
        let fault = |source| ControllerError::WriteArtefact { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(fault)?;
        }
        let partial = path.with_extension("partial");
        fs::write(&partial, text).and_then(|()| fs::rename(&partial, path)).map_err(|error| {
            // Half a file is of use to nobody; that it may stay is no second error.
            fs::remove_file(&partial).ok();
            fault(error)
        })
    }

    /// Writes `value` as pretty JSON.
    pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), ControllerError> {
        let mut text = serde_json::to_string_pretty(value)
            .map_err(|source| ControllerError::Encode { path: path.to_owned(), source })?;
        text.push('\n');
        Self::write_text(path, &text)
    }

    /// Reads a JSON artefact.
    pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ControllerError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ControllerError::ReadArtefact { path: path.to_owned(), source })?;
        serde_json::from_str(&text)
            .map_err(|source| ControllerError::Decode { path: path.to_owned(), source })
    }
}

/// The run that was made last, by its ledger; one whose ledger cannot be read counts by its directory's own time.
fn newest(runs: &Path) -> Option<PathBuf> {
    let created_unix_ms = |path: &PathBuf| {
        if let Ok(ledger) = Ledger::open(path) {
            return Some(ledger.header().created_unix_ms);
        }
        let modified = fs::metadata(path).and_then(|meta| meta.modified()).ok()?;
        let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok()
    };
    let entries = fs::read_dir(runs).ok()?;
    let runs = entries.filter_map(Result::ok).map(|entry| entry.path());
    runs.filter(|path| path.join("ledger.json").is_file()).max_by_key(created_unix_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Category;

    #[test]
    fn an_id_that_is_taken_is_refused_and_what_is_there_stays() {
        let runs = tempfile::tempdir().expect("directory");
        let first = RunDir::create(runs.path(), "one").expect("a run");
        RunDir::write_text(&first.path("run.json"), "result").expect("write");
        let error = RunDir::create(runs.path(), "one").expect_err("taken");
        assert_eq!(error.category(), Category::BadInput);
        assert!(error.to_string().contains("use the run directory"), "{error}");
        assert_eq!(fs::read_to_string(first.path("run.json")).expect("still there"), "result");
    }

    #[test]
    fn half_a_file_does_not_stay() {
        let runs = tempfile::tempdir().expect("directory");
        // A directory in the place of the file: the text can be written and not be put there.
        fs::create_dir(runs.path().join("run.json")).expect("create");
        RunDir::write_text(&runs.path().join("run.json"), "result").expect_err("in the way");
        assert_eq!(fs::read_dir(runs.path()).expect("list").count(), 1);
    }
}
