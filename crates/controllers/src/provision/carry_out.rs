//! Does what a plan says: creates claims, notes who goes where, tells those who go nowhere.

use std::collections::BTreeMap;

use cluster::Duty;
use futures::StreamExt;
use futures::stream;
use model::ids::{NodeName, PodName};
use model::plan::{Plan, PlannedClaim, Target};
use model::pool::BrokenLimit;
use runtime::error::with_causes;

use super::{Look, limits};
use crate::buffers::judged;
use crate::claims::{self, Planned};
use crate::controller::TickId;
use crate::ctx::Ctx;
use crate::error::ControllerError;
use crate::events::{self, Destination};
use crate::metrics::CreateReason;

/// Requests that are under way at the same time. The client's own limit of requests per second is what counts.
const AT_ONCE: usize = 100;

pub(super) async fn carry_out(ctx: &Ctx, look: &Look, plan: &Plan, id: &TickId) {
    let names = create_claims(ctx, look, plan, id).await;
    place(ctx, look, plan, &names);
    refuse(ctx, look, plan);
    count_buffered(ctx, look, plan);
}

/// Creates all claims of a plan, side by side. One that fails takes no other with it; its pods are planned for again.
async fn create_claims(ctx: &Ctx, look: &Look, plan: &Plan, id: &TickId) -> Vec<Option<NodeName>> {
    let rng = ctx.rng.fork(id.as_str());
    let exceeded = limits::exceeded(ctx, look);
    let mut attempts = Vec::new();
    for claim in &plan.claims {
        let name = rng.name(&format!("{}-", claim.pool));
        let broken = exceeded.get(&claim.pool);
        attempts.push(async move {
            match broken {
                Some(broken) => refuse_over_limit(claim, broken),
                None => attempt(ctx, look, claim, name, id).await,
            }
        });
    }
    stream::iter(attempts).buffered(AT_ONCE).collect().await
}

fn refuse_over_limit(claim: &PlannedClaim, broken: &BrokenLimit) -> Option<NodeName> {
    let BrokenLimit { resource, limit, would_be } = broken;
    let (node_pool, resource) = (claim.pool.as_str(), &**resource);
    tracing::error!(NodePool.name = node_pool, resource, limit, used = would_be, "no claim is made beyond the limit");
    None
}

async fn attempt(ctx: &Ctx, look: &Look, claim: &PlannedClaim, name: String, id: &TickId) -> Option<NodeName> {
    match create(ctx, look, claim, name, id).await {
        Ok(name) => Some(name),
        Err(error) => {
            let (node_pool, error) = (claim.pool.as_str(), with_causes(&error));
            tracing::error!(
                NodePool.name = node_pool,
                error,
                "creating a claim failed, its pods are planned for again"
            );
            None
        }
    }
}

async fn create(
    ctx: &Ctx,
    look: &Look,
    claim: &PlannedClaim,
    name: String,
    id: &TickId,
) -> Result<NodeName, ControllerError> {
    let (Some(wire), Some(pool)) = (look.pools.get(&claim.pool), look.batch.snapshot.pools.get(&claim.pool)) else {
        let fault = format!("the plan names the pool {}, which was not there", claim.pool);
        return Err(ControllerError::Invariant { doing: "creating a claim".to_owned(), fault });
    };
    let planned = Planned { claim, types: &pool.instance_types };
    claims::create(ctx, claims::of_plan(wire, planned, name, id), CreateReason::Provisioned).await
}

/// Notes where pods should go, and tells them.
fn place(ctx: &Ctx, look: &Look, plan: &Plan, names: &[Option<NodeName>]) {
    let pods: BTreeMap<&PodName, _> = look.batch.pods().map(|pod| (&pod.name, pod)).collect();
    let now = ctx.now();
    for (name, target) in &plan.placements {
        let Some(pod) = pods.get(name).filter(|pod| !pod.is_virtual) else { continue };
        let place = match target {
            Target::Node(node) => node,
            Target::Claim(number) => match names.get(*number).and_then(Option::as_ref) {
                Some(claim) => claim,
                None => continue,
            },
        };
        let (took, claim, is_node) = {
            let mut store = ctx.store();
            let took = store.nominate(name, place, now);
            let claim = store.machines().get(place).and_then(|machine| machine.claim.clone());
            (took, claim, store.nodes().contains(place))
        };
        if let Some(took) = took {
            ctx.metrics.pods_scheduling_decision_duration.observe(took.as_secs_f64());
        }
        let destination = match (&claim, is_node) {
            (Some(claim), true) => Destination::Both { claim: claim.as_str(), node: place },
            (Some(claim), false) => Destination::Claim(claim.as_str()),
            (None, true) => Destination::Node(place),
            // Created a moment ago, and not even in the store: it was deleted as fast.
            (None, false) => Destination::Claim(place.as_str()),
        };
        ctx.recorder.publish(events::nominated(pod, destination));
    }
}

/// Tells pods that have no place why, and what would help.
fn refuse(ctx: &Ctx, look: &Look, plan: &Plan) {
    let pods: BTreeMap<&PodName, _> = look.batch.pods().map(|pod| (&pod.name, pod)).collect();
    let now = ctx.now();
    for unplaced in &plan.unplaced {
        let Some(pod) = pods.get(&unplaced.pod).filter(|pod| !pod.is_virtual) else { continue };
        // Without a verdict the next pass looks again.
        let Some(message) = unplaced.failed_scheduling() else { continue };
        let took = ctx.store().refuse(&unplaced.pod, now);
        let (namespace, name) = (pod.name.namespace.as_str(), &*pod.name.name);
        // Said once for every pod; the event is repeated, and says it too.
        if let Some(took) = took {
            ctx.metrics.pods_scheduling_decision_duration.observe(took.as_secs_f64());
            tracing::error!(Pod.namespace = namespace, Pod.name = name, error = %unplaced, "could not schedule pod");
        }
        // What would help stays the same while numbers and neighbours change; when it changes, that is news (decision 0033).
        let note = events::failed_scheduling(pod, message).dedupe([pod.uid.to_string(), unplaced.hints().join("; ")]);
        ctx.recorder.publish(note);
    }
}

/// Notes on which nodes buffers have their room.
fn count_buffered(ctx: &Ctx, look: &Look, plan: &Plan) {
    if !ctx.settings.gates.capacity_buffer {
        return;
    }
    let buffered: BTreeMap<&PodName, _> = look.batch.buffered.iter().map(|pod| (&pod.name, pod)).collect();
    let mut counts: BTreeMap<NodeName, u32> = BTreeMap::new();
    for (name, target) in &plan.placements {
        if let (true, Target::Node(node)) = (buffered.contains_key(name), target) {
            *counts.entry(node.clone()).or_default() += 1;
        }
    }
    ctx.store().set_buffered(counts);
    let rooms = judged(look.batch.buffered.iter().map(|pod| &**pod), plan);
    for buffer in ctx.rooms.note(rooms) {
        ctx.wakers.wake(&Duty::Buffer(buffer));
    }
}
