//! The coverage-guided form of the targets. `cargo xtask fuzz` names the target, and the folder for its seeds, in the
//! environment, for libFuzzer has the command line to itself.

#![no_main]

use std::sync::LazyLock;

use tpsctl_fuzz::{TARGETS, Target, write_seeds};

/// The name of a target.
const TARGET: &str = "TPSCTL_FUZZ_TARGET";
/// Where its seeds go before libFuzzer reads its corpus; nowhere if unset.
const SEEDS: &str = "TPSCTL_FUZZ_SEEDS";

static CHOSEN: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var(TARGET).expect("TPSCTL_FUZZ_TARGET names a target");
    TARGETS.iter().find(|target| target.name == name).expect("TPSCTL_FUZZ_TARGET is a target's name")
});

fn prepare() {
    if let Some(folder) = std::env::var_os(SEEDS) {
        write_seeds(&CHOSEN, folder.as_ref()).expect("the folder for seeds can be written to");
    }
}

libfuzzer_sys::fuzz_target!(
    init: prepare(),
    |data: &[u8]| (CHOSEN.run)(data)
);
