//! The node as a process sees it: real sockets, the home directories that neard started from, and its answers.

mod attacks;
mod cluster;
mod conformance;
mod handshake;
mod home;
mod load;
mod metrics;
mod offline;
mod transactions;
mod views;
