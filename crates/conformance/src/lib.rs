//! Whether a running node shows what NEAR's nodes show: its home directory, JSON-RPC, peer-to-peer port and metrics,
//! looked at from the outside. The checks compare with recordings of neard in `testdata/`, and know nothing of the
//! node's making, so that they run on the embedded node and on neard alike.
//!
//! A node may show more than the recordings (later versions do); what they have it must have, with the same types.

mod home;
mod metrics;
mod p2p;
mod report;
mod rpc;
mod shape;
mod subject;
mod transactions;

pub use report::{Check, Outcome, Report};
pub use shape::differences;
pub use subject::{Addresses, Subject, SubjectError};

/// Runs every check, one after the other: they would disturb each other's transactions.
pub async fn check(subject: &Subject) -> Report {
    let mut report = Report::default();
    home::check(subject, &mut report).await;
    rpc::check(subject, &mut report).await;
    transactions::check(subject, &mut report).await;
    p2p::check(subject, &mut report).await;
    metrics::check(subject, &mut report).await;
    report
}
