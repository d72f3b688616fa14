//! The listener, the dialer, and all connections.

use std::{collections::BTreeMap, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tpsctl_near::PublicKey;

use super::{
    NodeError,
    connection::{Context, Ended, accept, dial},
    contain::contain,
    home::Home,
    lock::lock,
    seldom::Seldom,
};

/// The first wait after a failed dial; doubles up to the longest.
const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How often the dialer looks whom it lacks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Connections that came in, beyond those of strangers: handshakes under way, and nodes that are known.
const INBOUND_BEYOND: usize = 64;
/// Connections that this node dialed at once.
const DIALED_MAX: usize = 512;
/// After an error of the listener (no descriptors left) it rests this long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Network {
    context: Arc<Context>,
    inbound: usize,
    inbound_max: usize,
    dials: BTreeMap<PublicKey, Dial>,
    /// Each connection says, when it ends, whom it had dialed.
    connections: JoinSet<(Option<PublicKey>, Result<(), Ended>)>,
    accept_at: Instant,
    faults: Seldom,
    refusals: Seldom,
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
            inbound: 0,
            inbound_max: home.peers_max.saturating_add(home.guests_max()).saturating_add(INBOUND_BEYOND),
            dials: BTreeMap::new(),
            connections: JoinSet::new(),
            accept_at: Instant::now(),
            faults: Seldom::new(),
            refusals: Seldom::new(),
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
                // While it rests, the ticks of `look` bring this back.
                accepted = listener.accept(), if self.accept_at <= Instant::now() => {
                    self.on_accept(accepted, &cancel);
                }
                Some(ended) = self.connections.join_next() => {
                    let (dialed, ended) = ended.map_err(NodeError::Task)?;
                    self.on_end(dialed, &ended);
                }
                _ = look.tick() => self.dial_missing(&cancel),
                () = context.is_heard.notified() => self.dial_missing(&cancel),
            }
        }
        while self.connections.join_next().await.is_some() {}
        Ok(())
    }

    fn on_accept(&mut self, accepted: io::Result<(TcpStream, SocketAddr)>, cancel: &CancellationToken) {
        match accepted {
            Ok((stream, addr)) if self.inbound < self.inbound_max => {
                tracing::debug!(%addr, "a peer connects");
                self.inbound += 1;
                let serve = contain(accept(stream, Arc::clone(&self.context), cancel.clone()));
                self.connections.spawn(async { (None, serve.await) });
            }
            Ok((_dropped, addr)) => self.on_refused(addr),
            // Out of descriptors, or the peer is gone already: the next one may do, but not at once.
            Err(error) => {
                self.accept_at = Instant::now() + ACCEPT_PAUSE;
                tracing::debug!(%error, "an accept failed; the listener rests");
                if self.faults.is_due() {
                    tracing::warn!(%error, "cannot accept a connection");
                }
            }
        }
    }

    fn on_refused(&mut self, addr: SocketAddr) {
        if self.refusals.is_due() {
            tracing::warn!(%addr, "refused a peer: too many connections");
        }
    }

    fn on_end(&mut self, dialed: Option<PublicKey>, ended: &Result<(), Ended>) {
        match ended {
            Err(Ended::Full(addr)) if dialed.is_none() => self.on_refused(*addr),
            // A node of another chain or version is dialed again and again, and never met.
            Err(Ended::Refused(why)) if self.refusals.is_due() => {
                let identity = &self.context.identity;
                let peer = dialed.as_ref().map(tracing::field::display);
                let (chain_id, genesis) = (&identity.chain_id, &identity.genesis_hash);
                tracing::warn!(peer, why, own_chain_id = chain_id, own_genesis = %genesis, "no connection: a handshake was refused");
            }
            Err(error @ Ended::Panic(_)) => {
                self.context.peers.count_panic();
                tracing::error!(%error, "a connection ended; the node goes on");
            }
            Err(error) => {
                let cause = std::error::Error::source(error).map(tracing::field::display);
                tracing::debug!(%error, cause, "a connection ended");
            }
            Ok(()) => {}
        }
        let Some(key) = dialed else {
            self.inbound -= 1;
            return;
        };
        let mut heard = lock(&self.context.heard);
        heard.failed(&key);
        if !heard.is_known(&key) {
            self.dials.remove(&key);
        }
        drop(heard);
        let Some(dial) = self.dials.get_mut(&key) else { return };
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
        let own = self.context.identity.key.public();
        let most = self.context.peers_max;
        let heard = lock(&self.context.heard);
        let (addrs, wanted) = (heard.addrs(), heard.wanted(&own, most));
        drop(heard);
        self.context.peers.trim(most, &wanted);
        for (key, addr) in addrs {
            let dialed = self.connections.len() - self.inbound;
            let is_wanted = wanted.contains(&key) && !self.context.peers.is_connected(&key);
            if key == own || !is_wanted || dialed >= DIALED_MAX {
                continue;
            }
            let new = Dial { is_running: false, next_at: now, backoff: BACKOFF_MIN, began: now };
            let state = self.dials.entry(key).or_insert(new);
            if state.is_running || state.next_at > now {
                continue;
            }
            state.is_running = true;
            state.began = now;
            let serve = contain(dial(key, addr, Arc::clone(&self.context), cancel.clone()));
            self.connections.spawn(async move { (Some(key), serve.await) });
        }
    }
}
