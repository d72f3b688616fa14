//! Runs one embedded node: `cargo run --release -p tpsctl-localchain --example localnode -- DIR`.

use tokio_util::sync::CancellationToken;
use tpsctl_localchain::{RunOptions, run};

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_writer(std::io::stderr).init();
    let home = std::env::args_os().nth(1).ok_or("give the home directory")?.into();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    tokio::select! {
        ended = run(RunOptions { home }, cancel) => ended?,
        _ = tokio::signal::ctrl_c() => stop.cancel(),
    }
    Ok(())
}
