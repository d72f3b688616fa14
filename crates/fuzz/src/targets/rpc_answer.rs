//! The answer of a node to the JSON-RPC client: HTTP status, then the body.

use std::error::Error;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tpsctl_rpc::{
    RpcError,
    jsonrpc::{BlockView, StatusView, read_answer},
};

use super::bytes::Bytes;
use crate::corpus::{files_of, testdata};

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let answers = files_of(&testdata("neard/rpc")).expect("testdata/ is whole");
    let mut seeds: Vec<Vec<u8>> = answers
        .iter()
        .map(|path| [&200_u16.to_le_bytes()[..], &fs_err::read(path).expect("a recording")].concat())
        .collect();
    seeds.push([&422_u16.to_le_bytes()[..], b"{\"jsonrpc\":\"2.0\",\"id\":1}"].concat());
    seeds.push([&500_u16.to_le_bytes()[..], b"<html>"].concat());
    seeds
}

pub(super) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let status = bytes.u16();
    let body = bytes.0;
    check::<StatusView>(body, status);
    if let Some(block) = check::<BlockView>(body, status) {
        assert_eq!(block.chunks.len(), block.header.chunk_mask.len());
    }
}

/// The value, if there is one; then keys that nobody knows change nothing in it.
fn check<T: DeserializeOwned + PartialEq + std::fmt::Debug>(body: &[u8], status: u16) -> Option<T> {
    let read = |body: &[u8]| read_answer::<T>(body, status, ("method", "url"));
    let value = match read(body) {
        Ok(value) => value,
        Err(error) => {
            check_error(&error);
            return None;
        }
    };
    // What nobody looks at may be no JSON, such as half of a surrogate pair in a text.
    let Ok(mut json) = serde_json::from_slice::<Value>(body) else { return Some(value) };
    for place in ["", "/result", "/result/header", "/result/sync_info"] {
        if let Some(Value::Object(map)) = json.pointer_mut(place) {
            map.insert("of a later version".to_owned(), Value::from(vec![1]));
        }
    }
    let extended = serde_json::to_vec_pretty(&json).expect("JSON can be written");
    match read(&extended) {
        Ok(again) => assert_eq!(again, value),
        Err(error) => assert!(error.to_string().is_empty(), "{error}: {error:?}"),
    }
    Some(value)
}

/// Every error says what was attempted, and its causes can be told.
fn check_error(error: &RpcError) {
    assert!(error.to_string().contains("`method`"), "{error}");
    let mut cause: Option<&dyn Error> = error.source();
    while let Some(error) = cause {
        assert!(!error.to_string().is_empty());
        cause = error.source();
    }
    if let RpcError::Handler { source, .. } = error {
        assert!(source.to_string().starts_with("the node answered "));
    }
}
