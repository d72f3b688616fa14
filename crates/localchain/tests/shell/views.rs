//! Blocks, chunks, validators and configurations over JSON-RPC, in all forms of parameters, and every error.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::time::Instant;
use tpsctl_testports::free_addr;

use super::{
    cluster::{Cluster, PATIENCE, fixture, user_key},
    conformance::{assert_like, encoded, signed},
};

async fn ok(cluster: &Cluster, method: &str, params: Value) -> Value {
    let (code, answer) = cluster.call(0, method, params.clone()).await;
    assert_eq!(code, 200, "{method} {params}: {answer}");
    answer["result"].clone()
}

/// HTTP code, name of the cause, data.
async fn failed(cluster: &Cluster, method: &str, params: Value) -> (u16, String, Value) {
    let (code, answer) = cluster.call(0, method, params).await;
    let error = &answer["error"];
    (code, error["cause"]["name"].as_str().unwrap_or_default().to_owned(), error["data"].clone())
}

/// The next height above that has a block in which the shard's chunk is new.
async fn next_with_chunk(cluster: &Cluster, mut height: u64, shard: usize) -> u64 {
    loop {
        height += 1;
        cluster.reach(0, height).await;
        let block = cluster.block(0, json!([height])).await;
        if block.is_some_and(|block| block["header"]["chunk_mask"][shard] == true) {
            return height;
        }
    }
}

/// A height that has a block that is final.
async fn final_height(cluster: &Cluster) -> Value {
    ok(cluster, "block", json!({"finality": "final"})).await["header"]["height"].clone()
}

/// The blocks above genesis up to this one, newest first.
async fn chain(cluster: &Cluster, mut hash: Value) -> Vec<Value> {
    let mut blocks = Vec::new();
    loop {
        let block = ok(cluster, "block", json!([hash])).await;
        if block["header"]["height"] == 0 {
            return blocks;
        }
        hash = block["header"]["prev_hash"].clone();
        blocks.push(block);
    }
}

/// The answer to `validators`, and the hash of the head that it tells of.
async fn validators_at_a_head(cluster: &Cluster) -> (Value, Value) {
    let head =
        async || ok(cluster, "block", json!({"finality": "optimistic"})).await["header"]["hash"].clone();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let before = head().await;
        let answer = cluster.call(0, "validators", json!([null])).await.1;
        if head().await == before {
            return (answer, before);
        }
        assert!(Instant::now() < deadline, "the head changes all the time");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_are_found_in_every_form() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 2).await;
    let sent = signed("000_user_0", 1, 1, cluster.base(0).await);
    let params = json!({"signed_tx_base64": encoded(&sent), "wait_until": "FINAL"});
    let outcome = ok(&cluster, "send_tx", params).await;
    let hash = &outcome["transaction_outcome"]["block_hash"];
    let block = ok(&cluster, "block", json!([hash])).await;
    let height = &block["header"]["height"];
    let chunk = ok(&cluster, "chunk", json!({"block_id": height, "shard_id": 0})).await;
    assert_like(&json!({"jsonrpc": "2.0", "id": 1, "result": chunk}), "chunk.json");
    assert_eq!(chunk["transactions"][0]["hash"], json!(sent.hash()));
    assert_eq!(chunk["header"], block["chunks"][0]);
    let id = &chunk["header"]["chunk_hash"];
    let forms = [
        json!({"chunk_id": id}),
        json!([id]),
        json!([[hash, 0]]),
        json!([[height, 0]]),
        json!({"block_id": hash, "shard_id": 0}),
    ];
    for form in forms {
        assert_eq!(ok(&cluster, "chunk", form).await, chunk);
    }
    // Its receipt is in the shard's next chunk, under the id that the outcome names.
    let next = next_with_chunk(&cluster, height.as_u64().expect("height"), 0).await;
    let next = ok(&cluster, "chunk", json!({"block_id": next, "shard_id": 0})).await;
    let receipt = &next["receipts"][0];
    assert_eq!(receipt["receipt_id"], outcome["receipts_outcome"][0]["id"]);
    assert_eq!(receipt["receipt"]["Action"]["signer_public_key"], json!(user_key("000_user_0").public()));
    let genesis = ok(&cluster, "chunk", json!([[0, 0]])).await;
    assert_eq!(genesis["transactions"], json!([]));

    let other = block["chunks"][1]["chunk_hash"].clone();
    let (code, answer) = cluster.call(0, "chunk", json!([other])).await;
    assert_eq!(code, 200);
    assert_like(&answer, "chunk-not-tracked.json");
    assert_eq!(answer["error"]["cause"]["info"]["chunk_hash"], other);
    let (code, cause, data) = failed(&cluster, "chunk", json!({"block_id": height, "shard_id": 9})).await;
    assert_eq!((code, &*cause, data), (200, "INVALID_SHARD_ID", json!("Shard id 9 does not exist")));
    let (code, cause, _) = failed(&cluster, "chunk", json!([[999_999, 0]])).await;
    assert_eq!((code, &*cause), (200, "UNKNOWN_BLOCK"));
    for bad in [json!([]), json!({}), json!(null), json!([1]), json!({"chunk_id": "x"}), json!([[1]])] {
        assert_eq!(failed(&cluster, "chunk", bad).await.1, "PARSE_ERROR");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn validators_have_produced_what_the_blocks_show() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 5).await;
    let (answer, head) = validators_at_a_head(&cluster).await;
    assert_like(&answer, "validators.json");
    let validators = answer["result"]["current_validators"].as_array().expect("a list").clone();
    let sum = |key: &str| validators.iter().map(|own| own[key].as_u64().expect("count")).sum::<u64>();
    let (mut authors, mut new) = (BTreeMap::<String, u64>::new(), 0);
    let blocks = chain(&cluster, head).await;
    for block in &blocks {
        *authors.entry(block["author"].as_str().expect("author").to_owned()).or_default() += 1;
        new += block["header"]["chunks_included"].as_u64().expect("count");
    }
    let head = &blocks.first().expect("the head")["header"];
    let before_head = &blocks.get(1).expect("one before it")["header"]["height"];
    let blocks = blocks.len() as u64;
    assert_eq!(sum("num_produced_blocks"), blocks);
    for own in &validators {
        let made = authors.get(own["account_id"].as_str().expect("id")).copied().unwrap_or(0);
        assert_eq!(own["num_produced_blocks"], made);
        let shards = own["num_expected_chunks_per_shard"].as_array().expect("a list");
        assert_eq!(shards.len(), own["shards"].as_array().expect("a list").len());
    }
    assert_eq!(json!(sum("num_expected_blocks")), head["height"], "skipped heights are expected, too");
    assert_eq!(sum("num_expected_chunks"), 2 * blocks);
    assert_eq!(sum("num_produced_chunks"), new);
    assert_eq!(sum("num_produced_endorsements"), new, "one mandate a shard");
    let by_id = ok(&cluster, "validators", json!({"epoch_id": head["epoch_id"]})).await;
    assert_eq!(by_id["epoch_start_height"], 1);
    // A block that the next one follows in the same epoch does not end it.
    let (_, cause, data) = failed(&cluster, "validators", json!([before_head])).await;
    assert_eq!((&*cause, data), ("VALIDATOR_INFO_UNAVAILABLE", json!("Validator info unavailable")));
    for unknown in [
        json!([999_999]),
        json!({"block_id": 999_999}),
        json!({"epoch_id": user_key("x").public().to_string()[8..]}),
    ] {
        assert_eq!(failed(&cluster, "validators", unknown).await.1, "UNKNOWN_EPOCH");
    }
    assert_eq!(failed(&cluster, "validators", json!([])).await.1, "PARSE_ERROR");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_that_ended_is_asked_for_by_its_last_block() {
    let cluster = Cluster::start_with(&["node0", "node1"], |_| {});
    let mut cluster = cluster;
    for index in 0..2 {
        cluster.stop_member(index).await;
        cluster.edit_genesis(index, |genesis| genesis["epoch_length"] = json!(4));
    }
    for index in 0..2 {
        cluster.start_member(index);
    }
    cluster.reach(0, 7).await;
    let mut last = Value::Null;
    for height in 1..=4 {
        let (_, answer) = cluster.call(0, "block", json!([height])).await;
        if let Some(block) = answer.get("result") {
            last = block["header"].clone();
        }
    }
    let answer = ok(&cluster, "validators", json!([last["height"]])).await;
    let by_id = ok(&cluster, "validators", json!({"epoch_id": last["epoch_id"]})).await;
    assert_eq!(answer, by_id);
    assert_eq!((&answer["epoch_height"], &answer["epoch_start_height"]), (&json!(1), &json!(1)));
    let validators = answer["current_validators"].as_array().expect("a list");
    let expected: u64 =
        validators.iter().map(|own| own["num_expected_blocks"].as_u64().expect("count")).sum();
    assert_eq!(expected, last["height"].as_u64().expect("height"));
    assert_eq!(validators[0]["shards_endorsed"], json!([]));
    let running = ok(&cluster, "validators", json!([null])).await;
    assert!(running["epoch_height"].as_u64() >= Some(2));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configurations_are_those_of_the_home() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 2).await;
    let config = ok(&cluster, "EXPERIMENTAL_protocol_config", json!({"finality": "final"})).await;
    assert_eq!(config, fixture("protocol_config-benchmarknet.json")["result"], "neard's, key by key");
    let (_, cause, data) =
        failed(&cluster, "EXPERIMENTAL_protocol_config", json!({"block_id": 999_999})).await;
    assert_eq!((&*cause, data), ("UNKNOWN_BLOCK", json!("Block Not Found: BLOCK HEIGHT: 999999")));
    let genesis = ok(&cluster, "genesis_config", json!(null)).await;
    assert_eq!(genesis, ok(&cluster, "EXPERIMENTAL_genesis_config", json!([])).await);
    let path = super::cluster::testdata().join("home/node0/genesis.json");
    let mut file: Value = serde_json::from_slice(&fs_err::read(path).expect("fixture")).expect("JSON");
    file.as_object_mut().expect("an object").remove("records");
    file["genesis_time"] = json!("2026-11-30T12:00:00Z");
    for (key, own) in file.as_object().expect("an object") {
        // Shares are shown as they are kept, which may be with other numbers.
        if key != "online_min_threshold" {
            assert_eq!(genesis[key], *own, "{key}");
        }
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prices_and_blocks_in_every_form() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 4).await;
    let height = final_height(&cluster).await;
    let hash = ok(&cluster, "block", json!([height])).await["header"]["hash"].clone();
    for params in [
        json!([null]),
        json!([height]),
        json!([hash]),
        json!({"block_id": null}),
        json!({"block_id": height}),
    ] {
        let price = ok(&cluster, "gas_price", params).await;
        assert_eq!(price, fixture("gas_price.json")["result"]);
    }
    let nowhere = "11111111111111111111111111111112";
    let (code, _, data) = failed(&cluster, "gas_price", json!([nowhere])).await;
    let text = format!("DB Not Found Error: BLOCK HEADER: {nowhere} \n Cause: Unknown");
    assert_eq!((code, data), (200, json!(text)));
    assert_eq!(failed(&cluster, "gas_price", json!(null)).await.1, "PARSE_ERROR");
    for at in [json!({"sync_checkpoint": "genesis"}), json!({"block_id": 0}), json!([0])] {
        assert_eq!(ok(&cluster, "block", at).await["header"]["height"], 0);
    }
    let (_, _, data) = failed(&cluster, "block", json!([nowhere])).await;
    assert_eq!(data, json!(format!("DB Not Found Error: BLOCK: {nowhere} \n Cause: Unknown")));
    for bad in [json!({}), json!([]), json!({"finality": "soon"}), json!({"block_id": "x"}), json!("x")] {
        let (code, cause, _) = failed(&cluster, "block", bad).await;
        assert_eq!((code, &*cause), (400, "PARSE_ERROR"));
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_in_every_form() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 3).await;
    let key = user_key("000_user_0").public();
    let by_path = ok(&cluster, "query", json!(["account/000_user_0", ""])).await;
    assert_eq!(by_path["amount"], fixture("view_account.json")["result"]["amount"]);
    let by_path = ok(&cluster, "query", json!([format!("access_key/000_user_0/{key}"), ""])).await;
    assert_eq!(by_path["permission"], "FullAccess");
    let by_path = ok(&cluster, "query", json!(["access_key/000_user_0", ""])).await;
    assert_eq!(by_path["keys"][0]["public_key"], json!(key));
    let height = by_path["block_height"].clone();
    let at = json!({"request_type": "view_account", "account_id": "000_user_0", "block_id": height});
    assert_eq!(ok(&cluster, "query", at).await["block_height"], height);
    let stranger = user_key("nobody").public();
    let missing = json!({
        "request_type": "view_access_key", "finality": "final", "account_id": "000_user_0", "public_key": stranger,
    });
    let answer = ok(&cluster, "query", missing).await;
    assert_eq!(answer["error"], format!("access key {stranger} does not exist while viewing"));
    assert_eq!(answer["logs"], json!([]));
    let far = json!({"request_type": "view_account", "account_id": "000_user_0", "block_id": 999_999});
    let (code, answer) = cluster.call(0, "query", far).await;
    assert_eq!((code, &answer["error"]["cause"]["name"]), (200, &json!("UNKNOWN_BLOCK")));
    assert_eq!(answer["error"]["cause"]["info"], json!({"block_reference": {"block_id": 999_999}}));
    for bad in [
        json!(["account", ""]),
        json!(["code/x", ""]),
        json!([]),
        json!({"finality": "final"}),
        json!(["account/B!", ""]),
    ] {
        assert_eq!(failed(&cluster, "query", bad).await.1, "PARSE_ERROR");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_network_is_shown() {
    let cluster = Cluster::start(&["node0", "node1"]);
    cluster.reach(0, 3).await;
    let (_, answer) = cluster.call(0, "network_info", json!([])).await;
    assert_like(&answer, "network_info.json");
    assert_eq!(answer["result"]["num_active_peers"], 1);
    assert_eq!(answer["result"]["known_producers"].as_array().map(Vec::len), Some(2));
    let by_get: Value =
        serde_json::from_str(&cluster.get(0, "/network_info").await.expect("an answer")).expect("JSON");
    assert_eq!(by_get["active_peers"], answer["result"]["active_peers"]);
    assert_eq!(cluster.get(0, "/health").await.as_deref(), Some("null"));
    assert_eq!(ok(&cluster, "health", json!([])).await, Value::Null);
    for method in ["changes", "client_config", "EXPERIMENTAL_receipt", "light_client_proof"] {
        let (code, cause, data) = failed(&cluster, method, json!([])).await;
        assert_eq!((code, &*cause, data), (400, "METHOD_NOT_FOUND", json!(method)));
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_refused_as_http_and_as_json_rpc() {
    let metrics = free_addr();
    let cluster = Cluster::start_with(&["node0"], |config| {
        config["rpc"]["prometheus_addr"] = json!(metrics.to_string());
        config["rpc"]["limits_config"]["json_payload_max_size"] = json!(1_000);
    });
    cluster.up(0).await;
    let client = reqwest::Client::new();
    let url = format!("http://{}/", cluster.members[0].rpc);
    let post = async |body: String, kind: &str| {
        let answer =
            client.post(&url).header("content-type", kind).body(body).send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    };
    let good = json!({"jsonrpc": "2.0", "id": "x", "method": "gas_price", "params": [null]});
    assert_eq!(post(good.to_string(), "application/json; charset=utf-8").await.0, 200);
    assert_eq!(post(good.to_string(), "text/plain").await.0, 415);
    let long = format!("{}{}", good, " ".repeat(1_000));
    assert_eq!(post(long, "application/json").await, (413, "length limit exceeded".to_owned()));
    let (code, text) = post("{".to_owned(), "application/json").await;
    assert_eq!(code, 400);
    assert!(text.starts_with("Failed to parse the request body as JSON: "), "{text}");
    let mut refused = vec![json!([good]), json!("x"), json!(["2.0", 1, "status", []])];
    for (key, value) in [("jsonrpc", json!("1.0")), ("method", json!(3)), ("more", json!(1))] {
        let mut bad = good.clone();
        bad[key] = value;
        refused.push(bad);
    }
    for key in ["id", "jsonrpc", "method"] {
        let mut bad = good.clone();
        bad.as_object_mut().expect("an object").remove(key);
        refused.push(bad);
    }
    for bad in refused {
        let (code, text) = post(bad.to_string(), "application/json").await;
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((code, answer), (400, fixture("batch-rejected.json")), "{bad}");
    }
    let answer = client.get(format!("http://{metrics}/metrics")).send().await.expect("an answer");
    assert!(answer.text().await.expect("text").contains("near_block_height_head"));
    let answer = client.get(format!("http://{metrics}/status")).send().await.expect("an answer");
    assert_eq!(answer.status(), 404, "nothing but metrics");
    cluster.stop().await;
}
