//! What the controller and an agent say to each other.

use std::{collections::BTreeMap, future::Future, net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tpsctl_model::{
    NodeName, ShardId,
    load::{InjectReport, InjectTick, LoadOrder},
};
use tpsctl_near::PublicKey;

use crate::AgentError;

/// Version of the interface; agents of another version are of no use.
pub const CONTRACT: u32 = 1;

/// Who an agent is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`CONTRACT`] as the agent was built.
    pub contract: u32,
    /// Its release.
    pub version: String,
}

/// A chunk producer that takes a shard's load. One of several shards is a target for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadTarget {
    /// The shard that it produces.
    pub shard: ShardId,
    /// Its name in the plan.
    pub producer: NodeName,
    /// The key of its peer-to-peer side (`node_key.json`).
    pub peer_id: PublicKey,
    /// Where its peer-to-peer side listens.
    pub p2p: SocketAddr,
    /// Where its JSON-RPC server listens.
    pub rpc: SocketAddr,
}

/// An agent that can be given orders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// Connections that stand, one for each shard of each producer.
    pub connections: u64,
    /// Accounts that it sends from.
    pub accounts: u64,
    /// The height whose range of nonces it uses (see [`tpsctl_workload::nonce`]).
    pub base_height: u64,
}

/// Something that takes load orders. [`prepare`](Self::prepare) first, then any number of
/// [`run`](Self::run)s, then [`close`](Self::close).
pub trait LoadAgent {
    /// Who it is.
    fn hello(&self) -> impl Future<Output = Result<Hello, AgentError>> + Send;

    /// Makes signers and connections: one target for each producer in the plan. Ends an earlier preparation.
    ///
    /// Fails when a producer has no target, is on another chain, refuses the connection, or when the chain does not advance.
    fn prepare(
        &mut self,
        targets: Vec<LoadTarget>,
    ) -> impl Future<Output = Result<Prepared, AgentError>> + Send;

    /// Runs one order from its start to its end, or until `cancel`; then the report covers what had fallen due.
    ///
    /// `ticks` gets live counts a few times a second; those that find no room are left out. Fails when not prepared,
    /// when the order lies in the past, and when the agent's own parts fail: then there is no report to trust.
    fn run(
        &mut self,
        order: LoadOrder,
        ticks: mpsc::Sender<InjectTick>,
        cancel: CancellationToken,
    ) -> impl Future<Output = Result<InjectReport, AgentError>> + Send;

    /// What the report of the last [`run`](Self::run) could not know: of its sent transfers, by the senders' shard, those
    /// on connections that broke after its end and before now, and that the node may not have read. Shards without are left out.
    ///
    /// To be asked for after the drain and added to the report's `on_broken_connection`, since a node that ends in
    /// the drain may take with it what it never read. Like that count, it bounds a loss and does not prove one. The next
    /// `run` starts it from nothing, and a break before that `run` is no part of its report. Fails when not prepared.
    fn broken_since(&self) -> impl Future<Output = Result<BTreeMap<ShardId, u64>, AgentError>> + Send;

    /// Waits until every producer's connection stands; at most for `deadline`.
    ///
    /// To be waited for when a node was started again: broken connections are made again by themselves, but attempts
    /// are up to 2 s apart and may take 5 s. An agent may know of a break only some milliseconds after it. Fails with
    /// the producer that is missing, and when not prepared.
    fn all_connected(&self, deadline: Duration) -> impl Future<Output = Result<(), AgentError>> + Send;

    /// Closes all connections and ends all tasks.
    fn close(&mut self) -> impl Future<Output = ()> + Send;
}
