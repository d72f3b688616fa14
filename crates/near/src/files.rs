//! The files of a node's home directory: genesis, epoch config, node config and key files.
//!
//! neard strips comments before it parses JSON, ignores keys that it does not know, and writes balances as decimal
//! strings, gas as numbers, ratios as `[numerator, denominator]` and durations as `{"secs", "nanos"}` (serde's own form
//! of [`std::time::Duration`]). These types do likewise. Nothing here opens a file: text or readers in, values out.

mod comments;
mod epoch;
mod genesis;
mod genesis_lines;
mod key;
mod node;
mod number;
mod record;

use std::io;

use serde::de::DeserializeOwned;

pub use comments::StripComments;
pub use epoch::EpochConfigFile;
pub use genesis::{GenesisConfigFile, GenesisFile, ValidatorFile, read_genesis, write_genesis};
pub use genesis_lines::{GENESIS_TAIL_BYTES, read_genesis_head, read_record_lines};
pub use key::KeyFile;
pub use node::{
    ConsensusFile, DEFAULT_POOL_SIZE_LIMIT_BYTES, NetworkFile, NodeConfigFile, PeerAddr, PeerAddrError,
    PollingFile, RequestLimitsFile, RpcFile, TrackedShardsFile,
};
pub use number::{Ratio, RatioError, decimal};
pub use record::{AccessKeyFile, AccountFile, AccountVersion, Permission, StateRecord};

/// A file's text could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The JSON is not that of the file.
    #[error("parse {what}")]
    Parse {
        /// Which file.
        what: &'static str,
        /// What is wrong, with line and column.
        #[source]
        source: serde_json::Error,
    },
    /// The bytes could not be written.
    #[error("write {what}")]
    Write {
        /// Which file.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Genesis names a time that is not RFC 3339 in UTC.
    #[error("read genesis_time `{0}` as a time such as `2026-01-01T00:00:00Z`")]
    Time(String),
}

/// Reads any of the files from its text; `what` names it in the error.
pub fn from_text<T: DeserializeOwned>(what: &'static str, text: &[u8]) -> Result<T, FileError> {
    serde_json::from_reader(io::BufReader::new(StripComments::new(text)))
        .map_err(|source| FileError::Parse { what, source })
}

/// The text of any of the files, as neard lays it out: two spaces of indentation, a line end at the end.
pub fn to_text<T: serde::Serialize>(what: &'static str, file: &T) -> Result<String, FileError> {
    let mut text = serde_json::to_string_pretty(file)
        .map_err(|source| FileError::Write { what, source: source.into() })?;
    text.push('\n');
    Ok(text)
}
