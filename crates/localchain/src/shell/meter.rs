//! How much goes by in a second.

use std::sync::Mutex;

use super::lock::lock;

#[derive(Debug, Default)]
struct Seconds {
    now: u64,
    current: u64,
    last: u64,
}

impl Seconds {
    fn roll(&mut self, now: u64) {
        // A clock that was set back starts a new second like any other.
        if now != self.now {
            self.last = if now == self.now + 1 { self.current } else { 0 };
            self.current = 0;
            self.now = now;
        }
    }
}

/// Counts by the second.
#[derive(Debug, Default)]
pub(super) struct Meter(Mutex<Seconds>);

impl Meter {
    pub(super) fn add(&self, amount: u64, now_seconds: u64) {
        let mut seconds = lock(&self.0);
        seconds.roll(now_seconds);
        seconds.current = seconds.current.saturating_add(amount);
    }

    /// What went by in the last whole second.
    pub(super) fn rate(&self, now_seconds: u64) -> u64 {
        let mut seconds = lock(&self.0);
        seconds.roll(now_seconds);
        seconds.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_whole_second() {
        let meter = Meter::default();
        meter.add(5, 100);
        meter.add(6, 100);
        assert_eq!(meter.rate(100), 0, "it is not over");
        assert_eq!(meter.rate(101), 11);
        meter.add(1, 101);
        assert_eq!((meter.rate(101), meter.rate(102), meter.rate(103)), (11, 1, 0));
        meter.add(9, 103);
        assert_eq!(meter.rate(110), 0);
    }
}
