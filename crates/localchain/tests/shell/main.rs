//! The node as a process sees it: real sockets, the home directories that neard started from, and its answers.

mod cluster;
mod conformance;
mod handshake;
mod load;
