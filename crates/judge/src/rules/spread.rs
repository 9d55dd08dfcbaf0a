//! PodTopologySpread: no domain gets further ahead of the emptiest one than the pod allows.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::pod::{Life, Pod};
use model::topology::{Policy, Selector, Spread, SpreadMode};

use super::{node_affinity, taints};
use crate::violation::Refusal;
use crate::world::{Node, World};

/// For each hard constraint of a pod, the eligible domains and how many matching pods each has.
pub(super) struct Domains<'a> {
    pod: &'a Pod,
    counts: Vec<(&'a Spread, BTreeMap<Arc<str>, i64>)>,
}

impl<'a> Domains<'a> {
    pub(super) fn of(world: &World, pod: &'a Pod) -> Self {
        let hard = constraints(pod, SpreadMode::DoNotSchedule);
        let counts = hard.iter().map(|spread| (*spread, domains(world, pod, spread, &hard))).collect();
        Self { pod, counts }
    }

    pub(super) fn refusal(&self, node: &Node) -> Option<Refusal> {
        self.counts.iter().find_map(|(spread, counts)| self.broken(spread, counts, node))
    }

    fn broken(&self, spread: &Spread, counts: &BTreeMap<Arc<str>, i64>, node: &Node) -> Option<Refusal> {
        let Some(domain) = node.labels.get(&spread.key) else {
            return Some(Refusal::SpreadLabel { key: spread.key.clone() });
        };
        let wanted_domains = usize::try_from(spread.min_domains.unwrap_or(1)).unwrap_or(0);
        let fewest = counts.values().min().copied().unwrap_or(0);
        let least = if counts.len() < wanted_domains { 0 } else { fewest };
        let adds = i64::from(spread.selector.selects(&self.pod.labels));
        let would_be = counts.get(domain).copied().unwrap_or(0) + adds;
        (would_be - least > i64::from(spread.max_skew)).then(|| Refusal::Spread {
            key: spread.key.clone(),
            domain: domain.clone(),
            would_be,
            least,
            max_skew: spread.max_skew,
            domains: counts.len(),
        })
    }
}

pub(crate) fn constraints(pod: &Pod, mode: SpreadMode) -> Vec<&Spread> {
    pod.wants.spread.iter().filter(|spread| spread.mode == mode).collect()
}

/// The eligible domains of one constraint. `all` are the pod's constraints of the same kind: a node counts only when it has
/// the labels of every one of them.
pub(crate) fn domains(world: &World, pod: &Pod, spread: &Spread, all: &[&Spread]) -> BTreeMap<Arc<str>, i64> {
    let mut counts = BTreeMap::new();
    let is_eligible = |node: &Node| has_all_keys(node, all) && is_included(pod, spread, node);
    for domain in world.nodes().filter(|node| is_eligible(node)).filter_map(|node| node.labels.get(&spread.key)) {
        if !counts.contains_key(domain) {
            counts.insert(domain.clone(), 0);
        }
    }
    for alike in world.crowd().kinds().filter(|alike| is_counted(pod, spread, &alike.sample)) {
        for (name, names) in &alike.by_node {
            let node = world.node(name).filter(|node| is_eligible(node));
            if let Some(domain) = node.and_then(|node| node.labels.get(&spread.key)) {
                *counts.entry(domain.clone()).or_insert(0) += i64::try_from(names.len()).unwrap_or(i64::MAX);
            }
        }
    }
    counts
}

pub(crate) fn has_all_keys(node: &Node, all: &[&Spread]) -> bool {
    all.iter().all(|spread| node.labels.contains_key(&spread.key))
}

/// Whether the constraint's policies let the node take part.
fn is_included(pod: &Pod, spread: &Spread, node: &Node) -> bool {
    let is_wanted = || node_affinity::mismatch(&pod.wants.selector, &pod.wants.terms, &node.labels).is_none();
    let is_tolerated = || taints::first_untolerated(pod, node).is_none();
    (spread.node_affinity == Policy::Ignore || is_wanted()) && (spread.node_taints == Policy::Ignore || is_tolerated())
}

/// How many pods on the node the constraint counts.
pub(crate) fn matching(pod: &Pod, spread: &Spread, node: &Node) -> i64 {
    i64::try_from(node.pods().filter(|other| is_counted(pod, spread, other)).count()).unwrap_or(i64::MAX)
}

/// Whether the constraint counts a pod: one of the pod's own namespace that is not on its way out.
///
/// A selector without demands selects every pod, yet kube-scheduler counts none for it.
fn is_counted(pod: &Pod, spread: &Spread, other: &Pod) -> bool {
    let asks_nothing = matches!(&spread.selector, Selector::Matching(requirements) if requirements.is_empty());
    !asks_nothing
        && other.life == Life::Active
        && other.name.namespace == pod.name.namespace
        && spread.selector.selects(&other.labels)
}
