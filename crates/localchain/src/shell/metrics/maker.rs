//! Makes metrics and registers them.

use prometheus::{
    Counter, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, core::Collector,
};

/// Name and meaning.
pub(super) type Text = (&'static str, &'static str);

/// Registers a metric. Names are constants that one test makes together, so this cannot fail.
pub(in crate::shell) fn add<T: Collector + Clone + 'static>(
    registry: &Registry,
    made: prometheus::Result<T>,
) -> T {
    let metric = made.expect("metric names are valid");
    registry.register(Box::new(metric.clone())).expect("metric names differ");
    metric
}

/// Registers what it makes. Names are constants that one test makes together, so nothing can fail.
pub(super) struct Maker(pub(super) Registry);

impl Maker {
    fn add<T: Collector + Clone + 'static>(&self, made: prometheus::Result<T>) -> T {
        add(&self.0, made)
    }

    pub(super) fn gauge(&self, (name, help): Text) -> IntGauge {
        self.add(IntGauge::new(name, help))
    }

    pub(super) fn gauges(&self, (name, help): Text, label: &str) -> IntGaugeVec {
        self.add(IntGaugeVec::new(Opts::new(name, help), &[label]))
    }

    pub(super) fn float_gauges(&self, (name, help): Text, label: &str) -> GaugeVec {
        self.add(GaugeVec::new(Opts::new(name, help), &[label]))
    }

    pub(super) fn counter(&self, (name, help): Text) -> IntCounter {
        self.add(IntCounter::new(name, help))
    }

    pub(super) fn float_counter(&self, (name, help): Text) -> Counter {
        self.add(Counter::new(name, help))
    }

    pub(super) fn counters(&self, (name, help): Text, labels: &[&str]) -> IntCounterVec {
        self.add(IntCounterVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn histogram(&self, (name, help): Text, buckets: Vec<f64>) -> Histogram {
        self.add(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets)))
    }

    pub(super) fn histograms(&self, (name, help): Text, buckets: Vec<f64>, labels: &[&str]) -> HistogramVec {
        self.add(HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets), labels))
    }
}

/// Bounds that begin at `first` and grow by `factor`.
pub(super) fn growing(first: f64, factor: f64, count: usize) -> Vec<f64> {
    prometheus::exponential_buckets(first, factor, count).expect("bounds rise")
}

/// Bounds that begin at 0 and rise by `step`.
pub(super) fn even(step: f64, count: usize) -> Vec<f64> {
    prometheus::linear_buckets(0.0, step, count).expect("bounds rise")
}
