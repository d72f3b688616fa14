//! Every recorded answer of a real neard, through a real HTTP server, and answers that no node should give.

use std::path::PathBuf;

use axum::{
    Router,
    body::Bytes,
    http::StatusCode,
    routing::{get, post},
};
use proptest::prelude::*;
use tokio::{net::TcpListener, task::JoinSet};

use super::*;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/neard/rpc"))
}

fn fixture(name: &str) -> Vec<u8> {
    fs_err::read(folder().join(format!("{name}.json"))).expect("fixture")
}

/// The HTTP status that the recording had (testdata/neard/README.md).
fn recorded_status(name: &str) -> u16 {
    match name {
        "method-unknown" | "batch-rejected" | "broadcast_tx_async-garbage" => 400,
        "block-skipped-height" => 422,
        _ => 200,
    }
}

/// A node that gives one answer to every POST; ends with `tasks`.
async fn node(status: u16, body: Vec<u8>, tasks: &mut JoinSet<()>) -> Client {
    let status = StatusCode::from_u16(status).expect("status");
    let app = Router::new().route("/", post(move || async move { (status, body) }));
    serve(app, tasks).await
}

async fn serve(app: Router, tasks: &mut JoinSet<()>) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("port 0");
    let addr = listener.local_addr().expect("bound");
    tasks.spawn(async move { axum::serve(listener, app).await.expect("serve") });
    Client::new(addr).expect("client")
}

async fn recorded(name: &str, tasks: &mut JoinSet<()>) -> Client {
    node(recorded_status(name), fixture(name), tasks).await
}

/// What the node said that refused.
fn said(error: &RpcError) -> &NodeError {
    let RpcError::Handler { source, .. } = error else { panic!("{error:?}") };
    source
}

#[tokio::test]
async fn every_recorded_answer_is_read() {
    let mut tasks = JoinSet::new();
    let mut failures = 0;
    for entry in fs_err::read_dir(folder()).expect("fixtures") {
        let file = entry.expect("entry").file_name().into_string().expect("name");
        let name = file.strip_suffix(".json").expect("json");
        let client = recorded(name, &mut tasks).await;
        let answer: Result<Value, RpcError> = client.call("any", json!([])).await;
        let says_error = String::from_utf8(fixture(name)).expect("text").contains("\"error\"");
        match answer {
            Ok(result) => assert!(!says_error && !result.is_null(), "{name}"),
            Err(error) if name == "get-status" => {
                assert!(matches!(error, RpcError::Shape { .. }), "{error:?}");
            }
            Err(error) => {
                failures += 1;
                let said = said(&error);
                assert!(
                    says_error && !said.name.is_empty() && !said.cause_name.is_empty(),
                    "{name}: {said:?}"
                );
            }
        }
    }
    assert_eq!(failures, 11);
}

#[tokio::test]
async fn status_names_the_peer() {
    let mut tasks = JoinSet::new();
    let status = recorded("status", &mut tasks).await.status().await.expect("status");
    assert_eq!(status.sync_info.latest_block_height, 19);
    assert_eq!(status.validator_account_id.as_deref(), Some("node0"));
    let target = status.peer_target("[::1]:53270".parse().expect("address"));
    assert_eq!(target.peer_id.to_string(), "ed25519:7PGseFbWxvYVgZ89K1uTJKYoKetWs7BJtbyXDzfbAcqX");
    assert_eq!(target.genesis_hash.to_string(), "5L9uLJsZT8FiU9X2Apn9Qf2GoGgTaZhnB3WNZAhAacri");
    assert_eq!((target.chain_id.as_str(), target.height), ("benchmarknet", 19));
}

#[tokio::test]
async fn blocks_tell_chunks_from_repeated_headers() {
    let mut tasks = JoinSet::new();
    let client = recorded("block-with-missed-chunk", &mut tasks).await;
    let block = client.block(BlockRef::Height(118)).await.expect("block");
    assert_eq!((block.header.height, block.header.prev_height), (118, 117));
    assert_eq!(block.header.chunk_mask, [false, false]);
    assert_eq!(block.header.timestamp_nanosec, 1_796_042_289_385_183_621);
    assert_eq!(block.header.gas_price, 1_000_000_000);
    assert_eq!(
        block.chunks,
        [
            ChunkHeaderView { shard_id: 0, gas_used: 1_859_557_110_750_000, height_included: 117 },
            ChunkHeaderView { shard_id: 1, gas_used: 1_469_210_808_937_500, height_included: 117 },
        ]
    );
    let client = recorded("block-with-gas", &mut tasks).await;
    let block = client.block(BlockRef::Final).await.expect("block");
    assert!(block.chunks.iter().all(|chunk| chunk.height_included == block.header.height));
    assert_eq!(block.chunks[0].gas_used, 669_547_687_500);
}

#[tokio::test]
async fn heights_without_a_block_are_told_apart_from_faults() {
    let mut tasks = JoinSet::new();
    for name in ["block-skipped-height", "block-unknown-above-head"] {
        let error = recorded(name, &mut tasks).await.block(BlockRef::Height(120)).await.expect_err(name);
        assert_eq!(said(&error).cause_name, "UNKNOWN_BLOCK");
    }
    let error =
        recorded("chunk-not-tracked", &mut tasks).await.block(BlockRef::Final).await.expect_err("chunk");
    assert_ne!(said(&error).cause_name, "UNKNOWN_BLOCK");
    let error = node(503, b"busy".to_vec(), &mut tasks).await.block(BlockRef::Final).await.expect_err("503");
    assert!(matches!(error, RpcError::Status { status: 503, .. }), "{error:?}");
    let error = node(200, b"{}".to_vec(), &mut tasks).await.block(BlockRef::Final).await.expect_err("empty");
    assert!(matches!(error, RpcError::Shape { .. }), "{error:?}");
}

#[tokio::test]
async fn requests_are_what_neard_reads() {
    let mut tasks = JoinSet::new();
    let echo = |body: Bytes| async move {
        let request: Value = serde_json::from_slice(&body).expect("JSON");
        json!({ "jsonrpc": "2.0", "id": 1, "error": { "name": "ECHO", "cause": { "name": "ECHO", "info": request } } })
            .to_string()
    };
    let client = serve(Router::new().route("/", post(echo)), &mut tasks).await;
    for (block, params) in
        [(BlockRef::Height(5), json!({ "block_id": 5 })), (BlockRef::Final, json!({ "finality": "final" }))]
    {
        let echo = client.block(block).await.expect_err("echo");
        assert_eq!(
            said(&echo).info,
            json!({ "jsonrpc": "2.0", "id": 1, "method": "block", "params": params })
        );
    }
    let echo = client.status().await.expect_err("echo");
    assert_eq!(said(&echo).info, json!({ "jsonrpc": "2.0", "id": 1, "method": "status", "params": [] }));
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_meets_the_deadline() {
    let mut tasks = JoinSet::new();
    let app = Router::new()
        .route("/", post(std::future::pending::<&'static str>))
        .route("/metrics", get(std::future::pending::<&'static str>));
    let client = serve(app, &mut tasks).await.with_deadline(Duration::from_millis(700));
    let error = client.status().await.expect_err("silence");
    assert!(matches!(error, RpcError::Timeout { method: "status", .. }), "{error:?}");
    let error = client.metrics().await.expect_err("silence");
    assert!(matches!(error, RpcError::Timeout { method: "GET /metrics", .. }), "{error:?}");
}

#[tokio::test]
async fn metrics_are_text_of_bounded_length() {
    let mut tasks = JoinSet::new();
    let page = |body: Vec<u8>| Router::new().route("/metrics", get(move || async move { body }));
    let client = serve(page(b"near_sync_status 0\n".to_vec()), &mut tasks).await;
    assert_eq!(client.metrics().await.expect("text"), "near_sync_status 0\n");
    let client = serve(page(vec![b'x'; METRICS_LEN_MAX]), &mut tasks).await;
    assert_eq!(client.metrics().await.expect("just short enough").len(), METRICS_LEN_MAX);
    let client = serve(page(vec![b'x'; METRICS_LEN_MAX + 1]), &mut tasks).await;
    assert!(matches!(client.metrics().await, Err(RpcError::TooLong { .. })));
    let client = serve(page(vec![0xff]), &mut tasks).await;
    assert!(matches!(client.metrics().await, Err(RpcError::NotText { .. })));
    let client = node(200, Vec::new(), &mut tasks).await;
    assert!(matches!(client.metrics().await, Err(RpcError::Status { status: 404, .. })));
}

#[tokio::test]
async fn nobody_listening_is_a_transport_error_that_says_where_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("port 0");
    let addr = listener.local_addr().expect("bound");
    drop(listener);
    let error = Client::new(addr).expect("client").status().await.expect_err("nobody");
    assert!(matches!(error, RpcError::Transport { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("call `status` at http://{addr}/"));
    let source = std::error::Error::source(&error).expect("source").to_string();
    assert!(!source.contains(&addr.to_string()), "{source}");
}

fn read_all(body: &[u8], status: u16) -> usize {
    let call = ("any", "http://node/");
    usize::from(read_answer::<StatusView>(body, status, call).is_ok())
        + usize::from(read_answer::<BlockView>(body, status, call).is_ok())
}

proptest! {
    #[test]
    fn garbage_is_an_error(body in proptest::collection::vec(any::<u8>(), 0..400), status in 200_u16..600) {
        prop_assert_eq!(read_all(&body, status), 0);
    }

    #[test]
    fn damaged_answers_do_not_panic(
        which in 0_usize..3,
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut body = fixture(["status", "block-with-missed-chunk", "block-skipped-height"][which]);
        let at = at.index(body.len());
        if cut {
            body.truncate(at);
            prop_assert_eq!(read_all(&body, 200), 0);
        } else {
            body[at] = byte;
            prop_assert!(read_all(&body, 200) <= 1);
        }
    }
}

#[test]
fn a_mask_of_another_length_than_the_chunks_is_refused() {
    let text = String::from_utf8(fixture("block-with-missed-chunk")).expect("text");
    let text = text.replace("\"chunk_mask\": [false, false]", "\"chunk_mask\": [false]");
    let error = read_answer::<BlockView>(text.as_bytes(), 200, ("block", "http://node/")).expect_err("mask");
    let source = std::error::Error::source(&error).expect("source").to_string();
    assert!(source.contains("block 118 has 2 chunks and a chunk_mask of 1"), "{source}");
}
