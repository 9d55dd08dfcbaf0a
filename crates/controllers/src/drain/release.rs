//! Letting go of a Node whose machine is gone.

use std::time::Duration;

use api::NodeClaim;
use api::labels::{TERMINATION_FINALIZER, ZONE};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use runtime::Next;

use super::Parting;
use crate::ctx::{Ctx, instant};
use crate::disrupted::{label_of, pool_of};
use crate::error::ControllerError;
use crate::metrics::{ByPool, NodeCounted};
use crate::write;

pub(super) async fn release(ctx: &Ctx, parting: &Parting) -> Result<Next, ControllerError> {
    let mut freed = Node::clone(&parting.node);
    freed.finalizers_mut().retain(|name| name != TERMINATION_FINALIZER);
    write::node(ctx, &parting.node, &freed).await?;
    let claim = parting.claim.as_ref().map(NodeClaim::name_any);
    let id = parting.provider_id().map(|id| id.to_string());
    tracing::info!(Node = %parting.name(), NodeClaim = claim, "provider-id" = id, "deleted node");
    count(ctx, &parting.node);
    Ok(Next::OnChange)
}

fn count(ctx: &Ctx, node: &Node) {
    let nodepool = pool_of(node);
    let counted = NodeCounted { nodepool: nodepool.clone(), zone: label_of(node, ZONE) };
    ctx.metrics.nodes_terminated.get_or_create(&counted).inc();
    let since = |time: Option<&Time>| time.map_or(Duration::ZERO, |time| ctx.now().since(instant(time.0)));
    let took = since(node.metadata.deletion_timestamp.as_ref());
    ctx.metrics.nodes_termination_duration.observe(&[&nodepool], took.as_secs_f64());
    let lived = since(node.metadata.creation_timestamp.as_ref());
    ctx.metrics.nodes_lifetime_duration.get_or_create(&ByPool { nodepool }).observe(lived.as_secs_f64());
}
