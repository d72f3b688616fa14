//! The data that plans are laid over: what real nodes of a benchmark network started from.

use serde_json::Value;
use tpsctl_near::files::{EpochConfigFile, FileError, GenesisConfigFile, NodeConfigFile, from_text};

use crate::GenesisError;

const GENESIS: &str = include_str!("../../../genesis-templates/genesis.json");
const EPOCH_CONFIG: &str = include_str!("../../../genesis-templates/epoch_config.json");
const NODE_CONFIG: &str = include_str!("../../../genesis-templates/config.json");

fn file(source: FileError) -> GenesisError {
    GenesisError::File { source }
}

pub(crate) fn genesis() -> Result<GenesisConfigFile, GenesisError> {
    from_text("genesis-templates/genesis.json", GENESIS.as_bytes()).map_err(file)
}

pub(crate) fn epoch_config() -> Result<EpochConfigFile, GenesisError> {
    from_text("genesis-templates/epoch_config.json", EPOCH_CONFIG.as_bytes()).map_err(file)
}

/// The keys that are understood, and the whole file, which has many more.
pub(crate) fn node_config() -> Result<(NodeConfigFile, Value), GenesisError> {
    let read = |text: &str| from_text("genesis-templates/config.json", text.as_bytes()).map_err(file);
    let whole = from_text("genesis-templates/config.json", NODE_CONFIG.as_bytes()).map_err(file)?;
    Ok((read(NODE_CONFIG)?, whole))
}

/// Lays `part` over `whole`: objects key by key, everything else as it is.
pub(crate) fn overlay(whole: &mut Value, part: Value) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (key, value) in part {
                overlay(whole.entry(key).or_insert(Value::Null), value);
            }
        }
        (whole, part) => *whole = part,
    }
}
