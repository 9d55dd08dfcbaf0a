//! Which pods may have a new place. Plain questions to a pod, asked when a batch is put together.

use std::time::Duration;

use model::eviction::belongs_to_node;
use model::pod::{Life, Pod};
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

#[cfg(test)]
mod tests;
