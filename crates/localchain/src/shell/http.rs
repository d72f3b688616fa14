//! The HTTP server: JSON-RPC by POST, and `/status`, `/health`, `/network_info`, `/metrics` by GET.
//!
//! Connections are bounded in number, and so is the time for a request's head, for its body and for a connection as a
//! whole: who is slow is cut, and others wait for a place in the listener's queue.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Semaphore,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    NodeError,
    body::Bodies,
    impatient::Impatient,
    rpc::{Reply, ReplyBody, Rpc},
    scrape::Scrape,
    seldom::Seldom,
};

/// Connections served at once.
const CONNECTIONS_MAX: usize = 128;
/// Time for the head of a request, counted from the last answer, and again for its body.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes read ahead of a connection, and the longest head of a request.
const READ_AHEAD_BYTES: usize = 64 * 1024;
/// A connection that takes no byte of an answer for so long is cut.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// After this a connection ends with the answer under way: who takes answers slowly holds no place for ever.
const CONNECTION_TIME: Duration = Duration::from_mins(2);
/// An answer under way then may take this long: longer than `send_tx` waits by default.
const LAST_ANSWER_TIME: Duration = Duration::from_secs(15);
/// Answers under way when the node ends may take this long.
const GRACE: Duration = Duration::from_secs(1);
/// After an error of the listener (no descriptors left) it rests this long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

fn json(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// JSON-RPC and all else that neard serves on `rpc.addr`.
pub(super) fn app(rpc: Arc<Rpc>, scrape: Arc<Scrape>) -> Router {
    let bodies = Arc::new(Bodies::new(rpc.body_bytes_max(), READ_TIMEOUT));
    let calls = Router::new().route("/", post(on_post)).with_state((Arc::clone(&rpc), bodies));
    Router::new()
        .route("/status", get(on_status))
        .route("/health", get(on_health))
        .route("/network_info", get(on_network_info))
        .with_state(rpc)
        .merge(calls)
        .merge(metrics_app(scrape))
}

/// What neard serves on `rpc.prometheus_addr`.
pub(super) fn metrics_app(scrape: Arc<Scrape>) -> Router {
    Router::new().route("/metrics", get(on_metrics)).with_state(scrape)
}

pub(super) async fn serve(
    listener: TcpListener,
    app: Router,
    cancel: CancellationToken,
) -> Result<(), NodeError> {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    let mut faults = Seldom::new();
    loop {
        let accept = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        tokio::select! {
            () = cancel.cancelled() => break,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "an HTTP connection ended by a fault of ours");
                }
            }
            (accepted, place) = accept => match accepted {
                Ok((stream, _)) => {
                    let serve = converse(stream, app.clone(), cancel.clone());
                    connections.spawn(async move {
                        serve.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "an accept failed; the listener rests");
                    if faults.is_due() {
                        tracing::warn!(%error, "cannot accept an HTTP connection");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    while connections.join_next().await.is_some() {}
    Ok(())
}

/// Answers the requests of one connection.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    app: Router,
    cancel: CancellationToken,
) {
    let stream = TokioIo::new(Impatient::new(stream, WRITE_TIMEOUT));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // A client that has said all may end its sending, and still waits for the answer.
        .half_close(true)
        .max_buf_size(READ_AHEAD_BYTES)
        .header_read_timeout(READ_TIMEOUT)
        .serve_connection(stream, TowerToHyperService::new(app));
    tokio::pin!(connection);
    let grace = tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%error, "an HTTP connection ended");
            }
            return;
        }
        () = cancel.cancelled() => GRACE,
        () = tokio::time::sleep(CONNECTION_TIME) => LAST_ANSWER_TIME,
    };
    connection.as_mut().graceful_shutdown();
    let rest = async {
        cancel.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    // Whatever its end is, the connection is closed now.
    tokio::select! {
        _ = tokio::time::timeout(grace, connection) => {}
        () = rest => {}
    }
}

/// Whether a body is said to be JSON: `application/json` or `application/<some>+json`.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind.strip_prefix("application/").is_some_and(|kind| kind == "json" || kind.ends_with("+json"))
}

async fn on_post(State((rpc, bodies)): State<(Arc<Rpc>, Arc<Bodies>)>, request: Request) -> Response {
    if !is_json(request.headers()) {
        let text = "Expected request with `Content-Type: application/json`";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response();
    }
    let body = match bodies.read(request.into_body()).await {
        Ok(body) => body,
        Err(error) => return error.into_response(),
    };
    let Reply { status, body } = rpc.answer(body).await;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match body {
        ReplyBody::Json(answer) => json(status, &answer),
        ReplyBody::Text(text) => (status, text).into_response(),
    }
}

async fn on_status(State(rpc): State<Arc<Rpc>>) -> Response {
    json(StatusCode::OK, &rpc.status())
}

async fn on_health(State(rpc): State<Arc<Rpc>>) -> Response {
    match rpc.health() {
        Ok(answer) => json(StatusCode::OK, &answer),
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

async fn on_network_info(State(rpc): State<Arc<Rpc>>) -> Response {
    json(StatusCode::OK, &rpc.network_info())
}

async fn on_metrics(State(scrape): State<Arc<Scrape>>) -> Response {
    match scrape.text().await {
        Ok(text) => ([(CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
        time::Instant,
    };

    use super::*;

    const ANSWER_BYTES: usize = 64 * 1024;
    const PIECE_BYTES: usize = 4 * 1024;

    /// A client that has asked for something long, and the time that its connection lasts.
    async fn ask() -> (DuplexStream, impl Future<Output = Duration>) {
        let app = Router::new().route("/", get(|| async { "x".repeat(ANSWER_BYTES) }));
        let (mut client, server) = tokio::io::duplex(PIECE_BYTES);
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.expect("room");
        let began = Instant::now();
        (client, async move {
            converse(server, app, CancellationToken::new()).await;
            began.elapsed()
        })
    }

    /// By a clock that only stands or jumps.
    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_cut_and_who_takes_little_is_not() {
        let (_client, lasts) = ask().await;
        let lasted = lasts.await;
        assert!((WRITE_TIMEOUT..2 * WRITE_TIMEOUT).contains(&lasted), "{lasted:?}");
        let (mut client, lasts) = ask().await;
        let taking = async {
            let (mut answer, mut piece) = (Vec::new(), [0; PIECE_BYTES]);
            loop {
                tokio::time::sleep(WRITE_TIMEOUT / 2).await;
                match client.read(&mut piece).await.expect("it is not cut") {
                    0 => return answer,
                    len => answer.extend_from_slice(&piece[..len]),
                }
            }
        };
        let (lasted, answer) = tokio::join!(lasts, taking);
        assert!(lasted > 2 * WRITE_TIMEOUT, "{lasted:?}");
        assert!(answer.ends_with("x".repeat(ANSWER_BYTES).as_bytes()), "it comes whole");
    }
}
