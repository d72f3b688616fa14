//! Bodies of HTTP requests: each is bounded in bytes and time, and all that are in flight together are bounded in bytes.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, HttpBody as _},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use http_body_util::BodyExt as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

/// Bytes that any body may have: whoever sends long ones does not keep the others from asking.
const FREE_BYTES: usize = 64 * 1024;
/// Bytes of all bodies together beyond those.
const TOGETHER_BYTES: usize = 64 * 1024 * 1024;

/// Why there is no whole body.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("length limit exceeded")]
    TooLong,
    #[error("The request body did not come whole: {0}")]
    Broken(String),
    #[error("The request body did not come in time")]
    Late,
    #[error("The node reads too many long request bodies. Try again later")]
    NoRoom,
}

impl IntoResponse for BodyError {
    fn into_response(self) -> Response {
        let status = match self {
            Self::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
            Self::Late => StatusCode::REQUEST_TIMEOUT,
            Self::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, self.to_string()).into_response()
    }
}

/// A body that came whole. It takes room until it is dropped.
#[derive(Debug, Default)]
pub(super) struct WholeBody {
    bytes: Vec<u8>,
    room: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for WholeBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads the bodies of one server.
#[derive(Debug)]
pub(super) struct Bodies {
    /// A permit is a byte.
    room: Arc<Semaphore>,
    bytes_max: usize,
    timeout: Duration,
}

impl Bodies {
    /// Bodies of at most `bytes_max` each; there is room for one at least, however long.
    pub(super) fn new(bytes_max: usize, timeout: Duration) -> Self {
        let room = TOGETHER_BYTES.max(bytes_max).min(Semaphore::MAX_PERMITS);
        Self { room: Arc::new(Semaphore::new(room)), bytes_max, timeout }
    }

    /// Reads a body to its end. Where there is no room for more of it, the rest waits at the client.
    pub(super) async fn read(&self, mut body: Body) -> Result<WholeBody, BodyError> {
        if body.size_hint().lower() > self.bytes_max as u64 {
            return Err(BodyError::TooLong);
        }
        let deadline = Instant::now() + self.timeout;
        let mut whole = WholeBody::default();
        loop {
            let frame = timeout_at(deadline, body.frame()).await.map_err(|_| BodyError::Late)?;
            let Some(frame) = frame else { return Ok(whole) };
            let frame = frame.map_err(|error| BodyError::Broken(error.to_string()))?;
            // Trailers say nothing here.
            let Ok(part) = frame.into_data() else { continue };
            let len = whole.bytes.len() + part.len();
            if len > self.bytes_max {
                return Err(BodyError::TooLong);
            }
            let widened = timeout_at(deadline, self.widen(&mut whole.room, len));
            widened.await.map_err(|_| BodyError::NoRoom)?;
            whole.bytes.extend_from_slice(&part);
        }
    }

    /// Waits until there is room for `len` bytes of one body.
    async fn widen(&self, room: &mut Option<OwnedSemaphorePermit>, len: usize) {
        let held = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let lacking = len.saturating_sub(FREE_BYTES).saturating_sub(held);
        if lacking == 0 {
            return;
        }
        // A part is far shorter than that, and the semaphore is never closed.
        let lacking = u32::try_from(lacking).unwrap_or(u32::MAX);
        let Ok(more) = Arc::clone(&self.room).acquire_many_owned(lacking).await else { return };
        match room {
            Some(room) => room.merge(more),
            None => *room = Some(more),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        pin::Pin,
        sync::atomic::{AtomicUsize, Ordering},
        task::{Context, Poll},
    };

    use axum::body::{Bytes, HttpBody};
    use hyper::body::Frame;
    use tokio::task::JoinSet;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);
    const PART_BYTES: usize = 256 * 1024;
    const BODY_BYTES: usize = 10 * 1024 * 1024;

    /// A body of which all but the end comes as fast as it is taken; taken bytes are counted.
    struct Endless {
        parts: usize,
        taken: Arc<AtomicUsize>,
    }

    impl HttpBody for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.parts == 0 {
                return Poll::Pending;
            }
            self.parts -= 1;
            self.taken.fetch_add(PART_BYTES, Ordering::Relaxed);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b' '; PART_BYTES])))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_are_bounded_together() {
        const CLIENTS: usize = 128;
        let bodies = Arc::new(Bodies::new(BODY_BYTES, TIMEOUT));
        let taken = Arc::new(AtomicUsize::new(0));
        let mut reading = JoinSet::new();
        for _ in 0..CLIENTS {
            let body = Body::new(Endless { parts: BODY_BYTES / PART_BYTES, taken: Arc::clone(&taken) });
            let bodies = Arc::clone(&bodies);
            reading.spawn(async move { bodies.read(body).await });
        }
        tokio::time::sleep(TIMEOUT / 2).await;
        let held = taken.load(Ordering::Relaxed);
        assert!(held <= TOGETHER_BYTES + CLIENTS * (FREE_BYTES + PART_BYTES), "{held} bytes");
        assert!(held >= TOGETHER_BYTES, "what is allowed is used: {held} bytes");
        let short = bodies.read(Body::from("{}")).await.expect("short ones are read all the same");
        assert_eq!(short.as_ref(), b"{}");
        let ended = reading.join_all().await;
        let refused = ended.iter().filter(|ended| matches!(ended, Err(BodyError::NoRoom))).count();
        let late = ended.iter().filter(|ended| matches!(ended, Err(BodyError::Late))).count();
        assert_eq!(refused + late, CLIENTS);
        let whole = bodies.read(Body::from(vec![b' '; BODY_BYTES])).await.expect("all room is free again");
        assert_eq!(bodies.room.available_permits(), TOGETHER_BYTES + FREE_BYTES - BODY_BYTES);
        drop(whole);
        assert_eq!(bodies.room.available_permits(), TOGETHER_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_bounded() {
        let long = TOGETHER_BYTES + 1;
        let bodies = Bodies::new(long, TIMEOUT);
        assert_eq!(bodies.read(Body::from(vec![0; long])).await.expect("room").as_ref().len(), long);
        let too_long = bodies.read(Body::from(vec![0; long + 1])).await.expect_err("too long");
        assert_eq!(too_long.into_response().status(), StatusCode::PAYLOAD_TOO_LARGE);
        let parts = Endless { parts: usize::MAX, taken: Arc::default() };
        let too_long = bodies.read(Body::new(parts)).await.expect_err("too long in parts");
        assert_eq!(too_long.into_response().status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(bodies.room.available_permits(), long);
    }
}
