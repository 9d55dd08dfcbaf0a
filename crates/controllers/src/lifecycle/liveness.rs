//! Giving up claims whose machine does not come, or does not become a node that pods can use.

use api::NodeClaim;
use engine::lifecycle::Overdue;
use model::time::Instant;
use runtime::Next;

use super::Done;
use super::desk::{Desk, INITIALIZED};
use super::setbacks::PoolSetbacks;
use crate::ctx::Ctx;
use crate::error::ControllerError;
use crate::metrics::DisruptedReason;
use crate::pools::health::note_failed;
use crate::{disrupted, ending, events, write};

pub(super) async fn give_up(ctx: &Ctx, desk: &mut Desk, overdue: Overdue) -> Result<Done, ControllerError> {
    write::delete(ctx, &*desk.claim).await?;
    note_failed(ctx, &desk.claim);
    let reason = match overdue {
        Overdue::Launch => DisruptedReason::LaunchTimeout,
        Overdue::Registration => DisruptedReason::RegistrationTimeout,
        Overdue::Initialization => DisruptedReason::InitializationTimeout,
    };
    disrupted::count_claim(ctx, &desk.claim, reason);
    tracing::debug!(NodeClaim = %desk.name(), reason = reason.as_str(), "terminating due to timeout");
    desk.abandon();
    Ok(Done::Wait(Next::OnChange))
}

/// The same for a node that has registered: it may have pods, which are drained and want another place.
pub(super) async fn give_up_registered(
    ctx: &Ctx,
    desk: &mut Desk,
    setbacks: &PoolSetbacks,
    now: Instant,
) -> Result<Done, ControllerError> {
    let (life, reason) = (desk.life(), DisruptedReason::InitializationTimeout);
    let lacking = desk.conditions(ctx, |all| all.get(INITIALIZED).map(|found| found.message.clone()));
    let pods = ending::pods_to_move(ctx, &desk.claim);
    let claim = NodeClaim::clone(&desk.claim);
    ending::end_by(ctx, &claim, None).await?;
    setbacks.note(ctx, &claim, life.registered.since, now);
    disrupted::count_claim(ctx, &claim, reason);
    disrupted::count_pods(ctx, &claim, reason, pods);
    let (waited, lacking) = (now.since(life.registered.since), lacking.unwrap_or_default());
    ctx.recorder.publish(events::initialization_timed_out(&claim, waited, &lacking));
    tracing::warn!(
        NodeClaim = %desk.name(),
        pods,
        lacking,
        reason = reason.as_str(),
        "terminating due to timeout"
    );
    desk.abandon();
    Ok(Done::Wait(Next::OnChange))
}
