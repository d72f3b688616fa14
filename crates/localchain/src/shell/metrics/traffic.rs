//! What comes in: peers' messages, JSON-RPC calls, and what waits for the core.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use serde_json::Value;

use super::maker::{Maker, growing};

/// Of calls that no node knows; their own names could be without end.
const UNSUPPORTED: &str = "UNSUPPORTED_METHOD";
/// Code of JSON-RPC for these.
const METHOD_NOT_FOUND: i64 = -32_601;
/// Code of neard for parameters that it cannot read.
const PARSE_ERROR: i64 = -32_700;

/// A call of JSON-RPC by its name in neard's metrics: a query's tells what it asks for, once that was understood.
#[derive(Debug)]
pub(in crate::shell) struct Call {
    method: String,
    name: String,
}

impl Call {
    pub(in crate::shell) fn of(method: &str, params: &Value) -> Self {
        let asked = params.get("request_type").and_then(Value::as_str);
        let name = match asked {
            Some(asked) if method == "query" => format!("query_{asked}"),
            _ => method.to_owned(),
        };
        Self { method: method.to_owned(), name }
    }
}

/// What waits, by the actors of neard that do here what the core does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::shell) struct Waiting {
    /// Peers' messages.
    pub(in crate::shell) events: usize,
    /// Batches of admitted transactions.
    pub(in crate::shell) transactions: usize,
    /// Questions of the RPC.
    pub(in crate::shell) queries: usize,
    /// Witnesses whose turn has not come.
    pub(in crate::shell) validations: usize,
}

#[derive(Debug)]
pub(super) struct TrafficMetrics {
    pub(super) connections: IntGauge,
    pub(super) messages: IntCounterVec,
    pub(super) panics: IntCounter,
    pub(super) dropped: IntCounterVec,
    pending: IntGaugeVec,
    rpc_total: IntCounterVec,
    rpc_time: HistogramVec,
    rpc_errors: IntCounterVec,
    pub(super) not_validator: IntGauge,
    pub(super) not_validator_forwarded: IntGauge,
}

impl TrafficMetrics {
    pub(super) fn new(make: &Maker) -> Self {
        Self {
            connections: make.gauge(("near_peer_connections_total", "Number of connected peers")),
            messages: make.counters(
                (
                    "near_peer_message_received_by_type_total",
                    "Number of messages received from peers by message types",
                ),
                &["type"],
            ),
            dropped: make.counters(
                (
                    "near_dropped_message_by_type_and_reason_count",
                    "Total count of messages which were dropped by type of message and reason why the message has been dropped",
                ),
                &["type", "reason"],
            ),
            panics: make.counter((
                "tpsctl_connection_panics_total",
                "Connections with peers that a fault of this program ended",
            )),
            pending: make.gauges(
                ("near_async_queue_pending_messages", "Number of pending messages in the queue."),
                "actor",
            ),
            rpc_total: make.counters(
                ("near_rpc_total_count", "Total count of HTTP RPC requests received, by method"),
                &["method"],
            ),
            rpc_time: make.histograms(
                ("near_rpc_processing_time", "Time taken to process rpc queries"),
                growing(0.001, 2.0, 16),
                &["method"],
            ),
            rpc_errors: make.counters(
                ("near_rpc_error_count", "Total count of errors by method and message"),
                &["method", "err_code"],
            ),
            not_validator: make
                .gauge(("near_transaction_received_non_validator", "Non-validator received a transaction")),
            not_validator_forwarded: make.gauge((
                "near_transaction_received_non_validator_forwarded",
                "Non-validator received a forwarded transaction",
            )),
        }
    }

    pub(super) fn waiting(&self, waiting: Waiting) {
        let actors = [
            ("near_client::client_actor::ClientActor", waiting.events),
            ("RpcHandlerActor", waiting.transactions),
            ("ViewClientActor", waiting.queries),
            ("ChunkValidationActor", waiting.validations),
        ];
        for (actor, count) in actors {
            self.pending.with_label_values(&[actor]).set(count.cast_signed() as i64);
        }
    }

    pub(super) fn answered(&self, call: &Call, time: Duration, error: Option<i64>) {
        let call = match error {
            Some(METHOD_NOT_FOUND) => UNSUPPORTED,
            Some(PARSE_ERROR) => &call.method,
            _ => &call.name,
        };
        self.rpc_total.with_label_values(&[call]).inc();
        self.rpc_time.with_label_values(&[call]).observe(time.as_secs_f64());
        if let Some(code) = error {
            self.rpc_errors.with_label_values(&[call, &code.to_string()]).inc();
        }
    }
}
