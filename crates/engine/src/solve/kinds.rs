//! Which pods of a question are alike in everything that matters. Whatever is worked out for one holds for all of its kind.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use model::pod::Pod;

use super::hash::Fnv;

/// Pods of one namespace with equal labels, requests and wants are of one kind.
pub(crate) struct Kinds<'a> {
    /// The first pod of each kind.
    pub(crate) first: Vec<&'a Pod>,
    /// The kind of each pod.
    pub(crate) of_pod: Rc<Vec<usize>>,
}

impl<'a> Kinds<'a> {
    pub(crate) fn of(pods: &[&'a Pod]) -> Self {
        let mut first: Vec<&'a Pod> = Vec::new();
        let mut of_pod = Vec::with_capacity(pods.len());
        let mut index: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for pod in pods {
            let mut hasher = Fnv::default();
            (pod.namespace(), &pod.labels, &pod.requests, &pod.wants).hash(&mut hasher);
            let slot = index.entry(hasher.finish()).or_default();
            let known = slot.iter().copied().find(|kind| is_alike(first[*kind], pod));
            of_pod.push(known.unwrap_or_else(|| {
                slot.push(first.len());
                first.push(pod);
                first.len() - 1
            }));
        }
        Self { first, of_pod: Rc::new(of_pod) }
    }
}

fn is_alike(a: &Pod, b: &Pod) -> bool {
    a.namespace() == b.namespace() && a.labels == b.labels && a.requests == b.requests && a.wants == b.wants
}
