//! Saying that a node is ready for pods.

use api::labels;
use kube::ResourceExt;
use model::ids::NodeName;
use runtime::Next;

use super::Done;
use super::desk::{About, Desk, INITIALIZED};
use crate::ctx::Ctx;

/// The engine has found nothing lacking.
pub(super) fn initialize(desk: &mut Desk, node: &NodeName, ctx: &Ctx) -> Done {
    let Some(wanted) = desk.node_mut(node) else { return Done::Wait(Next::OnChange) };
    wanted.labels_mut().insert(labels::INITIALIZED.to_owned(), "true".to_owned());
    let allocatable = wanted.status.as_ref().and_then(|status| status.allocatable.clone()).unwrap_or_default();
    let allocatable: Vec<String> = allocatable.iter().map(|(name, amount)| format!("{name}={}", amount.0)).collect();
    desk.conditions(ctx, |all| all.set_true(INITIALIZED));
    let node = node.clone();
    desk.announce(About::Node, move |_, claim| {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        let claim = claim.name_any();
        tracing::info!(NodeClaim = claim, "provider-id" = id, Node = %node, ?allocatable, "initialized nodeclaim");
    });
    Done::Onward
}
