//! Files that are there whole, or as they were before.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use fs_err as fs;

/// Replaces `path` with `bytes`. When this returns, the new content survives a crash of the process and of the host;
/// when it fails, the old content is still there.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_of(path);
    let result = write_synced(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = result {
        // Half a file is of use to nobody; that it may stay is no second error.
        fs::remove_file(&temporary).ok();
        return Err(error);
    }
    match path.parent() {
        // The rename itself is durable only once the directory is.
        Some(directory) => fs::File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// Where the new content of `path` is collected.
pub(crate) fn temporary_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
