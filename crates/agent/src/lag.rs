//! Our own lag: from the intended send to the beginning of the write, less what the node made it wait.

use hdrhistogram::Histogram;
use tpsctl_model::load::QuantilesMs;

/// Microseconds up to ten minutes with two significant digits: 14 KB a link, and an error of at most 1 %.
const LAG_US_MAX: u64 = 600_000_000;

/// A distribution of lags.
#[derive(Debug, Clone)]
pub(crate) struct Lag(Histogram<u64>);

impl Default for Lag {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LAG_US_MAX, 2).expect("the bounds are those of the constant"))
    }
}

impl Lag {
    pub(crate) fn record_ns(&mut self, lag_ns: u64) {
        // Rounded up: no lag may look smaller than it was.
        self.0.saturating_record(lag_ns.div_ceil(1_000));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    pub(crate) fn quantiles(&self) -> QuantilesMs {
        let at = |quantile: f64| self.0.value_at_quantile(quantile) as f64 / 1_000.0;
        QuantilesMs {
            count: self.0.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: if self.0.is_empty() { 0.0 } else { at(1.0) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_recorded() {
        let mut one = Lag::default();
        assert_eq!(one.quantiles(), QuantilesMs::default());
        let mut other = Lag::default();
        (1..=99).for_each(|ms| one.record_ns(ms * 1_000_000));
        other.record_ns(100 * 1_000_000);
        one.add(&other);
        let read = one.quantiles();
        assert_eq!(read.count, 100);
        for (read, exact) in [(read.p50, 50.0), (read.p90, 90.0), (read.p99, 99.0), (read.max, 100.0)] {
            assert!((read - exact).abs() <= exact * 0.01, "{read} is not {exact}");
        }
    }
}
