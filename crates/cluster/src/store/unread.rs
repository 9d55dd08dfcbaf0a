//! Pods that cannot be read. Nobody can say what they want, but they are there, and their nodes must not vanish under them.

use std::collections::BTreeMap;

use model::ids::{NodeName, PodName};

use super::Store;
use crate::wake::{Change, Duty};

/// By pod, the node that it is on.
#[derive(Debug, Default)]
pub(super) struct Unread(BTreeMap<PodName, NodeName>);

impl Unread {
    /// A pod that is on no node, or has ended on it, concerns nobody.
    pub(super) fn put(&mut self, pod: PodName, node: Option<NodeName>) {
        match node {
            Some(node) => drop(self.0.insert(pod, node)),
            None => drop(self.0.remove(&pod)),
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &PodName> {
        self.0.keys()
    }
}

impl Store {
    /// The pods on a node of which nothing more is known. One that could be read once is among the others there.
    pub fn unread_on(&self, node: &NodeName) -> Vec<PodName> {
        let is_known = |name: &PodName| self.pods.get(name).is_some_and(|entry| entry.pod.node.as_ref() == Some(node));
        let unread = self.unread.0.iter().filter(|(name, on)| *on == node && !is_known(name));
        unread.map(|(name, _)| name.clone()).collect()
    }

    /// The pod can be read now, or is gone.
    pub(super) fn forget_unread(&mut self, pod: &PodName, change: &mut Change) {
        let node = self.unread.0.remove(pod).filter(|node| self.leaving.contains(node));
        if let Some(node) = node {
            change.wake(Duty::Node(node));
        }
    }
}
