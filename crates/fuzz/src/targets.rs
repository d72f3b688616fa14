//! The targets. `targets.txt` says what each is about.

mod bytes;
mod frames;
mod handshake;
mod home_files;
mod metrics;
mod peer_messages;
mod rpc_answer;
mod rpc_request;
mod run_files;
mod scenario;
mod transaction;

/// A function of bytes that fails when a property does not hold.
#[derive(Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// The function.
    pub run: fn(&[u8]),
    /// Inputs that the short form makes: some hundred milliseconds' worth.
    pub short_runs: u32,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "scenario", seeds: scenario::seeds, run: scenario::run, short_runs: 2_000 },
    Target { name: "frames", seeds: frames::seeds, run: frames::run, short_runs: 10_000 },
    Target { name: "handshake", seeds: handshake::seeds, run: handshake::run, short_runs: 2_000 },
    Target { name: "transaction", seeds: transaction::seeds, run: transaction::run, short_runs: 3_000 },
    Target { name: "metrics", seeds: metrics::seeds, run: metrics::run, short_runs: 1_500 },
    Target { name: "rpc_answer", seeds: rpc_answer::seeds, run: rpc_answer::run, short_runs: 4_000 },
    Target { name: "rpc_request", seeds: rpc_request::seeds, run: rpc_request::run, short_runs: 1_000 },
    Target { name: "peer_messages", seeds: peer_messages::seeds, run: peer_messages::run, short_runs: 60 },
    Target { name: "home_files", seeds: home_files::seeds, run: home_files::run, short_runs: 500 },
    Target { name: "run_files", seeds: run_files::seeds, run: run_files::run, short_runs: 500 },
];
