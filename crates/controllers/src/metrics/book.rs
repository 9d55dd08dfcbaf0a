//! How metrics are entered: by name, kind, labels and a sentence, so that the page about them writes itself.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use runtime::metrics::Summary;

use super::conditions::OpenLabels;

/// What there is to know of a metric before anything was measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub name: &'static str,
    pub kind: &'static str,
    pub labels: Vec<&'static str>,
    pub help: &'static str,
}

/// A set of labels that can name itself.
pub trait LabelSet: EncodeLabelSet + Clone + fmt::Debug + Eq + std::hash::Hash + Send + Sync + 'static {
    fn names() -> Vec<&'static str>;
}

/// A counter for each set of label values.
pub type Counters<L> = Family<L, Counter>;
/// A gauge for each set of label values.
pub type Gauges<L> = Family<L, Gauge<f64, std::sync::atomic::AtomicU64>>;
/// A histogram for each set of label values.
pub type Histograms<L> = Family<L, Histogram, Buckets>;

/// The upper bounds of a histogram.
#[derive(Clone, Copy, Debug)]
pub struct Buckets(pub &'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) registry: Registry,
    pub(super) summaries: Vec<Arc<Summary>>,
    pub(super) entries: Vec<Entry>,
}

impl Book {
    pub(super) fn counters<L: LabelSet>(&mut self, name: &'static str, help: &'static str) -> Counters<L> {
        let family = Counters::default();
        // The library adds the ending that every counter has.
        let stem = name.strip_suffix("_total").unwrap_or(name);
        self.registry.register(stem, unstopped(help), family.clone());
        self.enter(name, "counter", L::names(), help);
        family
    }

    pub(super) fn gauges<L: LabelSet>(&mut self, name: &'static str, help: &'static str) -> Gauges<L> {
        let family = Gauges::default();
        self.registry.register(name, unstopped(help), family.clone());
        self.enter(name, "gauge", L::names(), help);
        family
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str) -> Gauge {
        let gauge = Gauge::default();
        self.registry.register(name, unstopped(help), gauge.clone());
        self.enter(name, "gauge", Vec::new(), help);
        gauge
    }

    pub(super) fn histograms<L: LabelSet>(
        &mut self,
        name: &'static str,
        help: &'static str,
        bounds: &'static [f64],
    ) -> Histograms<L> {
        let family = Family::new_with_constructor(Buckets(bounds));
        self.registry.register(name, unstopped(help), family.clone());
        self.enter(name, "histogram", L::names(), help);
        family
    }

    pub(super) fn histogram(&mut self, name: &'static str, help: &'static str, bounds: &'static [f64]) -> Histogram {
        let histogram = Buckets(bounds).new_metric();
        self.registry.register(name, unstopped(help), histogram.clone());
        self.enter(name, "histogram", Vec::new(), help);
        histogram
    }

    /// A histogram whose label names are not all known here.
    pub(super) fn open_histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Vec<&'static str>,
        family: Family<OpenLabels, Histogram, Buckets>,
    ) {
        self.registry.register(name, unstopped(help), family);
        self.enter(name, "histogram", labels, help);
    }

    /// The same for a counter.
    pub(super) fn open_counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Vec<&'static str>,
        family: Family<OpenLabels, Counter>,
    ) {
        self.registry.register(name.strip_suffix("_total").unwrap_or(name), unstopped(help), family);
        self.enter(name, "counter", labels, help);
    }

    pub(super) fn summary(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Arc<Summary> {
        let summary = Arc::new(Summary::new(name, help, labels, &[0.0, 0.5, 0.9, 0.99, 1.0]));
        self.summaries.push(summary.clone());
        self.enter(name, "summary", labels.to_vec(), help);
        summary
    }

    fn enter(&mut self, name: &'static str, kind: &'static str, labels: Vec<&'static str>, help: &'static str) {
        self.entries.push(Entry { name, kind, labels, help });
    }
}

/// The library puts a full stop behind every sentence.
fn unstopped(help: &'static str) -> &'static str {
    help.strip_suffix('.').unwrap_or(help)
}
