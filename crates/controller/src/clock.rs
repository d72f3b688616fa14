//! The one place where the controller reads wall time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "the controller's one reading of wall time")]
pub(crate) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// `unix_ns` as RFC 3339 with whole seconds, UTC.
pub(crate) fn rfc3339(unix_ns: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(unix_ns)).to_string()
}

/// A run id: scenario, time to the second, and four hex digits of the nanoseconds against two starts in one second.
pub(crate) fn run_id(scenario: &str, unix_ns: u64) -> String {
    let time: String = rfc3339(unix_ns).chars().filter(char::is_ascii_digit).collect();
    let (day, clock) = time.split_at(8);
    format!("{scenario}-{day}-{clock}-{:04x}", (unix_ns % 1_000_000_000) >> 14)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time() {
        assert_eq!(run_id("quickstart", 1_796_042_259_123_456_789), "quickstart-20261130-123739-1d6f");
    }
}
