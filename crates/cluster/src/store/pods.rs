//! Pods, lowered on the way in, and the ways in which they are looked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::alike::Common;
use model::ids::{Namespace, NodeName, PodName};
use model::pod::{Owner, Pod};

use super::sharing::{Alike, Sharing};
use crate::lower::facts::PodFacts;
use crate::lower::ties::Ties;
use crate::object::Version;

/// Everything that is kept of a pod.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) pod: Arc<Pod>,
    /// Replicas have them alike, but for the short time in which one ends.
    pub(super) facts: Common<PodFacts>,
    pub(super) ties: Option<Box<Ties>>,
    pub(super) version: Version,
}

#[derive(Debug, Default)]
pub(super) struct Pods {
    entries: BTreeMap<PodName, Entry>,
    /// In order. Every pod is here, and a set of a few takes twice as much.
    by_node: BTreeMap<NodeName, Vec<PodName>>,
    unbound: BTreeSet<PodName>,
    /// Pods by the volume claims that they use.
    by_volume_claim: BTreeMap<PodName, BTreeSet<PodName>>,
    /// Pods that mean namespaces by their labels.
    selecting_namespaces: BTreeSet<PodName>,
    /// How many pods each namespace has; the names are shared by all of them.
    namespaces: BTreeMap<Namespace, usize>,
    sharing: Sharing,
    facts: Alike<PodFacts>,
}

impl Pods {
    pub(super) fn get(&self, name: &PodName) -> Option<&Entry> {
        self.entries.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&PodName, &Entry)> {
        self.entries.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn on_node(&self, node: &NodeName) -> impl Iterator<Item = &Entry> {
        self.by_node.get(node).into_iter().flatten().filter_map(|name| self.entries.get(name))
    }

    pub(super) fn unbound(&self) -> impl Iterator<Item = &Entry> {
        self.unbound.iter().filter_map(|name| self.entries.get(name))
    }

    pub(super) fn using_volume_claim(&self, claim: &PodName) -> impl Iterator<Item = &PodName> {
        self.by_volume_claim.get(claim).into_iter().flatten()
    }

    pub(super) fn selecting_namespaces(&self) -> impl Iterator<Item = &PodName> {
        self.selecting_namespaces.iter()
    }

    /// Pods of a namespace whose spreads are the operator's choice.
    pub(super) fn with_default_spread<'a>(&'a self, namespace: &'a Namespace) -> impl Iterator<Item = &'a PodName> {
        let first = PodName { namespace: namespace.clone(), name: "".into() };
        let of_namespace = self.entries.range(first..).take_while(move |(name, _)| name.namespace == *namespace);
        let takes = |entry: &Entry| entry.ties.as_ref().is_some_and(|ties| ties.takes_default_spread());
        of_namespace.filter(move |(_, entry)| takes(entry)).map(|(name, _)| name)
    }

    /// Puts a pod in, in place of one of the same name. One that means the same as before stays the same value.
    pub(super) fn put(&mut self, mut pod: Pod, facts: PodFacts, ties: Option<Box<Ties>>, version: Version) {
        let before = self.entries.remove(&pod.name);
        let unchanged = before.as_ref().filter(|entry| *entry.pod == pod).map(|entry| entry.pod.clone());
        if let Some(before) = &before {
            self.unlink(before);
        }
        let pod = unchanged.unwrap_or_else(|| {
            self.share(&mut pod);
            Arc::new(pod)
        });
        // When a pod ends, nobody else says just that.
        let facts = if facts.ends_by.is_some() { facts.into() } else { self.facts.share(facts.into()) };
        let entry = Entry { pod, facts, ties, version };
        self.link(&entry);
        self.entries.insert(entry.pod.name.clone(), entry);
    }

    /// Puts the renewed value of a pod in, of which nothing else has changed.
    pub(super) fn renew(&mut self, mut pod: Pod) {
        self.share(&mut pod);
        if let Some(entry) = self.entries.get_mut(&pod.name) {
            entry.pod = Arc::new(pod);
        }
    }

    pub(super) fn remove(&mut self, name: &PodName) -> Option<Entry> {
        let entry = self.entries.remove(name)?;
        self.unlink(&entry);
        Some(entry)
    }

    /// Whether no pod is left, nor anything that leads to one.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let Self { entries, by_node, unbound, by_volume_claim, selecting_namespaces, namespaces, .. } = self;
        let are_empty = entries.is_empty() && by_node.is_empty() && unbound.is_empty() && by_volume_claim.is_empty();
        are_empty && selecting_namespaces.is_empty() && namespaces.is_empty()
    }

    fn share(&mut self, pod: &mut Pod) {
        self.sharing.pod(pod);
        if let Some((known, _)) = self.namespaces.get_key_value(&pod.name.namespace) {
            pod.name.namespace = known.clone();
        }
        if let Some(node) = &mut pod.node
            && let Some((known, _)) = self.by_node.get_key_value(node)
        {
            *node = known.clone();
        }
    }

    fn link(&mut self, entry: &Entry) {
        let name = &entry.pod.name;
        *self.namespaces.entry(name.namespace.clone()).or_default() += 1;
        match &entry.pod.node {
            Some(node) => insert(self.by_node.entry(node.clone()).or_default(), name),
            None => drop(self.unbound.insert(name.clone())),
        }
        let Some(ties) = &entry.ties else { return };
        for claim in ties.claims() {
            let claim = PodName { namespace: name.namespace.clone(), name: claim.clone() };
            self.by_volume_claim.entry(claim).or_default().insert(name.clone());
        }
        if ties.selects_namespaces() {
            self.selecting_namespaces.insert(name.clone());
        }
    }

    fn unlink(&mut self, entry: &Entry) {
        let name = &entry.pod.name;
        if let Some(count) = self.namespaces.get_mut(&name.namespace) {
            *count -= 1;
            if *count == 0 {
                self.namespaces.remove(&name.namespace);
            }
        }
        match &entry.pod.node {
            Some(node) => self.leave(node, name),
            None => drop(self.unbound.remove(name)),
        }
        let Some(ties) = &entry.ties else { return };
        for claim in ties.claims() {
            let claim = PodName { namespace: name.namespace.clone(), name: claim.clone() };
            unindex(&mut self.by_volume_claim, &claim, name);
        }
        self.selecting_namespaces.remove(name);
    }

    fn leave(&mut self, node: &NodeName, name: &PodName) {
        let Some(names) = self.by_node.get_mut(node) else { return };
        if let Ok(place) = names.binary_search(name) {
            names.remove(place);
        }
        if names.is_empty() {
            self.by_node.remove(node);
        }
    }
}

fn insert(names: &mut Vec<PodName>, name: &PodName) {
    if let Err(place) = names.binary_search(name) {
        names.insert(place, name.clone());
    }
}

fn unindex<K: Ord>(index: &mut BTreeMap<K, BTreeSet<PodName>>, key: &K, name: &PodName) {
    let Some(names) = index.get_mut(key) else { return };
    names.remove(name);
    if names.is_empty() {
        index.remove(key);
    }
}

impl Entry {
    /// The DaemonSet that the pod belongs to.
    pub(super) fn daemon_set(&self) -> Option<PodName> {
        let owner = self.facts.owner.as_ref().filter(|_| self.pod.owner == Owner::DaemonSet)?;
        Some(PodName { namespace: self.pod.name.namespace.clone(), name: owner.name.clone() })
    }
}
