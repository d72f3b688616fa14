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
