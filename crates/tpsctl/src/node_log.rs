//! A node's log, on stderr: paced, so that hours of one trouble do not fill a disk.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use tokio::time::Instant;
use tracing::{Event, Metadata};
use tracing_subscriber::{
    EnvFilter, Layer,
    layer::{Context, Filter, SubscriberExt},
    util::SubscriberInitExt,
};

/// Lines from one place in the code within [`TURN`]; those beyond are left out, and counted.
const LINES_MAX: u64 = 20;
const TURN: Duration = Duration::from_secs(10);

/// Starts the log. `RUST_LOG` says what is in it, else all from `info` on.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    tracing_subscriber::registry().with(lines.with_filter(Pace::default())).with(filter).init();
}

/// A place in the code.
type Place = (&'static str, u32);

#[derive(Debug, Default)]
struct Pace(Mutex<BTreeMap<Place, Turn>>);

#[derive(Debug)]
struct Turn {
    began: Instant,
    lines: u64,
}

impl Pace {
    /// Whether another line from there may be written, and how many were left out since the last one that was.
    fn admit(&self, place: Place, now: Instant) -> (bool, u64) {
        // There are as many places as the code has.
        let Ok(mut turns) = self.0.lock() else { return (true, 0) };
        let turn = turns.entry(place).or_insert(Turn { began: now, lines: 0 });
        let mut left_out = 0;
        if now >= turn.began + TURN {
            left_out = turn.lines.saturating_sub(LINES_MAX);
            *turn = Turn { began: now, lines: 0 };
        }
        turn.lines += 1;
        (turn.lines <= LINES_MAX, left_out)
    }
}

impl<S> Filter<S> for Pace {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let place = (metadata.file().unwrap_or_default(), metadata.line().unwrap_or_default());
        let (may, left_out) = self.admit(place, Instant::now());
        if left_out > 0 {
            crate::output::talk(&format!("{left_out} lines like the next were left out"));
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_trouble_fills_no_disk_and_hides_no_other() {
        let pace = Pace::default();
        let start = Instant::now();
        let (one, other) = (("blocks.rs", 80), ("chunks.rs", 211));
        let written = |place, now| (0..1_000).filter(|_| pace.admit(place, now).0).count();
        assert_eq!(written(one, start), 20);
        assert_eq!(written(other, start), 20, "each place has its own turn");
        assert_eq!(pace.admit(one, start + TURN - Duration::from_nanos(1)), (false, 0));
        assert_eq!(pace.admit(one, start + TURN), (true, 981), "what was left out is said");
        assert_eq!(pace.admit(one, start + TURN), (true, 0));
    }
}
