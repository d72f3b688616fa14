//! Drives the stages; owns tasks, cancellation and the run directory; emits events, never prints.
