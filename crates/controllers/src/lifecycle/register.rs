//! Making a Node that has joined ours: what the claim says is put on it, and pods may come.

use std::collections::BTreeMap;
use std::time::Duration;

use api::NodeClaim;
use api::conditions::ConditionStatus;
use api::labels::{DO_NOT_SYNC_TAINTS, TERMINATION_FINALIZER, ZONE, taints};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use model::ids::NodeName;
use provider::{CloudProvider, HookAnswer, ProviderError};
use runtime::{Backoff, Next};

use super::Done;
use super::desk::{About, Desk, REGISTERED};
use super::memory::Memory;
use crate::ctx::Ctx;
use crate::disrupted::{label_of, pool_of};
use crate::error::{ControllerError, Doing};
use crate::metrics::NodeCounted;
use crate::pools::health::note_registered;
use crate::{events, failpoint};

const HOOKS_ASKED_AGAIN: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// What the provider's hooks say together.
struct Hooks {
    labels: BTreeMap<String, String>,
    pending: Vec<String>,
    again_after: Option<Duration>,
    error: Option<ProviderError>,
}

pub(super) async fn register(
    ctx: &Ctx,
    desk: &mut Desk,
    node: &NodeName,
    memory: &Memory,
) -> Result<Done, ControllerError> {
    failpoint::reach("node-joined");
    if desk.stored_node(node).is_some_and(|node| !is_registered(node) && !has_unregistered_taint(node)) {
        tracing::error!(NodeClaim = %desk.name(), taint = taints::UNREGISTERED, "node claim registration error");
        ctx.recorder.publish(events::unregistered_taint_missing(&desk.claim));
    }
    let hooks = ask_hooks(ctx, &desk.claim).await;
    desk.claim.metadata.labels.get_or_insert_default().extend(hooks.labels.clone());
    let claim = desk.claim.clone();
    let Some(wanted) = desk.node_mut(node) else { return Ok(Done::Wait(Next::OnChange)) };
    sync(wanted, &claim);
    if hooks.pending.is_empty() {
        admit(wanted);
        finish(ctx, desk, node);
        return Ok(Done::Onward);
    }
    let names = hooks.pending.join(", ");
    desk.conditions(ctx, |all| all.set(REGISTERED, ConditionStatus::Unknown, "RegistrationHookPending", &names));
    if let Some(error) = hooks.error {
        return Err(error).doing(format!("asking the registration hooks {names} about nodeclaim {}", desk.name()));
    }
    let growing = || HOOKS_ASKED_AGAIN.delay(memory.next_hook_wait(&claim), &ctx.rng);
    Ok(Done::Wait(Next::After(hooks.again_after.unwrap_or_else(growing))))
}

/// All at the same time: a slow one does not keep the others from being heard.
async fn ask_hooks(ctx: &Ctx, claim: &NodeClaim) -> Hooks {
    let hooks = ctx.cloud.registration_hooks();
    let answers = join_all(hooks.iter().map(|hook| hook.registered(claim))).await;
    let mut said = Hooks { labels: BTreeMap::new(), pending: Vec::new(), again_after: None, error: None };
    for (hook, answer) in hooks.iter().zip(answers) {
        match answer {
            Ok(HookAnswer::Agreed { labels }) => said.labels.extend(labels),
            Ok(HookAnswer::Pending { again_after }) => {
                said.pending.push(hook.name().to_owned());
                said.again_after = said.again_after.into_iter().chain(again_after).min();
            }
            Err(error) => {
                said.pending.push(hook.name().to_owned());
                said.error = said.error.or(Some(error));
            }
        }
    }
    said
}

/// What the claim says is put on the Node. Taints that are there already stay as they are, and none is taken off.
fn sync(node: &mut Node, claim: &NodeClaim) {
    let finalizers = node.metadata.finalizers.get_or_insert_default();
    let is_first_time = !finalizers.iter().any(|name| name == TERMINATION_FINALIZER);
    if is_first_time {
        finalizers.push(TERMINATION_FINALIZER.to_owned());
    }
    let owners = node.metadata.owner_references.get_or_insert_default();
    if !owners.iter().any(|owner| Some(&owner.uid) == claim.metadata.uid.as_ref()) {
        owners.extend(owner_of(claim));
    }
    if label_of(node, DO_NOT_SYNC_TAINTS) != "true" {
        // Whoever takes a startup taint off does so once; a Node that we have touched before does not get it again.
        let startup: &[api::taint::Taint] = if is_first_time { &claim.spec.startup_taints } else { &[] };
        let present = node.spec.get_or_insert_default().taints.get_or_insert_default();
        for taint in claim.spec.taints.iter().chain(startup).map(on_node) {
            if !present.iter().any(|other| other.key == taint.key && other.effect == taint.effect) {
                present.push(taint);
            }
        }
    }
    node.annotations_mut().extend(claim.annotations().clone());
    node.labels_mut().extend(claim.labels().clone());
}

/// Pods may come.
fn admit(node: &mut Node) {
    if let Some(present) = node.spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
        present.retain(|taint| !is_unregistered(taint));
    }
    node.labels_mut().insert(api::labels::REGISTERED.to_owned(), "true".to_owned());
}

fn finish(ctx: &Ctx, desk: &mut Desk, node: &NodeName) {
    desk.claim.status.get_or_insert_default().node_name = Some(node.to_string());
    desk.conditions(ctx, |all| all.set_true(REGISTERED));
    desk.announce(About::Node, tell_registered);
}

fn tell_registered(ctx: &Ctx, claim: &NodeClaim) {
    let status = claim.status.as_ref();
    let (id, node) = status.map(|status| (&status.provider_id, &status.node_name)).unzip();
    let (id, node) = (id.and_then(Option::as_deref), node.and_then(Option::as_deref));
    tracing::info!(NodeClaim = claim.name_any(), "provider-id" = id, Node = node, "registered nodeclaim");
    let labels = NodeCounted { nodepool: pool_of(claim), zone: label_of(claim, ZONE) };
    ctx.metrics.nodes_created.get_or_create(&labels).inc();
    note_registered(ctx, claim);
}

fn is_registered(node: &Node) -> bool {
    label_of(node, api::labels::REGISTERED) == "true"
}

fn has_unregistered_taint(node: &Node) -> bool {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(is_unregistered)
}

fn is_unregistered(taint: &Taint) -> bool {
    taint.key == taints::UNREGISTERED && taint.effect == "NoExecute"
}

fn owner_of(claim: &NodeClaim) -> Option<OwnerReference> {
    let owner = claim.owner_ref(&())?;
    Some(OwnerReference { block_owner_deletion: Some(true), ..owner })
}

fn on_node(taint: &api::taint::Taint) -> Taint {
    let effect = match taint.effect {
        api::taint::TaintEffect::NoSchedule => "NoSchedule",
        api::taint::TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        api::taint::TaintEffect::NoExecute => "NoExecute",
    };
    Taint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: effect.to_owned(),
        time_added: taint.time_added.clone(),
    }
}
