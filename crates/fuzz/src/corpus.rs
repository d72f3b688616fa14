//! Where inputs come from: seeds made by the targets from `testdata/`, and what once broke something.

use std::{
    io,
    path::{Path, PathBuf},
};

use fs_err as fs;

use crate::Target;

/// The recordings of a real node.
pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

/// A recording's bytes.
pub(crate) fn recorded(name: &str) -> Vec<u8> {
    fs::read(testdata(name)).expect("testdata/ is whole")
}

/// All files of a folder, in the order of their names.
pub(crate) fn files_of(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| path.is_file());
    paths.sort();
    Ok(paths)
}

/// The seeds of a target.
pub fn seeds(target: &Target) -> Vec<Vec<u8>> {
    (target.seeds)()
}

/// What once broke something that the target covers, with the name of its file.
pub fn regressions(target: &Target) -> io::Result<Vec<(String, Vec<u8>)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions").join(target.name);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, fs::read(path)?))
    };
    files_of(&folder)?.into_iter().map(read).collect()
}

/// Writes the seeds and regressions of a target into a folder, for a fuzzer that reads its corpus from one.
pub fn write_seeds(target: &Target, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (index, seed) in seeds(target).iter().enumerate() {
        fs::write(folder.join(format!("seed-{index:03}")), seed)?;
    }
    for (name, bytes) in regressions(target)? {
        fs::write(folder.join(format!("regression-{name}")), bytes)?;
    }
    Ok(())
}
