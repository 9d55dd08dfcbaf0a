//! NodeResourcesFit: what the pod asks for is free.

use model::pod::{Owner, Pod};

use crate::daemons::with_place;
use crate::violation::Refusal;
use crate::world::Node;

/// Only what the pod asks for is looked at, so that a pod that asks for nothing fits on a node whose books are overdrawn.
pub(super) fn refusal(pod: &Pod, node: &Node) -> Option<Refusal> {
    let mut free = node.allocatable.minus(node.used());
    // kube-scheduler reserves nothing for daemons, but they will come, and the node must hold them too.
    if pod.owner != Owner::DaemonSet {
        free = free.minus(node.reserved());
    }
    with_place(&pod.requests).amounts().find(|(resource, wanted)| *wanted > 0 && *wanted > free.get(resource)).map(
        |(resource, wanted)| Refusal::Resource {
            free: free.get(&resource),
            allocatable: node.allocatable.get(&resource),
            resource,
            wanted,
        },
    )
}
