//! When transfers fall due. Elapsed time in, permits and shortfall out; all arithmetic in integers, so no rate drifts.
//!
//! At `rate` transfers a second the first transfer is due 1 / rate after the start, the second 2 / rate, and so on. By
//! elapsed time t, floor(t * rate) have fallen due: never more than the schedule, and exactly it in the long run. A
//! generator that was held up sends what it missed at once, but only what fell due less than the catch-up bound ago: an
//! unbounded burst would be another experiment than the one that was ordered.

use std::ops::Range;

use tpsctl_model::{Millis, Tps};

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// The schedule of one shard's load, and how much of it was handed out.
#[derive(Debug, Clone)]
pub struct Pacer {
    rate: Tps,
    duration_ns: u64,
    taken: u64,
}

/// What to do now, by transfer number from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permits {
    /// Fell due and is to be sent.
    pub send: Range<u64>,
    /// How many, just before `send`, fell due too long ago and are given up.
    pub skipped: u64,
}

impl Pacer {
    /// A schedule of `rate` for `duration`. A rate of 0 is one where nothing falls due.
    pub fn new(rate: Tps, duration: Millis) -> Self {
        Self { rate, duration_ns: duration.0.saturating_mul(1_000_000), taken: 0 }
    }

    /// How many transfers have fallen due `elapsed_ns` after the start: floor(elapsed * rate), up to the schedule's end.
    pub fn due(&self, elapsed_ns: u64) -> u64 {
        let elapsed_ns = u128::from(elapsed_ns.min(self.duration_ns));
        u64::try_from(elapsed_ns * u128::from(self.rate.0) / NANOS_PER_SECOND).unwrap_or(u64::MAX)
    }

    /// How many transfers the whole schedule has: floor(duration * rate).
    pub fn total(&self) -> u64 {
        self.due(self.duration_ns)
    }

    /// How many transfers were handed out or given up so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// When transfer `number` (from 0) is due, in nanoseconds after the start: ceil((number + 1) / rate), the first
    /// nanosecond at which [`Self::due`] counts it. Never, for a rate of 0.
    pub fn intended_ns(&self, number: u64) -> u64 {
        let nanos = (u128::from(number) + 1) * NANOS_PER_SECOND;
        match u128::from(self.rate.0) {
            0 => u64::MAX,
            rate => u64::try_from(nanos.div_ceil(rate)).unwrap_or(u64::MAX),
        }
    }

    /// Hands out what has fallen due since the last call. What fell due `catch_up_ns` ago or earlier is given up.
    pub fn take(&mut self, elapsed_ns: u64, catch_up_ns: u64) -> Permits {
        let due = self.due(elapsed_ns).max(self.taken);
        let too_late = elapsed_ns.checked_sub(catch_up_ns).map_or(0, |before| self.due(before));
        let from = self.taken.max(too_late.min(due));
        let skipped = from - self.taken;
        self.taken = due;
        Permits { send: from..due, skipped }
    }

    /// Ends the schedule at `elapsed_ns`: how many had fallen due and were not handed out. Nothing is due afterwards.
    pub fn stop(&mut self, elapsed_ns: u64) -> u64 {
        let skipped = self.take(elapsed_ns, 0).skipped;
        self.duration_ns = self.duration_ns.min(elapsed_ns);
        skipped
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_schedule_is_what_was_ordered() {
        let pacer = Pacer::new(Tps(3), Millis(2_000));
        assert_eq!(
            [0, 1, 2, 3].map(|number| pacer.intended_ns(number)),
            [333_333_334, 666_666_667, SECOND, 1_333_333_334]
        );
        assert_eq!(
            [0, 333_333_333, 333_333_334, SECOND - 1, SECOND].map(|at| pacer.due(at)),
            [0, 0, 1, 2, 3]
        );
        assert_eq!(pacer.total(), 6);
        assert_eq!(pacer.due(100 * SECOND), 6);
        assert_eq!(Pacer::new(Tps(0), Millis(2_000)).total(), 0);
    }

    #[test]
    fn after_a_stall_only_the_catch_up_is_sent() {
        let mut pacer = Pacer::new(Tps(1_000), Millis(10_000));
        assert_eq!(pacer.take(SECOND, SECOND / 10), Permits { send: 900..1_000, skipped: 900 });
        assert_eq!(pacer.take(SECOND, SECOND / 10), Permits { send: 1_000..1_000, skipped: 0 });
        assert_eq!(
            pacer.take(SECOND + SECOND / 100, SECOND / 10),
            Permits { send: 1_000..1_010, skipped: 0 }
        );
        assert_eq!(pacer.stop(SECOND + SECOND / 50), 10);
        assert_eq!(pacer.take(20 * SECOND, SECOND), Permits { send: 1_020..1_020, skipped: 0 });
    }

    proptest! {
        #[test]
        fn every_transfer_is_handed_out_or_given_up_once(
            rate in 0_u64..200_000,
            duration_ms in 1_u64..20_000,
            steps in proptest::collection::vec(0_u64..2_000_000_000, 0..30),
            catch_up in 0_u64..1_000_000_000,
        ) {
            let mut pacer = Pacer::new(Tps(rate), Millis(duration_ms));
            let (mut elapsed, mut sent, mut skipped, mut next) = (0, 0, 0, 0);
            for step in steps {
                elapsed += step;
                let permits = pacer.take(elapsed, catch_up);
                prop_assert_eq!(permits.send.start, next + permits.skipped);
                for number in [permits.send.start, permits.send.end.saturating_sub(1)] {
                    if permits.send.contains(&number) {
                        let intended = pacer.intended_ns(number);
                        prop_assert!(intended <= elapsed && elapsed - intended < catch_up);
                    }
                }
                sent += permits.send.end - permits.send.start;
                skipped += permits.skipped;
                next = permits.send.end;
                prop_assert_eq!(sent + skipped, pacer.due(elapsed));
                // Never above the schedule, and never a whole transfer below it.
                let seconds = u128::from(elapsed.min(duration_ms * 1_000_000));
                let exact = seconds * u128::from(rate);
                prop_assert!(u128::from(sent + skipped) * 1_000_000_000 <= exact);
                prop_assert!(exact < u128::from(sent + skipped + 1) * 1_000_000_000);
            }
            let end = elapsed.max(duration_ms * 1_000_000);
            let rest = pacer.take(end, u64::MAX);
            prop_assert_eq!(sent + skipped + (rest.send.end - rest.send.start), duration_ms * rate / 1_000);
        }

        #[test]
        fn due_and_intended_agree(rate in 1_u64..1_000_000, number in 0_u64..10_000_000) {
            let pacer = Pacer::new(Tps(rate), Millis(u64::MAX));
            let at = pacer.intended_ns(number);
            prop_assert_eq!(pacer.due(at - 1), number);
            prop_assert!(pacer.due(at) > number);
            // Evenly spaced to the nanosecond.
            let gap = pacer.intended_ns(number + 1) - at;
            prop_assert!(gap == SECOND / rate || gap == SECOND.div_ceil(rate));
        }

        #[test]
        fn the_clock_going_back_hands_out_nothing(rate in 1_u64..100_000, at in 1_u64..10_000_000_000, back in 0_u64..10_000_000_000) {
            let mut pacer = Pacer::new(Tps(rate), Millis(10_000));
            let before = pacer.take(at, u64::MAX).send.end;
            let permits = pacer.take(at.saturating_sub(back), 0);
            prop_assert_eq!(permits, Permits { send: before..before, skipped: 0 });
        }
    }
}
