//! Our encodings against NEAR's own crates, our signatures against other people's verifiers.

mod accounts;
mod blocks;
mod files;
mod keys;
mod signer;
mod transactions;
mod views;

use proptest::prelude::*;
use tpsctl_model::plan::RunPlan;

/// Two shards, two producers, one RPC node, three accounts a shard.
fn tiny_plan() -> RunPlan {
    serde_json::from_str(include_str!("../../../../testdata/plans/tiny.json")).expect("a plan")
}

/// Texts of which some are account ids: of the right length or nearly so, of the right characters or nearly so.
fn maybe_account_id() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => account_id(),
        2 => "[a-z0-9_.-]{0,66}",
        1 => "[a-zA-Z0-9_. é-]{0,10}",
        1 => "[0-9a-f]{64}",
        1 => "0x[0-9a-f]{40}",
        1 => "0s[0-9a-f]{40}",
    ]
}

/// Valid account ids, short ones more often, so that they meet between boundaries.
fn account_id() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c0-2][a-c0-2]",
        "[a-z0-9]{2,20}",
        "[a-z0-9]{1,3}([_.-][a-z0-9]{1,8}){1,6}",
        "[a-z0-9]{64}"
    ]
}
