//! kube-scheduler's filters, one file per plugin.
//!
//! Each plugin looks at one node. Those that count pods elsewhere in the cluster do so once per pod, in [`Prepared`], like
//! kube-scheduler's own PreFilter: the counts are the same for every node.

mod fit;
pub(crate) mod node_affinity;
mod pod_affinity;
mod ports;
pub(crate) mod spread;
pub(crate) mod taints;
#[cfg(test)]
mod tests;
mod volumes;

use model::ids::NodeName;
use model::pod::Pod;

use crate::violation::{Refusal, Violation};
use crate::world::{Node, World};

/// Whether kube-scheduler would bind a pod that has no place yet to this node now.
pub fn filter(world: &World, pod: &Pod, node: &NodeName) -> Result<(), Violation> {
    let Some(found) = world.node(node) else {
        return Err(Violation::UnknownNode { pod: pod.name.clone(), node: node.clone() });
    };
    match Prepared::of(world, pod).refusal(found) {
        None => Ok(()),
        Some(refusal) => Err(Violation::Refused { pod: pod.name.clone(), node: node.clone(), refusal }),
    }
}

/// A pod, and what the whole cluster means for it.
pub(crate) struct Prepared<'a> {
    pod: &'a Pod,
    domains: spread::Domains<'a>,
    neighbours: pod_affinity::Neighbours<'a>,
}

impl<'a> Prepared<'a> {
    pub(crate) fn of(world: &World, pod: &'a Pod) -> Self {
        Self { pod, domains: spread::Domains::of(world, pod), neighbours: pod_affinity::Neighbours::of(world, pod) }
    }

    /// The first rule that keeps the pod off the node.
    pub(crate) fn refusal(&self, node: &Node) -> Option<Refusal> {
        if node.is_leaving {
            return Some(Refusal::Leaving);
        }
        node_refusal(self.pod, node).or_else(|| self.domains.refusal(node)).or_else(|| self.neighbours.refusal(node))
    }
}

/// The rules that only the node itself and its own pods matter to.
pub(crate) fn node_refusal(pod: &Pod, node: &Node) -> Option<Refusal> {
    if pod.wants.has_resource_claims {
        // The model knows no devices, so nobody can say that they are there.
        return Some(Refusal::ResourceClaims);
    }
    taints::refusal(pod, node)
        .or_else(|| node_affinity::refusal(pod, node))
        .or_else(|| ports::refusal(pod, node))
        .or_else(|| fit::refusal(pod, node))
        .or_else(|| volumes::attach_refusal(pod, node))
        .or_else(|| volumes::place_refusal(pod, node))
}
