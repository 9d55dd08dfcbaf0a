//! NodeOverlays: laid over what clouds sell, and told what became of them.
//!
//! `catalogs` applies them whenever it asks the cloud. Here is what their authors are told, and the wish to look again when
//! one of them changes.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::NodeOverlay;
use api::conditions::{ConditionStatus, ConditionTypes, Conditions};
use api::labels::LabelRules;
use cluster::lower::overlay::overlay as lower;
use cluster::{Duty, Store};
use engine::overlay::Verdict;
use kube::{Api, ResourceExt};
use runtime::Next;

use crate::controller::{About, Controller, TickId};
use crate::ctx::Ctx;
use crate::error::ControllerError;
use crate::write::{self, Statuses};

const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
const AGAIN: Duration = Duration::from_secs(6 * 60 * 60);

pub(crate) struct Overlays;

impl Controller for Overlays {
    type Key = ();
    const NAME: &'static str = "nodeoverlay.controller";
    const ABOUT: Option<About> = Some(About { group: "karpenter.sh", kind: "NodeOverlay" });
    // Without its pools an overlay would look as if it met nobody.
    const NEEDS_ALL_LISTED: bool = true;

    fn wakes_for(call: &Duty) -> Option<()> {
        matches!(call, Duty::Overlays).then_some(())
    }

    fn first_keys(&self, _store: &Store) -> Vec<()> {
        vec![()]
    }

    fn after_gone() -> Next {
        Next::After(AGAIN)
    }

    async fn tick(&self, ctx: &Ctx, _key: &(), _id: &TickId) -> Result<Next, ControllerError> {
        let unanswered = ctx.catalogs.refresh(ctx, &ctx.cloud.for_controller(Self::NAME)).await;
        let overlays: Vec<Arc<NodeOverlay>> = ctx.store().node_overlays().values().cloned().collect();
        // One whose status cannot be written keeps no other.
        let mut end = Ok(());
        for overlay in overlays.iter().filter(|overlay| overlay.metadata.deletion_timestamp.is_none()) {
            end = end.and(tell(ctx, overlay).await);
        }
        end?;
        // The others go on with what could be found out; what could not is tried again.
        unanswered.map_or(Ok(Next::After(AGAIN)), Err)
    }
}

async fn tell(ctx: &Ctx, overlay: &Arc<NodeOverlay>) -> Result<(), ControllerError> {
    let problems = problems(overlay, &ctx.store().settings().rules);
    let verdict = ctx.catalogs.verdict(&overlay.name_any());
    let mut after = overlay.status.clone().unwrap_or_default();
    let mut all =
        Conditions::open(ConditionTypes::NODE_OVERLAY, &overlay.metadata, &mut after.conditions, ctx.timestamp());
    let is_news = match (&*problems, &verdict) {
        ([], Some(Verdict::Conflict(_))) => {
            let message = "conflict with another overlay";
            all.set(VALIDATION_SUCCEEDED, ConditionStatus::False, "Conflict", message)
        }
        // Somebody has changed it since; whoever woke us for that is heard at the next look.
        ([], None) => false,
        ([], Some(Verdict::Applied | Verdict::Outweighed | Verdict::Idle)) => all.set_true(VALIDATION_SUCCEEDED),
        (problems, _) => {
            all.set(VALIDATION_SUCCEEDED, ConditionStatus::False, "RuntimeValidation", &problems.join("; "))
        }
    };
    if let (true, Some(Verdict::Conflict(conflict))) = (is_news, &verdict) {
        let name = overlay.name_any();
        tracing::warn!(NodeOverlay.name = name, %conflict, "the overlay is applied nowhere");
    }
    let api: Api<NodeOverlay> = Api::all(ctx.client.clone());
    write::status(ctx, &api, &**overlay, Statuses { before: overlay.status.as_ref(), after: &after }).await
}

/// What is wrong with an overlay in itself. One of which anything is wrong is applied nowhere.
pub(crate) fn problems(overlay: &NodeOverlay, rules: &LabelRules) -> Vec<String> {
    let found = api::validate::node_overlay(&overlay.spec, rules).into_iter();
    let found = found.map(|problem| format!("{}: {}", problem.field, problem.message));
    let unread = lower(overlay).oddities.into_iter().filter(|odd| odd.field.starts_with("spec.price"));
    found.chain(unread.map(|odd| format!("{}: {}", odd.field, odd.text))).collect()
}
