//! What the node says of itself: `status`, `health`, `network_info`.

use std::time::Duration;

use serde_json::{Value, json};
use tpsctl_near::PROTOCOL_VERSION;

use super::{super::clock, Answer, Rpc, error::RpcError};
use crate::{core::Block, shell::json::state_root};

/// A node without a block for so many times `max_block_production_delay` is not healthy
/// (chain/client/src/client_actor.rs:802-814).
const PATIENCE_IN_DELAYS: u32 = 10;

fn rfc3339(block: &Block) -> String {
    let since = Duration::from_nanos(block.header.timestamp_ns);
    humantime::format_rfc3339_nanos(std::time::UNIX_EPOCH + since).to_string()
}

impl Rpc {
    /// The result of `status`.
    pub(in crate::shell) fn status(&self) -> Value {
        let view = self.view();
        let head = &view.head.block;
        let producers = self.assignment.validators().iter();
        let validators: Vec<Value> = producers.map(|own| json!({"account_id": own.account_id})).collect();
        let settings = &self.home.settings;
        let validator = settings.validator.as_ref().map(|(id, key)| (id, key.public()));
        let validator_key = validator.map(|(_, key)| key);
        json!({
            "version": {
                "version": "embedded",
                "build": env!("CARGO_PKG_VERSION"),
                "commit": "",
                "rustc_version": "",
            },
            "chain_id": settings.genesis.chain_id,
            "protocol_version": PROTOCOL_VERSION,
            "latest_protocol_version": PROTOCOL_VERSION,
            "rpc_addr": self.home.rpc_addr.map(|addr| addr.to_string()),
            "validators": validators,
            "sync_info": {
                "latest_block_hash": head.hash(),
                "latest_block_height": head.height(),
                "latest_state_root": state_root(head),
                "latest_block_time": rfc3339(head),
                "syncing": view.is_syncing,
                "earliest_block_hash": self.genesis.hash(),
                "earliest_block_height": self.genesis.height(),
                "earliest_block_time": rfc3339(&self.genesis),
                "epoch_id": head.header.epoch_id,
                "epoch_start_height": view.tally().start_height(),
            },
            "validator_account_id": validator.map(|(id, _)| id),
            "validator_public_key": validator_key,
            "node_public_key": self.home.node_key.public(),
            "node_key": validator_key,
            "uptime_sec": self.started.elapsed().as_secs(),
            "genesis_hash": self.genesis.hash(),
        })
    }

    /// Null, or what is wrong.
    pub(in crate::shell) fn health(&self) -> Answer {
        let view = self.view();
        let head = Duration::from_nanos(view.head.block.header.timestamp_ns);
        let elapsed = Duration::from_nanos(clock::unix_ns()).saturating_sub(head);
        let delay = self.home.settings.timing.max_block_production_delay;
        if elapsed > delay.saturating_mul(PATIENCE_IN_DELAYS) {
            return Err(RpcError::NoNewBlocks(elapsed.as_secs(), elapsed.subsec_nanos()));
        }
        if view.is_syncing { Err(RpcError::NodeIsSyncing) } else { Ok(Value::Null) }
    }

    /// The result of `network_info`. Known producers are those that this node is connected to, and itself.
    pub(in crate::shell) fn network_info(&self) -> Value {
        let peers = self.peers.list();
        let active: Vec<Value> = peers
            .iter()
            .map(|peer| json!({"account_id": null, "addr": peer.addr.to_string(), "id": peer.key}))
            .collect();
        let own = self.home.settings.validator.as_ref().map(|(id, _)| (id, self.home.node_key.public()));
        let others = peers.iter().filter_map(|peer| Some((peer.account.as_ref()?, peer.key)));
        let producers: Vec<Value> = own
            .into_iter()
            .chain(others)
            .map(|(account, key)| json!({"account_id": account, "addr": null, "peer_id": key}))
            .collect();
        let (received, sent) = self.peers.bytes_per_second();
        json!({
            "active_peers": active,
            "num_active_peers": active.len(),
            "peer_max_count": self.home.peers_max,
            "sent_bytes_per_sec": sent,
            "received_bytes_per_sec": received,
            "known_producers": producers,
        })
    }
}
