//! Pods by what others can see of them.
//!
//! Spreads and affinities look at a pod's namespace, labels, own distances and stage of life, and at nothing else. Pods that are alike in
//! these are looked at once, or ten thousand replicas would be asked ten thousand times each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::{Namespace, NodeName, PodName};
use model::labels::Labels;
use model::pod::{Life, Pod};

/// Everybody in the cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crowd {
    kinds: BTreeMap<Looks, Alike>,
}

/// What others see of a pod. The last part is its stage of life and the distances that it wants, written out.
type Looks = (Namespace, Labels, String);

/// Pods of which others cannot tell one from another.
#[derive(Clone, Debug)]
pub(crate) struct Alike {
    /// One of them, to be looked at for all.
    pub(crate) sample: Arc<Pod>,
    pub(crate) by_node: BTreeMap<NodeName, BTreeSet<PodName>>,
}

impl Crowd {
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Alike> {
        self.kinds.values()
    }

    pub(crate) fn add(&mut self, pod: &Arc<Pod>, node: &NodeName) {
        let alike =
            self.kinds.entry(looks(pod)).or_insert_with(|| Alike { sample: pod.clone(), by_node: BTreeMap::new() });
        alike.by_node.entry(node.clone()).or_default().insert(pod.name.clone());
    }

    pub(crate) fn remove(&mut self, pod: &Pod, node: &NodeName) {
        let looks = looks(pod);
        let Some(alike) = self.kinds.get_mut(&looks) else { return };
        if let Some(names) = alike.by_node.get_mut(node) {
            names.remove(&pod.name);
            if names.is_empty() {
                alike.by_node.remove(node);
            }
        }
        if alike.by_node.is_empty() {
            self.kinds.remove(&looks);
        }
    }
}

fn looks(pod: &Pod) -> Looks {
    let is_plain = pod.life == Life::Active && pod.wants.apart.is_empty();
    let rest = if is_plain { String::new() } else { format!("{:?} {:?}", pod.life, pod.wants.apart) };
    (pod.name.namespace.clone(), Labels::clone(&pod.labels), rest)
}
