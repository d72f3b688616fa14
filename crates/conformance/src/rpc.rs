//! JSON-RPC: what does not need a transaction.

use serde_json::{Value, json};
use tpsctl_near::CryptoHash;

use crate::{
    Report, Subject,
    report::{Checked, Outcome, ensure, equal, fail, skip},
    shape::like,
    subject::Answer,
};

/// A recorded answer of neard.
macro_rules! recorded {
    ($name:literal) => {
        serde_json::from_str::<serde_json::Value>(include_str!(concat!(
            "../../../testdata/neard/rpc/",
            $name,
            ".json"
        )))
        .expect("a recording is JSON")
    };
}
pub(crate) use recorded;

/// neard's `rpc.limits_config.json_payload_max_size` unless its config says otherwise.
const BODY_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Heights looked at for one that was skipped.
const HEIGHTS_SEARCHED: u64 = 60;

pub(crate) async fn check(subject: &Subject, report: &mut Report) {
    report.add("rpc/status", status(subject).await);
    report.add("rpc/get_status", get_status(subject).await);
    report.add("rpc/health", health(subject).await);
    report.add("rpc/block", block(subject).await);
    report.add("rpc/block_finality", block_finality(subject).await);
    report.add("rpc/blocks_are_a_chain", blocks_are_a_chain(subject).await);
    report.add("rpc/block_above_head", block_above_head(subject).await);
    report.add("rpc/block_skipped", block_skipped(subject).await);
    report.add("rpc/chunk", chunk(subject).await);
    report.add("rpc/chunk_unknown", chunk_unknown(subject).await);
    report.add("rpc/validators", validators(subject).await);
    report.add("rpc/gas_price", gas_price(subject).await);
    report.add("rpc/network_info", network_info(subject).await);
    report.add("rpc/genesis_config", genesis_config(subject).await);
    report.add("rpc/protocol_config", protocol_config(subject).await);
    report.add("rpc/views", views(subject).await);
    report.add("rpc/view_unknown_account", view_unknown_account(subject).await);
    report.add("rpc/method_unknown", method_unknown(subject).await);
    report.add("rpc/batch_refused", batch_refused(subject).await);
    report.add("rpc/request_without_id_refused", request_without_id(subject).await);
    report.add("rpc/params_wrong", params_wrong(subject).await);
    report.add("rpc/body_limit", body_limit(subject).await);
}

/// An answer is an error like the recorded one, with its cause, code and HTTP code.
pub(crate) fn error_like(answer: &Answer, recorded: &Value, code: u16) -> Checked {
    equal("HTTP code", &answer.code, &code)?;
    like(&answer.body["error"], &recorded["error"])?;
    for place in ["/error/name", "/error/cause/name", "/error/code", "/error/message"] {
        equal(place, &answer.body.pointer(place), &recorded.pointer(place))?;
    }
    Ok(())
}

async fn status(subject: &Subject) -> Checked {
    let answer = subject.call("status", json!([])).await?;
    equal("HTTP code", &answer.code, &200)?;
    like(&answer.body["result"], &recorded!("status")["result"])
}

async fn get_status(subject: &Subject) -> Checked {
    let answer = subject.get("/status").await?;
    equal("HTTP code", &answer.code, &200)?;
    like(&answer.body, &recorded!("get-status"))?;
    let posted = subject.result("status", json!([])).await?;
    equal("the same genesis by POST", &posted["genesis_hash"], &answer.body["genesis_hash"])
}

async fn health(subject: &Subject) -> Checked {
    let answer = subject.get("/health").await?;
    equal("HTTP code of GET /health", &answer.code, &200)?;
    let posted = subject.call("health", json!([])).await?;
    equal("HTTP code of `health`", &posted.code, &200)?;
    equal("an error of `health`", &posted.body.get("error"), &None)
}

async fn block(subject: &Subject) -> Checked {
    let height = subject.height().await?;
    let by_height = subject.result("block", json!({"block_id": height})).await?;
    like(&by_height, &recorded!("block-by-height")["result"])?;
    equal("height", &by_height["header"]["height"], &json!(height))?;
    let by_hash = subject.result("block", json!({"block_id": by_height["header"]["hash"]})).await?;
    equal("the same block by its hash", &by_hash, &by_height)?;
    let by_position = subject.result("block", json!([height])).await?;
    equal("the same block by position", &by_position, &by_height)?;
    let chunks = by_height["chunks"].as_array().map_or(0, Vec::len);
    let mask = by_height["header"]["chunk_mask"].as_array().map_or(0, Vec::len);
    let shards = subject.genesis.config.shard_layout.len();
    equal("chunks and chunk_mask, one a shard,", &(chunks, mask), &(shards, shards))
}

async fn block_finality(subject: &Subject) -> Checked {
    let mut heights = Vec::new();
    for finality in ["final", "near-final", "optimistic"] {
        let block = subject.result("block", json!({"finality": finality})).await?;
        like(&block, &recorded!("block-final")["result"])?;
        heights.push(block["header"]["height"].as_u64());
    }
    ensure(heights.is_sorted(), "final <= near-final <= optimistic", format!("{heights:?}"))
}

/// From the last final block back.
async fn blocks_are_a_chain(subject: &Subject) -> Checked {
    let mut block = subject.result("block", json!({"finality": "final"})).await?;
    for _ in 0..5 {
        let header = &block["header"];
        let height = header["height"].as_u64();
        ensure(height.is_some(), "a height", header)?;
        if height <= Some(subject.genesis.config.genesis_height + 1) {
            break;
        }
        let fresh = block["chunks"].as_array().into_iter().flatten();
        let mask: Vec<Value> =
            fresh.map(|chunk| json!(chunk["height_included"].as_u64() == height)).collect();
        equal("chunk_mask by height_included", &header["chunk_mask"], &json!(mask))?;
        let included = mask.iter().filter(|is_new| **is_new == json!(true)).count();
        equal("chunks_included", &header["chunks_included"], &json!(included))?;
        let parent = subject.result("block", json!({"block_id": header["prev_hash"]})).await?;
        equal("prev_height", &header["prev_height"], &parent["header"]["height"])?;
        let time = |of: &Value| of["timestamp_nanosec"].as_str().and_then(|text| text.parse::<u64>().ok());
        ensure(
            time(header) > time(&parent["header"]),
            "a later timestamp_nanosec than the parent's",
            format!("{:?} after {:?}", time(header), time(&parent["header"])),
        )?;
        block = parent;
    }
    Ok(())
}

async fn block_above_head(subject: &Subject) -> Checked {
    let answer = subject.call("block", json!({"block_id": 999_999_999})).await?;
    error_like(&answer, &recorded!("block-unknown-above-head"), 200)
}

async fn block_skipped(subject: &Subject) -> Checked {
    let head = subject.height().await?;
    let lowest = (subject.genesis.config.genesis_height + 1).max(head.saturating_sub(HEIGHTS_SEARCHED));
    for height in (lowest..head).rev() {
        let answer = subject.call("block", json!({"block_id": height})).await?;
        if answer.code != 200 {
            return error_like(&answer, &recorded!("block-skipped-height"), 422);
        }
    }
    skip(format!("no height from {lowest} to {head} was skipped"))
}

/// A new chunk of the last final block that the node has, by every way to ask for it.
async fn chunk(subject: &Subject) -> Checked {
    let block = subject.result("block", json!({"finality": "final"})).await?;
    let hash = &block["header"]["hash"];
    let mut refused = Value::Null;
    for header in block["chunks"].as_array().into_iter().flatten() {
        let answer = subject.call("chunk", json!({"block_id": hash, "shard_id": header["shard_id"]})).await?;
        let Some(chunk) = answer.body.get("result") else {
            refused = answer.body;
            continue;
        };
        equal("HTTP code", &answer.code, &200)?;
        like(chunk, &recorded!("chunk")["result"])?;
        equal("chunk_hash", &chunk["header"]["chunk_hash"], &header["chunk_hash"])?;
        let by_hash = subject.result("chunk", json!({"chunk_id": header["chunk_hash"]})).await?;
        equal("the same by its hash", &by_hash, chunk)?;
        let by_position = subject.result("chunk", json!([header["chunk_hash"]])).await?;
        return equal("the same by position", &by_position, chunk);
    }
    fail("a chunk that the node has", refused)
}

async fn chunk_unknown(subject: &Subject) -> Checked {
    let answer = subject.call("chunk", json!({"chunk_id": CryptoHash([7; 32])})).await?;
    error_like(&answer, &recorded!("chunk-not-tracked"), 200)
}

async fn validators(subject: &Subject) -> Checked {
    let result = subject.result("validators", json!([null])).await?;
    like(&result, &recorded!("validators")["result"])?;
    let current = result["current_validators"].as_array().cloned().unwrap_or_default();
    equal("validators of genesis", &current.len(), &subject.genesis.config.validators.len())?;
    for validator in &current {
        for what in ["blocks", "chunks", "endorsements"] {
            let number = |kind: &str| validator[format!("num_{kind}_{what}")].as_u64();
            ensure(
                number("produced") <= number("expected"),
                format!("at most as many {what} as expected"),
                validator,
            )?;
        }
    }
    let block = subject.result("block", json!({"finality": "final"})).await?;
    let by_block = subject.result("validators", json!([block["header"]["hash"]])).await;
    match by_block {
        Ok(result) => like(&result, &recorded!("validators")["result"]),
        // Only the last block of an epoch may be asked for; others are refused (chain/client/src/view_client_actor.rs:886).
        Err(Outcome::Fail { seen, .. }) if seen.contains("VALIDATOR_INFO_UNAVAILABLE") => Ok(()),
        Err(outcome) => Err(outcome),
    }
}

async fn gas_price(subject: &Subject) -> Checked {
    let result = subject.result("gas_price", json!([null])).await?;
    like(&result, &recorded!("gas_price")["result"])?;
    let block = subject.result("block", json!({"finality": "final"})).await?;
    let at = subject.result("gas_price", json!([block["header"]["height"]])).await?;
    equal("the price of a block", &at["gas_price"], &block["header"]["gas_price"])
}

async fn network_info(subject: &Subject) -> Checked {
    let result = subject.result("network_info", json!([])).await?;
    like(&result, &recorded!("network_info")["result"])?;
    let peers = result["active_peers"].as_array().map(Vec::len);
    ensure(
        result["num_active_peers"].as_u64().map(|peers| peers as usize) == peers,
        "as many active_peers as num_active_peers",
        &result,
    )
}

/// What genesis.json says.
async fn genesis_config(subject: &Subject) -> Checked {
    let mut answer = subject.call("genesis_config", json!([])).await?;
    if answer.body.get("result").is_none() {
        answer = subject.call("EXPERIMENTAL_genesis_config", json!([])).await?;
    }
    let result = &answer.body["result"];
    let own = serde_json::to_value(&subject.genesis.config).or_else(|error| fail("JSON", error))?;
    like(result, &own)?;
    for key in ["chain_id", "genesis_height", "epoch_length", "gas_limit", "min_gas_price", "total_supply"] {
        equal(key, &result[key], &own[key])?;
    }
    Ok(())
}

async fn protocol_config(subject: &Subject) -> Checked {
    let params = json!({"finality": "final"});
    let result = subject.result("EXPERIMENTAL_protocol_config", params).await?;
    let recorded = recorded!("protocol_config-benchmarknet");
    like(&result, &recorded["result"])?;
    equal("chain_id", &result["chain_id"], &json!(subject.genesis.config.chain_id))?;
    let place = "/runtime_config/transaction_costs/action_receipt_creation_config";
    equal(place, &result.pointer(place), &recorded["result"].pointer(place))
}

async fn views(subject: &Subject) -> Checked {
    let Some((account, key)) = subject.signer().await else {
        return skip("no account whose key is known is of a shard that the node tracks");
    };
    let views = [
        ("view_account", recorded!("view_account")),
        ("view_access_key", recorded!("view_access_key")),
        ("view_access_key_list", recorded!("view_access_key_list")),
    ];
    for (request, recorded) in views {
        for at in [json!({"finality": "final"}), json!({"finality": "optimistic"})] {
            let mut params = at;
            params["request_type"] = json!(request);
            params["account_id"] = json!(account);
            params["public_key"] = json!(key.public());
            like(&subject.result("query", params).await?, &recorded["result"])?;
        }
    }
    Ok(())
}

/// One of these is of a shard that the node tracks; the others it may refuse for that.
async fn view_unknown_account(subject: &Subject) -> Checked {
    let mut seen = Value::Null;
    let ids = ["nobody", "00-nobody", "11-nobody", "a0-nobody", "b-nobody", "zz-nobody"];
    for id in ids {
        let params = json!({"request_type": "view_account", "finality": "optimistic", "account_id": id});
        let answer = subject.call("query", params).await?;
        if answer.body["error"]["cause"]["name"] == "UNKNOWN_ACCOUNT" {
            return error_like(&answer, &recorded!("view_account-unknown"), 200);
        }
        seen = answer.body;
    }
    fail("UNKNOWN_ACCOUNT", seen)
}

async fn method_unknown(subject: &Subject) -> Checked {
    let answer = subject.call("no_such_method", json!({})).await?;
    error_like(&answer, &recorded!("method-unknown"), 400)
}

async fn batch_refused(subject: &Subject) -> Checked {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "status", "params": []});
    for batch in [json!([]), json!([request, request])] {
        let answer = subject.post(batch.to_string().into_bytes()).await?;
        equal("HTTP code", &answer.code, &400)?;
        equal("the recorded answer", &answer.body, &recorded!("batch-rejected"))?;
    }
    Ok(())
}

async fn request_without_id(subject: &Subject) -> Checked {
    let request = json!({"jsonrpc": "2.0", "method": "status", "params": []});
    let answer = subject.post(request.to_string().into_bytes()).await?;
    error_like(&answer, &recorded!("batch-rejected"), 400)
}

async fn params_wrong(subject: &Subject) -> Checked {
    for (method, params) in [
        ("block", json!({"block_id": "no hash"})),
        ("query", json!({"request_type": "view_account", "finality": "final"})),
        ("send_tx", json!({"signed_tx_base64": "", "wait_until": "NEVER"})),
    ] {
        let answer = subject.call(method, params).await?;
        let error = &answer.body["error"];
        let is_refused = answer.code == 400 && error["name"] == "REQUEST_VALIDATION_ERROR";
        let expected = format!("`{method}` refused with HTTP 400 and REQUEST_VALIDATION_ERROR");
        ensure(is_refused, expected, format!("HTTP {}: {}", answer.code, answer.body))?;
        equal("cause", &error["cause"]["name"], &json!("PARSE_ERROR"))?;
        equal("code", &error["code"], &json!(-32_700))?;
    }
    Ok(())
}

async fn body_limit(subject: &Subject) -> Checked {
    let padded = |len: usize| {
        let mut body = json!({"jsonrpc": "2.0", "id": 1, "method": "status", "params": []}).to_string();
        body.push_str(&" ".repeat(len.saturating_sub(body.len())));
        body.into_bytes()
    };
    let below = subject.post(padded(BODY_BYTES_MAX - 1024)).await?;
    equal("HTTP code below the limit", &below.code, &200)?;
    // A node may close before it has read all: that is a refusal, too.
    if let Ok(answer) = subject.post(padded(BODY_BYTES_MAX + 1024)).await {
        let is_refused = answer.code >= 400 && answer.body.get("result").is_none();
        ensure(is_refused, "a refusal above 10 MiB", format!("HTTP {}", answer.code))?;
    }
    subject.height().await.map(|_| ())
}
