//! Frames that wait for a peer, bounded in number and bytes.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Bytes;
use tokio::{io::AsyncWriteExt, net::tcp::OwnedWriteHalf, sync::mpsc};

/// Frames that may wait for a peer: some blocks' worth of chunks and votes. A peer that lets more pile up is dropped.
const FRAMES_MAX: usize = 512;
/// Blocks that may wait for a guest.
const GUEST_FRAMES_MAX: usize = 64;
/// And their bytes: a page, and the chunks of some full blocks.
const BYTES_MAX: usize = 128 * 1024 * 1024;
/// A frame that is not written in this time means that the peer does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Where frames for a peer are put.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    queue: mpsc::Sender<Bytes>,
    bytes: Arc<AtomicUsize>,
}

/// Where the connection takes them from.
#[derive(Debug)]
pub(super) struct Outgoing {
    queue: mpsc::Receiver<Bytes>,
    bytes: Arc<AtomicUsize>,
}

pub(super) fn outbox() -> (Outbox, Outgoing) {
    let (sender, receiver) = mpsc::channel(FRAMES_MAX);
    let bytes = Arc::new(AtomicUsize::new(0));
    (Outbox { queue: sender, bytes: Arc::clone(&bytes) }, Outgoing { queue: receiver, bytes })
}

impl Outbox {
    /// Queues a frame. Says no where too much waits; a frame for a connection that is ending is just lost.
    pub(super) fn push(&self, frame: Bytes) -> bool {
        let len = frame.len();
        let before = self.bytes.fetch_add(len, Ordering::Relaxed);
        let is_full = before > 0 && before + len > BYTES_MAX;
        if is_full || matches!(self.queue.try_send(frame), Err(mpsc::error::TrySendError::Full(_))) {
            self.bytes.fetch_sub(len, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Queues a frame for a peer that is no node, for which less may wait.
    pub(super) fn push_for_guest(&self, frame: Bytes) -> bool {
        self.has_room_for_guest() && self.push(frame)
    }

    /// Whether more may wait for a peer that is no node.
    pub(super) fn has_room_for_guest(&self) -> bool {
        self.queue.max_capacity() - self.queue.capacity() < GUEST_FRAMES_MAX
    }
}

impl Outgoing {
    /// Writes frames until nobody can queue more, or the peer does not take one in time.
    pub(super) async fn write(mut self, mut writer: OwnedWriteHalf) -> io::Result<()> {
        while let Some(frame) = self.queue.recv().await {
            let len = frame.len();
            tokio::time::timeout(WRITE_TIMEOUT, writer.write_all(&frame)).await??;
            self.bytes.fetch_sub(len, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
impl Outgoing {
    /// Frames that wait.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_in_number_and_bytes() {
        let (outbox, _outgoing) = outbox();
        let pushed = (0..2 * FRAMES_MAX).filter(|_| outbox.push(Bytes::from_static(b"frame"))).count();
        assert_eq!(pushed, FRAMES_MAX);
        let (outbox, _outgoing) = super::outbox();
        let pushed = (0..FRAMES_MAX).filter(|_| outbox.push_for_guest(Bytes::from_static(b"block"))).count();
        assert_eq!(pushed, GUEST_FRAMES_MAX);
        let (outbox, _outgoing) = super::outbox();
        let long = Bytes::from(vec![0; BYTES_MAX / 2 + 1]);
        assert!(outbox.push(long.clone()));
        assert!(!outbox.push(long));
        assert!(outbox.push(Bytes::from_static(b"what was refused does not count")));
    }
}
