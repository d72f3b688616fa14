//! `send_tx` with every `wait_until`, its older names, and `tx`.

use serde_json::{Value, json};
use tpsctl_near::{CryptoHash, SignedTransaction};

use super::{
    cluster::{Cluster, fixture, user_key},
    conformance::{assert_like, encoded, signed},
};

async fn send(cluster: &Cluster, index: usize, signed: &SignedTransaction, wait_until: &str) -> (u16, Value) {
    let params = json!({"signed_tx_base64": encoded(signed), "wait_until": wait_until});
    cluster.call(index, "send_tx", params).await
}

fn level(answer: &Value) -> &str {
    answer["result"]["final_execution_status"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_level_is_reached() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 3).await;
    let base = cluster.base(0).await;
    let levels = ["INCLUDED", "EXECUTED_OPTIMISTIC", "INCLUDED_FINAL", "EXECUTED", "FINAL"];
    // One user each, so that they do not wait for one another.
    let sent: Vec<SignedTransaction> =
        (0..levels.len()).map(|user| signed(&format!("000_user_{}", user + 2), 1, 1, base)).collect();
    let one = async |turn: usize| send(&cluster, 0, &sent[turn], levels[turn]).await;
    let answers = tokio::join!(one(0), one(1), one(2), one(3), one(4));
    let answers = [answers.0, answers.1, answers.2, answers.3, answers.4];
    let at_least: [&[&str]; 5] = [
        &levels,
        &["EXECUTED_OPTIMISTIC", "EXECUTED", "FINAL"],
        &["INCLUDED_FINAL", "EXECUTED", "FINAL"],
        &["EXECUTED", "FINAL"],
        &["FINAL"],
    ];
    for (((code, answer), wanted), sent) in answers.iter().zip(at_least).zip(&sent) {
        assert_eq!(*code, 200, "{answer}");
        assert!(wanted.contains(&level(answer)), "{answer}");
        assert_eq!(answer["result"]["transaction"]["hash"], json!(sent.hash()));
    }
    assert_like(&answers[4].1, "send_tx-executed.json");
    let outcome = &answers[4].1["result"];
    let neard = &fixture("send_tx-executed.json")["result"];
    assert_eq!(
        outcome["transaction_outcome"]["outcome"]["gas_burnt"],
        neard["transaction_outcome"]["outcome"]["gas_burnt"]
    );
    assert_eq!(
        outcome["receipts_outcome"][0]["outcome"]["metadata"],
        neard["receipts_outcome"][0]["outcome"]["metadata"]
    );
    assert_eq!(outcome["status"], json!({"SuccessValue": ""}));
    assert_eq!(
        outcome["receipts_outcome"][0]["id"],
        outcome["transaction_outcome"]["outcome"]["receipt_ids"][0]
    );
    // Sent again it is not wrong: the answer is what became of it.
    let (_, again) = send(&cluster, 0, &sent[4], "FINAL").await;
    assert_eq!(again["result"], *outcome);
    let default = json!({"signed_tx_base64": encoded(&signed("000_user_0", 1, 1, base))});
    let (_, answer) = cluster.call(0, "send_tx", default).await;
    assert!(at_least[1].contains(&level(&answer)));
    let commit = json!([encoded(&signed("000_user_0", 2, 1, base))]);
    let (_, answer) = cluster.call(0, "broadcast_tx_commit", commit).await;
    assert!(at_least[1].contains(&level(&answer)));
    let (_, answer) = send(&cluster, 0, &signed("000_user_0", 3, 1, base), "NONE").await;
    assert_eq!(answer, fixture("send_tx-none.json"));
    let (code, answer) = send(&cluster, 0, &signed("000_user_0", 4, 1, base), "SOON").await;
    assert_eq!((code, &answer["error"]["cause"]["name"]), (400, &json!("PARSE_ERROR")));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_found_by_its_hash() {
    let cluster = Cluster::start(&["node0", "node1", "node2"]);
    cluster.reach(2, 3).await;
    cluster.meet().await;
    let base = cluster.base(2).await;
    let sent = signed("000_user_0", 1, 7, base);
    // By way of the RPC node, which keeps all outcomes and follows all shards.
    let (code, answer) = send(&cluster, 2, &sent, "FINAL").await;
    assert_eq!((code, level(&answer)), (200, "FINAL"), "{answer}");
    let (hash, signer) = (sent.hash(), "000_user_0");
    let forms = [
        json!({"tx_hash": hash, "sender_account_id": signer, "wait_until": "FINAL"}),
        json!([hash, signer]),
        json!([encoded(&sent)]),
        json!({"signed_tx_base64": encoded(&sent), "wait_until": "NONE"}),
    ];
    for form in forms {
        let (code, found) = cluster.call(2, "tx", form).await;
        assert_eq!((code, &found["result"]), (200, &answer["result"]));
    }
    let (_, whole) = cluster.call(2, "EXPERIMENTAL_tx_status", json!([hash, signer])).await;
    let receipt = &whole["result"]["receipts"][0];
    assert_eq!(receipt["receipt_id"], answer["result"]["receipts_outcome"][0]["id"]);
    assert_eq!(receipt["receipt"]["Action"]["actions"], json!([{"Transfer": {"deposit": "7"}}]));
    assert_eq!(receipt["predecessor_id"], signer);
    // node0 keeps all outcomes, too, and did not send it.
    let (_, found) = cluster.call(0, "tx", json!({"tx_hash": hash, "sender_account_id": signer})).await;
    assert_eq!(found["result"]["transaction"]["hash"], json!(hash));
    // node1 does not follow the signer's shard.
    let elsewhere = json!({"tx_hash": hash, "sender_account_id": signer, "wait_until": "NONE"});
    let (_, answer) = cluster.call(1, "tx", elsewhere).await;
    assert_eq!(answer, fixture("send_tx-none.json"));
    let (code, answer) = cluster.call(1, "tx", json!([hash, signer])).await;
    assert_eq!((code, &answer["error"]["cause"]), (200, &json!({"name": "DOES_NOT_TRACK_SHARD"})));

    let unknown = CryptoHash([9; 32]);
    let params = json!({"tx_hash": unknown, "sender_account_id": signer, "wait_until": "NONE"});
    let (code, answer) = cluster.call(2, "tx", params).await;
    let cause = json!({"name": "UNKNOWN_TRANSACTION", "info": {"requested_transaction_hash": unknown}});
    assert_eq!((code, &answer["error"]["cause"]), (200, &cause));
    assert_eq!(answer["error"]["data"], format!("Transaction {unknown} doesn't exist"));
    for bad in [
        json!([]),
        json!([hash]),
        json!([hash, signer, "FINAL"]),
        json!({"tx_hash": hash}),
        json!([encoded(&sent), 1]),
    ] {
        let (code, answer) = cluster.call(2, "tx", bad.clone()).await;
        assert_eq!((code, &answer["error"]["cause"]["name"]), (400, &json!("PARSE_ERROR")), "{bad}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_transfer_is_refunded() {
    let cluster = Cluster::start(&["node0", "node1", "node2"]);
    cluster.reach(2, 3).await;
    cluster.meet().await;
    let base = cluster.base(2).await;
    let key = user_key("a01_user_0");
    let mut lost = signed("a01_user_0", 1, 5, base).transaction;
    lost.receiver_id = "nobody".parse().expect("id");
    let lost = lost.sign(&key);
    let (_, answer) = send(&cluster, 2, &lost, "FINAL").await;
    let failure =
        json!({"ActionError": {"index": 0, "kind": {"AccountDoesNotExist": {"account_id": "nobody"}}}});
    assert_eq!(answer["result"]["status"], json!({"Failure": failure}), "{answer}");
    let outcomes = answer["result"]["receipts_outcome"].as_array().expect("a list");
    assert_eq!(outcomes.len(), 2);
    assert_eq!(outcomes[0]["outcome"]["receipt_ids"], json!([outcomes[1]["id"]]));
    assert_eq!(outcomes[1]["outcome"]["executor_id"], "a01_user_0");
    let params = json!([lost.hash(), "a01_user_0"]);
    let (_, whole) = cluster.call(2, "EXPERIMENTAL_tx_status", params).await;
    let refund = &whole["result"]["receipts"][1];
    assert_eq!((&refund["predecessor_id"], &refund["receiver_id"]), (&json!("system"), &json!("a01_user_0")));
    assert_eq!(refund["receipt"]["Action"]["actions"], json!([{"Transfer": {"deposit": "5"}}]));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_as_the_configuration_says() {
    let cluster = Cluster::start_with(&["node0"], |config| {
        config["rpc"]["polling_config"]["polling_timeout"] = json!({"secs": 0, "nanos": 300_000_000});
        config["rpc"]["polling_config"]["polling_interval"] = json!({"secs": 0, "nanos": 50_000_000});
    });
    cluster.up(0).await;
    // Alone, it makes no block.
    let sent = signed("000_user_0", 1, 1, cluster.base(0).await);
    let (code, answer) = send(&cluster, 0, &sent, "INCLUDED").await;
    assert_eq!((code, &answer["error"]["cause"]), (408, &json!({"name": "TIMEOUT_ERROR"})));
    assert_eq!(answer["error"]["data"], "Timeout");
    let (code, _) = cluster.call(0, "tx", json!([sent.hash(), "000_user_0"])).await;
    assert_eq!(code, 408, "a transaction that is not known is waited for");
    cluster.stop().await;
}
