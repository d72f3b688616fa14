//! Answers have neard's shapes: same keys, same types, same error objects, same HTTP codes.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tpsctl_near::{Action, CryptoHash, SignedTransaction, Transaction};

use super::cluster::{Cluster, fixture, user_key};

/// All places that differ in key or kind. Numbers and texts may differ; of lists the first element counts.
fn differences(path: &str, own: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (own, theirs) {
        (Value::Object(own), Value::Object(theirs)) => {
            let keys: std::collections::BTreeSet<&String> = own.keys().chain(theirs.keys()).collect();
            for key in keys {
                match (own.get(key), theirs.get(key)) {
                    (Some(own), Some(theirs)) => differences(&format!("{path}.{key}"), own, theirs, found),
                    (Some(_), None) => found.push(format!("{path}.{key} is not neard's")),
                    _ => found.push(format!("{path}.{key} is missing")),
                }
            }
        }
        (Value::Array(own), Value::Array(theirs)) => {
            if let (Some(own), Some(theirs)) = (own.first(), theirs.first()) {
                differences(&format!("{path}[0]"), own, theirs, found);
            }
        }
        _ if std::mem::discriminant(own) != std::mem::discriminant(theirs) => {
            found.push(format!("{path} is {own}, neard has {theirs}"));
        }
        _ => {}
    }
}

pub(crate) fn assert_like(own: &Value, name: &str) {
    let mut found = Vec::new();
    differences("", own, &fixture(name), &mut found);
    assert!(found.is_empty(), "{name}: {found:#?}");
}

pub(crate) fn signed(signer: &str, nonce: u64, deposit: u128, block_hash: CryptoHash) -> SignedTransaction {
    let key = user_key(signer);
    Transaction {
        signer_id: signer.parse().expect("id"),
        public_key: key.public(),
        nonce,
        receiver_id: "000_user_1".parse().expect("id"),
        block_hash,
        actions: vec![Action::Transfer { deposit }],
    }
    .sign(&key)
}

pub(crate) fn encoded(transaction: &SignedTransaction) -> String {
    BASE64_STANDARD.encode(borsh::to_vec(transaction).expect("memory"))
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_shaped_like_neards() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 4).await;
    assert_like(&cluster.status(0).await.expect("status"), "get-status.json");
    // Not every height has a block.
    let block = cluster.block(0, json!({"finality": "final"})).await.expect("a block");
    let height = block["header"]["height"].clone();
    let cases = [
        ("status", json!([]), "status.json", 200),
        ("block", json!({"block_id": height}), "block-by-height.json", 200),
        ("block", json!([height]), "block-by-height.json", 200),
        ("block", json!({"finality": "final"}), "block-final.json", 200),
        ("block", json!({"block_id": 999_999}), "block-unknown-above-head.json", 200),
        ("no_such_method", json!({}), "method-unknown.json", 400),
        ("gas_price", json!([null]), "gas_price.json", 200),
        (
            "broadcast_tx_async",
            json!([BASE64_STANDARD.encode(b"garbage")]),
            "broadcast_tx_async-garbage.json",
            400,
        ),
    ];
    for (method, params, name, code) in cases {
        let (own, answer) = cluster.call(0, method, params).await;
        assert_eq!(own, code, "{name}");
        assert_like(&answer, name);
    }
    let (code, answer) = cluster.post(0, &json!([])).await;
    assert_eq!(code, 400);
    assert_eq!(answer, fixture("batch-rejected.json"));
    let user = json!({"account_id": "000_user_0", "public_key": user_key("000_user_0").public()});
    let views = [
        ("view_account", "view_account.json"),
        ("view_access_key", "view_access_key.json"),
        ("view_access_key_list", "view_access_key_list.json"),
    ];
    for (request, name) in views {
        let mut params = user.clone();
        params["request_type"] = json!(request);
        params["finality"] = json!("final");
        assert_like(&cluster.call(0, "query", params).await.1, name);
    }
    let unknown = json!({"request_type": "view_account", "finality": "optimistic", "account_id": "nobody0"});
    let (_, answer) = cluster.call(0, "query", unknown).await;
    assert_eq!(answer["error"]["cause"]["name"], "UNAVAILABLE_SHARD", "nobody0 is of node1's shard");
    let unknown = json!({"request_type": "view_account", "finality": "optimistic", "account_id": "nobody"});
    assert_like(&cluster.call(1, "query", unknown).await.1, "view_account-unknown.json");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_answered_like_neards() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 3).await;
    cluster.meet().await;
    let base = cluster.base(0).await;
    let send = async |transaction: &SignedTransaction, wait_until: &str| {
        let params = json!({"signed_tx_base64": encoded(transaction), "wait_until": wait_until});
        cluster.call(0, "send_tx", params).await
    };
    let first = signed("000_user_0", 1, 1, base);
    let (code, answer) = send(&first, "EXECUTED_OPTIMISTIC").await;
    assert_eq!(code, 200);
    assert_like(&answer, "send_tx-executed.json");
    let neard = fixture("send_tx-executed.json");
    for place in ["transaction_outcome", "status"] {
        let gas = |answer: &Value| answer["result"][place]["outcome"]["gas_burnt"].clone();
        assert_eq!(gas(&answer), gas(&neard));
    }
    assert_like(&send(&signed("000_user_0", 2, 1, base), "NONE").await.1, "send_tx-none.json");
    let (_, answer) = send(&signed("000_user_0", 1, 2, base), "FINAL").await;
    assert_like(&answer, "send_tx-invalid-nonce.json");
    let (_, answer) = send(&signed("000_user_0", 9, 10_u128.pow(30), base), "FINAL").await;
    assert_like(&answer, "send_tx-not-enough-balance.json");
    let (_, answer) = send(&signed("000_user_0", 9, 1, CryptoHash([7; 32])), "FINAL").await;
    assert_eq!(answer["error"], fixture("send_tx-expired.json")["error"]);
    let mut forged = signed("000_user_0", 9, 1, base);
    forged.signature.0[5] ^= 1;
    let (_, answer) = send(&forged, "INCLUDED").await;
    assert_eq!(answer["error"], fixture("send_tx-invalid-signature.json")["error"]);
    let async_params = json!([encoded(&signed("000_user_0", 3, 1, base))]);
    assert_like(&cluster.call(0, "broadcast_tx_async", async_params).await.1, "broadcast_tx_async-ok.json");
    // A producer of another shard passes the transaction on and says so.
    let (_, answer) = send(&signed("a01_user_0", 1, 1, base), "FINAL").await;
    assert_eq!(answer["error"]["cause"]["name"], "DOES_NOT_TRACK_SHARD");
    let deadline = tokio::time::Instant::now() + super::cluster::PATIENCE;
    while cluster.nonce(1, "a01_user_0").await != 1 || cluster.nonce(0, "000_user_0").await != 3 {
        assert!(tokio::time::Instant::now() < deadline, "what was sent is included");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    cluster.stop().await;
}
