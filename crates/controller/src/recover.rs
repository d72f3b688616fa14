//! Between two trials: what one trial broke is put right, and the network is idle, before the next one begins.

use std::time::Duration;

use tokio::time::Instant;
use tpsctl_agent::{LoadAgent, WIND_UP_MAX};
use tpsctl_model::NodeName;
use tpsctl_observe::IdleProof;

use crate::{
    clock,
    error::ControllerError,
    network::wait_until_ready,
    nodes::Nodes,
    trial::{Aftermath, Bench, note_exit},
    watch::Watch,
};

/// Starts ended nodes again, connects the injector again where it must be, and waits until the network is idle.
pub(crate) async fn recover(bench: &mut Bench<'_>, aftermath: Aftermath) -> Result<(), ControllerError> {
    if aftermath.is_clock_stepped
        && let Nodes::Own(network, _) = &bench.nodes
    {
        let fresh = Watch::start(network.deployment()).await?;
        std::mem::replace(bench.watch, fresh).stop().await;
        bench.watch.load_ended(clock::unix_ns());
    }
    if !aftermath.ended.is_empty() {
        restart(bench, &aftermath.ended).await?;
        bench.watch.load_ended(clock::unix_ns());
    }
    if aftermath.is_agent_lost {
        bench.connect().await?;
        bench.watch.load_ended(clock::unix_ns());
    }
    // A link that was given up at the load's end is wound up and made again: the next trial must not begin without it.
    let within = bench.plan.node.ready_timeout_ms.as_duration() + WIND_UP_MAX;
    tokio::select! {
        connected = bench.agent.all_connected(within) => connected?,
        () = bench.interrupt.cancelled() => return Err(ControllerError::Interrupted),
    }
    let was_disturbed = aftermath.is_agent_lost || aftermath.is_clock_stepped || !aftermath.ended.is_empty();
    // An undisturbed trial has waited so long already.
    let timeout = bench.plan.trial.idle_timeout_ms.as_duration();
    let left = if was_disturbed { timeout } else { Duration::ZERO };
    wait_until_idle(bench, timeout, Instant::now() + left).await
}

/// Starts ended nodes again and waits until they are ready. Another end meanwhile is one too many: the network cannot be
/// kept.
async fn restart(bench: &mut Bench<'_>, ended: &[NodeName]) -> Result<(), ControllerError> {
    let Nodes::Own(network, ledger) = &mut bench.nodes else { return Ok(()) };
    let (sender, mut told) = tokio::sync::mpsc::channel(ended.len() * 2 + 1);
    let on_event = move |event| drop(sender.try_send(event));
    for node in ended {
        network.restart(node, ledger, &on_event).await?;
    }
    while let Ok(event) = told.try_recv() {
        bench.events.tell(event).await;
    }
    let timeout = bench.plan.node.ready_timeout_ms.as_duration();
    let deployment = network.deployment().clone();
    tokio::select! {
        ready = wait_until_ready(&deployment, timeout) => ready,
        () = bench.interrupt.cancelled() => Err(ControllerError::Interrupted),
        ended = network.next_exit() => {
            let ended = ended?;
            let exit = note_exit((ended.node, ended.exit), bench.events).await;
            Err(ControllerError::NodeLost { node: exit.node.0, exit: exit.exit })
        }
    }
}

/// Waits for the idle proof; at `deadline`, `timeout` is over.
pub(crate) async fn wait_until_idle(
    bench: &mut Bench<'_>,
    timeout: Duration,
    deadline: Instant,
) -> Result<(), ControllerError> {
    loop {
        let IdleProof::Busy { pending, quiet_blocks, unread } = bench.watch.idle_proof() else {
            return Ok(());
        };
        if Instant::now() >= deadline {
            let unread = unread.iter().map(ToString::to_string).collect();
            return Err(ControllerError::NotIdle { timeout, pending, quiet_blocks, unread });
        }
        tokio::select! {
            seen = bench.watch.next() => seen?,
            () = bench.interrupt.cancelled() => return Err(ControllerError::Interrupted),
            () = tokio::time::sleep_until(deadline) => {}
        }
    }
}
