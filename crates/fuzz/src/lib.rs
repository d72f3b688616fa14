//! Fuzz targets: each takes any bytes and asserts what must hold of them. They are ordinary functions, so the tests of
//! this crate run them on a small corpus with a seeded mutator, and `cargo xtask fuzz` runs the same functions under
//! libFuzzer for as long as it is told to.

mod corpus;
mod mutate;
mod targets;

pub use corpus::{regressions, seeds, write_seeds};
pub use mutate::Mutator;
pub use targets::{TARGETS, Target};
