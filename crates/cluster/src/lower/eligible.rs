//! Which pods may have a new place. Plain questions to a pod, asked when a batch is put together.

use std::sync::Arc;
use std::time::Duration;

use model::pod::{Life, Owner, Pod, Readiness};
use model::snapshot::PodBudget;
use model::time::Instant;

/// For so long a new pod is taken to wait for the scheduler.
const UNJUDGED_MAX: Duration = Duration::from_secs(5);

/// Whether the pod waits for a node that only we could bring. The reference also brings nodes for pods that are ending.
pub fn is_provisionable(pod: &Pod) -> bool {
    pod.life == Life::Active && pod.is_unschedulable && pod.node.is_none() && !pod.is_nominated && !belongs_to_node(pod)
}

/// Whether the pod is new and the scheduler has not said anything about it yet. It judges one pod after the other; a pod that
/// has waited for longer is somebody else's.
pub fn is_unjudged(pod: &Pod, now: Instant) -> bool {
    is_unheard(pod) && now.since(pod.created) < UNJUDGED_MAX
}

/// Whether the pod waits, and the scheduler has not said anything about it.
pub fn is_unheard(pod: &Pod) -> bool {
    let is_waiting = pod.life == Life::Active && pod.node.is_none() && !belongs_to_node(pod);
    is_waiting && !(pod.is_unschedulable || pod.is_gated || pod.is_nominated)
}

/// Whether two pods are the same to a scheduler, so that what it says of one it will say of the other.
pub fn are_alike(a: &Pod, b: &Pod) -> bool {
    a.namespace() == b.namespace()
        && a.labels == b.labels
        && a.requests == b.requests
        && a.priority == b.priority
        && a.wants == b.wants
        && a.problems == b.problems
}

/// Whether the pod will want another place when its node goes. A StatefulSet makes the same pod again only after the old
/// one has ended, so one that is ending counts as the one to come.
pub fn is_reschedulable(pod: &Pod) -> bool {
    let will_be_there = pod.life == Life::Active || (pod.life == Life::Terminating && pod.owner == Owner::StatefulSet);
    will_be_there && !belongs_to_node(pod)
}

/// Whether the pod would move now. One that cannot be evicted stays where it is, and room for it would stand empty.
pub fn is_currently_reschedulable(pod: &Pod, budgets: &[Arc<PodBudget>], now: Instant) -> bool {
    let is_protected = pod.life == Life::Active && pod.is_protected(now);
    is_reschedulable(pod) && !is_protected && !is_fully_blocked(pod, budgets, now)
}

/// Whether the pod would leave by eviction.
pub fn is_evictable(pod: &Pod, now: Instant) -> bool {
    pod.life == Life::Active && !pod.tolerates_disruption() && pod.owner != Owner::Node && !pod.is_protected(now)
}

/// Whether budgets will never let the pod go. Two budgets for one pod block always: the API server refuses to choose.
pub fn is_fully_blocked(pod: &Pod, budgets: &[Arc<PodBudget>], now: Instant) -> bool {
    if !is_evictable(pod, now) {
        return false;
    }
    let is_over_pod =
        |budget: &&Arc<PodBudget>| budget.namespace == *pod.namespace() && budget.selector.selects(&pod.labels);
    let mut matching = budgets.iter().filter(is_over_pod);
    match (matching.next(), matching.next()) {
        (Some(_), Some(_)) => true,
        (Some(only), None) => only.blocks_always && !(only.lets_unhealthy_go && pod.is_ready == Readiness::NotReady),
        (None, _) => false,
    }
}

/// Comes and goes with its node.
fn belongs_to_node(pod: &Pod) -> bool {
    matches!(pod.owner, Owner::DaemonSet | Owner::Node)
}

#[cfg(test)]
mod tests;
