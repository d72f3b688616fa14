//! JSON-RPC and peer-to-peer clients, every call with a deadline.
