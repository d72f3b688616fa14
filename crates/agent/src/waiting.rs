//! Whether it is the node that keeps a link's queue from emptying, or this side.
//!
//! A queue that does not empty proves nothing against the node: the link's task may not have been scheduled. So the link
//! measures how long its writes waited for the node, as [`Gate::add_waited`](crate::outlet::Gate::add_waited) sums up,
//! and only a node that was waited for is held to be at fault.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// How often a write that waits is looked at. When the timer fires, the runtime has just asked the operating system which
/// sockets can be written to: a write that still waits then is one that the node keeps waiting.
pub(crate) const BEAT: Duration = Duration::from_millis(5);

/// Marks in a window, so that its beginning is known to about 3 %.
const MARKS: u32 = 32;

/// How much of the time between two looks at a waiting write, `passed`, the node is answerable for. When the second look
/// comes much later than a beat, this side's runtime was held up, and the node may have read long before.
pub(crate) fn proven(passed: Duration) -> Duration {
    passed.min(BEAT * 2)
}

/// The last while of a link, by how much of it was spent waiting for the node.
#[derive(Debug)]
pub(crate) struct Waiting {
    span: Duration,
    /// Readings of the total time waited, oldest first; the first is the youngest that is at least `span` old.
    marks: VecDeque<(Instant, Duration)>,
}

impl Waiting {
    pub(crate) fn over(span: Duration) -> Self {
        Self { span, marks: VecDeque::new() }
    }

    /// Takes a reading of the total time waited.
    pub(crate) fn note(&mut self, now: Instant, waited: Duration) {
        if self.marks.back().is_none_or(|(at, _)| now.duration_since(*at) >= self.span / MARKS) {
            self.marks.push_back((now, waited));
        }
        while self.marks.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= self.span) {
            self.marks.pop_front();
        }
    }

    /// Whether the link waited for its node for more than half of the last `span`, or of the time since the first
    /// reading where that is less. `waited` is the total by `now`.
    pub(crate) fn is_for_node(&self, now: Instant, waited: Duration) -> bool {
        self.marks.front().is_some_and(|(at, before)| {
            let window = now.duration_since(*at).min(self.span);
            waited.saturating_sub(*before).min(window) * 2 > window
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_millis(50);

    /// Whose fault it is after stretches of (milliseconds, of which waited), read every millisecond.
    fn is_for_node(stretches: &[(u64, bool)]) -> bool {
        let (mut now, mut waited) = (Instant::now(), Duration::ZERO);
        let mut waiting = Waiting::over(SPAN);
        waiting.note(now, waited);
        for (ms, waits) in stretches {
            for _ in 0..*ms {
                now += Duration::from_millis(1);
                waited += Duration::from_millis(u64::from(*waits));
                waiting.note(now, waited);
                assert!(waiting.marks.len() <= MARKS as usize + 2);
            }
        }
        waiting.is_for_node(now, waited)
    }

    #[test]
    fn the_node_is_at_fault_when_it_was_waited_for_most_of_the_time() {
        assert!(!is_for_node(&[]));
        assert!(!is_for_node(&[(1_000, false)]));
        assert!(is_for_node(&[(20, true)]));
        assert!(is_for_node(&[(1_000, false), (30, true)]));
        assert!(!is_for_node(&[(1_000, false), (20, true)]));
        assert!(!is_for_node(&[(1_000, true), (30, false)]));
        assert!(is_for_node(&[(1_000, true), (20, false)]));
    }

    #[test]
    fn an_idle_link_that_then_waits_blames_the_node() {
        // No readings for a second: nothing was written, so nothing was waited for.
        let start = Instant::now();
        let mut waiting = Waiting::over(SPAN);
        waiting.note(start, Duration::ZERO);
        let now = start + Duration::from_secs(1);
        assert!(waiting.is_for_node(now, Duration::from_millis(40)));
        assert!(!waiting.is_for_node(now, Duration::from_millis(20)));
    }

    #[test]
    fn a_runtime_that_was_held_up_is_not_held_against_the_node() {
        assert_eq!(proven(BEAT), BEAT);
        assert_eq!(proven(Duration::from_secs(1)), BEAT * 2);
    }
}
