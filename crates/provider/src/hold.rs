//! Whether a process that was forked a moment ago may still become a node.
//!
//! The process that made a ledger holds an advisory lock of the run directory. What it forks shares that lock until it
//! becomes its program, which closes the descriptor and brings the marker. So where a controller was killed, its lock
//! lasts exactly as long as there are processes of it that no look at the markers can find.

use std::path::Path;

use fs_err as fs;
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

/// Takes the lock of a run directory until the file is dropped. None on a file system without locks: a teardown then has
/// nothing to go by but time.
pub(crate) fn hold(run_directory: &Path) -> Option<fs::File> {
    let directory = fs::File::open(run_directory).ok()?;
    flock(&directory, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(directory)
}

/// Whether any process holds it.
pub(crate) fn is_held(run_directory: &Path) -> bool {
    let Ok(directory) = fs::File::open(run_directory) else { return false };
    flock(&directory, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
}
