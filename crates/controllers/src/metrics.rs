//! Every metric of the process, as a field of one struct. Names, kinds and labels are the reference's where the meaning is.
//!
//! What happens is counted here as it happens. What merely is (nodes, pods, pools, conditions) is looked up in the store when
//! somebody asks; see `state`. `docs/metrics.md` is written from both lists, and a test compares them with a scrape of the
//! reference.

mod book;
mod conditions;
mod disruption;
pub mod labels;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use provider::metered::{Call, DURATION_METRIC, ERRORS_METRIC, Meter};
use runtime::metrics::Summary;
use tokio::time::Instant;

use crate::ctx::Ctx;
use book::Book;
pub use book::{Buckets, Counters, Entry, Gauges, Histograms, LabelSet};
pub use conditions::{ConditionMetrics, KindMetrics, OpenLabels};
pub use disruption::DisruptionMetrics;
pub use labels::*;
pub(crate) use state::unpriced;

/// From five milliseconds to ten minutes.
const DURATIONS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 120.0,
    150.0, 300.0, 450.0, 600.0,
];
/// What the metrics library of the reference takes when nobody says.
const CALLS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// What its controller framework takes.
const TICKS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];
const TERMINATIONS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0];
const INSTANCE_TERMINATIONS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];
const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;
const LIFETIMES: &[f64] = &[
    0.25 * HOUR,
    0.5 * HOUR,
    0.75 * HOUR,
    HOUR,
    2.0 * HOUR,
    4.0 * HOUR,
    6.0 * HOUR,
    8.0 * HOUR,
    10.0 * HOUR,
    12.0 * HOUR,
    16.0 * HOUR,
    20.0 * HOUR,
    DAY,
    2.0 * DAY,
    3.0 * DAY,
    5.0 * DAY,
    10.0 * DAY,
    15.0 * DAY,
    20.0 * DAY,
    25.0 * DAY,
    30.0 * DAY,
];

/// What is counted as it happens.
#[derive(Debug)]
pub struct Metrics {
    pub claims_created: Counters<ClaimCreated>,
    pub claims_terminated: Counters<ClaimTerminated>,
    pub claims_disrupted: Counters<Disrupted>,
    pub claims_unhealthy_disrupted: Counters<UnhealthyDisrupted>,
    pub claims_termination_duration: Histograms<ByPool>,
    pub claims_instance_termination_duration: Histograms<ByPool>,
    pub nodes_created: Counters<NodeCounted>,
    pub nodes_terminated: Counters<NodeCounted>,
    pub nodes_drained: Counters<ByPool>,
    /// By pool.
    pub nodes_termination_duration: Arc<Summary>,
    pub nodes_lifetime_duration: Histograms<ByPool>,
    pub pods_startup_duration: Arc<Summary>,
    pub pods_bound_duration: Histograms<PodBound>,
    pub pods_provisioning_bound_duration: Histograms<PodBound>,
    pub pods_provisioning_startup_duration: Histogram,
    pub pods_scheduling_decision_duration: Histogram,
    pub pods_eviction_requests: Counters<EvictionCode>,
    pub pods_drained: Counters<DrainReason>,
    pub pods_disruption_initiated: Counters<Disrupted>,
    pub scheduling_duration: Histograms<ByScheduling>,
    pub scheduling_queue_depth: Gauges<SchedulingPass>,
    pub scheduling_unfinished_work: Gauges<SchedulingPass>,
    pub ignored_pods: Gauge,
    pub unschedulable_pods: Gauges<ByScheduling>,
    pub pending_pods_by_zone: Gauges<EffectiveZone>,
    pub reconciled: Counters<Reconciled>,
    pub reconcile_errors: Counters<ByController>,
    pub reconcile_duration: Histograms<ByController>,
    pub reconciling: Gauges<ByController>,
    pub reconciling_most: Gauges<ByController>,
    pub leader: Gauges<LeaseHeld>,
    pub cost_errors: Counters<ByPool>,
    pub conditions: ConditionMetrics,
    pub disruption: DisruptionMetrics,
    cloud_duration: Histograms<CloudCall>,
    cloud_errors: Counters<CloudError>,
    registry: Registry,
    summaries: Vec<Arc<Summary>>,
    entries: Vec<Entry>,
}

impl Default for Metrics {
    #[expect(clippy::too_many_lines, reason = "a list of names")]
    fn default() -> Self {
        let mut book = Book::default();
        build_info(&mut book);
        Self {
            claims_created: book.counters("karpenter_nodeclaims_created_total", "Claims made, by why."),
            claims_terminated: book.counters("karpenter_nodeclaims_terminated_total", "Claims whose machine is gone."),
            claims_disrupted: book.counters("karpenter_nodeclaims_disrupted_total", "Claims given up, by why."),
            claims_unhealthy_disrupted: book.counters(
                "karpenter_nodeclaims_unhealthy_disrupted_total",
                "Claims given up because their node was broken, by what was wrong with it.",
            ),
            claims_termination_duration: book.histograms(
                "karpenter_nodeclaims_termination_duration_seconds",
                "From the deletion of a claim to its end.",
                TERMINATIONS,
            ),
            claims_instance_termination_duration: book.histograms(
                "karpenter_nodeclaims_instance_termination_duration_seconds",
                "From the cloud being asked to end a machine to its end.",
                INSTANCE_TERMINATIONS,
            ),
            nodes_created: book.counters("karpenter_nodes_created_total", "Nodes that joined."),
            nodes_terminated: book.counters("karpenter_nodes_terminated_total", "Nodes that we ended."),
            nodes_drained: book.counters("karpenter_nodes_drained_total", "Nodes that we drained."),
            nodes_termination_duration: book.summary(
                "karpenter_nodes_termination_duration_seconds",
                "From the deletion of a node to its end.",
                &["nodepool"],
            ),
            nodes_lifetime_duration: book.histograms(
                "karpenter_nodes_lifetime_duration_seconds",
                "How long nodes lived.",
                LIFETIMES,
            ),
            pods_startup_duration: book.summary(
                "karpenter_pods_startup_duration_seconds",
                "From the creation of a pod until it is ready.",
                &[],
            ),
            pods_bound_duration: book.histograms(
                "karpenter_pods_bound_duration_seconds",
                "From the creation of a pod until it has a node.",
                DURATIONS,
            ),
            pods_provisioning_bound_duration: book.histograms(
                "karpenter_pods_provisioning_bound_duration_seconds",
                "From our knowing a place for a pod until it has a node.",
                DURATIONS,
            ),
            pods_provisioning_startup_duration: book.histogram(
                "karpenter_pods_provisioning_startup_duration_seconds",
                "From our knowing a place for a pod until it is ready.",
                DURATIONS,
            ),
            pods_scheduling_decision_duration: book.histogram(
                "karpenter_pods_scheduling_decision_duration_seconds",
                "From our seeing a pod wait until we first decided about it.",
                DURATIONS,
            ),
            pods_eviction_requests: book
                .counters("karpenter_pods_eviction_requests_total", "Evictions asked for, by the API server's answer."),
            pods_drained: book.counters("karpenter_pods_drained_total", "Pods drained, by why their node goes."),
            pods_disruption_initiated: book
                .counters("karpenter_pods_disruption_initiated_total", "Pods on claims given up, by why."),
            scheduling_duration: book.histograms(
                "karpenter_scheduler_scheduling_duration_seconds",
                "How long it took to make a plan.",
                DURATIONS,
            ),
            scheduling_queue_depth: book
                .gauges("karpenter_scheduler_queue_depth", "Pods that the plan in the making has to place."),
            scheduling_unfinished_work: book.gauges(
                "karpenter_scheduler_unfinished_work_seconds",
                "For how long the plan in the making has been worked on.",
            ),
            ignored_pods: book.gauge(
                "karpenter_scheduler_ignored_pods_count",
                "Pods that wait but have a problem that no node would solve.",
            ),
            unschedulable_pods: book
                .gauges("karpenter_scheduler_unschedulable_pods_count", "Pods that the last plan found no place for."),
            pending_pods_by_zone: book.gauges(
                "karpenter_scheduler_pending_pods_by_effective_zone_count",
                "Pods of the last plan by the zone that they can only run in.",
            ),
            reconciled: book.counters("controller_runtime_reconcile_total", "Ticks of duties, by how they ended."),
            reconcile_errors: book
                .counters("controller_runtime_reconcile_errors_total", "Ticks of duties that failed."),
            reconcile_duration: book.histograms(
                "controller_runtime_reconcile_time_seconds",
                "How long ticks of duties took.",
                TICKS,
            ),
            reconciling: book.gauges("controller_runtime_active_workers", "Ticks of duties that are under way."),
            reconciling_most: book.gauges(
                "controller_runtime_max_concurrent_reconciles",
                "How many ticks of a duty may be under way at once.",
            ),
            cost_errors: book.counters(
                "karpenter_nodepools_cost_tracker_errors_total",
                "Machines of a pool whose price nobody knows.",
            ),
            leader: book.gauges("leader_election_master_status", "Whether we hold the Lease."),
            cloud_duration: book.histograms(DURATION_METRIC, "How long calls to the cloud took.", CALLS),
            cloud_errors: book.counters(ERRORS_METRIC, "Calls to the cloud that failed."),
            conditions: ConditionMetrics::new(&mut book),
            disruption: DisruptionMetrics::new(&mut book),
            registry: book.registry,
            summaries: book.summaries,
            entries: book.entries,
        }
    }
}

impl Metrics {
    /// What was counted, as scrapers read it.
    pub fn encode(&self) -> String {
        let summaries: Vec<&Summary> = self.summaries.iter().map(|summary| &**summary).collect();
        // Writing to a string does not fail.
        runtime::metrics::encode(&self.registry, &summaries).unwrap_or_default()
    }

    /// What was counted and what is, as scrapers read it.
    pub fn scrape(&self, ctx: &Ctx) -> String {
        let (now, mut text) = (ctx.now(), self.encode());
        text.push_str(&runtime::metrics::process());
        let store = ctx.store();
        text.push_str(&state::about_us_text(&store, now));
        if ctx.settings.observes_cluster_state {
            text.push_str(&state::encode(&store, now));
        }
        text
    }

    /// Everything that there is to be told, in the order of names.
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = self.entries.clone();
        entries.extend(state::entries());
        entries.sort();
        entries
    }

    /// How many ticks of a duty may be under way at once.
    pub fn set_workers(&self, controller: &'static str, workers: usize) {
        self.reconciling_most.get_or_create(&ByController { controller }).set(workers as f64);
    }

    /// What is counted of a duty's ticks.
    pub fn ticks(&self, controller: &'static str) -> Ticks {
        let labels = ByController { controller };
        let ended = |result| self.reconciled.get_or_create(&Reconciled { controller, result }).clone();
        Ticks {
            running: self.reconciling.get_or_create(&labels).clone(),
            succeeded: ended(TickResult::Success),
            failed: ended(TickResult::Error),
            asked_for_more: ended(TickResult::Requeue),
            asked_for_more_later: ended(TickResult::RequeueAfter),
            errors: self.reconcile_errors.get_or_create(&labels).clone(),
            took: self.reconcile_duration.get_or_create(&labels).clone(),
        }
    }
}

/// What is counted of one duty's ticks, looked up once: there are many ticks, and most do next to nothing.
#[derive(Clone, Debug)]
pub struct Ticks {
    running: Gauge<f64, AtomicU64>,
    succeeded: Counter,
    failed: Counter,
    asked_for_more: Counter,
    asked_for_more_later: Counter,
    errors: Counter,
    took: Histogram,
}

impl Ticks {
    /// A tick begins. It is over when the value is ended, or dropped because the process ends.
    pub fn begin(&self) -> Underway<'_> {
        self.running.inc();
        Underway { ticks: self, began: Instant::now() }
    }

    fn ended(&self, result: TickResult) -> &Counter {
        match result {
            TickResult::Success => &self.succeeded,
            TickResult::Error => &self.failed,
            TickResult::Requeue => &self.asked_for_more,
            TickResult::RequeueAfter => &self.asked_for_more_later,
        }
    }
}

/// A tick of a duty that is under way.
#[derive(Debug)]
pub struct Underway<'a> {
    ticks: &'a Ticks,
    began: Instant,
}

impl Underway<'_> {
    pub fn end(self, result: TickResult) {
        let Self { ticks, began } = &self;
        ticks.ended(result).inc();
        ticks.errors.inc_by(u64::from(result == TickResult::Error));
        ticks.took.observe(began.elapsed().as_secs_f64());
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.ticks.running.dec();
    }
}

impl Meter for Metrics {
    fn observe(&self, call: &Call<'_>) {
        let (controller, method) = (call.controller.to_owned(), call.method.metric_label());
        let provider = call.provider.to_owned();
        if let Some(error) = call.error {
            let (controller, provider) = (controller.clone(), provider.clone());
            let labels = CloudError { controller, method, provider, error, nodepool: call.node_pool.to_owned() };
            self.cloud_errors.get_or_create(&labels).inc();
        }
        let labels = CloudCall { controller, method, provider };
        self.cloud_duration.get_or_create(&labels).observe(call.took.as_secs_f64());
    }
}

/// The commit that this was built from, if whoever built it said so: `DOVETAIL_COMMIT=$(git rev-parse --short HEAD) cargo build`.
pub const COMMIT: Option<&str> = option_env!("DOVETAIL_COMMIT");

/// A constant, whose labels say what runs here. The labels have the reference's names, although nothing here is Go.
fn build_info(book: &mut Book) {
    let info: Gauges<BuildInfo> = book.gauges("karpenter_build_info", "What runs here.");
    let goarch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let goversion = concat!("rust", env!("CARGO_PKG_RUST_VERSION"));
    let labels =
        BuildInfo { version: env!("CARGO_PKG_VERSION"), goversion, goarch, commit: COMMIT.unwrap_or_default() };
    info.get_or_create(&labels).set(1.0);
}
