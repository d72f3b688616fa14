//! The node as a process sees it: real sockets, the home directories that neard started from, and its answers.

mod attacks;
mod capped;
mod cluster;
mod conformance;
mod guests;
mod handshake;
mod home;
mod load;
mod metrics;
mod offline;
mod transactions;
mod views;
