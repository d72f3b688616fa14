//! Providers of networks, the ledger of what was created, and teardown.
//!
//! Three rules hold everywhere here. *Ledger before effect*: what is created is written to `ledger.json` first, so that
//! [`destroy`] needs nothing but that file. *Never a stranger*: a process is ours only while its start time and the
//! host's boot id are those of the ledger, or while it carries this run's marker in its environment; a reused pid is left
//! alone. *No detached task*: nothing here spawns a task; whoever holds a [`Network`] polls its nodes.
//!
//! Process facts come from Linux' `/proc`.

pub mod deployment;
mod durable;
pub mod error;
mod hold;
mod homes;
pub mod identity;
pub mod journal;
pub mod ledger;
pub mod local;
pub mod network;
mod ports;
pub mod process;
pub mod provider;
pub mod teardown;
#[cfg(test)]
mod test_support;

pub use deployment::{DeployedNode, Deployment};
pub use error::ProviderError;
pub use identity::ProcessIdentity;
pub use journal::{Journal, JournalEntry, read_journal};
pub use ledger::{Ledger, LedgerHeader};
pub use local::LocalProvider;
pub use network::Network;
pub use process::{NodeEnded, NodeHandle};
pub use provider::{Bundle, Capabilities, Provider, Provision, ReadyProbe, Task};
pub use teardown::{DestroyReport, destroy, end_controller, sweep};

/// The wall clock, milliseconds since the Unix epoch: for records that people read, never for deadlines.
#[expect(clippy::disallowed_methods, reason = "the one place where this crate reads the wall clock")]
fn unix_ms() -> u64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since_epoch.map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}
