//! kube-scheduler's own loop: the most important pod first, each on the node that scores best.

use std::sync::Arc;

use model::ids::{NodeName, PodName};
use model::pod::Pod;

use crate::rules::Prepared;
use crate::score;
use crate::world::{Node, World, bind};

#[cfg(test)]
mod tests;

/// Binds pods one by one as kube-scheduler would, and names those that found no place.
///
/// The order is that of its queue: priority, then age, then name. Pods that were refused are tried again until a whole
/// round places nobody, as events would bring them back. Where kube-scheduler rolls dice between equal nodes, the first
/// name wins here; it also looks at every node, where the real one contents itself with a sample of a large cluster.
pub fn schedule(world: &mut World, pods: &[Arc<Pod>]) -> Vec<PodName> {
    schedule_watched(world, pods, &mut |_, _, _| {})
}

/// The same; `watch` sees each binding just before it is made.
fn schedule_watched(
    world: &mut World,
    pods: &[Arc<Pod>],
    watch: &mut dyn FnMut(&World, &Arc<Pod>, &NodeName),
) -> Vec<PodName> {
    let mut waiting = pods.to_vec();
    waiting.sort_by(|a, b| b.priority.cmp(&a.priority).then((a.created, &a.name).cmp(&(b.created, &b.name))));
    waiting.dedup_by(|a, b| a.name == b.name);
    for pod in &waiting {
        world.lift(&pod.name);
    }
    loop {
        let before = waiting.len();
        waiting.retain(|pod| {
            let Some(node) = best_node(world, pod) else { return true };
            watch(world, pod, &node);
            bind(world, pod, &node).is_err()
        });
        if waiting.len() == before {
            return waiting.iter().map(|pod| pod.name.clone()).collect();
        }
    }
}

/// The feasible nodes in the order of their names, with their scores.
pub fn rank(world: &World, pod: &Pod) -> Vec<(NodeName, i64)> {
    let prepared = Prepared::of(world, pod);
    let feasible: Vec<&Node> = world.nodes().filter(|node| prepared.refusal(node).is_none()).collect();
    let scores = score::totals(world, pod, &feasible);
    feasible.iter().map(|node| node.name.clone()).zip(scores).collect()
}

/// The feasible node with the highest score.
fn best_node(world: &World, pod: &Pod) -> Option<NodeName> {
    let mut best: Option<(NodeName, i64)> = None;
    for (name, score) in rank(world, pod) {
        if best.as_ref().is_none_or(|(_, most)| score > *most) {
            best = Some((name, score));
        }
    }
    best.map(|(name, _)| name)
}
