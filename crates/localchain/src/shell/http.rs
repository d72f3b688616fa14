//! The HTTP server: JSON-RPC by POST, and `/status`, `/health`, `/network_info`, `/metrics` by GET.
//!
//! Connections are bounded in number, and so is the time for a request's head, for its body and for a connection as a
//! whole: who is slow is cut, and others wait for a place in the listener's queue.

use std::{error::Error as _, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Bytes, HttpBody as _, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http_body_util::LengthLimitError;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    NodeError,
    rpc::{Reply, ReplyBody, Rpc},
    scrape::Scrape,
    seldom::Seldom,
};

/// Connections served at once.
const CONNECTIONS_MAX: usize = 128;
/// Time for the head of a request, counted from the last answer, and again for its body.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// After this a connection ends with the answer under way: who takes no answers holds no place for ever.
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
    Router::new()
        .route("/", post(on_post))
        .route("/status", get(on_status))
        .route("/health", get(on_health))
        .route("/network_info", get(on_network_info))
        .with_state(rpc)
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
async fn converse(stream: TcpStream, app: Router, cancel: CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // A client that has said all may end its sending, and still waits for the answer.
        .half_close(true)
        .header_read_timeout(READ_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
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

async fn on_post(State(rpc): State<Arc<Rpc>>, request: Request) -> Response {
    if !is_json(request.headers()) {
        let text = "Expected request with `Content-Type: application/json`";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response();
    }
    let too_long = (StatusCode::PAYLOAD_TOO_LARGE, "length limit exceeded");
    let bytes_max = rpc.body_bytes_max();
    if request.body().size_hint().lower() > bytes_max as u64 {
        return too_long.into_response();
    }
    let body: Bytes = match tokio::time::timeout(READ_TIMEOUT, to_bytes(request.into_body(), bytes_max)).await
    {
        Ok(Ok(body)) => body,
        Ok(Err(error)) if error.source().is_some_and(<dyn std::error::Error>::is::<LengthLimitError>) => {
            return too_long.into_response();
        }
        Ok(Err(error)) => {
            return (StatusCode::BAD_REQUEST, format!("The request body did not come whole: {error}"))
                .into_response();
        }
        Err(_) => return StatusCode::REQUEST_TIMEOUT.into_response(),
    };
    let Reply { status, body } = rpc.answer(&body).await;
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
