//! Saying that a node is ready for pods.

use api::labels;
use kube::ResourceExt;
use model::ids::NodeName;
use runtime::Next;

use super::Done;
use super::desk::{Desk, INITIALIZED};
use crate::ctx::Ctx;

/// The engine has found nothing lacking.
pub(super) fn initialize(desk: &mut Desk, node: &NodeName, ctx: &Ctx) -> Done {
    let Some(wanted) = desk.node_mut(node) else { return Done::Wait(Next::OnChange) };
    wanted.labels_mut().insert(labels::INITIALIZED.to_owned(), "true".to_owned());
    desk.conditions(ctx, |all| all.set_true(INITIALIZED));
    Done::Onward
}

/// The claim says so now.
pub(super) fn tell(desk: &Desk) {
    let (id, node) = (desk.provider_id(), desk.node_name());
    let status = desk.stored_node(&NodeName::from(node)).and_then(|node| node.status.as_ref());
    let allocatable = status.and_then(|status| status.allocatable.as_ref()).into_iter().flatten();
    let allocatable: Vec<String> = allocatable.map(|(name, amount)| format!("{name}={}", amount.0)).collect();
    tracing::info!(NodeClaim = %desk.name(), "provider-id" = id, Node = node, ?allocatable, "initialized nodeclaim");
}
