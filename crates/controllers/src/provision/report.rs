//! What a pass tells logs, metrics and pods.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::store::Batch;
use model::ids::PodName;
use model::node::Progress as NodeProgress;
use model::plan::{Plan, Target};
use model::pool::{PoolKind, PoolState};
use model::why::{PodProblem, Unplaced};

use crate::controller::TickId;
use crate::ctx::Ctx;
use crate::error::ControllerError;
use crate::events;
use crate::metrics::{ByScheduling, EffectiveZone, SchedulingController, SchedulingPass, TickResult};
use crate::zones;

const MOST_NAMED: usize = 5;
const CONTROLLER: SchedulingController = SchedulingController::Provisioner;

/// How a pass counts among the ticks of duties.
pub(super) fn result_of(end: &Result<Option<Duration>, ControllerError>) -> TickResult {
    match end {
        Ok(Some(_)) => TickResult::RequeueAfter,
        Ok(None) => TickResult::Success,
        Err(_) => TickResult::Error,
    }
}

/// Before planning: who waits, and who waits in vain.
pub(super) fn before(ctx: &Ctx, batch: &Batch) {
    ctx.metrics.ignored_pods.set(i64::try_from(batch.ignored.len()).unwrap_or(i64::MAX));
    let now = ctx.now();
    for pod in &batch.ignored {
        if let Some(took) = ctx.store().refuse(&pod.name, now) {
            ctx.metrics.pods_scheduling_decision_duration.observe(took.as_secs_f64());
        }
        if let Some(message) = PodProblem::failed_scheduling(&pod.problems) {
            ctx.recorder.publish(events::failed_scheduling(pod, message));
        }
    }
    ctx.metrics.pending_pods_by_zone.clear();
    for (zone, count) in zones::effective(&batch.snapshot, batch.pending.iter().map(|pod| &**pod)) {
        let labels = EffectiveZone { controller: CONTROLLER, zone };
        ctx.metrics.pending_pods_by_zone.get_or_create(&labels).set(count as f64);
    }
    let (pending, deleting) = (batch.pending.len(), batch.displaced.len());
    if !batch.is_empty() {
        tracing::debug!(
            "pending-pods" = pending,
            "deleting-pods" = deleting,
            "computing scheduling decision for provisionable pod(s)"
        );
        let is_usable = |kind: PoolKind, state: PoolState| kind == PoolKind::Dynamic && state == PoolState::Ready;
        if !batch.snapshot.pools.values().any(|pool| is_usable(pool.kind, pool.state)) {
            tracing::info!("no dynamic nodepools found");
        }
    }
}

/// Nobody waits for a place.
pub(super) fn idle(ctx: &Ctx) {
    ctx.metrics.unschedulable_pods.get_or_create(&ByScheduling { controller: CONTROLLER }).set(0.0);
}

/// A plan is made. What changes the world is worth a line; that nothing changed is not.
pub(super) fn planned(ctx: &Ctx, batch: &Batch, plan: &Plan, took: Duration) {
    let by_us = ByScheduling { controller: CONTROLLER };
    ctx.metrics.scheduling_duration.get_or_create(&by_us).observe(took.as_secs_f64());
    let real: BTreeSet<&PodName> = real_pods(batch).collect();
    let is_verdict = |unplaced: &&Unplaced| real.contains(&unplaced.pod) && unplaced.failed_scheduling().is_some();
    let verdicts = plan.unplaced.iter().filter(is_verdict);
    ctx.metrics.unschedulable_pods.get_or_create(&by_us).set(verdicts.count() as f64);
    let placed: usize = plan.claims.iter().map(|claim| claim.pods.len()).sum();
    if !plan.claims.is_empty() {
        let pods = named(real_pods(batch));
        tracing::info!(Pods = pods, duration = format!("{took:?}"), "found provisionable pod(s)");
        tracing::info!(nodeclaims = plan.claims.len(), pods = placed, "computed new nodeclaim(s) to fit pod(s)");
    }
    let (nodes, pods) = newly_on_unready(ctx, batch, plan);
    if pods > 0 {
        tracing::info!(nodes, pods, "computed unready node(s) will fit pod(s)");
    }
}

/// Those that somebody has made. The others stand for room, and nobody is told of them.
fn real_pods(batch: &Batch) -> impl Iterator<Item = &PodName> {
    batch.pods().filter(|pod| !pod.is_virtual).map(|pod| &pod.name)
}

/// Pods that are to go to nodes which are on their way, and were not known to before.
pub(super) fn newly_on_unready(ctx: &Ctx, batch: &Batch, plan: &Plan) -> (usize, usize) {
    let real: BTreeSet<&PodName> = real_pods(batch).collect();
    let store = ctx.store();
    let mut nodes = BTreeSet::new();
    let mut pods = 0;
    for (pod, target) in plan.placements.iter().filter(|(pod, _)| real.contains(pod)) {
        let Target::Node(place) = target else { continue };
        let is_ready =
            batch.snapshot.nodes.get(place).is_none_or(|node| matches!(node.progress, NodeProgress::Initialized));
        let is_known = store.pod_times(pod).is_some_and(|times| times.place.is_some());
        if !is_ready && !is_known {
            nodes.insert(place);
            pods += 1;
        }
    }
    (nodes.len(), pods)
}

/// The first few, and how many more there are.
fn named<'a>(pods: impl Iterator<Item = &'a PodName>) -> String {
    let all: Vec<&PodName> = pods.collect();
    let named = all.iter().take(MOST_NAMED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MOST_NAMED) {
        0 => named,
        more => format!("{named} and {more} other(s)"),
    }
}

/// A plan in the making, as metrics show it while it lasts.
pub(super) struct Progress<'a> {
    ctx: &'a Ctx,
    labels: SchedulingPass,
}

impl<'a> Progress<'a> {
    pub(super) fn begin(ctx: &'a Ctx, id: &TickId, pods: usize) -> Self {
        let labels = SchedulingPass { controller: CONTROLLER, scheduling_id: id.to_string() };
        ctx.metrics.scheduling_queue_depth.get_or_create(&labels).set(pods as f64);
        ctx.metrics.scheduling_unfinished_work.get_or_create(&labels).set(0.0);
        Self { ctx, labels }
    }

    pub(super) fn tell(&self, since: Duration) {
        self.ctx.metrics.scheduling_unfinished_work.get_or_create(&self.labels).set(since.as_secs_f64());
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.ctx.metrics.scheduling_queue_depth.remove(&self.labels);
        self.ctx.metrics.scheduling_unfinished_work.remove(&self.labels);
    }
}
