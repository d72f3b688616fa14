//! The body of a JSON-RPC request, to a node at genesis: what is no request is refused as such, what is one gets an
//! answer with its id, a result or an error as neard's are made, and an HTTP code that neard has.

use std::cell::RefCell;

use serde_json::{Map, Value, json};
use tpsctl_localchain::OfflineRpc;

use crate::corpus::testdata;

thread_local! {
    static NODE: RefCell<OfflineRpc> =
        RefCell::new(OfflineRpc::new(&testdata("neard/home/node0")).expect("the recorded home"));
}

/// A genesis account, a key-like text and a hash, for parameters.
const ACCOUNT: &str = "000_user_0";
const HASH: &str = "11111111111111111111111111111111";

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let calls = [
        ("status", json!([])),
        ("health", json!([null])),
        ("network_info", json!({})),
        ("gas_price", json!([0])),
        ("gas_price", json!([HASH])),
        ("block", json!({"block_id": 0})),
        ("block", json!({"finality": "near-final"})),
        ("block", json!(["latest"])),
        ("chunk", json!({"block_id": 0, "shard_id": 1})),
        ("chunk", json!([[HASH, 0]])),
        ("chunk", json!({"chunk_id": HASH})),
        ("validators", json!([null])),
        ("validators", json!({"epoch_id": HASH})),
        ("tx", json!({"tx_hash": HASH, "sender_account_id": ACCOUNT, "wait_until": "NONE"})),
        ("EXPERIMENTAL_tx_status", json!([HASH, ACCOUNT])),
        ("send_tx", json!({"signed_tx_base64": "AAAA", "wait_until": "INCLUDED"})),
        ("broadcast_tx_async", json!(["AAAA"])),
        ("broadcast_tx_commit", json!({"signed_tx_base64": "AAAA"})),
        ("query", json!({"request_type": "view_account", "finality": "final", "account_id": ACCOUNT})),
        ("query", json!({"request_type": "view_access_key_list", "block_id": 0, "account_id": ACCOUNT})),
        ("query", json!([format!("account/{ACCOUNT}"), ""])),
        ("EXPERIMENTAL_protocol_config", json!({"finality": "final"})),
        ("genesis_config", json!(null)),
        ("no_such_method", json!({"a": [1, -1, 1.5, true, "x"]})),
    ];
    let body = |(method, params): (&str, Value)| {
        json!({"jsonrpc": "2.0", "id": "seed", "method": method, "params": params}).to_string().into_bytes()
    };
    let mut seeds: Vec<Vec<u8>> = calls.into_iter().map(body).collect();
    seeds.push(b"[]".to_vec());
    seeds.push(br#"{"jsonrpc":"2.0","id":[1],"method":"status","params":[]}"#.to_vec());
    seeds.push(br#"{"jsonrpc":"2.0","method":"status"}"#.to_vec());
    seeds.push(br#"{"jsonrpc":"1.0","id":1,"method":"status","params":[],"more":0}"#.to_vec());
    seeds
}

pub(super) fn run(data: &[u8]) {
    let (status, text) = NODE.with_borrow_mut(|node| node.answer(data));
    let Ok(message) = serde_json::from_slice::<Value>(data) else {
        assert_eq!(status, 400, "{text}");
        return;
    };
    let answer: Value = serde_json::from_str(&text).expect("JSON is answered with JSON");
    let fields = answer.as_object().expect("an object");
    assert_eq!(fields["jsonrpc"], "2.0");
    if let Some(id) = id_of(&message) {
        return check_answer(status, fields, id);
    }
    assert_eq!((status, &fields["id"]), (400, &Value::Null), "{text}");
    assert_eq!(fields["error"]["code"], -32_700, "{text}");
}

/// The id of a request; none where the message is no request.
fn id_of(message: &Value) -> Option<&Value> {
    let fields = message.as_object()?;
    let are_known = fields.keys().all(|key| ["jsonrpc", "id", "method", "params"].contains(&key.as_str()));
    let is_request = are_known && fields.get("jsonrpc")? == "2.0" && fields.get("method")?.is_string();
    let may_be_id = |id: &&Value| match id {
        Value::String(text) => text.len() <= 256,
        id => !id.is_array() && !id.is_object(),
    };
    is_request.then(|| fields.get("id"))?.filter(may_be_id)
}

fn check_answer(status: u16, fields: &Map<String, Value>, id: &Value) {
    assert_eq!(&fields["id"], id);
    assert!(fields.contains_key("result") != fields.contains_key("error"), "{fields:?}");
    let Some(error) = fields.get("error") else {
        assert_eq!(status, 200);
        return;
    };
    assert!([200, 400, 408, 422].contains(&status), "{status}: {error}");
    for text in ["/name", "/cause/name", "/message"] {
        assert!(error.pointer(text).is_some_and(Value::is_string), "{text}: {error}");
    }
    assert!(error["code"].is_i64(), "{error}");
}
