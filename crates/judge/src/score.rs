//! kube-scheduler's scores, with the weights of its default profile.
//!
//! Every plugin gives each feasible node 0 to 100 points. Where kube-scheduler computes in whole numbers, so does this;
//! where it computes in floating point, the same operations are done in the same order and cut or rounded alike, so that
//! equal input gives equal points. ImageLocality is left out: the model knows no images.

mod preferences;
mod resources;
mod spread;

use model::pod::Pod;

use crate::world::{Node, World};

const MOST: i64 = 100;

/// The weighted sum of all plugins, for each of the feasible nodes in their order.
pub(crate) fn totals(world: &World, pod: &Pod, nodes: &[&Node]) -> Vec<i64> {
    let plugins: [(i64, Vec<i64>); 6] = [
        (3, preferences::taints(pod, nodes)),
        (2, preferences::node_affinity(pod, nodes)),
        (1, resources::least_allocated(pod, nodes)),
        (1, resources::balanced(pod, nodes)),
        (2, spread::spread(world, pod, nodes)),
        (2, preferences::pod_affinity(world, pod, nodes)),
    ];
    let total = |place: usize| plugins.iter().map(|(weight, points)| weight * points[place]).sum();
    (0..nodes.len()).map(total).collect()
}
