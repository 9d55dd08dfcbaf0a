//! Ending claims that are as old as they may be. Nobody is asked: budgets and replacements are for choices, and this is none.

use runtime::Next;

use super::Done;
use super::desk::Desk;
use crate::ctx::Ctx;
use crate::ending::pods_to_move;
use crate::error::ControllerError;
use crate::metrics::DisruptedReason;
use crate::{disrupted, write};

pub(super) async fn expire(ctx: &Ctx, desk: &mut Desk) -> Result<Done, ControllerError> {
    let pods = pods_to_move(ctx, &desk.claim);
    write::delete(ctx, &*desk.claim).await?;
    disrupted::count_claim(ctx, &desk.claim, DisruptedReason::Expired);
    disrupted::count_pods(ctx, &desk.claim, DisruptedReason::Expired, pods);
    tracing::debug!(NodeClaim = %desk.name(), pods, "deleting expired nodeclaim");
    desk.abandon();
    Ok(Done::Wait(Next::OnChange))
}
