//! The embedded node: a small sharded chain that speaks NEAR's formats. **A rehearsal chain: no BFT safety, no state
//! sync, no contracts, state in memory only; what it measures is this program, not neard.**
//!
//! [`run`] reads the home directory that `neard run --home DIR` reads and answers on the same three surfaces: the
//! peer-to-peer port, JSON-RPC and `/metrics`. Everything that decides is in [`core`], a state machine without I/O and
//! without a clock, which the tests drive as the process does; everything else is in the shell around it.

pub mod core;
mod shell;

pub use shell::{
    IndexError, NodeError, OfflineRpc, RunOptions, index_genesis, read_settings, run, run_reloadable,
};
