//! The index of a genesis: where the records of each shard stand in genesis.json, and the root of each shard's state.
//!
//! A node that finds `genesis.index.json` beside its genesis reads the records of the shards that it keeps, and no others.
//! It believes the index no further than it must: the index names the SHA-256 of the very genesis.json; its parts cover
//! every record once; each record that is read lies in its part's shard; and the state that comes of a part has the root
//! that the index says. Every shard is kept by some node, so an index with any other content is found out by one of them
//! at least, which then has another genesis hash than those that believed it, and is refused by them.

use std::{
    io::{self, BufReader, Read, Seek, SeekFrom},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err as fs;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tpsctl_near::{
    CryptoHash, ShardLayout,
    files::{
        FileError, GENESIS_TAIL_BYTES, GenesisConfigFile, decimal, read_genesis_head, read_record_lines,
    },
};

use super::{
    file::open_file,
    home::{Records, Totals},
};
use crate::core::{Genesis, ShardState};

/// Files are read in pieces of this size.
const BUFFER_BYTES: usize = 256 * 1024;
/// An index has some hundred bytes for each shard.
const INDEX_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// An index cannot be made, or does not hold.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A file cannot be read or written.
    #[error("read or write a file")]
    Io(#[from] io::Error),
    /// The genesis has no records one a line.
    #[error("read genesis line by line")]
    Genesis(#[from] FileError),
    /// The index is not one.
    #[error("parse the index")]
    Parse(#[from] serde_json::Error),
    /// It does not belong to this genesis, or was changed.
    #[error("it does not hold: {0}")]
    Stale(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Schema {
    #[serde(rename = "tpsctl.genesis-index/1")]
    V1,
}

/// `genesis.index.json`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Index {
    schema: Schema,
    /// SHA-256 of genesis.json, base58 as all hashes.
    genesis_sha256: CryptoHash,
    genesis_bytes: u64,
    /// Where the records begin.
    head_bytes: u64,
    accounts: u64,
    #[serde(with = "decimal")]
    balances: u128,
    /// By shard index.
    shards: Vec<Part>,
}

/// A shard's part of genesis.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    state_root: CryptoHash,
    /// Bytes of whole lines, from and to.
    lines: Vec<(u64, u64)>,
}

/// The index's place beside its genesis.
pub(super) fn path_of(genesis: &Path) -> PathBuf {
    genesis.with_extension("index.json")
}

/// Reads a file through once, hashing it.
struct Hashing<R> {
    inner: R,
    hasher: Sha256,
    bytes: u64,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(out)?;
        self.hasher.update(&out[..len]);
        self.bytes += len as u64;
        Ok(len)
    }
}

impl<R: Read> Hashing<R> {
    fn new(inner: R) -> Self {
        Self { inner, hasher: Sha256::new(), bytes: 0 }
    }

    fn finish(self) -> (CryptoHash, u64) {
        (CryptoHash(self.hasher.finalize().into()), self.bytes)
    }
}

/// Hash and length of a file.
fn digest(path: &Path) -> io::Result<(CryptoHash, u64)> {
    let mut file = Hashing::new(open_file(path)?);
    let mut buffer = vec![0; BUFFER_BYTES];
    while file.read(&mut buffer)? > 0 {}
    Ok(file.finish())
}

/// Writes `genesis.index.json` beside a genesis.json that has one record a line. Memory is that of the largest shard.
///
/// # Errors
/// When the genesis cannot be read or is laid out in another way, or the index cannot be written.
pub fn index_genesis(genesis: &Path) -> Result<PathBuf, IndexError> {
    let mut file = BufReader::with_capacity(BUFFER_BYTES, Hashing::new(open_file(genesis)?));
    let (config, head_bytes) = read_genesis_head(&mut file)?;
    let layout = &config.shard_layout;
    let mut lines: Vec<Vec<(u64, u64)>> = vec![Vec::new(); layout.len()];
    let mut totals = Totals { accounts: 0, balances: Some(0) };
    let end = read_record_lines(&mut file, head_bytes, |record, line| {
        let own = &mut lines[layout.index_of(record.account_id())];
        match own.last_mut() {
            Some((_, to)) if *to == line.start => *to = line.end,
            _ => own.push((line.start, line.end)),
        }
        let mut one = Records::default();
        one.add(record);
        let own = one.totals();
        totals.accounts += own.accounts;
        totals.balances = totals.balances.zip(own.balances).and_then(|(sum, own)| sum.checked_add(own));
    })?;
    io::copy(&mut file, &mut io::sink())?;
    let (genesis_sha256, genesis_bytes) = file.into_inner().finish();
    if end + GENESIS_TAIL_BYTES != genesis_bytes {
        return Err(IndexError::Stale("genesis does not end after its records"));
    }
    let mut shards = Vec::new();
    for (shard, lines) in lines.into_iter().enumerate() {
        let state = load_part(genesis, layout, (shard, &lines))?;
        shards.push(Part { state_root: state.root(), lines });
    }
    let (accounts, balances) = (totals.accounts, totals.balances);
    let balances = balances.ok_or(IndexError::Stale("the balances together do not fit 128 bits"))?;
    let schema = Schema::V1;
    let index = Index { schema, genesis_sha256, genesis_bytes, head_bytes, accounts, balances, shards };
    let path = path_of(genesis);
    fs::write(&path, serde_json::to_vec_pretty(&index)?)?;
    Ok(path)
}

/// The state of one shard, from its lines of genesis.
fn load_part(
    genesis: &Path,
    layout: &ShardLayout,
    (shard, lines): (usize, &[(u64, u64)]),
) -> Result<Arc<ShardState>, IndexError> {
    let mut file = open_file(genesis)?;
    let mut records = Records::default();
    let mut is_foreign = false;
    for (from, to) in lines {
        file.seek(SeekFrom::Start(*from))?;
        let part = (&mut file).take(to.saturating_sub(*from));
        let mut part = BufReader::with_capacity(BUFFER_BYTES, part);
        let end = read_record_lines(&mut part, *from, |record, _: Range<u64>| {
            is_foreign |= layout.index_of(record.account_id()) != shard;
            records.add(record);
        })?;
        if end != *to {
            return Err(IndexError::Stale("a part is not made of whole lines"));
        }
    }
    if is_foreign {
        return Err(IndexError::Stale("a part holds a record of another shard"));
    }
    let states = Genesis::states_of(layout, records.accounts, records.keys);
    states.into_iter().nth(shard).ok_or(IndexError::Stale("it has more shards than the layout"))
}

/// The index of a genesis and the genesis' config; none where there is no index. What can be checked without reading
/// records is checked.
pub(super) fn open(genesis: &Path) -> Result<Option<(Index, GenesisConfigFile)>, IndexError> {
    let file = match open_file(&path_of(genesis)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let index: Index = serde_json::from_reader(BufReader::new(file.take(INDEX_BYTES_MAX)))?;
    let ensure = |holds, fault| if holds { Ok(()) } else { Err(IndexError::Stale(fault)) };
    let is_sized = fs::metadata(genesis)?.len() == index.genesis_bytes;
    ensure(is_sized, "genesis has another length")?;
    ensure(digest(genesis)? == (index.genesis_sha256, index.genesis_bytes), "genesis has another hash")?;
    let mut head = BufReader::with_capacity(BUFFER_BYTES, open_file(genesis)?);
    let (config, head_bytes) = read_genesis_head(&mut head)?;
    ensure(head_bytes == index.head_bytes, "the records begin elsewhere")?;
    ensure(config.shard_layout.len() == index.shards.len(), "it has another number of shards")?;
    ensure(index.covers_all(), "its parts do not cover every record once")?;
    Ok(Some((index, config)))
}

impl Index {
    pub(super) fn totals(&self) -> Totals {
        Totals { accounts: self.accounts, balances: Some(self.balances) }
    }

    /// States of which only the roots are known, by shard index.
    pub(super) fn absent_states(&self) -> Vec<Arc<ShardState>> {
        self.shards.iter().map(|part| Genesis::absent_state(part.state_root)).collect()
    }

    fn covers_all(&self) -> bool {
        let mut lines: Vec<(u64, u64)> = self.shards.iter().flat_map(|part| part.lines.clone()).collect();
        lines.sort_unstable();
        let mut at = self.head_bytes;
        for (from, to) in lines {
            if from != at || to <= from {
                return false;
            }
            at = to;
        }
        at.checked_add(GENESIS_TAIL_BYTES) == Some(self.genesis_bytes)
    }

    /// Puts the states of the shards that are kept into `genesis`.
    pub(super) fn load(&self, path: &Path, genesis: &mut Genesis, kept: &[bool]) -> Result<(), IndexError> {
        for (shard, part) in self.shards.iter().enumerate().filter(|(shard, _)| kept[*shard]) {
            let state = load_part(path, &genesis.layout, (shard, &part.lines))?;
            if state.root() != part.state_root {
                return Err(IndexError::Stale("a shard's records do not come to the root that it says"));
            }
            genesis.states[shard] = state;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
