//! A plan to the files that a network starts from: genesis.json, epoch config, each node's config.json and keys, and
//! the load accounts' key files.
//!
//! Pure: the same plan gives the same bytes, and everything large is streamed to a writer, so memory does not grow with
//! the number of accounts beyond the keyring itself. What the plan does not say comes from `genesis-templates/`, whose
//! values a real neard started from.

mod accounts;
mod digest;
mod error;
mod genesis;
mod nodes;
mod template;

pub use accounts::account_files;
pub use digest::keys_fingerprint;
pub use error::GenesisError;
pub use genesis::{GenesisDigest, NODE_BALANCE, TREASURY_BALANCE, epoch_config, epoch_config_path, genesis};
pub use nodes::{NodeEndpoints, NodeKeys, node_config, node_keys};
