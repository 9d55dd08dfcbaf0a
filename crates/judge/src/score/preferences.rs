//! TaintToleration, NodeAffinity and InterPodAffinity: what pods and nodes would rather have.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::pod::{Pod, Weighted};
use model::taints::{Effect, Taint};
use model::topology::PodTerm;

use super::MOST;
use crate::rules::node_affinity::matches_term;
use crate::world::{Node, World};

/// kube-scheduler's weight for the required affinity of pods that stand already towards the one that comes.
const REQUIRED_AFFINITY_WEIGHT: i64 = 1;

/// The fewer soft taints it does not tolerate, the better.
pub(super) fn taints(pod: &Pod, nodes: &[&Node]) -> Vec<i64> {
    let is_tolerated = |taint: &Taint| pod.wants.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    let disliked = |node: &&Node| {
        let soft = node.taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
        i64::try_from(soft.filter(|taint| !is_tolerated(taint)).count()).unwrap_or(i64::MAX)
    };
    let counts: Vec<i64> = nodes.iter().map(disliked).collect();
    share_of_most(&counts).into_iter().map(|share| MOST - share).collect()
}

/// The more weight of preferred terms that match, the better.
pub(super) fn node_affinity(pod: &Pod, nodes: &[&Node]) -> Vec<i64> {
    let weight = |node: &&Node| {
        let met = pod.wants.preferred_nodes.iter().filter(|preferred| matches_term(&preferred.item, &node.labels));
        met.map(|preferred| i64::from(preferred.weight)).sum()
    };
    let weights: Vec<i64> = nodes.iter().map(weight).collect();
    share_of_most(&weights)
}

/// Counts as percentages of the greatest, cut; nothing counted gives nothing.
fn share_of_most(counts: &[i64]) -> Vec<i64> {
    let most = counts.iter().copied().max().unwrap_or(0);
    counts.iter().map(|count| if most > 0 { MOST * count / most } else { 0 }).collect()
}

/// The more wished-for pods near by and the fewer unwished-for, the better. Wishes count both ways: those of the pod about
/// the others, and those of the others about it.
pub(super) fn pod_affinity(world: &World, pod: &Pod, nodes: &[&Node]) -> Vec<i64> {
    let mut wishes = Wishes::default();
    for node in world.nodes() {
        for other in node.pods() {
            wishes.add(node, &pod.wants.preferred_together, other, 1);
            wishes.add(node, &pod.wants.preferred_apart, other, -1);
            wishes.add(node, &other.wants.preferred_together, pod, 1);
            wishes.add(node, &other.wants.preferred_apart, pod, -1);
            for term in &other.wants.together {
                wishes.add_term(node, term, pod, REQUIRED_AFFINITY_WEIGHT);
            }
        }
    }
    let sums: Vec<i64> = nodes.iter().map(|node| wishes.sum(node)).collect();
    let least = sums.iter().copied().min().unwrap_or(0);
    let range = sums.iter().copied().max().unwrap_or(0) - least;
    // In floating point and cut, like kube-scheduler: 29 of 100 may come out as 28.
    let points = |sum: i64| (MOST as f64 * ((sum - least) as f64 / range as f64)) as i64;
    sums.into_iter().map(|sum| if range > 0 { points(sum) } else { 0 }).collect()
}

/// Weights by label and value.
#[derive(Default)]
struct Wishes(BTreeMap<(Arc<str>, Arc<str>), i64>);

impl Wishes {
    fn add(&mut self, node: &Node, terms: &[Weighted<PodTerm>], about: &Pod, sign: i64) {
        for term in terms {
            self.add_term(node, &term.item, about, sign * i64::from(term.weight));
        }
    }

    fn add_term(&mut self, node: &Node, term: &PodTerm, about: &Pod, weight: i64) {
        if term.selects(&about.name.namespace, &about.labels)
            && let Some(value) = node.labels.get(&term.key)
        {
            *self.0.entry((term.key.clone(), value.clone())).or_insert(0) += weight;
        }
    }

    fn sum(&self, node: &Node) -> i64 {
        self.0.iter().filter(|((key, value), _)| node.labels.get(key) == Some(value)).map(|(_, weight)| weight).sum()
    }
}
