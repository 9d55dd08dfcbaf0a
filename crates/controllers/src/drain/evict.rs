//! Making one pod leave: by the eviction API, which asks the disruption budgets, or outright when its time is up.

use std::time::Duration;

use engine::drain::Refusal;
use k8s_openapi::api::core::v1::Pod as WirePod;
use kube::Api;
use kube::api::{DeleteParams, PostParams, Preconditions};
use model::drain::Guest;
use serde_json::{Value, json};

use super::queue::Entry;
use crate::ctx::{Ctx, timestamp};
use crate::disrupted::disruption_reason;
use crate::error::{ControllerError, Doing};
use crate::events;
use crate::metrics::{DrainReason, EvictionCode};

/// Asks for an eviction. Gone, or another pod by now, counts as done.
pub(super) async fn evict(ctx: &Ctx, guest: &Guest, entry: &Entry) -> Result<Result<(), Refusal>, ControllerError> {
    let name = &guest.pod.name;
    // The library's own call writes `delete_options`, which no API server reads: it would evict whoever bears the name.
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": &*name.name, "namespace": name.namespace.as_str()},
        "deleteOptions": {"preconditions": {"uid": guest.pod.uid.as_str()}},
    });
    let answer: Result<Value, kube::Error> =
        pods(ctx, guest).create_subresource("eviction", &name.name, &PostParams::default(), &body).await;
    let code = match &answer {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    };
    ctx.metrics.pods_eviction_requests.get_or_create(&EvictionCode { code: code.to_string() }).inc();
    match answer {
        Ok(_) => {
            let reason = reason_of(ctx, entry);
            ctx.recorder.publish(events::evicted(&guest.pod, &reason));
            ctx.metrics.pods_drained.get_or_create(&DrainReason { reason }).inc();
            Ok(Ok(()))
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Ok(())),
        Err(kube::Error::Api(status)) if status.code == 429 => Ok(Err(Refusal::Budget)),
        Err(kube::Error::Api(status)) if status.message.contains("more than one PodDisruptionBudget") => {
            Ok(Err(Refusal::SeveralBudgets))
        }
        Err(error) => Err(error).doing(format!("evicting pod {name}")),
    }
}

/// Deletes a pod whose node must be gone soon, with what is left of its grace.
pub(super) async fn delete(ctx: &Ctx, guest: &Guest, entry: &Entry, grace: Duration) -> Result<(), ControllerError> {
    let name = &guest.pod.name;
    let preconditions = Preconditions { uid: Some(guest.pod.uid.to_string()), ..Preconditions::default() };
    let params = DeleteParams {
        grace_period_seconds: Some(u32::try_from(grace.as_secs()).unwrap_or(u32::MAX)),
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    tracing::debug!(Pod = %name, grace = grace.as_secs(), "deleting pod");
    match pods(ctx, guest).delete(&name.name, &params).await {
        Ok(_) => {
            let node_ends = entry.deadline.map_or_else(|| ctx.timestamp(), timestamp);
            let deadline = events::Deadline { node_ends, granted: grace, wanted: guest.grace };
            ctx.recorder.publish(events::disrupted(&guest.pod, deadline));
            ctx.metrics.pods_drained.get_or_create(&DrainReason { reason: reason_of(ctx, entry) }).inc();
            Ok(())
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error).doing(format!("deleting pod {name}")),
    }
}

/// Says on the node who holds up its drain.
pub(super) fn tell(ctx: &Ctx, guest: &Guest, entry: &Entry, refusal: Refusal) {
    let what = match refusal {
        Refusal::Budget => "evicting pod violates a PDB",
        Refusal::SeveralBudgets => "eviction does not support multiple PDBs",
    };
    let node = ctx.store().node(&entry.node);
    if let Some(node) = node {
        ctx.recorder.publish(events::failed_draining(&node, &format!("{what} (Pod={})", guest.pod.name)));
    }
}

/// Why the pod's node goes; nothing when node or claim cannot be found.
fn reason_of(ctx: &Ctx, entry: &Entry) -> String {
    let store = ctx.store();
    let machine = store.machines().get(&entry.node);
    let claim = machine.and_then(|machine| machine.claim.as_ref()).and_then(|name| store.claim(name));
    let Some(claim) = claim else { return String::new() };
    let reason = disruption_reason(&claim).map(|condition| condition.reason.clone());
    reason.unwrap_or_else(|| "Forceful Termination".to_owned())
}

fn pods(ctx: &Ctx, guest: &Guest) -> Api<WirePod> {
    Api::namespaced(ctx.client.clone(), guest.pod.name.namespace.as_str())
}
