//! Counting claims that are given up, whoever gives them up.

use api::NodeClaim;
use api::labels::{CAPACITY_TYPE, NODE_POOL};
use kube::ResourceExt;

use crate::ctx::Ctx;
use crate::metrics::{ConsolidationPolicy, Disrupted, DisruptedReason, TerminationMode};

/// Counts a claim that goes for a reason of its own, and not to make the cluster cheaper.
pub(crate) fn count_claim(ctx: &Ctx, claim: &NodeClaim, reason: DisruptedReason) {
    ctx.metrics.claims_disrupted.get_or_create(&labels(claim, reason)).inc();
}

/// Counts the pods that have to move with it.
pub(crate) fn count_pods(ctx: &Ctx, claim: &NodeClaim, reason: DisruptedReason, pods: usize) {
    ctx.metrics.pods_disruption_initiated.get_or_create(&labels(claim, reason)).inc_by(pods as u64);
}

/// The pool's name, or nothing for a claim that stands alone.
pub(crate) fn pool_of(object: &impl ResourceExt) -> String {
    label_of(object, NODE_POOL)
}

pub(crate) fn label_of(object: &impl ResourceExt, key: &str) -> String {
    object.labels().get(key).cloned().unwrap_or_default()
}

fn labels(claim: &NodeClaim, reason: DisruptedReason) -> Disrupted {
    let termination_mode = match claim.spec.termination_grace_period {
        None => TerminationMode::Graceful,
        Some(grace) if grace <= api::Duration::ZERO => TerminationMode::Forceful,
        Some(_) => TerminationMode::Eventual,
    };
    Disrupted {
        reason,
        nodepool: pool_of(claim),
        capacity_type: label_of(claim, CAPACITY_TYPE),
        consolidation_policy: ConsolidationPolicy::None,
        termination_mode,
    }
}
