//! genesis.json as [`super::write_genesis`] lays it out: the config, then one record a line. Whoever knows where a record
//! stands can read it without the others.

use std::{
    io::{self, BufRead, Read},
    ops::Range,
};

use super::{FileError, GenesisConfigFile, StateRecord, genesis::WHAT, read_genesis};
use crate::AccountId;

/// The line after which the records stand.
const RECORDS_LINE: &[u8] = b"  \"records\": [\n";
/// What stands after the records.
const TAIL: &[u8] = b"  ]\n}\n";
/// A config is some kilobytes, and some hundred bytes for each validator and each shard.
const HEAD_BYTES_MAX: u64 = 64 * 1024 * 1024;

impl StateRecord {
    /// Whose it is.
    pub fn account_id(&self) -> &AccountId {
        match self {
            Self::Account { account_id, .. } | Self::AccessKey { account_id, .. } => account_id,
        }
    }
}

fn fault(text: &str) -> FileError {
    FileError::Parse { what: WHAT, source: serde::de::Error::custom(text) }
}

fn io_fault(error: &io::Error) -> FileError {
    fault(&error.to_string())
}

/// Reads the config and stops where the records begin; says where that is. Fails where the file is laid out in another
/// way.
pub fn read_genesis_head(reader: &mut impl BufRead) -> Result<(GenesisConfigFile, u64), FileError> {
    let mut head = Vec::new();
    let mut reader = reader.take(HEAD_BYTES_MAX);
    loop {
        let from = head.len();
        if reader.read_until(b'\n', &mut head).map_err(|error| io_fault(&error))? == 0 {
            return Err(fault("it has no line `\"records\": [`"));
        }
        if &head[from..] == RECORDS_LINE {
            break;
        }
    }
    let bytes = head.len() as u64;
    head.extend_from_slice(TAIL);
    Ok((read_genesis(head.as_slice(), drop)?, bytes))
}

/// Reads records that stand one a line, with the bytes that each line takes counted from `from`. Ends with the source, or
/// with the line after the last record, which is not a record's.
pub fn read_record_lines(
    reader: &mut impl BufRead,
    from: u64,
    mut on_record: impl FnMut(StateRecord, Range<u64>),
) -> Result<u64, FileError> {
    let (mut line, mut at) = (Vec::new(), from);
    loop {
        line.clear();
        let len = reader.read_until(b'\n', &mut line).map_err(|error| io_fault(&error))? as u64;
        if len == 0 || TAIL.starts_with(&line) {
            return Ok(at);
        }
        let text = line.strip_suffix(b"\n").ok_or_else(|| fault("a record's line has no end"))?;
        let text = text.strip_suffix(b",").unwrap_or(text);
        let record =
            serde_json::from_slice(text).map_err(|source| FileError::Parse { what: WHAT, source })?;
        on_record(record, at..at + len);
        at += len;
    }
}

/// Bytes that stand after the records.
pub const GENESIS_TAIL_BYTES: u64 = TAIL.len() as u64;
