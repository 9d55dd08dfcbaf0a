//! InterPodAffinity: who must be near, who must not, and who does not want this pod near.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::{NodeName, PodName};
use model::pod::Pod;
use model::topology::PodTerm;

use crate::crowd::Alike;
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
    shunned: BTreeMap<Domain, Witness>,
    /// Domains with a pod that wants this pod to stay away.
    shunning: BTreeMap<Domain, Witness>,
}

/// A pod in a domain, with its node. Of several the first by node and name is told.
type Witness = (NodeName, PodName);

impl<'a> Neighbours<'a> {
    pub(super) fn of(world: &World, pod: &'a Pod) -> Self {
        let mut found = Self { pod, partners: BTreeSet::new(), shunned: BTreeMap::new(), shunning: BTreeMap::new() };
        for alike in world.crowd().kinds() {
            found.meet(world, alike);
        }
        found
    }

    fn meet(&mut self, world: &World, alike: &Alike) {
        let (pod, other) = (self.pod, &*alike.sample);
        let is_partner = matches_all(&pod.wants.together, other);
        let shunned: Vec<&PodTerm> = pod.wants.apart.iter().filter(|term| matches(term, other)).collect();
        let shunning: Vec<&PodTerm> = other.wants.apart.iter().filter(|term| matches(term, pod)).collect();
        if !is_partner && shunned.is_empty() && shunning.is_empty() {
            return;
        }
        for (name, names) in &alike.by_node {
            let (Some(node), Some(first)) = (world.node(name), names.first()) else { continue };
            if is_partner {
                self.partners.extend(pod.wants.together.iter().filter_map(|term| domain(term, node)));
            }
            let witness = (name.clone(), first.clone());
            for domain in shunned.iter().filter_map(|term| domain(term, node)) {
                tell(&mut self.shunned, domain, &witness);
            }
            for domain in shunning.iter().filter_map(|term| domain(term, node)) {
                tell(&mut self.shunning, domain, &witness);
            }
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
        near.filter_map(|domain| self.shunned.get(&domain).map(|(_, other)| (domain, other.clone())))
            .map(|((key, domain), other)| Refusal::Apart { key, domain, other })
            .next()
    }

    fn near_shunning(&self, node: &Node) -> Option<Refusal> {
        self.shunning.iter().find(|((key, value), _)| node.labels.get(key) == Some(value)).map(
            |((key, value), (_, other))| Refusal::ApartFrom {
                key: key.clone(),
                domain: value.clone(),
                other: other.clone(),
            },
        )
    }
}

fn tell(domains: &mut BTreeMap<Domain, Witness>, domain: Domain, witness: &Witness) {
    let known = domains.entry(domain).or_insert_with(|| witness.clone());
    if *witness < *known {
        known.clone_from(witness);
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
