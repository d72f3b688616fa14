//! The listener, the dialer, and all connections.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpListener, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tpsctl_near::PublicKey;

use super::{
    NodeError,
    connection::{Context, Ended, accept, dial},
    home::Home,
};

/// The first wait after a failed dial; doubles up to the longest.
const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How often the dialer looks whom it lacks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Network {
    context: Arc<Context>,
    connections_max: usize,
    dials: BTreeMap<PublicKey, Dial>,
    /// Each connection says, when it ends, whom it had dialed.
    connections: JoinSet<(Option<PublicKey>, Result<(), Ended>)>,
}

#[derive(Debug)]
struct Dial {
    is_running: bool,
    next_at: Instant,
    backoff: Duration,
    began: Instant,
}

impl Network {
    pub(super) fn new(context: Context, home: &Home) -> Self {
        Self {
            context: Arc::new(context),
            connections_max: home.peers_max,
            dials: BTreeMap::new(),
            connections: JoinSet::new(),
        }
    }

    pub(super) async fn run(
        mut self,
        listener: TcpListener,
        cancel: CancellationToken,
    ) -> Result<(), NodeError> {
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let context = Arc::clone(&self.context);
        loop {
            self.context.peers.set_connections(self.connections.len());
            tokio::select! {
                () = cancel.cancelled() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, addr)) if self.connections.len() < self.connections_max => {
                        tracing::debug!(%addr, "a peer connects");
                        let serve = accept(stream, Arc::clone(&self.context), cancel.clone());
                        self.connections.spawn(async { (None, serve.await) });
                    }
                    Ok((stream, addr)) => {
                        tracing::warn!(%addr, most = self.connections_max, "refused a peer: too many connections");
                        drop(stream);
                    }
                    // Out of descriptors, or the peer is gone already: the next one may do.
                    Err(error) => tracing::warn!(%error, "cannot accept a connection"),
                },
                Some(ended) = self.connections.join_next() => {
                    let (dialed, ended) = ended.map_err(NodeError::Task)?;
                    self.on_end(dialed, ended);
                }
                _ = look.tick() => self.dial_missing(&cancel),
                () = context.is_heard.notified() => self.dial_missing(&cancel),
            }
        }
        while self.connections.join_next().await.is_some() {}
        Ok(())
    }

    fn on_end(&mut self, dialed: Option<PublicKey>, ended: Result<(), Ended>) {
        if let Err(error) = ended {
            let cause = std::error::Error::source(&error).map(tracing::field::display);
            tracing::debug!(%error, cause, "a connection ended");
        }
        let Some(dial) = dialed.and_then(|key| self.dials.get_mut(&key)) else { return };
        dial.is_running = false;
        // A connection that held was worth dialing at once; others wait longer each time.
        dial.backoff = if dial.began.elapsed() > BACKOFF_MAX {
            BACKOFF_MIN
        } else {
            (dial.backoff * 2).min(BACKOFF_MAX)
        };
        dial.next_at = Instant::now() + dial.backoff;
    }

    fn dial_missing(&mut self, cancel: &CancellationToken) {
        let now = Instant::now();
        let heard: Vec<(PublicKey, SocketAddr)> = match self.context.heard.lock() {
            Ok(heard) => heard.iter().map(|(key, addr)| (*key, *addr)).collect(),
            Err(_) => return,
        };
        let own = self.context.identity.key.public();
        for (key, addr) in heard {
            if key == own
                || self.context.peers.is_connected(&key)
                || self.connections.len() >= self.connections_max
            {
                continue;
            }
            let new = Dial { is_running: false, next_at: now, backoff: BACKOFF_MIN, began: now };
            let state = self.dials.entry(key).or_insert(new);
            if state.is_running || state.next_at > now {
                continue;
            }
            state.is_running = true;
            state.began = now;
            let serve = dial(key, addr, Arc::clone(&self.context), cancel.clone());
            self.connections.spawn(async move { (Some(key), serve.await) });
        }
    }
}
