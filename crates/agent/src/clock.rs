//! The wall clock, and whether it was stepped.

use std::time::{Duration, UNIX_EPOCH};

/// Nanoseconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "the one place of this crate that reads the wall clock")]
pub(crate) fn unix_now_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Compares the wall clock with elapsed monotonic time. Slewing moves both alike on Linux; a step moves the wall clock only.
#[derive(Debug, Clone)]
pub(crate) struct StepWatch {
    offset_ns: i128,
    drift_ns_max: u128,
    stepped: bool,
}

impl StepWatch {
    /// Starts from one reading of both; more than `drift_ns_max` apart from it is a step.
    pub(crate) fn new(wall_ns: u64, elapsed_ns: u64, drift_ns_max: u64) -> Self {
        let offset_ns = i128::from(wall_ns) - i128::from(elapsed_ns);
        Self { offset_ns, drift_ns_max: u128::from(drift_ns_max), stepped: false }
    }

    /// Takes another reading.
    pub(crate) fn observe(&mut self, wall_ns: u64, elapsed_ns: u64) {
        let offset_ns = i128::from(wall_ns) - i128::from(elapsed_ns);
        self.stepped |= offset_ns.abs_diff(self.offset_ns) > self.drift_ns_max;
    }

    /// Whether any reading was a step away from the first.
    pub(crate) fn stepped(&self) -> bool {
        self.stepped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_in_either_direction_is_seen_and_not_forgotten() {
        for wall in [1_000_u64, 2_000] {
            let mut watch = StepWatch::new(1_500, 0, 400);
            watch.observe(1_500 + 300, 0);
            watch.observe(1_600, 100);
            assert!(!watch.stepped());
            watch.observe(wall, 0);
            watch.observe(1_500, 0);
            assert!(watch.stepped());
        }
    }
}
