//! Giving up claims whose machine does not come.

use engine::lifecycle::Overdue;
use runtime::Next;

use super::Done;
use super::desk::Desk;
use crate::ctx::Ctx;
use crate::error::ControllerError;
use crate::metrics::DisruptedReason;
use crate::pools::health::note_failed;
use crate::{disrupted, write};

pub(super) async fn give_up(ctx: &Ctx, desk: &mut Desk, overdue: Overdue) -> Result<Done, ControllerError> {
    write::delete(ctx, &desk.claim).await?;
    note_failed(ctx, &desk.claim);
    let reason = match overdue {
        Overdue::Launch => DisruptedReason::LaunchTimeout,
        Overdue::Registration => DisruptedReason::RegistrationTimeout,
    };
    disrupted::count_claim(ctx, &desk.claim, reason);
    tracing::debug!(NodeClaim = %desk.name(), reason = reason.as_str(), "terminating due to timeout");
    desk.abandon();
    Ok(Done::Wait(Next::OnChange))
}
