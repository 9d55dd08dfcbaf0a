//! What all who give up claims share: the taint that closes a Node, the condition that says why, and how claims are counted.

use api::NodeClaim;
use api::conditions::{Condition, DISRUPTION_REASON};
use api::labels::{CAPACITY_TYPE, NODE_POOL, taints};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt;

use crate::ctx::Ctx;
use crate::metrics::{ConsolidationPolicy, Disrupted, DisruptedReason, TerminationMode};

/// Closes a Node to new pods. Says whether it was open.
pub(crate) fn add_taint(node: &mut Node) -> bool {
    let present = node.spec.get_or_insert_default().taints.get_or_insert_default();
    if present.iter().any(is_disrupted) {
        return false;
    }
    present.retain(|taint| taint.key != taints::DISRUPTED);
    let (key, effect) = (taints::DISRUPTED.to_owned(), "NoSchedule".to_owned());
    present.push(Taint { key, effect, ..Taint::default() });
    true
}

/// Opens it again.
pub(crate) fn remove_taint(node: &mut Node) {
    if let Some(present) = node.spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
        present.retain(|taint| !is_disrupted(taint));
    }
}

pub(crate) fn has_taint(node: &Node) -> bool {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(is_disrupted)
}

fn is_disrupted(taint: &Taint) -> bool {
    taint.key == taints::DISRUPTED && taint.effect == "NoSchedule"
}

/// A line for a Node that was closed just now.
pub(crate) fn log_tainted(node: &str, claim: Option<&str>) {
    tracing::info!(
        Node = node,
        NodeClaim = claim,
        taint.Key = taints::DISRUPTED,
        taint.Value = "",
        taint.Effect = "NoSchedule",
        "tainted node"
    );
}

/// Why somebody disrupts a claim, if anybody does.
pub(crate) fn disruption_reason(claim: &NodeClaim) -> Option<&Condition> {
    let mut conditions = claim.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|condition| condition.type_ == DISRUPTION_REASON && condition.is_true())
}

/// Whether its machine has come all the way.
pub(crate) fn is_initialized(claim: &NodeClaim) -> bool {
    let mut conditions = claim.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == "Initialized" && condition.is_true())
}

/// Counts a claim that goes for a reason of its own, and not to make the cluster cheaper.
pub(crate) fn count_claim(ctx: &Ctx, claim: &NodeClaim, reason: DisruptedReason) {
    ctx.metrics.claims_disrupted.get_or_create(&labels(claim, reason, ConsolidationPolicy::None)).inc();
}

/// Counts the pods that have to move with it.
pub(crate) fn count_pods(ctx: &Ctx, claim: &NodeClaim, reason: DisruptedReason, pods: usize) {
    let labels = labels(claim, reason, ConsolidationPolicy::None);
    ctx.metrics.pods_disruption_initiated.get_or_create(&labels).inc_by(pods as u64);
}

/// Counts a claim that we chose to disrupt, and the pods that have to move.
pub(crate) fn count_chosen(
    ctx: &Ctx,
    claim: &NodeClaim,
    reason: DisruptedReason,
    policy: ConsolidationPolicy,
    pods: usize,
) {
    let labels = labels(claim, reason, policy);
    ctx.metrics.claims_disrupted.get_or_create(&labels).inc();
    ctx.metrics.pods_disruption_initiated.get_or_create(&labels).inc_by(pods as u64);
}

/// The pool's name, or nothing for a claim that stands alone.
pub(crate) fn pool_of(object: &impl ResourceExt) -> String {
    label_of(object, NODE_POOL)
}

pub(crate) fn label_of(object: &impl ResourceExt, key: &str) -> String {
    object.labels().get(key).cloned().unwrap_or_default()
}

fn labels(claim: &NodeClaim, reason: DisruptedReason, consolidation_policy: ConsolidationPolicy) -> Disrupted {
    let termination_mode = match claim.spec.termination_grace_period {
        None => TerminationMode::Graceful,
        Some(grace) if grace <= api::Duration::ZERO => TerminationMode::Forceful,
        Some(_) => TerminationMode::Eventual,
    };
    Disrupted {
        reason,
        nodepool: pool_of(claim),
        capacity_type: label_of(claim, CAPACITY_TYPE),
        consolidation_policy,
        termination_mode,
    }
}
