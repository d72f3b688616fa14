//! A network that runs: where its nodes are.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};
use tpsctl_model::{NodeName, plan::NodeRole};
use tpsctl_near::PublicKey;

/// The version of the deployment's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeploymentSchema {
    /// The first.
    #[serde(rename = "tpsctl.deployment/1")]
    V1,
}

/// The nodes of a network, in plan order. Written as `deployment.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    /// Which format this is.
    pub schema: DeploymentSchema,
    /// NEAR's chain id.
    pub chain_id: String,
    /// The nodes.
    pub nodes: Vec<DeployedNode>,
}

/// One node that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeployedNode {
    /// Its name.
    pub name: NodeName,
    /// What it does.
    pub role: NodeRole,
    /// Where it listens for peers.
    pub p2p: SocketAddr,
    /// Where it answers JSON-RPC and metrics.
    pub rpc: SocketAddr,
    /// Its process.
    pub pid: u32,
    /// Its network key: the peer id that a handshake names.
    pub public_key: PublicKey,
    /// Its home directory.
    pub home: PathBuf,
    /// Its output.
    pub log: PathBuf,
}

impl Deployment {
    /// The node of this name.
    pub fn node(&self, name: &NodeName) -> Option<&DeployedNode> {
        self.nodes.iter().find(|node| node.name == *name)
    }
}
