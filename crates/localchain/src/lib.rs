//! The embedded node: a small sharded chain that speaks NEAR's formats.
