//! How many soft terms of placed pods a plan keeps. One counter for both sides.
//!
//! A wish is one term of preferred node affinity, preferred pod affinity or preferred pod anti-affinity, or one spread that may be
//! broken. It counts as kept when it holds in the finished plan whichever machine each claim becomes: a zone that is still open
//! keeps no wish about zones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::Namespace;
use model::labels::{HOSTNAME, Labels};
use model::pod::{Life, Pod};
use model::requirements::Requirements;
use model::snapshot::Snapshot;
use model::topology::{PodTerm, Selector, SpreadMode};

use super::menu::Possible;

/// What is known of the labels of a node, now or to come.
pub(super) type KnownLabels = BTreeMap<Arc<str>, Possible>;

/// The label keys that wishes are about. The hostname is left out: each node has its own.
pub(super) fn keys(snapshot: &Snapshot) -> BTreeSet<Arc<str>> {
    let mut keys = BTreeSet::new();
    for wants in snapshot.pods.values().map(|pod| &pod.wants) {
        let nodes = wants.preferred_nodes.iter().flat_map(|wish| wish.item.iter().map(|(key, _)| key));
        let terms = wants.preferred_together.iter().chain(&wants.preferred_apart).map(|wish| &wish.item.key);
        let spreads =
            wants.spread.iter().filter(|spread| spread.mode == SpreadMode::ScheduleAnyway).map(|spread| &spread.key);
        keys.extend(nodes.chain(terms).chain(spreads).filter(|key| ***key != *HOSTNAME).cloned());
    }
    keys
}

/// All pods with the places that the plan gives them, counted by domain.
pub(super) struct Neighbourhood<'a> {
    nodes: Vec<KnownLabels>,
    /// Pods that are alike to every selector.
    kinds: Vec<Kind<'a>>,
    index: BTreeMap<(&'a Namespace, &'a Labels), usize>,
    placed: Vec<(&'a Pod, usize, usize)>,
}

struct Kind<'a> {
    namespace: &'a Namespace,
    labels: &'a Labels,
    by_node: BTreeMap<usize, usize>,
}

impl<'a> Neighbourhood<'a> {
    pub(super) fn new(nodes: Vec<KnownLabels>) -> Self {
        Self { nodes, kinds: Vec::new(), index: BTreeMap::new(), placed: Vec::new() }
    }

    /// Seats a pod. Only wishes of those that the plan places are counted.
    pub(super) fn seat(&mut self, pod: &'a Pod, node: usize, is_placed_by_plan: bool) {
        if pod.life != Life::Active {
            return;
        }
        let (namespace, labels) = (&pod.name.namespace, &*pod.labels);
        let kind = *self.index.entry((namespace, labels)).or_insert_with(|| {
            self.kinds.push(Kind { namespace, labels, by_node: BTreeMap::new() });
            self.kinds.len() - 1
        });
        *self.kinds[kind].by_node.entry(node).or_default() += 1;
        if is_placed_by_plan {
            self.placed.push((pod, node, kind));
        }
    }

    /// Wishes kept, and wishes in all.
    pub(super) fn count(&self) -> (usize, usize) {
        let mut tallies = BTreeMap::new();
        self.placed.iter().fold((0, 0), |(kept, all), (pod, node, kind)| {
            let results = self.results(pod, *node, *kind, &mut tallies);
            (kept + results.iter().filter(|is_kept| **is_kept).count(), all + results.len())
        })
    }

    fn results(&self, pod: &Pod, node: usize, kind: usize, tallies: &mut BTreeMap<String, Tally>) -> Vec<bool> {
        let wants = &pod.wants;
        let mut results: Vec<bool> =
            wants.preferred_nodes.iter().map(|wish| holds(&wish.item, &self.nodes[node])).collect();
        let of_own_kind = |term: &PodTerm| usize::from(self.is_meant(term, kind));
        for term in wants.preferred_together.iter().map(|wish| &wish.item) {
            let near = self.tally(term, tallies).near(self, node, &term.key);
            results.push(near.is_some_and(|count| count.sure > of_own_kind(term)));
        }
        for term in wants.preferred_apart.iter().map(|wish| &wish.item) {
            let near = self.tally(term, tallies).near(self, node, &term.key);
            results.push(near.is_some_and(|count| count.sure + count.open <= of_own_kind(term)));
        }
        for spread in wants.spread.iter().filter(|spread| spread.mode == SpreadMode::ScheduleAnyway) {
            let namespaces = model::topology::Namespaces::Listed([pod.name.namespace.clone()].into());
            let term = PodTerm { key: spread.key.clone(), selector: spread.selector.clone(), namespaces };
            let tally = self.tally(&term, tallies);
            let near = tally.near(self, node, &term.key).filter(|count| count.open == 0);
            let least = tally.sure.values().min().copied().unwrap_or(0);
            let skew = |count: Near| i64::try_from(count.sure - least).unwrap_or(i64::MAX);
            results.push(near.is_some_and(|count| skew(count) <= i64::from(spread.max_skew)));
        }
        results
    }

    fn is_meant(&self, term: &PodTerm, kind: usize) -> bool {
        let kind = &self.kinds[kind];
        term.namespaces.contains(kind.namespace)
            && term.selector.selects(kind.labels)
            && term.selector != Selector::Nothing
    }

    /// How many pods that a term means stand in each domain of its key. Replicas ask alike, so it is counted once.
    fn tally<'t>(&self, term: &PodTerm, tallies: &'t mut BTreeMap<String, Tally>) -> &'t Tally {
        tallies.entry(format!("{term:?}")).or_insert_with(|| {
            let mut tally = Tally::default();
            for labels in self.nodes.iter().enumerate() {
                if let Some(domain) = domain(labels.1, labels.0, &term.key) {
                    tally.sure.entry(domain).or_insert(0);
                }
            }
            for kind in (0..self.kinds.len()).filter(|kind| self.is_meant(term, *kind)) {
                for (node, count) in &self.kinds[kind].by_node {
                    match domain(&self.nodes[*node], *node, &term.key) {
                        Some(domain) => *tally.sure.entry(domain).or_insert(0) += count,
                        None => tally.open += count,
                    }
                }
            }
            tally
        })
    }
}

#[derive(Default)]
struct Tally {
    sure: BTreeMap<Domain, usize>,
    /// Pods whose domain nobody knows yet.
    open: usize,
}

#[derive(Clone, Copy)]
struct Near {
    sure: usize,
    open: usize,
}

impl Tally {
    /// The count in the domain of a node; `None` when that is not known.
    fn near(&self, all: &Neighbourhood<'_>, node: usize, key: &str) -> Option<Near> {
        let domain = domain(&all.nodes[node], node, key)?;
        Some(Near { sure: self.sure.get(&domain).copied().unwrap_or(0), open: self.open })
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Domain {
    Host(usize),
    Value(Arc<str>),
}

fn domain(labels: &KnownLabels, node: usize, key: &str) -> Option<Domain> {
    if key == HOSTNAME {
        return Some(Domain::Host(node));
    }
    labels.get(key)?.certain().cloned().map(Domain::Value)
}

/// Whether a term of node affinity holds whatever the labels become. One without demands holds nowhere, as in Kubernetes.
fn holds(term: &Requirements, labels: &KnownLabels) -> bool {
    !term.is_empty()
        && term.iter().all(|(key, requirement)| match labels.get(key) {
            None => requirement.allows_absent(),
            Some(possible) => {
                possible.values.iter().all(|value| requirement.has(value))
                    && (requirement.allows_absent() || !possible.may_lack)
            }
        })
}
