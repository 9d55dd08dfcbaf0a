//! The NodePools' own affairs: what they have, whether they can be used, and whether their nodes join.
//!
//! The reference has a controller for each of these, and each writes the status by itself. Here one look at a pool writes all
//! that has changed at once; counts alone are written at most every few seconds, because they change with every node.

mod counter;
mod hash;
pub mod health;
mod readiness;
mod starved;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::NodePool;
use api::validate::{self, Problem};
use cluster::{Duty, Kind, Store};
use kube::{Api, ResourceExt};
use model::ids::{PoolName, Uid};
use model::pool::Pool;
use runtime::Next;
use tokio::time::Instant;

use crate::controller::{About, Controller, TickId};
use crate::ctx::Ctx;
use crate::error::ControllerError;
use crate::events;
use crate::settings::{Settings, Workers};
use crate::write::{self, Statuses};
use status::Seen;

/// How often a pool's counts are written at most.
const COUNT_EVERY: Duration = Duration::from_secs(5);
/// How soon it is tried again while the cluster is not known yet.
const UNSYNCED: Duration = Duration::from_secs(1);

/// Keeps NodePools' status, annotations and events up to date.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    /// When each pool's counts were last written, and which pool of that name it was.
    counted: Mutex<BTreeMap<PoolName, (Instant, Uid)>>,
    /// Pools of which there was nothing to tell when they were last looked at.
    sound: Mutex<BTreeMap<PoolName, Arc<Pool>>>,
}

impl Controller for Pools {
    type Key = PoolName;

    const NAME: &'static str = "nodepool";
    const ABOUT: Option<About> = Some(About { group: "karpenter.sh", kind: "NodePool" });

    fn wakes_for(call: &Duty) -> Option<PoolName> {
        call.pool()
    }

    fn first_keys(&self, store: &Store) -> Vec<PoolName> {
        store.node_pools().keys().cloned().collect()
    }

    fn workers(settings: &Settings) -> usize {
        Workers::POOLS.at(settings.cpu_requests)
    }

    async fn tick(&self, ctx: &Ctx, name: &PoolName, _: &TickId) -> Result<Next, ControllerError> {
        let Some(pool) = ctx.store().node_pool(name).cloned() else {
            if let Some((_, uid)) = self.counted().remove(name) {
                ctx.health.forget(&uid);
            }
            self.sound().remove(name);
            return Ok(Next::OnChange);
        };
        if !is_known(ctx, &pool) {
            return Ok(Next::After(UNSYNCED));
        }
        // A pool that cannot be stamped, or one of whose claims cannot, can be used all the same.
        let stamped = hash::stamp(ctx, &pool).await;
        // It may have been stamped a moment ago.
        let Some(pool) = ctx.store().node_pool(name).cloned() else { return Ok(Next::OnChange) };
        let until_count = self.until_count(name);
        self.update_status(ctx, name, &pool, until_count.is_none()).await?;
        // To find out whether all that is on sale suits a pool takes a while, and each of its nodes wakes it many times.
        if until_count.is_none() {
            self.tell_problems(ctx, name, &pool);
        }
        stamped?;
        Ok(until_count.map_or(Next::OnChange, Next::After))
    }
}

impl Pools {
    fn counted(&self) -> std::sync::MutexGuard<'_, BTreeMap<PoolName, (Instant, Uid)>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sound(&self) -> std::sync::MutexGuard<'_, BTreeMap<PoolName, Arc<Pool>>> {
        self.sound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells what is wrong with a pool although it can be used.
    fn tell_problems(&self, ctx: &Ctx, name: &PoolName, wire: &NodePool) {
        let Some(pool) = ctx.store().pools().get(name).cloned() else { return };
        if self.sound().get(name).is_some_and(|sound| Arc::ptr_eq(sound, &pool)) {
            return;
        }
        let (budget, starved) = (budget_message(&pool), starved::starved(&pool));
        if budget.is_none() && starved.is_none() {
            self.sound().insert(name.clone(), pool);
            return;
        }
        if let Some(message) = budget {
            ctx.recorder.publish(events::pool_problem(wire, "InvalidDisruptionBudget", message));
        }
        if let Some(starved) = starved {
            ctx.recorder.publish(events::no_compatible_instance_types(wire, starved.filtered));
            ctx.recorder.publish(events::pool_problem(wire, "ImpossibleRequirements", starved.message));
        }
    }

    /// How long the counts have to wait; nothing when they may be written now.
    fn until_count(&self, name: &PoolName) -> Option<Duration> {
        let due = self.counted().get(name)?.0 + COUNT_EVERY;
        due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    async fn update_status(
        &self,
        ctx: &Ctx,
        name: &PoolName,
        pool: &Arc<NodePool>,
        may_count: bool,
    ) -> Result<(), ControllerError> {
        let (class, usage, problems) = {
            let store = ctx.store();
            let class = store.class_named(&pool.spec.template.spec.node_class_ref).cloned();
            let usage = may_count.then(|| store.pool_usage().remove(name).unwrap_or_default());
            (class, usage, validate::node_pool(&pool.spec, &store.settings().rules))
        };
        let verdict = health::verdict(&ctx.health, pool, class.as_deref());
        let seen = Seen { class: class.as_deref(), problems: &problems, usage: usage.as_ref(), health: verdict };
        let before = pool.status.clone().unwrap_or_default();
        let after = status::wanted(pool, &seen, ctx.timestamp());
        log_changes(pool, &problems, &before.conditions, &after.conditions);
        if may_count {
            let uid = Uid::from(pool.metadata.uid.as_deref().unwrap_or_default());
            self.counted().insert(name.clone(), (Instant::now(), uid));
        }
        if after == before && pool.status.is_some() {
            return Ok(());
        }
        let api: Api<NodePool> = Api::all(ctx.client.clone());
        write::status(ctx, &api, pool, Statuses { before: pool.status.as_ref(), after: &after }).await
    }
}

/// Whether enough has been shown to judge a pool: before the first lists are complete, its class would look missing.
fn is_known(ctx: &Ctx, pool: &NodePool) -> bool {
    let store = ctx.store();
    store.is_synced()
        && Kind::named(&pool.spec.template.spec.node_class_ref.kind).is_some_and(|kind| store.has_listed(kind))
}

/// One line when a pool stops or begins to be usable.
fn log_changes(pool: &NodePool, problems: &[Problem], before: &[api::Condition], after: &[api::Condition]) {
    let ready = |conditions: &[api::Condition]| {
        conditions.iter().find(|condition| condition.type_ == api::conditions::READY).map(|condition| condition.status)
    };
    if ready(before) == ready(after) {
        return;
    }
    let name = pool.name_any();
    let is_ready = ready(after) == Some(api::conditions::ConditionStatus::True);
    if is_ready {
        tracing::info!(NodePool = name, "nodepool is ready");
    } else {
        let causes = after.iter().filter(|condition| !condition.is_true() && condition.type_ != api::conditions::READY);
        let causes: Vec<String> = causes.map(|cause| format!("{}: {}", cause.type_, cause.message)).collect();
        let problems = problems.len();
        tracing::warn!(NodePool = name, causes = causes.join("; "), problems, "ignoring nodepool, not ready");
    }
}

/// A budget that cannot be understood stops all disruption of its pool, and its author should know that.
fn budget_message(pool: &Pool) -> Option<String> {
    let invalid = pool.budgets.invalid();
    let texts = invalid.iter().map(|budget| format!("spec.disruption.budgets[{}]: {}", budget.index, budget.error));
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty())
        .then(|| format!("{}; no node of this pool is disrupted until that is corrected", texts.join("; ")))
}
