//! Ending claims that are as old as they may be. Nobody is asked: budgets and replacements are for choices, and this is none.

use cluster::lower::eligible::is_reschedulable;
use model::ids::NodeName;
use runtime::Next;

use super::Done;
use super::desk::Desk;
use crate::ctx::Ctx;
use crate::error::ControllerError;
use crate::metrics::DisruptedReason;
use crate::{disrupted, write};

pub(super) async fn expire(ctx: &Ctx, desk: &mut Desk) -> Result<Done, ControllerError> {
    let pods = pods_to_move(ctx, desk);
    write::delete(ctx, &desk.claim).await?;
    disrupted::count_claim(ctx, &desk.claim, DisruptedReason::Expired);
    disrupted::count_pods(ctx, &desk.claim, DisruptedReason::Expired, pods);
    tracing::debug!(NodeClaim = %desk.name(), pods, "deleting expired nodeclaim");
    desk.abandon();
    Ok(Done::Wait(Next::OnChange))
}

fn pods_to_move(ctx: &Ctx, desk: &Desk) -> usize {
    let status = desk.claim.status.as_ref();
    let Some(node) = status.and_then(|status| status.node_name.as_deref()).filter(|name| !name.is_empty()) else {
        return 0;
    };
    ctx.store().pods_on(&NodeName::from(node)).filter(|(pod, _)| is_reschedulable(pod)).count()
}
