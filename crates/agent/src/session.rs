//! From a preparation to its end: connections, links, the recent block, and the load's place in its streams.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tpsctl_model::{Millis, NodeName, plan::RunPlan};
use tpsctl_rpc::{Client, PeerTarget, RpcError, jsonrpc::StatusView};
use tpsctl_workload::{Keyring, NonceRange};

use crate::{
    AgentError, LoadTarget, Prepared,
    generator::{ShardLoad, catch_up, shard_loads},
    head::{self, Head},
    link::{Link, LinkState},
    outlet::{Outlet, outlet},
    peer::PeerDial,
    tally::Live,
};

/// A node that is well completes a handshake in milliseconds; neard itself gives one up after 20 s.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// Time for one RPC call. Short, because it is made again, or another producer is asked.
const CALL_DEADLINE: Duration = Duration::from_secs(2);

/// Pause between looks at the height.
const HEIGHT_POLL: Duration = Duration::from_millis(50);

/// Pause between looks at the links.
const CONNECTED_POLL: Duration = Duration::from_millis(20);

/// What stands between [`Session::open`] and [`Session::close`].
pub(crate) struct Session {
    /// One task a link, and one for the recent block. Ended by [`Self::close`], or aborted when dropped.
    tasks: JoinSet<()>,
    cancel: CancellationToken,
    pub(crate) heads: watch::Receiver<Head>,
    pub(crate) flush_until: watch::Sender<Option<Instant>>,
    pub(crate) live: Arc<Live>,
    pub(crate) nonces: NonceRange,
    /// Lent to the generator while a load runs; gone for good when a load was given up half-way.
    pub(crate) loads: Option<Vec<ShardLoad>>,
}

/// A producer that answered.
struct Producer {
    /// The shard's index.
    shard: usize,
    target: LoadTarget,
    client: Client,
    dial: PeerDial,
}

impl Session {
    pub(crate) async fn open(
        plan: &Arc<RunPlan>,
        keyring: &Arc<Keyring>,
        targets: &[LoadTarget],
    ) -> Result<(Self, Prepared), AgentError> {
        let producers = reach(plan, keyring, in_plan_order(plan, targets)?).await?;
        let base_height = pass_head(&producers, plan.node.ready_timeout_ms).await?;
        let clients: Vec<Client> = producers.iter().map(|producer| producer.client.clone()).collect();
        let (head, _) = head::read(&clients, 0).await.map_err(|error| status_error(&producers[0], error))?;
        let (head_in, heads) = watch::channel(head);
        let (flush_until, flush_out) = watch::channel(None);
        let (live, cancel) = (Arc::new(Live::default()), CancellationToken::new());

        let mut tasks = JoinSet::new();
        let connections = producers.len() as u64;
        let mut outlets: Vec<Vec<Outlet>> = plan.chain.shard_ids.iter().map(|_| Vec::new()).collect();
        for Producer { shard, target, dial, .. } in producers {
            let first = dial.connect().await.map_err(|source| AgentError::Connect {
                producer: target.producer.clone(),
                source: Box::new(source),
            })?;
            let (outlet, queue, gate) = outlet(target.producer.clone());
            // Before the link's task runs: an order may come at once.
            gate.set_connected(true);
            let link = Link {
                producer: target.producer,
                dial: Arc::new(dial),
                queue,
                gate,
                live: Arc::clone(&live),
                flush_until: flush_out.clone(),
                state: LinkState::new(catch_up(plan)),
            };
            tasks.spawn(link.run(first));
            outlets[shard].push(outlet);
        }
        tasks.spawn(head::follow(clients, head_in, cancel.clone()));

        let loads = make_loads(plan, keyring, outlets).await?;
        let accounts = keyring.shards().iter().map(|keys| keys.len() as u64).sum();
        let nonces = NonceRange::starting_at(base_height);
        let session = Self { tasks, cancel, heads, flush_until, live, nonces, loads: Some(loads) };
        Ok((session, Prepared { connections, accounts, base_height }))
    }

    /// The outlets by the index of their shard; none while a load runs.
    pub(crate) fn outlets(&self) -> Option<impl Iterator<Item = (usize, &Outlet)>> {
        let loads = self.loads.as_ref()?;
        let of_shard = |(shard, load)| {
            let load: &ShardLoad = load;
            load.lanes.iter().map(move |lane| (shard, &lane.outlet))
        };
        Some(loads.iter().enumerate().flat_map(of_shard))
    }

    /// Waits until all links are connected, or until `until`: then the producer of one that is not.
    pub(crate) async fn all_connected(&self, until: Instant) -> Result<(), NodeName> {
        loop {
            let missing = self.outlets().into_iter().flatten().find(|(_, outlet)| !outlet.is_connected());
            let Some((_, outlet)) = missing else { return Ok(()) };
            if Instant::now() >= until {
                return Err(outlet.producer.clone());
            }
            sleep(CONNECTED_POLL).await;
        }
    }

    /// Ends all tasks and waits for them.
    pub(crate) async fn close(mut self) {
        self.cancel.cancel();
        // Writes that wait for a node give up, and then see that their queue has ended.
        self.flush_until.send_replace(Some(Instant::now()));
        drop(self.loads.take());
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::warn!(%error, "a link had ended by itself");
            }
        }
    }
}

/// The index of each producer's shard and its target, in plan order.
fn in_plan_order<'a>(
    plan: &RunPlan,
    targets: &'a [LoadTarget],
) -> Result<Vec<(usize, &'a LoadTarget)>, AgentError> {
    let mut ordered = Vec::with_capacity(targets.len());
    for (index, shard) in plan.chain.shard_ids.iter().enumerate() {
        for producer in plan.producers_of(*shard) {
            let target = targets
                .iter()
                .find(|target| target.shard == *shard && target.producer == *producer)
                .ok_or_else(|| AgentError::NoTarget { shard: *shard, producer: producer.clone() })?;
            ordered.push((index, target));
        }
    }
    Ok(ordered)
}

async fn reach(
    plan: &RunPlan,
    keyring: &Keyring,
    targets: Vec<(usize, &LoadTarget)>,
) -> Result<Vec<Producer>, AgentError> {
    let mut producers = Vec::with_capacity(targets.len());
    let until = Instant::now() + plan.node.ready_timeout_ms.as_duration();
    for (shard, target) in targets {
        let failed =
            |source| AgentError::Status { producer: target.producer.clone(), source: Box::new(source) };
        let client = Client::new(target.rpc).map_err(failed)?.with_deadline(CALL_DEADLINE);
        let status = status_by(&client, until).await.map_err(failed)?;
        if status.chain_id != keyring.chain().id() {
            return Err(AgentError::OtherChain {
                producer: target.producer.clone(),
                chain_id: status.chain_id,
                expected: keyring.chain().id().to_owned(),
            });
        }
        // The key is the one that was given, not the one that the node tells: so another node at this address refuses.
        let peer = PeerTarget { peer_id: target.peer_id, ..status.peer_target(target.p2p) };
        let dial = PeerDial {
            producer: target.producer.clone(),
            shard: target.shard,
            target: peer,
            seed: plan.seed,
            deadline: CONNECT_DEADLINE,
        };
        producers.push(Producer { shard, target: target.clone(), client, dial });
    }
    Ok(producers)
}

/// The node's state, asked again until it answers or the time is over: a host that is busy makes a node slow.
async fn status_by(client: &Client, until: Instant) -> Result<StatusView, RpcError> {
    loop {
        match client.status().await {
            Err(error) if Instant::now() < until => {
                tracing::debug!(%error, "no state yet");
                sleep(HEIGHT_POLL).await;
            }
            answered => return answered,
        }
    }
}

/// The height above all that any of `producers` knew at first, once each of them has reached it: no load that ended
/// before can have used a nonce of its range (see [`tpsctl_workload::nonce`]).
async fn pass_head(producers: &[Producer], deadline: Millis) -> Result<u64, AgentError> {
    let until = Instant::now() + deadline.as_duration();
    let wanted = producers.iter().map(|producer| producer.dial.target.height).max().unwrap_or(0) + 1;
    for producer in producers {
        loop {
            let status =
                status_by(&producer.client, until).await.map_err(|error| status_error(producer, error))?;
            let height = status.sync_info.latest_block_height;
            if height >= wanted {
                break;
            }
            if Instant::now() >= until {
                return Err(AgentError::HeadStalled {
                    producer: producer.target.producer.clone(),
                    height,
                    wanted,
                    deadline_ms: deadline.0,
                });
            }
            sleep(HEIGHT_POLL).await;
        }
    }
    Ok(wanted)
}

fn status_error(producer: &Producer, source: RpcError) -> AgentError {
    AgentError::Status { producer: producer.target.producer.clone(), source: Box::new(source) }
}

/// Makes the signers away from the tasks: seconds of work for large keyrings that sign in the ordinary way.
async fn make_loads(
    plan: &Arc<RunPlan>,
    keyring: &Arc<Keyring>,
    outlets: Vec<Vec<Outlet>>,
) -> Result<Vec<ShardLoad>, AgentError> {
    let (plan, keyring) = (Arc::clone(plan), Arc::clone(keyring));
    tokio::task::spawn_blocking(move || shard_loads(&plan, &keyring, outlets))
        .await
        .map_err(|source| AgentError::Task { part: "preparation", source })?
        .map_err(|source| AgentError::Workload { source })
}
