//! When a source could not be read: bookkeeping without a clock.

use std::{error::Error, time::Duration};

use tpsctl_model::observation::Gap;

/// Shorter stretches are no gaps: one lost reading of a source that is read every second is ordinary.
pub(crate) const GAP_LEN_MIN: Duration = Duration::from_secs(1);

/// Follows one source. A gap begins when the reading after the last good one was due and ends with the next good one.
#[derive(Debug)]
pub(crate) struct GapTracker {
    source: String,
    period_ns: u64,
    last_read_unix_ns: u64,
    last_error: Option<String>,
    closed: Vec<Gap>,
}

impl GapTracker {
    /// For `source`, which is to be read every `period`, the first time now.
    pub(crate) fn new(source: &str, period: Duration, now_unix_ns: u64) -> Self {
        Self {
            source: source.to_owned(),
            period_ns: nanos(period),
            last_read_unix_ns: now_unix_ns,
            last_error: None,
            closed: Vec::new(),
        }
    }

    /// The source was read.
    pub(crate) fn read(&mut self, now_unix_ns: u64) {
        self.closed.extend(self.open(now_unix_ns));
        self.last_read_unix_ns = now_unix_ns;
        self.last_error = None;
    }

    /// An attempt failed.
    pub(crate) fn failed(&mut self, cause: String) {
        self.last_error = Some(cause);
    }

    /// All gaps so far, the one that is still open included.
    pub(crate) fn all(&self, now_unix_ns: u64) -> Vec<Gap> {
        self.closed.iter().cloned().chain(self.open(now_unix_ns)).collect()
    }

    fn open(&self, now_unix_ns: u64) -> Option<Gap> {
        let from_unix_ns = self.last_read_unix_ns.saturating_add(self.period_ns);
        (now_unix_ns.saturating_sub(from_unix_ns) > nanos(GAP_LEN_MIN)).then(|| Gap {
            source: self.source.clone(),
            from_unix_ns,
            to_unix_ns: now_unix_ns,
            cause: self.last_error.clone().unwrap_or_else(|| "no reading ended in this time".to_owned()),
        })
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// An error and its causes in one line.
pub(crate) fn error_line(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| Error::source(*error));
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_gap_runs_from_the_due_reading_to_the_next_good_one() {
        let mut tracker = GapTracker::new("node0", Duration::from_secs(1), 100 * SECOND);
        tracker.read(101 * SECOND);
        tracker.failed("first".to_owned());
        tracker.failed("last".to_owned());
        assert_eq!(tracker.all(103 * SECOND), []);
        let open = tracker.all(103 * SECOND + 1);
        assert_eq!((open[0].from_unix_ns, open[0].to_unix_ns), (102 * SECOND, 103 * SECOND + 1));
        tracker.read(104 * SECOND);
        let gap = Gap {
            source: "node0".to_owned(),
            from_unix_ns: 102 * SECOND,
            to_unix_ns: 104 * SECOND,
            cause: "last".to_owned(),
        };
        assert_eq!(tracker.all(105 * SECOND), [gap]);
    }

    #[test]
    fn a_slow_reading_is_a_gap_too() {
        let mut tracker = GapTracker::new("blocks", Duration::from_millis(100), 0);
        tracker.read(2 * SECOND);
        assert_eq!(tracker.all(2 * SECOND)[0].cause, "no reading ended in this time");
    }

    proptest! {
        #[test]
        fn gaps_are_ordered_apart_and_long(steps in proptest::collection::vec((0_u64..4 * SECOND, any::<bool>()), 0..40)) {
            let mut tracker = GapTracker::new("blocks", Duration::from_millis(100), 0);
            let mut now = 0;
            let mut longest_silence = 0;
            let mut last_read = 0;
            for (pause, good) in steps {
                now += pause;
                longest_silence = longest_silence.max(now - last_read);
                if good {
                    tracker.read(now);
                    last_read = now;
                } else {
                    tracker.failed("down".to_owned());
                }
            }
            let gaps = tracker.all(now);
            for gap in &gaps {
                prop_assert!(gap.to_unix_ns - gap.from_unix_ns > SECOND);
            }
            for pair in gaps.windows(2) {
                prop_assert!(pair[0].to_unix_ns < pair[1].from_unix_ns);
            }
            prop_assert_eq!(gaps.is_empty(), longest_silence <= SECOND + SECOND / 10);
        }
    }
}
