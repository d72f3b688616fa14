//! JSON-RPC without sockets, on a node that stays at genesis: for tests that throw bodies at it.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::{
    runtime::Runtime,
    sync::{mpsc, watch},
};
use tokio_util::sync::CancellationToken;

use super::{
    NodeError,
    admission::Admission,
    driver::{Inputs, Query},
    home::Home,
    metrics::Metrics,
    peers::Peers,
    rpc::{Parts, ReplyBody, Rpc},
};
use crate::core::{Event, Node, Now, VerifiedTransaction};

/// Inputs that wait to be taken; they are taken as they come.
const WAITING_MAX: usize = 16;

/// A node at genesis that answers JSON-RPC bodies. No time passes for it: what it would wait for times out at once.
#[derive(Debug)]
pub struct OfflineRpc {
    runtime: Runtime,
    rpc: Rpc,
    node: Node,
    events: mpsc::Receiver<Event>,
    transactions: mpsc::Receiver<Vec<Arc<VerifiedTransaction>>>,
    queries: mpsc::Receiver<Query>,
    /// Keeps the node's picture of the chain there.
    _view: watch::Sender<Arc<crate::core::View>>,
}

impl OfflineRpc {
    /// A node of this home directory. No port is opened and nothing is written.
    pub fn new(home: &Path) -> Result<Self, NodeError> {
        let mut home = Home::read(home)?;
        home.rpc.polling_config.polling_timeout = Duration::ZERO;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(NodeError::ReadHome)?;
        let node = Node::new(home.settings.clone());
        let (view_sender, view) = watch::channel(Arc::clone(node.view()));
        let (events_in, events) = mpsc::channel(WAITING_MAX);
        let (transactions_in, transactions) = mpsc::channel(WAITING_MAX);
        let (queries_in, queries) = mpsc::channel(WAITING_MAX);
        let inputs = Inputs { events: events_in, transactions: transactions_in, queries: queries_in };
        let metrics = Arc::new(Metrics::new(&home.settings.genesis));
        let peers = Arc::new(Peers::new(Arc::clone(&metrics)));
        let admission = Arc::new(Admission::new(view.clone(), inputs.clone(), Arc::clone(&peers), metrics));
        let assignment = node.assignment().clone();
        let parts = Parts { view, inputs, admission, peers, assignment };
        let rpc = runtime.block_on(async { Rpc::new(&home, parts, CancellationToken::new()) });
        Ok(Self { runtime, rpc, node, events, transactions, queries, _view: view_sender })
    }

    /// HTTP status and body for the body of a POST.
    pub fn answer(&mut self, body: &[u8]) -> (u16, String) {
        let Self { runtime, rpc, node, events, transactions, queries, .. } = self;
        let now = Now { elapsed: Duration::ZERO, unix_ns: node.genesis_block().header.timestamp_ns };
        let reply = runtime.block_on(async {
            let answer = rpc.answer(body);
            tokio::pin!(answer);
            loop {
                let event = tokio::select! {
                    biased;
                    reply = &mut answer => break reply,
                    Some(query) = queries.recv() => {
                        query.answer(node);
                        continue;
                    }
                    Some(event) = events.recv() => event,
                    Some(transactions) = transactions.recv() => Event::Transactions(transactions),
                };
                // What the node would do is left undone: it stays at genesis.
                drop(node.handle(event, now));
            }
        });
        let body = match reply.body {
            ReplyBody::Json(value) => value.to_string(),
            ReplyBody::Text(text) => text,
        };
        (reply.status, body)
    }
}
