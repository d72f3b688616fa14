//! The one place that reads the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "blocks carry the wall clock's time")]
pub(super) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Seconds since the Unix epoch.
pub(super) fn unix_seconds() -> u64 {
    unix_ns() / 1_000_000_000
}
