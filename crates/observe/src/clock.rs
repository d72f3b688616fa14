//! The one place of this crate that knows the time of day.

use tokio::time::Instant;

/// Time of day that runs with the monotonic clock from one reading of the wall clock: the length of a gap does not
/// change when the wall clock is stepped.
#[derive(Debug, Clone, Copy)]
pub struct WallClock {
    anchor: Instant,
    anchor_unix_ns: u64,
}

impl WallClock {
    /// Reads the wall clock.
    pub fn start() -> Self {
        Self { anchor: Instant::now(), anchor_unix_ns: read_wall_clock() }
    }

    /// Nanoseconds since the Unix epoch.
    pub fn unix_ns(&self) -> u64 {
        let elapsed = u64::try_from(self.anchor.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.anchor_unix_ns.saturating_add(elapsed)
    }
}

#[expect(clippy::disallowed_methods, reason = "the named place of this crate for wall time")]
fn read_wall_clock() -> u64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock before 1970 reads as 1970; it cannot be used to compare with block times in any case.
    u64::try_from(since_epoch.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}
