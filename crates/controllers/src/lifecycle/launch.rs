//! Getting a machine for a claim.

use api::NodeClaim;
use api::conditions::ConditionStatus;
use kube::ResourceExt;
use provider::{CloudProvider, Instance, ProviderError, Reaction};
use runtime::Next;

use super::desk::{About, Desk, LAUNCHED};
use super::{Done, Lifecycle};
use crate::controller::Controller;
use crate::ctx::Ctx;
use crate::error::{ControllerError, Doing};
use crate::metrics::DisruptedReason;
use crate::{disrupted, events, failpoint, write};

/// As much of a cloud's error as a condition shows.
const MOST_MESSAGE_CHARS: usize = 300;

pub(super) async fn launch(ctx: &Ctx, desk: &mut Desk) -> Result<Done, ControllerError> {
    failpoint::reach("launch-decided");
    let cloud = ctx.cloud.for_controller(Lifecycle::NAME);
    match cloud.launch(&desk.claim).await {
        Ok(instance) => {
            failpoint::reach("machine-launched");
            take(ctx, desk, instance);
            Ok(Done::Onward)
        }
        Err(error) if error.reaction() == Reaction::PlanAgain => give_up(ctx, desk, &error).await,
        Err(error) => {
            let (reason, message) = (error.condition_reason().to_owned(), cut(&error.to_string()));
            desk.conditions(ctx, |all| all.set(LAUNCHED, ConditionStatus::Unknown, &reason, &message));
            Err(error).doing(format!("launching nodeclaim {}", desk.name()))
        }
    }
}

/// What the claim learns: who its machine is, what it has, and what is settled about it. What the claim said itself stays.
fn take(ctx: &Ctx, desk: &mut Desk, instance: Instance) {
    let labels = desk.claim.metadata.labels.get_or_insert_default();
    for (key, value) in instance.labels.clone() {
        labels.entry(key).or_insert(value);
    }
    desk.claim.metadata.annotations.get_or_insert_default().extend(instance.annotations.clone());
    let status = desk.claim.status.get_or_insert_default();
    status.provider_id = Some(instance.id.as_str().to_owned());
    status.image_id = instance.image.clone();
    status.capacity = instance.capacity.clone();
    status.allocatable = instance.allocatable.clone();
    desk.conditions(ctx, |all| all.set_true(LAUNCHED));
    desk.find_nodes(ctx);
    desk.announce(About::Claim, move |_, claim| tell_launched(claim, &instance));
}

fn tell_launched(claim: &NodeClaim, instance: &Instance) {
    let (kind, zone, capacity) = (instance.type_name(), instance.zone(), instance.capacity_type());
    tracing::info!(
        NodeClaim = claim.name_any(), "provider-id" = %instance.id, "instance-type" = kind, zone,
        "capacity-type" = capacity,
        allocatable = ?instance.allocatable.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>(),
        "launched nodeclaim"
    );
}

/// There is no machine for this claim as things are. Its pods are planned again, and the plan will look different: the cloud
/// remembers what has run out, and a pool whose class is not ready is not used.
async fn give_up(ctx: &Ctx, desk: &mut Desk, error: &ProviderError) -> Result<Done, ControllerError> {
    tracing::error!(NodeClaim = %desk.name(), %error, "failed launching nodeclaim");
    let reason = match error {
        ProviderError::NodeClassNotReady { .. } => {
            ctx.recorder.publish(events::node_class_not_ready(&desk.claim, &error.to_string()));
            DisruptedReason::NodeClassNotReady
        }
        _ => {
            ctx.recorder.publish(events::insufficient_capacity(&desk.claim, &error.to_string()));
            DisruptedReason::InsufficientCapacity
        }
    };
    write::delete(ctx, &*desk.claim).await?;
    disrupted::count_claim(ctx, &desk.claim, reason);
    desk.abandon();
    Ok(Done::Wait(Next::OnChange))
}

fn cut(message: &str) -> String {
    match message.char_indices().nth(MOST_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}...", &message[..end]),
        None => message.to_owned(),
    }
}
