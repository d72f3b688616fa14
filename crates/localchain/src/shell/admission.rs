//! The way of a transaction from a socket into a pool: decoded and checked on a blocking thread, then handed to the
//! core, or forwarded to a producer of its shard. Whoever brought it waits, so load is held back by TCP alone.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::{Semaphore, watch};
use tpsctl_near::{AccountId, SignedTransaction};

use super::{driver::Inputs, metrics::Metrics, peers::Peers};
use crate::core::{Admitted, InvalidTx, Message, Received, VerifiedTransaction, View, admit};

/// Batches checked at once; blocks need the other threads.
const THREADS: usize = 2;

#[derive(Debug)]
pub(super) struct Admission {
    view: watch::Receiver<Arc<View>>,
    inputs: Inputs,
    peers: Arc<Peers>,
    metrics: Arc<Metrics>,
    threads: Semaphore,
}

/// Bytes of transactions forwarded in one message; a node takes no long frames from one that is not a validator's.
const FORWARD_BYTES_MAX: usize = 512 * 1024;

/// Whether transactions for other nodes' pools are passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forwarding {
    Allowed,
    /// They were forwarded already.
    Done,
}

/// Where one admitted transaction went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// Into a pool here.
    Pool,
    /// To a producer of its shard, if one is connected.
    Forwarded,
    /// Nowhere: it is not for this node and was forwarded already.
    Dropped,
}

impl Admission {
    pub(super) fn new(
        view: watch::Receiver<Arc<View>>,
        inputs: Inputs,
        peers: Arc<Peers>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { view, inputs, peers, metrics, threads: Semaphore::new(THREADS) }
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Admits a batch of encoded transactions; garbage and what is invalid is dropped in silence, as neard does.
    pub(super) async fn admit_encoded(&self, batch: Vec<Vec<u8>>, forwarding: Forwarding) {
        let view = Arc::clone(&self.view.borrow());
        let Ok(permit) = self.threads.acquire().await else { return };
        let check = move || {
            let received = batch.into_iter().filter_map(Received::read).collect();
            admit(received, &view)
        };
        let Ok(admitted) = tokio::task::spawn_blocking(check).await else { return };
        drop(permit);
        self.route(admitted.into_iter().filter_map(Result::ok).collect(), forwarding).await;
    }

    /// Admits one transaction and says where it went, or why not.
    pub(super) async fn admit_one(&self, transaction: SignedTransaction) -> Result<Route, InvalidTx> {
        let admitted = self.check_one(transaction)?;
        let routes = self.route(vec![admitted], Forwarding::Allowed).await;
        Ok(routes.into_iter().next().unwrap_or(Route::Dropped))
    }

    /// Checks one transaction: one signature, so no thread is needed.
    pub(super) fn check_one(&self, transaction: SignedTransaction) -> Admitted {
        let view = Arc::clone(&self.view.borrow());
        admit(vec![Received::of_signed(transaction)], &view).pop().unwrap_or(Err(InvalidTx::Expired))
    }

    /// Transactions that no producer takes are lost, as they are in neard.
    fn forward(&self, to: &[AccountId], transactions: Vec<Vec<u8>>) {
        let count = transactions.len() as u64;
        if !self.peers.send_to_one(to, &Message::Transactions(transactions).frame().into()) {
            tracing::debug!(count, "dropped transactions: no producer of their shard is connected");
            self.metrics.not_forwarded(count);
        }
    }

    async fn route(&self, admitted: Vec<Arc<VerifiedTransaction>>, forwarding: Forwarding) -> Vec<Route> {
        let view = Arc::clone(&self.view.borrow());
        let mut own = Vec::with_capacity(admitted.len());
        let mut others: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
        let mut routes = Vec::with_capacity(admitted.len());
        for transaction in admitted {
            let shard = view.shard_of(&transaction.signed().transaction.signer_id);
            if view.produces[shard] {
                routes.push(Route::Pool);
                own.push(transaction);
                continue;
            }
            if view.head.states[shard].is_some() {
                self.metrics.not_for_pool(forwarding == Forwarding::Done);
            }
            if forwarding == Forwarding::Allowed {
                routes.push(Route::Forwarded);
                others.entry(shard).or_default().push(transaction.bytes().to_vec());
            } else {
                routes.push(Route::Dropped);
            }
        }
        for (shard, transactions) in others {
            let to = &view.next_producers[shard];
            let mut part: Vec<Vec<u8>> = Vec::new();
            let mut bytes = 0;
            for transaction in transactions {
                if bytes + transaction.len() > FORWARD_BYTES_MAX && !part.is_empty() {
                    self.forward(to, std::mem::take(&mut part));
                    bytes = 0;
                }
                bytes += transaction.len();
                part.push(transaction);
            }
            self.forward(to, part);
        }
        if !own.is_empty() {
            // The core ends only when the node does.
            drop(self.inputs.transactions.send(own).await);
        }
        routes
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::sync::mpsc;
    use tpsctl_near::{Action, KeyPair, Transaction};

    use super::*;
    use crate::{
        core::Node,
        shell::{
            home::Home,
            peers::tests::{connect, peers},
        },
    };

    fn inputs() -> Inputs {
        Inputs { events: mpsc::channel(1).0, transactions: mpsc::channel(1).0, queries: mpsc::channel(1).0 }
    }

    #[tokio::test]
    async fn what_no_producer_of_its_shard_takes_is_counted() {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/neard/home/node0");
        let settings = Home::read(&home).expect("the fixture's home").settings;
        let metrics = Arc::new(Metrics::new(&settings.genesis));
        let view = Arc::clone(Node::new(settings).view());
        let ids = ["000", "zzz"].map(|text| text.parse::<AccountId>().expect("id"));
        let signer_id =
            ids.into_iter().find(|id| !view.produces[view.shard_of(id)]).expect("one of two shards");
        let producers = view.next_producers[view.shard_of(&signer_id)].clone();
        let key = KeyPair::from_seed([7; 32]);
        let transaction = Transaction {
            receiver_id: signer_id.clone(),
            signer_id,
            public_key: key.public(),
            nonce: 1,
            block_hash: view.head.block.hash(),
            actions: vec![Action::Transfer { deposit: 1 }],
        };
        let signed = transaction.sign(&key);
        let (peers, (_sender, receiver)) = (Arc::new(peers()), watch::channel(view));
        let admission = Admission::new(receiver, inputs(), Arc::clone(&peers), Arc::clone(&metrics));
        let dropped = || {
            let text = metrics.text().expect("text");
            let name = "near_dropped_message_by_type_and_reason_count{";
            text.lines().find(|line| line.starts_with(name)).map(str::to_owned)
        };
        let producer = producers.last().expect("somebody");
        let others: Vec<_> = (1..3).map(|number| connect(&peers, number, None)).collect();
        assert_eq!(admission.admit_one(signed.clone()).await, Ok(Route::Forwarded));
        let counted = dropped().expect("counted");
        assert!(counted.ends_with(" 1") && counted.contains("\"ForwardTx\""), "{counted}");
        let outgoing = connect(&peers, 3, Some(producer.as_str()));
        assert_eq!(admission.admit_one(signed).await, Ok(Route::Forwarded));
        assert_eq!(outgoing.waiting(), 1);
        assert_eq!(dropped(), Some(counted), "that one was not dropped");
        assert!(others.iter().all(|other| other.waiting() == 0));
    }
}
