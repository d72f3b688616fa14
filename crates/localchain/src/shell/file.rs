//! Files of a home directory, opened and read.

use std::{io, path::Path};

use fs_err as fs;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;
use tpsctl_near::files::{FileError, from_text};

use super::NodeError;

/// Opens a file to read it. A device or a pipe is refused: reading it may never end.
pub(super) fn open_file(path: &Path) -> io::Result<fs::File> {
    if fs::metadata(path)?.is_file() {
        return fs::File::open(path);
    }
    let text = format!("`{}` is no file: copy what it gives to one", path.display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Reads a file that holds one JSON object. A list would pass for an object with its fields in order, and an empty one
/// for all defaults.
pub(super) fn read_file<T: DeserializeOwned>(path: &Path, what: &'static str) -> Result<T, NodeError> {
    let mut text = Vec::new();
    let read = open_file(path).and_then(|mut file| io::Read::read_to_end(&mut file, &mut text));
    read.map_err(NodeError::ReadHome)?;
    let fault = |source| NodeError::Parse { path: path.to_owned(), source };
    if from_text::<Value>(what, &text).map_err(fault)?.is_object() {
        return from_text(what, &text).map_err(fault);
    }
    let source = serde_json::Error::custom("it is no JSON object");
    Err(fault(FileError::Parse { what, source }))
}
