//! How long conditions keep a status, how often they leave it, and how long objects take to end.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::book::{Book, Buckets};

/// Labels whose names depend on the cloud, such as that of its NodeClass.
pub type OpenLabels = Vec<(String, String)>;

const BOUNDS: &[f64] =
    &[0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];
const KEPT: &str = "How long a condition kept the status that it left.";
const LEFT: &str = "How often conditions took a status.";
const ENDED: &str = "From the deletion of an object to its end.";

#[derive(Debug)]
pub struct ConditionMetrics {
    pub claims: KindMetrics,
    pub nodes: KindMetrics,
    pub pools: KindMetrics,
    pub buffers: KindMetrics,
    /// The reference's older names, without the kind in them.
    pub any: KindMetrics,
}

/// The metrics about one kind.
#[derive(Debug)]
pub struct KindMetrics {
    pub transition: Family<OpenLabels, Histogram, Buckets>,
    pub transitions: Family<OpenLabels, Counter>,
    pub termination: Family<OpenLabels, Histogram, Buckets>,
}

impl ConditionMetrics {
    pub(super) fn new(book: &mut Book) -> Self {
        let class = ["(the NodeClass's label)", "karpenter_sh_nodepool"];
        Self {
            claims: KindMetrics::new(
                book,
                [
                    "operator_nodeclaim_status_condition_transition_seconds",
                    "operator_nodeclaim_status_condition_transitions_total",
                    "operator_nodeclaim_termination_duration_seconds",
                ],
                &class,
            ),
            nodes: KindMetrics::new(
                book,
                [
                    "operator_node_status_condition_transition_seconds",
                    "operator_node_status_condition_transitions_total",
                    "operator_node_termination_duration_seconds",
                ],
                &[class[0], class[1], "karpenter_sh_initialized"],
            ),
            pools: KindMetrics::new(
                book,
                [
                    "operator_nodepool_status_condition_transition_seconds",
                    "operator_nodepool_status_condition_transitions_total",
                    "operator_nodepool_termination_duration_seconds",
                ],
                &[],
            ),
            buffers: KindMetrics::new(
                book,
                [
                    "operator_capacitybuffer_status_condition_transition_seconds",
                    "operator_capacitybuffer_status_condition_transitions_total",
                    "operator_capacitybuffer_termination_duration_seconds",
                ],
                &[],
            ),
            any: KindMetrics::new(
                book,
                [
                    "operator_status_condition_transition_seconds",
                    "operator_status_condition_transitions_total",
                    "operator_termination_duration_seconds",
                ],
                &["group", "kind"],
            ),
        }
    }
}

impl KindMetrics {
    fn new(book: &mut Book, [transition, transitions, termination]: [&'static str; 3], extra: &[&'static str]) -> Self {
        let with = |labels: &[&'static str]| [labels, extra].concat();
        let histogram = || Family::new_with_constructor(Buckets(BOUNDS));
        let metrics = Self { transition: histogram(), transitions: Family::default(), termination: histogram() };
        book.open_histogram(transition, KEPT, with(&["type", "status", "to_status"]), metrics.transition.clone());
        book.open_counter(transitions, LEFT, with(&["type", "status", "reason"]), metrics.transitions.clone());
        book.open_histogram(termination, ENDED, with(&[]), metrics.termination.clone());
        metrics
    }
}
