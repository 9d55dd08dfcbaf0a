//! The end of a claim: its Nodes, then its machine, then itself.

use std::time::Duration;

use api::conditions::ConditionStatus;
use api::labels::annotations::TERMINATION_TIMESTAMP;
use api::labels::{CAPACITY_TYPE, TERMINATION_FINALIZER, ZONE};
use kube::ResourceExt;
use model::ids::NodeName;
use model::time::Instant;
use provider::{CloudProvider, ProviderId, Termination};
use runtime::Next;

use super::desk::Desk;
use super::memory::Memory;
use super::{Done, Lifecycle};
use crate::controller::Controller;
use crate::ctx::{Ctx, instant, timestamp};
use crate::disrupted::{label_of, pool_of};
use crate::error::{ControllerError, Doing};
use crate::metrics::{ByPool, ClaimTerminated};
use crate::{events, write};

pub(crate) const INSTANCE_TERMINATING: &str = "InstanceTerminating";
/// How often a cloud is asked whether a machine is gone.
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Written down, so that a restart does not extend it and anybody may shorten it.
pub(super) async fn set_deadline(ctx: &Ctx, desk: &mut Desk, deadline: Instant) -> Result<Done, ControllerError> {
    let deadline = timestamp(deadline.floor_to_second());
    desk.claim.annotations_mut().insert(TERMINATION_TIMESTAMP.to_owned(), deadline.to_string());
    desk.write(ctx).await?;
    tracing::info!(NodeClaim = %desk.name(), { TERMINATION_TIMESTAMP } = %deadline, "annotated nodeclaim");
    ctx.recorder.publish(events::claim_termination_grace_period_expiring(&desk.claim, deadline));
    Ok(Done::Onward)
}

pub(super) async fn delete_nodes(ctx: &Ctx, desk: &mut Desk, nodes: &[NodeName]) -> Result<Done, ControllerError> {
    desk.write(ctx).await?;
    for name in nodes {
        if let Some(node) = desk.stored_node(name) {
            write::delete(ctx, &**node).await?;
        }
    }
    desk.find_nodes(ctx);
    Ok(Done::Wait(Next::OnChange))
}

/// Asks for the machine's end, again and again until it is gone.
pub(super) async fn terminate(ctx: &Ctx, desk: &mut Desk, memory: &Memory) -> Result<Done, ControllerError> {
    let cloud = ctx.cloud.for_controller(Lifecycle::NAME);
    let id = match desk.provider_id() {
        Some(id) => Some(ProviderId::from(id)),
        // A claim without a provider id may still own a machine: the reply to a launch can be lost after the cloud
        // accepted it.
        None => {
            let found = cloud.find(&desk.claim).await;
            found.doing(format!("looking for the machine of nodeclaim {}", desk.name()))?.map(|instance| instance.id)
        }
    };
    let Some(id) = id else {
        memory.note_gone(&desk.claim);
        return Ok(Done::Onward);
    };
    let answer = match cloud.terminate(&id).await {
        Err(error) if error.reaction() == provider::Reaction::AlreadyGone => Ok(Termination::Gone),
        other => other,
    };
    match answer.doing(format!("terminating machine {id} of nodeclaim {}", desk.name()))? {
        Termination::Going => {
            desk.conditions(ctx, |all| all.set_true(INSTANCE_TERMINATING));
            Ok(Done::Wait(Next::After(ASK_AGAIN)))
        }
        Termination::Gone => {
            let asked_at = desk.conditions(ctx, |all| {
                let asked = all.get(INSTANCE_TERMINATING).filter(|found| found.status == ConditionStatus::True);
                asked.map(|found| instant(found.last_transition_time.0))
            });
            let took = asked_at.map_or(Duration::ZERO, |asked_at| ctx.now().since(asked_at));
            let labels = ByPool { nodepool: pool_of(&*desk.claim) };
            let durations = &ctx.metrics.claims_instance_termination_duration;
            durations.get_or_create(&labels).observe(took.as_secs_f64());
            memory.note_gone(&desk.claim);
            Ok(Done::Onward)
        }
    }
}

/// Lets go of the claim: nothing of it is left.
pub(super) async fn release(ctx: &Ctx, desk: &mut Desk, memory: &Memory) -> Result<Done, ControllerError> {
    desk.claim.finalizers_mut().retain(|name| name != TERMINATION_FINALIZER);
    // With its finalizer the claim goes; there is nobody left to read a status.
    desk.claim.status = desk.stored_status();
    desk.write(ctx).await?;
    memory.forget(desk.name());
    let claim = &*desk.claim;
    tracing::info!(NodeClaim = %desk.name(), "provider-id" = desk.provider_id(), "deleted nodeclaim");
    let deleted = claim.metadata.deletion_timestamp.as_ref().map(|time| instant(time.0));
    let took = deleted.map_or(Duration::ZERO, |deleted| ctx.now().since(deleted));
    let by_pool = ByPool { nodepool: pool_of(claim) };
    ctx.metrics.claims_termination_duration.get_or_create(&by_pool).observe(took.as_secs_f64());
    let labels = ClaimTerminated {
        nodepool: pool_of(claim),
        capacity_type: label_of(claim, CAPACITY_TYPE),
        zone: label_of(claim, ZONE),
    };
    ctx.metrics.claims_terminated.get_or_create(&labels).inc();
    desk.abandon();
    Ok(Done::Wait(Next::OnChange))
}
