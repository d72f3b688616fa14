//! What each node has for itself: keys and config.json.

use core::net::SocketAddr;

use tpsctl_model::{
    NodeName, Seed,
    plan::{NodeBinary, NodeRole, RunPlan},
};
use tpsctl_near::{
    KeyPair, PublicKey,
    files::{FileError, NodeConfigFile, PeerAddr, Ratio, TrackedShardsFile, to_text},
};

use crate::{GenesisError, template};

/// Connections that a node takes beyond its fellow nodes: injectors, probes, people who look.
const GUEST_PEERS: u32 = 40;

/// Of these, those that are not the injector's, which has one for each shard that the node produces.
const OTHER_GUEST_PEERS: u32 = 20;

/// So many guests below the most, neard begins to drop peers by chance.
const GUEST_PEERS_SLACK: u32 = 5;

/// A node's keys.
#[derive(Debug, Clone)]
pub struct NodeKeys {
    /// The node.
    pub name: NodeName,
    /// Its staking key, where it validates.
    pub validator: Option<KeyPair>,
    /// Its key on the network.
    pub node: KeyPair,
}

/// Where a node listens and whom it meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEndpoints {
    /// Its peer-to-peer address.
    pub p2p: SocketAddr,
    /// Its RPC address.
    pub rpc: SocketAddr,
    /// All nodes' keys and addresses; its own entry is left out.
    pub boot_nodes: Vec<(PublicKey, SocketAddr)>,
}

fn key(seed: Seed, label: &str) -> KeyPair {
    KeyPair::from_seed(seed.derive(label))
}

pub(crate) fn treasury_key(seed: Seed) -> KeyPair {
    key(seed, "keys/treasury")
}

fn network_key(seed: Seed, name: &NodeName) -> KeyPair {
    key(seed, &format!("keys/node/{name}/network"))
}

/// The keys of all nodes, in the plan's order, from the plan's seed.
pub fn node_keys(plan: &RunPlan) -> Vec<NodeKeys> {
    let keys = |name: &NodeName, role: &NodeRole| NodeKeys {
        name: name.clone(),
        validator: role.stake().is_some().then(|| key(plan.seed, &format!("keys/node/{name}/validator"))),
        node: network_key(plan.seed, name),
    };
    plan.nodes.iter().map(|node| keys(&node.name, &node.role)).collect()
}

/// The text of `node`'s config.json.
pub fn node_config(
    plan: &RunPlan,
    node: &NodeName,
    endpoints: &NodeEndpoints,
) -> Result<String, GenesisError> {
    let role = plan.nodes.iter().find(|own| own.name == *node).map(|own| &own.role);
    let role = role.ok_or_else(|| GenesisError::UnknownNode(node.clone()))?;
    let (mut config, mut whole) = template::node_config()?;
    set_network(&mut config, plan, network_key(plan.seed, node).public(), endpoints);
    set_peers(&mut config, plan, role);
    set_consensus(&mut config, plan)?;
    if let Some(rpc) = &mut config.rpc {
        rpc.addr = endpoints.rpc;
    }
    config.tracked_shards_config = match role {
        NodeRole::Producer { .. } | NodeRole::ChunkValidator { .. } => TrackedShardsFile::NoShards,
        NodeRole::Rpc => TrackedShardsFile::AllShards,
    };
    config.transaction_pool_size_limit = Some(plan.chain.pool_size_limit_bytes.0);
    config.produce_chunk_add_transactions_time_limit = Some(plan.chain.prepare_time_limit_ms.as_duration());
    let what = "config.json";
    let file = |source| GenesisError::File { source };
    let part = serde_json::to_value(&config)
        .map_err(|source| file(FileError::Write { what, source: source.into() }))?;
    template::overlay(&mut whole, part);
    // The same text whether or not some other crate has serde_json keep the order of keys.
    whole.sort_all_objects();
    to_text(what, &whole).map_err(file)
}

fn set_network(config: &mut NodeConfigFile, plan: &RunPlan, own: PublicKey, endpoints: &NodeEndpoints) {
    let network = &mut config.network;
    network.addr = endpoints.p2p;
    network.public_addrs = vec![PeerAddr { id: own, addr: endpoints.p2p }];
    network.boot_nodes = endpoints
        .boot_nodes
        .iter()
        .filter(|(id, _)| *id != own)
        .map(|(id, addr)| PeerAddr { id: *id, addr: *addr })
        .collect();
    // Alone, a node would wait for peers for ever.
    network.skip_sync_wait = plan.producers().count() == 1;
}

/// Grows with the plan, so that no number of nodes is too large for every one to meet all others; unless the plan says
/// that they shall not.
fn set_peers(config: &mut NodeConfigFile, plan: &RunPlan, role: &NodeRole) {
    let fellows = u32::try_from(plan.nodes.len()).unwrap_or(u32::MAX).saturating_sub(1);
    let lanes = match role {
        NodeRole::Producer { shards, .. } => u32::try_from(shards.len()).unwrap_or(u32::MAX),
        NodeRole::ChunkValidator { .. } | NodeRole::Rpc => 0,
    };
    let guests = GUEST_PEERS.max(lanes.saturating_add(OTHER_GUEST_PEERS));
    let network = &mut config.network;
    let capped = plan.network.max_peers.filter(|most| *most < fellows);
    let peers = capped.unwrap_or(fellows);
    network.max_num_peers = peers.saturating_add(guests);
    network.ideal_connections_hi = network.max_num_peers.saturating_sub(GUEST_PEERS_SLACK);
    if let Some(most) = capped {
        network.ideal_connections_lo = network.ideal_connections_lo.min(most);
        if plan.node.binary == NodeBinary::Embedded {
            // It has places of their own for guests.
            network.max_num_peers = most;
            network.ideal_connections_hi = most;
        }
    }
}

fn set_consensus(config: &mut NodeConfigFile, plan: &RunPlan) -> Result<(), GenesisError> {
    let chain = &plan.chain;
    let (numerator, denominator) = chain.chunk_wait_mult;
    let consensus = &mut config.consensus;
    // As `neard localnet` does (nearcore/src/config.rs:1428-1487).
    let fellow_producers = plan.producers().count().saturating_sub(1);
    consensus.min_num_peers = u32::try_from(fellow_producers.min(3)).unwrap_or(3);
    consensus.min_block_production_delay = chain.block_time_min_ms.as_duration();
    consensus.max_block_production_delay = chain.block_time_max_ms.as_duration();
    consensus.max_block_wait_delay = chain.block_wait_max_ms.as_duration();
    consensus.chunk_wait_mult = Ratio::new(numerator, denominator).map_err(|source| GenesisError::Ratio {
        numerator,
        denominator,
        source,
    })?;
    Ok(())
}
