//! How a metric is made and registered; which ones there are is the catalog's.

use prometheus::core::Collector;
use prometheus::{
    Counter, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry,
};

/// The label values of a family without labels.
pub(super) const NO_LABELS: &[&str] = &[];

/// Makes metrics and registers them.
#[derive(Debug)]
pub(super) struct Declare<'a> {
    registry: &'a Registry,
}

impl<'a> Declare<'a> {
    pub fn to(registry: &'a Registry) -> Self {
        Self { registry }
    }

    pub fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.register(IntCounter::new(name, help))
    }

    /// For sums that are no whole numbers.
    pub fn float_counter(&self, name: &str, help: &str) -> Counter {
        self.register(Counter::new(name, help))
    }

    pub fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.register(IntCounterVec::new(Opts::new(name, help), labels))
    }

    pub fn int_gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    pub fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.register(GaugeVec::new(Opts::new(name, help), labels))
    }

    pub fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        self.register(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec())))
    }

    pub fn histograms(&self, name: &str, help: &str, labels: &[&str], buckets: &[f64]) -> HistogramVec {
        self.register(HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels))
    }

    fn register<M: Collector + Clone + 'static>(&self, metric: prometheus::Result<M>) -> M {
        let metric = metric.expect("every name, label and bucket declared here is valid");
        self.registry.register(Box::new(metric.clone())).expect("no name is declared twice");
        metric
    }
}
