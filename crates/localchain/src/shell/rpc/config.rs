//! `genesis_config` and `EXPERIMENTAL_protocol_config`: what the home directory says, and the fees and limits of the
//! protocol version (chain/chain/src/runtime/mod.rs:1577-1615, core/parameters).

use std::{io::BufReader, time::UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};
use tpsctl_near::files::{EpochConfigFile, GenesisConfigFile, read_genesis};

use super::{
    Answer, Rpc,
    error::{Asker, RpcError},
    params::Reference,
};
use crate::shell::{file::open_file, home::read_epoch_config};

/// The runtime config of protocol version 86 as neard shows it on `benchmarknet`, where its limits are lifted.
const UNLIMITED: &str = include_str!("runtime_config.json");
/// What differs on all other chains.
const LIMITS: &str = include_str!("runtime_limits.json");

/// Files of the home directory that are read only when somebody asks for what they say.
#[derive(Debug)]
pub(super) struct ChainFiles {
    pub(super) genesis: GenesisConfigFile,
    epoch: Option<EpochConfigFile>,
}

fn internal(error: impl std::error::Error) -> RpcError {
    RpcError::Internal(error.to_string())
}

fn lay_over(whole: &mut Value, part: Value) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (key, value) in part {
                lay_over(whole.entry(key).or_insert(Value::Null), value);
            }
        }
        (whole, part) => *whole = part,
    }
}

fn value(own: &impl Serialize) -> Answer {
    serde_json::to_value(own).map_err(internal)
}

impl Rpc {
    pub(super) async fn files(&self) -> Result<&ChainFiles, RpcError> {
        let read = || async {
            let (home, path) = (self.home.folder.clone(), self.home.genesis_path.clone());
            let read = move || -> Result<ChainFiles, RpcError> {
                let file = BufReader::new(open_file(&path).map_err(internal)?);
                let genesis = read_genesis(file, |_| {}).map_err(internal)?;
                let epoch = read_epoch_config(&home, genesis.protocol_version).map_err(internal)?;
                Ok(ChainFiles { genesis, epoch })
            };
            tokio::task::spawn_blocking(read).await.map_err(internal)?
        };
        self.files.get_or_try_init(read).await
    }

    /// genesis.json without its records.
    pub(super) async fn genesis_config(&self) -> Answer {
        let mut config = value(&self.files().await?.genesis)?;
        config["genesis_time"] = json!(self.genesis_time());
        Ok(config)
    }

    fn genesis_time(&self) -> String {
        let since = std::time::Duration::from_nanos(self.home.settings.genesis.time_unix_ns);
        humantime::format_rfc3339(UNIX_EPOCH + since).to_string()
    }

    /// The same for every block, but the block must be known.
    pub(super) async fn protocol_config(&self, reference: Reference) -> Answer {
        self.known_block(reference, Asker::ProtocolConfig).await?;
        let ChainFiles { genesis, epoch } = self.files().await?;
        let mut config = value(genesis)?;
        for key in [
            "chunk_producer_assignment_changes_limit",
            "num_chunk_producer_seats",
            "num_chunk_validator_seats",
            "total_supply",
            "use_production_config",
            "validators",
        ] {
            config.as_object_mut().and_then(|config| config.remove(key));
        }
        config["genesis_time"] = json!(self.genesis_time());
        if let Some(epoch) = epoch {
            overlay_epoch(&mut config, &value(epoch)?);
        }
        config["runtime_config"] = self.runtime_config()?;
        Ok(config)
    }

    fn runtime_config(&self) -> Answer {
        let mut config: Value = serde_json::from_str(UNLIMITED).map_err(internal)?;
        if !self.home.settings.genesis.is_unlimited() {
            lay_over(&mut config, serde_json::from_str(LIMITS).map_err(internal)?);
        }
        Ok(config)
    }
}

/// The epoch config has the word for what both it and genesis say; genesis for the epoch's length.
fn overlay_epoch(config: &mut Value, epoch: &Value) {
    let Some(config) = config.as_object_mut() else { return };
    for (key, own) in config.iter_mut().filter(|(key, _)| *key != "epoch_length") {
        let name = if key == "max_kickout_stake_perc" { "validator_max_kickout_stake_perc" } else { key };
        if let Some(theirs) = epoch.get(name) {
            own.clone_from(theirs);
        }
    }
}
