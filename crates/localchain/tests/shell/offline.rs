//! JSON-RPC bodies without sockets.

use serde_json::{Value, json};
use tpsctl_localchain::OfflineRpc;

use super::{
    cluster::{fixture, testdata},
    conformance::{assert_like, encoded, signed},
};

#[test]
fn bodies_are_answered_at_genesis() {
    let mut rpc = OfflineRpc::new(&testdata().join("home/node0")).expect("a home");
    let mut call = |method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let (status, text) = rpc.answer(body.as_bytes());
        (status, serde_json::from_str::<Value>(&text).expect("JSON"))
    };
    let (status, answer) = call("status", json!([]));
    assert_eq!((status, &answer["result"]["sync_info"]["latest_block_height"]), (200, &json!(0)));
    assert_like(&call("validators", json!([null])).1, "validators.json");
    assert_eq!(call("no_such_method", json!({})), (400, fixture("method-unknown.json")));
    let genesis = answer["result"]["genesis_hash"].as_str().expect("hash").parse().expect("hash");
    let transfer = encoded(&signed("000_user_0", 1, 1, genesis));
    let (status, answer) = call("send_tx", json!({"signed_tx_base64": transfer, "wait_until": "FINAL"}));
    assert_eq!((status, &answer["error"]["cause"]["name"]), (408, &json!("TIMEOUT_ERROR")));
    for method in ["block", "chunk", "query", "tx", "gas_price", "network_info", "genesis_config", "health"] {
        let (status, answer) = call(method, json!([[[]], {"a": [1, "x"]}]));
        assert!((200..500).contains(&status), "{method}: {answer}");
    }
    let mut rpc = OfflineRpc::new(&testdata().join("home/node2")).expect("a home");
    for body in [&b""[..], b"\xff\xfe", b"{", b"[]", b"null", b"1e999", "[".repeat(100_000).as_bytes()] {
        assert_eq!(rpc.answer(body).0, 400);
    }
}

/// What a client says is not kept for it beyond what it takes to answer.
#[test]
fn what_is_long_is_not_repeated() {
    let mut rpc = OfflineRpc::new(&testdata().join("home/node0")).expect("a home");
    let mut ask = |id: Value, method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        let (status, text) = rpc.answer(body.as_bytes());
        assert!(text.len() < 20_000, "{method}: {} bytes", text.len());
        (status, serde_json::from_str::<Value>(&text).expect("JSON"))
    };
    for id in [json!(null), json!(7), json!(-1.5), json!(true), json!("x".repeat(256))] {
        let (status, answer) = ask(id.clone(), "status", json!([]));
        assert_eq!((status, &answer["id"]), (200, &id));
    }
    for id in [json!([]), json!({}), json!([[1], 2]), json!({"a": 1}), json!("x".repeat(257))] {
        let (status, answer) = ask(id, "status", json!([]));
        assert_eq!((status, &answer["id"]), (400, &Value::Null));
        assert_eq!(answer["error"]["cause"]["name"], "PARSE_ERROR");
        assert_eq!(answer["error"]["data"], "JSON RPC Request format was expected");
    }
    let long = "\u{e9}".repeat(1 << 20);
    let (status, answer) = ask(json!(1), &long, json!([]));
    let cause = &answer["error"]["cause"];
    assert_eq!((status, &cause["name"]), (400, &json!("METHOD_NOT_FOUND")));
    assert_eq!(cause["info"]["method_name"], format!("{}...", "\u{e9}".repeat(1_000)));
    for (method, params) in [
        ("gas_price", json!({"x": long})),
        ("gas_price", json!([long, long])),
        ("block", json!([long])),
        ("block", json!({"finality": long})),
        ("query", json!({"request_type": long, "finality": "final"})),
        ("query", json!([long, ""])),
        ("send_tx", json!({"signed_tx_base64": long, "wait_until": long})),
        ("tx", json!([long, long])),
    ] {
        let (status, _) = ask(json!(1), method, params);
        assert!([200, 400].contains(&status), "{method}: {status}");
    }
}
