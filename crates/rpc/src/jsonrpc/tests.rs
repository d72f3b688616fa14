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

#[tokio::test]
async fn every_recorded_answer_is_read() {
    let mut tasks = JoinSet::new();
    let mut failures = 0;
    for entry in fs_err::read_dir(folder()).expect("fixtures") {
        let file = entry.expect("entry").file_name().into_string().expect("name");
        let name = file.strip_suffix(".json").expect("json");
        let client = recorded(name, &mut tasks).await;
        let answer: Result<Value, RpcError> = client.call("any", json!([]), CALL_DEADLINE).await;
        let says_error = String::from_utf8(fixture(name)).expect("text").contains("\"error\"");
        match answer {
            Ok(result) => assert!(!says_error && !result.is_null(), "{name}"),
            Err(error) if name == "get-status" => {
                assert!(matches!(error, RpcError::Shape { .. }), "{error:?}");
            }
            Err(error) => {
                failures += 1;
                let said = error.node_error().unwrap_or_else(|| panic!("{name}: {error:?}"));
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
    let block = client.block(BlockRef::Optimistic).await.expect("block");
    assert!(block.chunks.iter().all(|chunk| chunk.height_included == block.header.height));
    assert_eq!(block.chunks[0].gas_used, 669_547_687_500);
}

#[tokio::test]
async fn heights_without_a_block_are_told_apart_from_faults() {
    let mut tasks = JoinSet::new();
    for name in ["block-skipped-height", "block-unknown-above-head"] {
        let error = recorded(name, &mut tasks).await.block(BlockRef::Height(120)).await.expect_err(name);
        assert!(error.is_unknown_block(), "{error:?}");
    }
    let error =
        recorded("chunk-not-tracked", &mut tasks).await.block(BlockRef::Final).await.expect_err("chunk");
    assert!(!error.is_unknown_block());
    let error = node(503, b"busy".to_vec(), &mut tasks).await.block(BlockRef::Final).await.expect_err("503");
    assert!(matches!(error, RpcError::Status { status: 503, .. }), "{error:?}");
    let error = node(200, b"{}".to_vec(), &mut tasks).await.block(BlockRef::Final).await.expect_err("empty");
    assert!(matches!(error, RpcError::Shape { .. }), "{error:?}");
}

#[tokio::test]
async fn accounts_keys_and_prices() {
    let mut tasks = JoinSet::new();
    let account = recorded("view_account", &mut tasks).await.account("000_user_0").await.expect("account");
    assert_eq!((account.amount, account.locked), (100_000_000_000_000_000_000_000_000, 0));
    let key = KEY.parse().expect("key");
    let view =
        recorded("view_access_key", &mut tasks).await.access_key("000_user_0", &key).await.expect("key");
    assert_eq!((view.nonce, view.block_height), (3, 79));
    assert_eq!(recorded("gas_price", &mut tasks).await.gas_price().await.expect("price"), 1_000_000_000);
    let error =
        recorded("view_account-unknown", &mut tasks).await.account("nobody").await.expect_err("nobody");
    let said = error.node_error().expect("the node refused");
    assert_eq!(
        (said.cause_name.as_str(), said.info["requested_account_id"].as_str()),
        ("UNKNOWN_ACCOUNT", Some("nobody"))
    );
}

const KEY: &str = "ed25519:5WzaxSpMuz1SXLRJ5k1Y3AkCGuoTygi9N6ufJG36EgCQ";

#[tokio::test]
async fn transactions_are_sent_and_refused() {
    let mut tasks = JoinSet::new();
    let hash =
        recorded("broadcast_tx_async-ok", &mut tasks).await.broadcast_tx_async(b"tx").await.expect("hash");
    assert_eq!(hash.to_string(), "DPz72m7cWPM56WFSwGTBWURgSy4rEVUEniXUfff8Yd93");
    for (name, reached) in [
        ("send_tx-none", WaitUntil::None),
        ("send_tx-nonce-far-ahead", WaitUntil::Included),
        ("send_tx-executed", WaitUntil::ExecutedOptimistic),
    ] {
        let view = recorded(name, &mut tasks).await.send_tx(b"tx", WaitUntil::Included).await.expect(name);
        assert_eq!(view.final_execution_status, reached);
        let executed = reached >= WaitUntil::ExecutedOptimistic;
        assert_eq!(view.status, executed.then(|| ExecutionStatus::SuccessValue(String::new())));
    }
    let client = recorded("send_tx-not-enough-balance", &mut tasks).await;
    let error = client.send_tx(b"tx", WaitUntil::Final).await.expect_err("refused");
    let said = error.node_error().expect("the node refused");
    let reason = &said.data["TxExecutionError"]["InvalidTxError"]["NotEnoughBalance"];
    assert_eq!(
        (said.cause_name.as_str(), reason["signer_id"].as_str()),
        ("INVALID_TRANSACTION", Some("000_user_0"))
    );
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
    let hash = CryptoHash::of(b"block");
    let asked = |error: RpcError| error.node_error().expect("echo").info.clone();
    for (block, params) in [
        (BlockRef::Height(5), json!({ "block_id": 5 })),
        (BlockRef::Hash(hash), json!({ "block_id": hash.to_string() })),
        (BlockRef::Final, json!({ "finality": "final" })),
        (BlockRef::Optimistic, json!({ "finality": "optimistic" })),
    ] {
        let request = asked(client.block(block).await.expect_err("echo"));
        assert_eq!(request, json!({ "jsonrpc": "2.0", "id": 1, "method": "block", "params": params }));
    }
    let request = asked(client.send_tx(b"\x01\x02", WaitUntil::ExecutedOptimistic).await.expect_err("echo"));
    assert_eq!(request["params"], json!({ "signed_tx_base64": "AQI=", "wait_until": "EXECUTED_OPTIMISTIC" }));
    let request = asked(client.broadcast_tx_async(b"\x01\x02").await.expect_err("echo"));
    assert_eq!(request["params"], json!(["AQI="]));
    let request = asked(client.access_key("a.near", &KEY.parse().expect("key")).await.expect_err("echo"));
    assert_eq!(
        request["params"],
        json!({ "request_type": "view_access_key", "finality": "optimistic", "account_id": "a.near", "public_key": KEY })
    );
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
    // Waiting for execution is allowed the node's own polling time on top.
    let before = tokio::time::Instant::now();
    client.send_tx(b"tx", WaitUntil::Final).await.expect_err("silence");
    assert!(before.elapsed() >= POLLING_TIMEOUT + Duration::from_millis(700));
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
        + usize::from(read_answer::<SendTxView>(body, status, call).is_ok())
        + usize::from(read_answer::<AccessKeyView>(body, status, call).is_ok())
}

proptest! {
    #[test]
    fn garbage_is_an_error(body in proptest::collection::vec(any::<u8>(), 0..400), status in 200_u16..600) {
        prop_assert_eq!(read_all(&body, status), 0);
    }

    #[test]
    fn damaged_answers_do_not_panic(
        which in 0_usize..4,
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut body = fixture(["status", "block-with-missed-chunk", "send_tx-executed", "block-skipped-height"][which]);
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
