//! The HTTP server: JSON-RPC by POST, and `/status`, `/health`, `/metrics` by GET.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{NodeError, metrics::Metrics, rpc::Rpc};

/// neard's `rpc.limits_config.json_payload_max_size`.
const BODY_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Answers under way when the node ends may take this long.
const GRACE: Duration = Duration::from_secs(1);

fn json(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

pub(super) async fn serve(
    listener: TcpListener,
    rpc: Arc<Rpc>,
    metrics: Arc<Metrics>,
    cancel: CancellationToken,
) -> Result<(), NodeError> {
    let app = Router::new()
        .route("/", post(on_post))
        .route("/status", get(on_status))
        .route("/health", get(|| async { json(StatusCode::OK, &Value::Null) }))
        .with_state(rpc)
        .route("/metrics", get(on_metrics).with_state(metrics))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    let server = axum::serve(listener, app).with_graceful_shutdown(cancel.clone().cancelled_owned());
    let ended = async {
        cancel.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        served = async { server.await } => served.map_err(NodeError::Http),
        () = ended => Ok(()),
    }
}

async fn on_post(State(rpc): State<Arc<Rpc>>, body: Bytes) -> Response {
    let (status, answer) = rpc.answer(&body).await;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json(status, &answer)
}

async fn on_status(State(rpc): State<Arc<Rpc>>) -> Response {
    json(StatusCode::OK, &rpc.status())
}

async fn on_metrics(State(metrics): State<Arc<Metrics>>) -> Response {
    match metrics.text() {
        Ok(text) => ([(CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
