//! Links over NEAR's peer-to-peer protocol.

use std::{io, time::Duration};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tpsctl_model::{NodeName, Seed, ShardId};
use tpsctl_near::KeyPair;
use tpsctl_rpc::{P2pConnection, P2pError, P2pWriter, PeerTarget, p2p};

use crate::{
    clock::unix_now_ns,
    link::{Connection, Dial, FrameSink, LinkError},
};

/// Answers that wait for the writer. A node asks for a new edge nonce every few minutes, one at a time.
const ANSWERS_MAX: usize = 4;

/// Connects to one producer.
#[derive(Debug)]
pub(crate) struct PeerDial {
    pub(crate) producer: NodeName,
    /// The shard that the connection is for: a producer of several has a connection for each.
    pub(crate) shard: ShardId,
    pub(crate) target: PeerTarget,
    pub(crate) seed: Seed,
    pub(crate) deadline: Duration,
}

impl PeerDial {
    /// Connects as a peer that never was before: a node remembers edges by key, and refuses an old one's nonce.
    pub(crate) async fn connect(&self) -> Result<Connection<P2pWriter>, P2pError> {
        let unix_ns = unix_now_ns();
        let key =
            KeyPair::from_seed(self.seed.derive(&format!("peer/{}/{}/{unix_ns}", self.producer, self.shard)));
        let connection = p2p::connect(&self.target, key, unix_ns / 1_000_000_000, self.deadline).await?;
        Ok(into_connection(connection))
    }
}

impl Dial for PeerDial {
    type Sink = P2pWriter;

    async fn dial(&self) -> Result<Connection<P2pWriter>, LinkError> {
        self.connect().await.map_err(Into::into)
    }
}

impl FrameSink for P2pWriter {
    async fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::write_some(self, bytes).await
    }

    async fn finish(&mut self) -> io::Result<()> {
        Self::finish(self).await
    }
}

fn into_connection(connection: P2pConnection) -> Connection<P2pWriter> {
    let (reader, sink) = connection.split();
    let (answers_in, answers) = mpsc::channel(ANSWERS_MAX);
    let reading = Box::pin(async move {
        // Nobody cancels: the link drops this with the connection.
        match reader.serve(answers_in, CancellationToken::new()).await {
            Err(error) => error.into(),
            Ok(()) => "the link gave the connection up".into(),
        }
    });
    Connection { sink, reading, answers }
}
