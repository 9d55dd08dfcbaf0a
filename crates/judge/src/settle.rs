//! The cluster that is left when scheduling is over, as a snapshot to plan from again.

use std::sync::Arc;

use model::node::Progress;
use model::pod::Pod;
use model::snapshot::Snapshot;

use crate::world::{Node, World};

impl World {
    /// The snapshot after everything in this world has happened: machines that were asked for have come, and each pod is
    /// where it stands here. A pod that stands nowhere waits.
    pub fn settled(&self, before: &Snapshot) -> Snapshot {
        let mut after = before.clone();
        for node in self.nodes() {
            let is_known = before.nodes.get(&node.name).is_some_and(|known| !is_unlaunched(known));
            if !is_known {
                after.nodes.insert(node.name.clone(), Arc::new(settled_node(node, before)));
            }
        }
        for (name, pod) in &before.pods {
            let place = self.place_of(name);
            let is_lost = pod.node.as_ref().is_some_and(|node| self.node(node).is_none());
            // A pod that ended, or whose node is unknown, was never part of this world.
            if place == pod.node.as_ref() || (place.is_none() && (is_lost || pod.life == model::pod::Life::Terminal)) {
                continue;
            }
            let moved = Pod { node: place.cloned(), is_unschedulable: place.is_none(), ..Pod::clone(pod) };
            after.pods.insert(name.clone(), Arc::new(moved));
        }
        after
    }
}

fn is_unlaunched(node: &model::node::Node) -> bool {
    matches!(node.progress, Progress::Unlaunched { .. })
}

fn settled_node(node: &Node, before: &Snapshot) -> model::node::Node {
    model::node::Node {
        name: node.name.clone(),
        pool: node.pool.clone(),
        labels: node.labels.clone(),
        taints: node.taints.clone(),
        capacity: node.capacity.clone(),
        allocatable: node.allocatable.clone(),
        attach_limits: node.attach_limits.clone(),
        progress: Progress::Initialized,
        is_leaving: node.is_leaving,
        created: before.now,
        tenure: None,
    }
}
