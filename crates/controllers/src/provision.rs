//! From pods that wait to claims: gather, look, plan, carry out, report.
//!
//! One pass at a time. While claims of earlier passes are on their way, the next pass already counts on them; nobody waits
//! for a launch.

mod carry_out;
mod limits;
mod report;
#[cfg(test)]
mod tests;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::NodePool;
use cluster::Duty;
use cluster::record::{self, ProvisioningQuestion};
use cluster::store::Batch;
use engine::solve::{Catalogue, FIRST_EFFORT, Question, solve_with};
use model::ids::{PodName, PoolName};
use model::plan::Plan;
use model::pod::Pod;
use model::pool::{Pool, PoolKind, PoolState};
use provider::metered::Metered;
use runtime::error::with_causes;
use runtime::{Cancel, Stop};
use tokio::time::Instant;
use tracing::Instrument;

use crate::controller::TickId;
use crate::ctx::Ctx;
use crate::error::{ControllerError, Doing};
use crate::failpoint;
use window::{Calls, Gathered, Limits};

pub(crate) const NAME: &str = "provisioner";

/// Pods that wait are looked at again after this time, whether anything has changed or not.
const AGAIN: Duration = Duration::from_secs(10);
/// Until everything was listed once, and after a pass that failed.
const SOON: Duration = Duration::from_secs(1);
/// How long a pool may take until it is judged for the first time.
const FIRST_VERDICTS: Duration = Duration::from_secs(5);
/// The longest that planning may take; what is planned by then is carried out.
const LONGEST: Duration = Duration::from_secs(60);
/// Shorter plans say little about how fast the machine is.
const TELLING: Duration = Duration::from_millis(20);

/// Plans for pods that wait. Made when it begins to lead: a stand-by that watches does not pile up calls.
pub(crate) struct Provisioner {
    calls: Calls,
    cloud: Metered,
    /// How many steps of the engine fit into the longest time.
    effort: u64,
    /// What was on sale at the last pass, in the engine's numbers.
    catalogue: Option<Arc<Catalogue>>,
    /// Until when pools that nobody has judged yet are waited for, once everything was listed.
    patience: Option<Instant>,
}

/// What one pass decides on, all of one moment.
struct Look {
    batch: Batch,
    /// The pools as they were, for the hashes of their claims.
    pools: BTreeMap<PoolName, Arc<NodePool>>,
}

impl Provisioner {
    /// Signs up for wake-up calls. Whoever called before is found by a first look, if everything is known already.
    pub(crate) fn new(ctx: &Ctx) -> Self {
        let calls = Calls::default();
        if ctx.store().is_synced() {
            calls.again_after(Duration::ZERO);
        }
        let woken = calls.clone();
        ctx.wakers.add(move |call| {
            if let Duty::Provision(caller) = call {
                woken.push(caller.clone());
            }
        });
        Self { calls, cloud: ctx.cloud.for_controller(NAME), effort: FIRST_EFFORT, catalogue: None, patience: None }
    }

    pub(crate) async fn run(mut self, ctx: &Ctx, stop: &Stop) {
        let limits = Limits { idle: ctx.settings.batch_idle, max: ctx.settings.batch_max };
        let ticks = ctx.metrics.ticks(NAME);
        loop {
            let gathered = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                gathered = self.calls.gathered(limits, || ctx.store().has_unjudged(ctx.now())) => gathered,
            };
            failpoint::reach("batch-closed");
            let id = ctx.tick_id();
            let span = tracing::info_span!("reconcile", controller = NAME, "reconcileID" = %id);
            let underway = ticks.begin();
            // A pass that has begun is finished: it ends within seconds, and half of it done would be done again.
            let end = self.pass(ctx, &id, gathered).instrument(span.clone()).await;
            underway.end(report::result_of(&end));
            match end {
                Ok(Some(next)) => self.calls.again_after(next),
                Ok(None) => {}
                Err(error) => {
                    span.in_scope(|| tracing::error!(error = with_causes(&error), "a pass failed, trying again"));
                    self.calls.again_after(SOON);
                }
            }
        }
    }

    /// One pass, and when another one is wanted at the latest.
    async fn pass(&mut self, ctx: &Ctx, id: &TickId, gathered: Gathered) -> Result<Option<Duration>, ControllerError> {
        if !ctx.store().is_synced() {
            return Ok(Some(SOON));
        }
        ctx.catalogs.refresh(ctx, &self.cloud).await;
        let look = look(ctx);
        if self.waits_for_pools(&look) {
            return Ok(Some(SOON));
        }
        failpoint::reach("snapshot-taken");
        report::before(ctx, &look.batch);
        if look.batch.is_empty() {
            report::idle(ctx);
            // Pods on leaving nodes may become free to go without anybody telling us: budgets, protections and the like.
            let is_quiet = look.batch.ignored.is_empty() && !ctx.store().is_any_leaving();
            return Ok((!is_quiet).then_some(AGAIN));
        }
        let start = Instant::now();
        let mut plan = self.plan(ctx, &look.batch, gathered, id).await?;
        // While pods arrive, machines that are full can be bought; the others would be smaller than need be, unless somebody has
        // waited for as long as the operator allows.
        if gathered.expects_more() {
            let (now, most) = (ctx.now(), ctx.settings.batch_max);
            let old = look.batch.pods().filter(|pod| now.since(pod.created) >= most);
            let old: BTreeSet<&PodName> = old.map(|pod| &pod.name).collect();
            plan = plan.ripe_part(|name| old.contains(name));
        }
        failpoint::reach("plan-made");
        report::planned(ctx, &look.batch, &plan, start.elapsed());
        carry_out::carry_out(ctx, &look, &plan, id).await;
        Ok(Some(AGAIN))
    }

    /// Whether there may be a pool in a moment. A process that has just begun to lead may find pools that are as new as
    /// itself; to tell their pods that there are none would be true and of no use. A verdict wakes us sooner.
    fn waits_for_pools(&mut self, look: &Look) -> bool {
        let patience = *self.patience.get_or_insert_with(|| Instant::now() + FIRST_VERDICTS);
        let is_open = |pool: &Arc<Pool>| pool.kind == PoolKind::Dynamic && pool.state == PoolState::NotReady;
        look.pools.is_empty() && Instant::now() < patience && look.batch.snapshot.pools.values().any(is_open)
    }

    async fn plan(
        &mut self,
        ctx: &Ctx,
        batch: &Batch,
        gathered: Gathered,
        id: &TickId,
    ) -> Result<Plan, ControllerError> {
        let pods: Vec<Arc<Pod>> = batch.pods().cloned().collect();
        let progress = report::Progress::begin(ctx, id, pods.len());
        let (snapshot, effort, cancel) = (batch.snapshot.clone(), self.effort, Cancel::default());
        let (expects_more, promised) = (gathered.expects_more(), batch.promised.clone());
        let start = Instant::now();
        let kept = self.catalogue.take();
        let work = ctx.compute.run(&cancel, move |cancel| {
            let kept = kept.filter(|kept| kept.is_of(&snapshot));
            let catalogue = kept.unwrap_or_else(|| Arc::new(Catalogue::of(&snapshot)));
            let pods = pods.iter().map(|pod| &**pod).collect();
            let question = Question { effort, expects_more, promised, ..Question::about(pods) };
            (solve_with(&catalogue, &snapshot, &question, cancel.flag()), catalogue)
        });
        let mut work = std::pin::pin!(work);
        let plan = loop {
            tokio::select! {
                biased;
                plan = &mut work => break plan,
                () = tokio::time::sleep(SOON) => {
                    progress.tell(start.elapsed());
                    if start.elapsed() >= LONGEST {
                        cancel.cancel();
                    }
                }
            }
        };
        let (plan, catalogue) = plan.doing("planning")?;
        ctx.record(id, || {
            // A plan that was cut short is had again by its steps.
            let effort = if cancel.is_cancelled() { plan.steps } else { effort };
            record::provisioning(ProvisioningQuestion { pods: batch.pods().count(), expects_more, effort }, &plan)
        });
        self.catalogue = Some(catalogue);
        self.measure(plan.steps, start.elapsed());
        Ok(plan)
    }

    /// The next plan gets as many steps as this machine can do in the longest time.
    fn measure(&mut self, steps: u64, took: Duration) {
        if took < TELLING || steps == 0 {
            return;
        }
        let per_second = steps as f64 / took.as_secs_f64();
        self.effort = (per_second * LONGEST.as_secs_f64()) as u64;
    }
}

/// Everything of one moment, under one lock.
fn look(ctx: &Ctx) -> Look {
    let now = ctx.now();
    let mut store = ctx.store();
    let batch = store.batch(now);
    let is_open = |name: &PoolName| {
        let pool = batch.snapshot.pools.get(name);
        pool.is_some_and(|pool| pool.kind == PoolKind::Dynamic && pool.state == PoolState::Ready)
    };
    let pools = store.node_pools().iter().filter(|(name, _)| is_open(name));
    let pools = pools.map(|(name, pool)| (name.clone(), pool.clone())).collect();
    Look { batch, pools }
}
