//! What strangers can cause is done at most once a second: a line of the log, a signature.

use std::time::Duration;

use tokio::time::Instant;

const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Seldom(Instant);

impl Seldom {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    /// Whether it is time for another one; then the next has to wait.
    pub(super) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.0;
        if is_due {
            self.0 = now + EVERY;
        }
        is_due
    }
}
