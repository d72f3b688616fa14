use tpsctl_model::{NodeName, ShardId};
use tpsctl_rpc::{P2pError, RpcError};
use tpsctl_workload::WorkloadError;

/// An agent could not take load to the network, through no fault that a count could carry.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The plan's load cannot be made.
    #[error("make the load of the plan")]
    Workload {
        /// Why.
        #[source]
        source: WorkloadError,
    },
    /// A producer has no address.
    #[error("load shard {shard}: no address was given for its producer {producer}")]
    NoTarget {
        /// The shard.
        shard: ShardId,
        /// The producer.
        producer: NodeName,
    },
    /// A producer does not answer.
    #[error("read the state of producer {producer}")]
    Status {
        /// Which.
        producer: NodeName,
        /// Why.
        #[source]
        source: Box<RpcError>,
    },
    /// A producer is not on the chain that the keys were made for.
    #[error("load producer {producer}: it is on chain `{chain_id}`, the keys are for `{expected}`")]
    OtherChain {
        /// Which.
        producer: NodeName,
        /// Its chain.
        chain_id: String,
        /// The plan's chain.
        expected: String,
    },
    /// The chain does not advance.
    #[error(
        "begin above the nonces of earlier loads: producer {producer} stayed at height {height}, below {wanted}, for {deadline_ms} ms"
    )]
    HeadStalled {
        /// Which producer is behind.
        producer: NodeName,
        /// Its height.
        height: u64,
        /// The height that it should have reached.
        wanted: u64,
        /// The time allowed.
        deadline_ms: u64,
    },
    /// A producer takes no connection.
    #[error("connect to producer {producer}")]
    Connect {
        /// Which.
        producer: NodeName,
        /// Why.
        #[source]
        source: Box<P2pError>,
    },
    /// A connection that broke was not made again in time.
    #[error("see producer {producer} connected again within {deadline_ms} ms")]
    NotReconnected {
        /// The first in plan order that is missing.
        producer: NodeName,
        /// The time allowed.
        deadline_ms: u64,
    },
    /// An order came before, or without, a preparation.
    #[error("run a load: the agent is not prepared")]
    NotPrepared,
    /// An order's start has passed.
    #[error("start a load that was ordered for {late_ms} ms ago")]
    StartInPast {
        /// How long ago.
        late_ms: u64,
    },
    /// A part of the agent ended by itself.
    #[error("run the agent's {part}")]
    Task {
        /// Which part.
        part: &'static str,
        /// How it ended.
        #[source]
        source: tokio::task::JoinError,
    },
    /// A link does not say what became of the transfers in its queue, so the counts cannot be trusted.
    #[error("account for the transfers that were given to the link of producer {producer}")]
    LinkLost {
        /// Which.
        producer: NodeName,
    },
}

impl AgentError {
    /// Whether the cause lies with a node, or with the network that was given, and not with the tool. A call that failed
    /// before it left this process is ours.
    pub fn is_node(&self) -> bool {
        match self {
            Self::Status { source, .. } => !matches!(**source, RpcError::Setup { .. }),
            Self::OtherChain { .. }
            | Self::HeadStalled { .. }
            | Self::Connect { .. }
            | Self::NotReconnected { .. } => true,
            Self::Workload { .. }
            | Self::NoTarget { .. }
            | Self::NotPrepared
            | Self::StartInPast { .. }
            | Self::Task { .. }
            | Self::LinkLost { .. } => false,
        }
    }
}
