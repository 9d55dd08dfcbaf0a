//! Ending claims before their time, whoever has a reason to.

use api::NodeClaim;
use api::labels::annotations::TERMINATION_TIMESTAMP;
use cluster::lower::claim::deadline_of;
use kube::ResourceExt;
use model::eviction::is_reschedulable;
use model::ids::NodeName;
use model::time::Instant;

use crate::ctx::{Ctx, timestamp};
use crate::error::ControllerError;
use crate::{events, write};

/// Asks for the end of a claim. Its drain is over at the deadline at the latest; one that comes sooner stays.
///
/// The deadline is written first: a process that ends in between leaves a claim that is looked at again, and none that is
/// on its way out without a deadline.
pub(crate) async fn end_by(ctx: &Ctx, claim: &NodeClaim, deadline: Option<Instant>) -> Result<(), ControllerError> {
    if let Some(deadline) = deadline {
        bring_forward(ctx, claim, deadline.floor_to_second()).await?;
    }
    if claim.metadata.deletion_timestamp.is_none() {
        write::delete(ctx, claim).await?;
    }
    Ok(())
}

async fn bring_forward(ctx: &Ctx, claim: &NodeClaim, deadline: Instant) -> Result<(), ControllerError> {
    if deadline_of(claim).value.is_some_and(|known| known <= deadline) {
        return Ok(());
    }
    let deadline = timestamp(deadline);
    let mut hastened = claim.clone();
    hastened.annotations_mut().insert(TERMINATION_TIMESTAMP.to_owned(), deadline.to_string());
    write::claim(ctx, claim, &hastened).await?;
    tracing::info!(NodeClaim.name = claim.name_any(), { TERMINATION_TIMESTAMP } = %deadline, "annotated nodeclaim");
    ctx.recorder.publish(events::claim_termination_grace_period_expiring(claim, deadline));
    Ok(())
}

/// The pods that will want another place when the claim goes.
pub(crate) fn pods_to_move(ctx: &Ctx, claim: &NodeClaim) -> usize {
    let status = claim.status.as_ref();
    let Some(node) = status.and_then(|status| status.node_name.as_deref()).filter(|name| !name.is_empty()) else {
        return 0;
    };
    ctx.store().pods_on(&NodeName::from(node)).filter(|(pod, _)| is_reschedulable(pod)).count()
}
