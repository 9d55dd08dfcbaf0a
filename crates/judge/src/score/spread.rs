//! PodTopologySpread: the soft constraints.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::labels::HOSTNAME;
use model::pod::Pod;
use model::topology::{Spread, SpreadMode};

use super::MOST;
use crate::rules::spread::{constraints, domains, has_all_keys, matching};
use crate::world::{Node, World};

/// One soft constraint, counted.
struct Counted<'a> {
    spread: &'a Spread,
    counts: BTreeMap<Arc<str>, i64>,
    /// Grows with the number of domains, so that counts in many small domains weigh as much as in few large ones.
    weight: f64,
}

/// The fewer matching pods in the node's domains, the better. Nodes without some of the labels get nothing.
pub(super) fn spread(world: &World, pod: &Pod, nodes: &[&Node]) -> Vec<i64> {
    let soft = constraints(pod, SpreadMode::ScheduleAnyway);
    if soft.is_empty() {
        return vec![0; nodes.len()];
    }
    let scored: Vec<&Node> = nodes.iter().copied().filter(|node| has_all_keys(node, &soft)).collect();
    let counted: Vec<Counted<'_>> = soft.iter().map(|spread| Counted::of(world, pod, spread, &soft, &scored)).collect();
    let crowding = |node: &Node| {
        let sum: f64 = counted.iter().map(|one| one.crowding(pod, node)).sum();
        sum.round() as i64
    };
    let crowdings: Vec<i64> = scored.iter().map(|node| crowding(node)).collect();
    let (least, most) = (crowdings.iter().min().copied().unwrap_or(0), crowdings.iter().max().copied().unwrap_or(0));
    let points = |node: &&Node| match (has_all_keys(node, &soft), most) {
        (false, _) => 0,
        (true, 0) => MOST,
        (true, _) => MOST * (most + least - crowding(node)) / most,
    };
    nodes.iter().map(points).collect()
}

impl<'a> Counted<'a> {
    fn of(world: &World, pod: &Pod, spread: &'a Spread, soft: &[&Spread], scored: &[&Node]) -> Self {
        let values: BTreeSet<&Arc<str>> = scored.iter().filter_map(|node| node.labels.get(&spread.key)).collect();
        let size = if *spread.key == *HOSTNAME { scored.len() } else { values.len() };
        Self { spread, counts: domains(world, pod, spread, soft), weight: (size as f64 + 2.0).ln() }
    }

    /// `max_skew - 1` waters the differences down, the more so the more skew is allowed.
    fn crowding(&self, pod: &Pod, node: &Node) -> f64 {
        let Some(domain) = node.labels.get(&self.spread.key) else { return 0.0 };
        let count = if *self.spread.key == *HOSTNAME {
            matching(pod, self.spread, node)
        } else {
            self.counts.get(domain).copied().unwrap_or(0)
        };
        count as f64 * self.weight + (f64::from(self.spread.max_skew) - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::short::{pod, snapshot};

    #[test]
    fn points_fall_with_the_crowd_as_in_kube_scheduler() {
        let nodes = ["m zone=a", "n zone=b", "o"];
        let standing = ["w app=w on=m", "x app=w on=m", "y app=w on=m", "z app=w on=n"];
        let world = World::new(&snapshot(&nodes, &standing));
        let nodes: Vec<&Node> = world.nodes().collect();
        // Two domains weigh ln 4: 3 * 1.39 + 1 rounds to 5, 1.39 + 1 to 2; then 100 * (5 + 2 - 5) / 5 and 100 * 5 / 5.
        assert_eq!(spread(&world, &pod("p soft=zone:2:w"), &nodes), [40, 100, 0]);
        assert_eq!(spread(&world, &pod("p soft=zone:1:v"), &nodes), [100, 100, 0]);
        assert_eq!(spread(&world, &pod("p spread=zone:1:w"), &nodes), [0, 0, 0]);
    }
}
