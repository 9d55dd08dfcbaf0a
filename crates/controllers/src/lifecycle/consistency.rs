//! Comparing a node's shape with what the cloud promised.

use api::conditions::ConditionStatus;
use engine::lifecycle::{Shortfall, shortfalls};

use super::Done;
use super::desk::Desk;
use super::memory::Memory;
use crate::ctx::Ctx;
use crate::events;

pub(super) const CONSISTENT: &str = "ConsistentStateFound";

pub(super) fn check(ctx: &Ctx, desk: &mut Desk, memory: &Memory) -> Done {
    memory.note_check(&desk.claim, desk.revision.clone(), ctx.now());
    let issues: Vec<String> = shortfalls(&desk.life()).iter().map(|short| text(desk, short)).collect();
    if issues.is_empty() {
        if !desk.says(CONSISTENT) {
            desk.conditions(ctx, |all| all.set_true(CONSISTENT));
        }
        return Done::Onward;
    }
    for issue in &issues {
        tracing::info!(NodeClaim = %desk.name(), issue, "failed consistency check");
        ctx.recorder.publish(events::failed_consistency_check(&desk.claim, issue.clone()));
    }
    let message = issues.join(", ");
    desk.conditions(ctx, |all| all.set(CONSISTENT, ConditionStatus::False, "ConsistencyCheckFailed", &message));
    Done::Onward
}

/// The amounts stand there as both sides spell them.
fn text(desk: &Desk, short: &Shortfall) -> String {
    let resource = short.resource.name();
    let expected = desk.claim.status.as_ref().and_then(|status| status.capacity.get(resource)).map(ToString::to_string);
    let found = desk.nodes().next().and_then(|node| {
        let capacity = node.status.as_ref()?.capacity.as_ref()?;
        capacity.get(resource).map(|quantity| quantity.0.clone())
    });
    let (whole, tenths) = (short.per_mille() / 10, short.per_mille() % 10);
    let (expected, found) = (expected.unwrap_or_default(), found.unwrap_or_else(|| "0".to_owned()));
    format!("expected {expected} of resource {resource}, but found {found} ({whole}.{tenths}% of expected)")
}
