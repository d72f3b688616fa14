//! Providers of networks, the ledger of what was created, and teardown.
