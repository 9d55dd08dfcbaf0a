//! InterPodAffinity: who must be near, who must not, and who does not want this pod near.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::PodName;
use model::pod::Pod;
use model::topology::PodTerm;

use crate::violation::Refusal;
use crate::world::{Node, World};

/// A label and its value: the domain that pods are near each other in.
type Domain = (Arc<str>, Arc<str>);

/// Where the pods are that matter to one pod. Pods that are terminating still count; only those that ended do not.
pub(super) struct Neighbours<'a> {
    pod: &'a Pod,
    /// Domains with a pod that matches all required affinity terms at once.
    partners: BTreeSet<Domain>,
    /// Domains with a pod that the pod must stay away from.
    shunned: BTreeMap<Domain, PodName>,
    /// Domains with a pod that wants this pod to stay away.
    shunning: BTreeMap<Domain, PodName>,
}

impl<'a> Neighbours<'a> {
    pub(super) fn of(world: &World, pod: &'a Pod) -> Self {
        let mut found = Self { pod, partners: BTreeSet::new(), shunned: BTreeMap::new(), shunning: BTreeMap::new() };
        for node in world.nodes() {
            for other in node.pods() {
                found.meet(node, other);
            }
        }
        found
    }

    fn meet(&mut self, node: &Node, other: &Pod) {
        let pod = self.pod;
        if matches_all(&pod.wants.together, other) {
            self.partners.extend(pod.wants.together.iter().filter_map(|term| domain(term, node)));
        }
        for domain in pod.wants.apart.iter().filter(|term| matches(term, other)).filter_map(|term| domain(term, node)) {
            self.shunned.entry(domain).or_insert_with(|| other.name.clone());
        }
        for domain in other.wants.apart.iter().filter(|term| matches(term, pod)).filter_map(|term| domain(term, node)) {
            self.shunning.entry(domain).or_insert_with(|| other.name.clone());
        }
    }

    pub(super) fn refusal(&self, node: &Node) -> Option<Refusal> {
        self.without_partner(node).or_else(|| self.near_shunned(node)).or_else(|| self.near_shunning(node))
    }

    /// All terms must be met. A pod that matches its own terms may be the first of its kind, where no partner is anywhere.
    fn without_partner(&self, node: &Node) -> Option<Refusal> {
        let terms = &self.pod.wants.together;
        if let Some(term) = terms.iter().find(|term| domain(term, node).is_none()) {
            return Some(Refusal::AffinityLabel { key: term.key.clone() });
        }
        let lonely =
            terms.iter().filter_map(|term| domain(term, node)).find(|domain| !self.partners.contains(domain))?;
        let is_first = self.partners.is_empty() && matches_all(terms, self.pod);
        (!is_first).then_some(Refusal::Together { key: lonely.0, domain: lonely.1 })
    }

    /// A node without the label is near nobody.
    fn near_shunned(&self, node: &Node) -> Option<Refusal> {
        let near = self.pod.wants.apart.iter().filter_map(|term| domain(term, node));
        near.filter_map(|domain| self.shunned.get(&domain).map(|other| (domain, other.clone())))
            .map(|((key, domain), other)| Refusal::Apart { key, domain, other })
            .next()
    }

    fn near_shunning(&self, node: &Node) -> Option<Refusal> {
        self.shunning.iter().find(|((key, value), _)| node.labels.get(key) == Some(value)).map(
            |((key, value), other)| Refusal::ApartFrom {
                key: key.clone(),
                domain: value.clone(),
                other: other.clone(),
            },
        )
    }
}

fn domain(term: &PodTerm, node: &Node) -> Option<Domain> {
    node.labels.get(&term.key).map(|value| (term.key.clone(), value.clone()))
}

fn matches(term: &PodTerm, pod: &Pod) -> bool {
    term.namespaces.contains(&pod.name.namespace) && term.selector.selects(&pod.labels)
}

/// No terms are matched by nobody.
fn matches_all(terms: &[PodTerm], pod: &Pod) -> bool {
    !terms.is_empty() && terms.iter().all(|term| matches(term, pod))
}
