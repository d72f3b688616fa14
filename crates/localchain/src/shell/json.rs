//! Blocks, chunks and outcomes as neard's JSON (core/primitives/src/views.rs). What this chain does not have is zero,
//! empty or null, never made up.

mod block;
mod outcome;
mod receipt;

use tpsctl_near::CryptoHash;

pub(super) use self::{
    block::{block, chunk, state_root},
    outcome::{Level, Prices, invalid_tx, level, reached},
    receipt::{receipt, transaction},
};

fn zero() -> String {
    CryptoHash::default().to_string()
}
