//! The shape of JSON: keys and types.

use serde_json::Value;

use crate::report::{Checked, ensure};

/// Keys whose value may be null although the recording has one: a node that is no validator, genesis, and so on.
const NULLABLE: &[&str] = &[
    "validator_account_id",
    "validator_public_key",
    "node_key",
    "account_id",
    "addr",
    "prev_height",
    "gas_profile",
    "rpc_addr",
    "gas_key_info",
];

/// Keys that hold one of several shapes: outcomes, and what only a neard that was built from source knows.
const OPEN: &[&str] = &["gas_profile", "contracts", "known_producers"];

/// All places where `own` lacks a key of `recorded` or has another type. Values may differ, and `own` may have more; of
/// lists the first elements are compared.
pub fn differences(own: &Value, recorded: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", own, recorded, &mut found);
    found
}

fn compare(path: &str, own: &Value, recorded: &Value, found: &mut Vec<String>) {
    let key = path.rsplit('.').next().unwrap_or_default();
    match (own, recorded) {
        (Value::Object(own), Value::Object(recorded)) => {
            for (key, recorded) in recorded {
                match own.get(key) {
                    Some(_) if OPEN.contains(&key.as_str()) => {}
                    Some(own) => compare(&format!("{path}.{key}"), own, recorded, found),
                    None => found.push(format!("{path}.{key} is missing")),
                }
            }
        }
        (Value::Array(own), Value::Array(recorded)) => {
            if let (Some(own), Some(recorded)) = (own.first(), recorded.first()) {
                compare(&format!("{path}[0]"), own, recorded, found);
            }
        }
        (_, Value::Null) => {}
        (Value::Null, _) if NULLABLE.contains(&key) => {}
        _ if std::mem::discriminant(own) != std::mem::discriminant(recorded) => {
            found.push(format!("{path} is {own}, recorded is {recorded}"));
        }
        _ => {}
    }
}

/// Goes on if `own` has the shape of the recording.
pub(crate) fn like(own: &Value, recorded: &Value) -> Checked {
    let found = differences(own, recorded);
    ensure(found.is_empty(), "the recording's keys and types", format!("{}; in {own}", found.join("; ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn more_is_allowed_and_less_is_not() {
        let recorded = json!({"a": [{"b": 1}], "c": "x", "account_id": "y", "n": null});
        let is_like = |own: Value| differences(&own, &recorded).is_empty();
        assert!(is_like(json!({"a": [{"b": 2, "z": 1}], "c": "", "account_id": null, "n": 3, "more": 1})));
        assert!(is_like(json!({"a": [], "c": "", "account_id": "z", "n": null})));
        for own in [
            json!({"c": "", "account_id": "z", "n": null}),
            json!({"a": [{}], "c": "", "account_id": "z", "n": null}),
            json!({"a": [{"b": "1"}], "c": "", "account_id": "z", "n": null}),
            json!({"a": [], "c": null, "account_id": "z", "n": null}),
            json!({"a": {}, "c": "", "account_id": "z", "n": null}),
            json!([]),
        ] {
            assert!(!is_like(own.clone()), "{own}");
        }
    }
}
