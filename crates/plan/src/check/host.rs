//! Checks of the host and the provider: whether they can carry the network.

use tpsctl_model::plan::{NodeBinary, NodeRole, RunPlan};

use super::{Look, look};
use crate::Capabilities;

/// Local nodes for each core from which on they mostly wait for each other.
const NODES_PER_CORE_MAX: usize = 4;
/// The limit of open files that neard sets at its start, and without which it does not start.
const NEARD_FILES: u64 = 65_535;
/// Connections of an embedded node beside its fellow nodes: guests, its HTTP server's, and files.
const NODE_FILES: u64 = 40 + 128 + 32;
/// Files and connections of the controller for each node, and beside the nodes.
const CONTROLLER_FILES: (u64, u64) = (8, 64);
/// Memory of one account in one embedded node, keys and state tree included, rounded up.
const ACCOUNT_BYTES: u64 = 2_000;

pub(super) fn provider_runs_the_nodes(plan: &RunPlan, capabilities: &Capabilities) -> Look {
    let nodes = plan.nodes.len();
    let sentence = format!("the provider `{}` cannot run that many nodes", capabilities.name);
    match capabilities.nodes_max {
        Some(most) => look(nodes <= most as usize, sentence, format!("{nodes} nodes, at most {most}")),
        None => look(true, sentence, format!("{nodes} nodes, as many as the host carries")),
    }
}

/// A node without descriptors refuses connections, and neard does not even start.
pub(super) fn files_can_be_opened(plan: &RunPlan, capabilities: &Capabilities) -> Look {
    let nodes = plan.nodes.len() as u64;
    let (needed, limit) = match plan.node.binary {
        NodeBinary::Neard(_) => (NEARD_FILES, capabilities.files_hard_max),
        NodeBinary::Embedded => {
            let peers = plan.network.max_peers.map_or(nodes, |most| u64::from(most).min(nodes));
            let (each, own) = CONTROLLER_FILES;
            ((peers + NODE_FILES).max(nodes.saturating_mul(each) + own), capabilities.files_max)
        }
    };
    let sentence = "a process may not open as many files as it needs: raise the limit with `ulimit -n` (for neard the hard \
                    limit, `ulimit -Hn`, as root)";
    let shown = if limit == 0 { "not known".to_owned() } else { limit.to_string() };
    look(limit == 0 || needed <= limit, sentence, format!("{needed} files a process, the limit is {shown}"))
}

pub(super) fn nodes_have_cores(plan: &RunPlan, capabilities: &Capabilities) -> Look {
    let (nodes, cores) = (plan.nodes.len(), capabilities.cores as usize);
    let sentence = "nodes and injector share cores, so the limit found is that of this host";
    look(cores == 0 || nodes <= cores, sentence, figure_of_cores(nodes, cores))
}

pub(super) fn cores_suffice(plan: &RunPlan, capabilities: &Capabilities) -> Look {
    let (nodes, cores) = (plan.nodes.len(), capabilities.cores as usize);
    let sentence =
        "the nodes share so few cores that the host is measured and not the chain: use fewer shards";
    look(cores == 0 || nodes <= cores * NODES_PER_CORE_MAX, sentence, figure_of_cores(nodes, cores))
}

fn figure_of_cores(nodes: usize, cores: usize) -> String {
    if cores == 0 {
        format!("{nodes} nodes on hosts of their own")
    } else {
        format!("{nodes} nodes on {cores} cores")
    }
}

/// Full pools of all producers fit into the host's memory.
pub(super) fn memory_holds_the_pools(plan: &RunPlan, capabilities: &Capabilities) -> Look {
    let pools = plan.chain.shard_ids.iter().map(|shard| plan.producers_of(*shard).count() as u64).sum();
    let needed = plan.chain.pool_size_limit_bytes.0.saturating_mul(pools);
    let sentence = "full pools do not fit into memory: lower `chain.pool_size_limit`";
    in_memory(needed, "pools", sentence, capabilities)
}

/// A producer keeps the accounts of its shards, an RPC node those of all.
pub(super) fn memory_holds_the_accounts(plan: &RunPlan, capabilities: &Capabilities) -> Look {
    let shards = |role: &NodeRole| match role {
        NodeRole::Producer { shards, .. } => shards.len() as u64,
        NodeRole::ChunkValidator { .. } => 0,
        NodeRole::Rpc => plan.chain.shard_ids.len() as u64,
    };
    let kept: u64 = plan.nodes.iter().map(|node| shards(&node.role)).sum();
    let needed = kept.saturating_mul(u64::from(plan.accounts.per_shard)).saturating_mul(ACCOUNT_BYTES);
    let sentence = "the accounts of all nodes may not fit into memory: lower `chain.accounts_per_shard`";
    in_memory(needed, "accounts", sentence, capabilities)
}

fn in_memory(needed: u64, of: &str, sentence: &'static str, capabilities: &Capabilities) -> Look {
    let memory = capabilities.memory_bytes;
    let figure = format!("{needed} bytes of {of}, {memory} bytes of memory");
    look(memory == 0 || needed <= memory, sentence, figure)
}
