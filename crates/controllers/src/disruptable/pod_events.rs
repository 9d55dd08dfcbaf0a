//! Notes on claims when pods come to their nodes or leave them.

use std::time::Duration;

use api::NodeClaim;
use cluster::Duty;
use cluster::lower::claim::last_pod_event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::ids::NodeName;
use model::time::Instant;
use runtime::Next;

use crate::controller::{About, Controller, TickId};
use crate::ctx::Ctx;
use crate::disrupted::is_initialized;
use crate::error::ControllerError;
use crate::settings::{Settings, Workers};
use crate::write;

/// Events that follow each other closer than this are one. Shorter than the time for which a disruption is thought over, so
/// that a pod which comes meanwhile is noticed.
const ONE_EVENT: Duration = Duration::from_secs(10);

pub(crate) struct PodEvents;

impl Controller for PodEvents {
    type Key = NodeName;
    const NAME: &'static str = "nodeclaim.podevents";
    const ABOUT: Option<About> = Some(About { group: "", kind: "Node" });

    fn wakes_for(call: &Duty) -> Option<NodeName> {
        match call {
            Duty::PodEvent(node) => Some(node.clone()),
            _ => None,
        }
    }

    fn workers(settings: &Settings) -> usize {
        Workers::POOLS.at(settings.cpu_requests)
    }

    async fn tick(&self, ctx: &Ctx, node: &NodeName, _id: &TickId) -> Result<Next, ControllerError> {
        let Some(claim) = ctx.store().claim_of_node(node) else { return Ok(Next::OnChange) };
        let is_noted = last_pod_event(&claim).is_some_and(|last| is_one_event(last, ctx.now()));
        if is_noted || !is_settled(&claim) {
            return Ok(Next::OnChange);
        }
        let mut noted = NodeClaim::clone(&claim);
        noted.status.get_or_insert_default().last_pod_event_time = Some(Time(ctx.timestamp()));
        write::claim(ctx, &claim, &noted).await?;
        Ok(Next::OnChange)
    }
}

/// Whether the time matters. A node that is still starting counts its quiet from the end of that, and one that is going from
/// nothing; while many nodes come at once, the writes that are saved are their own.
fn is_settled(claim: &NodeClaim) -> bool {
    is_initialized(claim) && claim.metadata.deletion_timestamp.is_none()
}

fn is_one_event(last: Instant, now: Instant) -> bool {
    now.since(last) < ONE_EVENT
}
