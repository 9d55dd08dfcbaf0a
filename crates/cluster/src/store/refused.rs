//! Pods that the scheduler has refused. It judges one pod after the other and takes seconds for hundreds of them; those who are
//! exactly like one that was refused and still waits need not hear the same first (decision 0037).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::ids::Namespace;
use model::labels::Labels;
use model::pod::Pod;
use model::time::Instant;

use super::pods::Pods;
use crate::lower::eligible::{are_alike, is_provisionable, is_unheard};

/// A pod that has waited for longer is not the scheduler's, or it has forgotten it.
const AGE_MAX: Duration = Duration::from_secs(60);

/// One of each kind, by namespace and labels.
pub(super) struct Refused<'s>(BTreeMap<(&'s Namespace, &'s Labels), Vec<&'s Arc<Pod>>>);

impl<'s> Refused<'s> {
    pub(super) fn of(pods: &'s Pods) -> Self {
        let mut kinds: BTreeMap<_, Vec<&Arc<Pod>>> = BTreeMap::new();
        for pod in pods.unbound().map(|entry| &entry.pod).filter(|pod| is_provisionable(pod)) {
            let known = kinds.entry((pod.namespace(), &*pod.labels)).or_default();
            if !known.iter().any(|other| are_alike(other, pod)) {
                known.push(pod);
            }
        }
        Self(kinds)
    }

    /// Whether the scheduler has yet to judge this pod, and has refused one that is the same to it.
    pub(super) fn foretells(&self, pod: &Pod, now: Instant) -> bool {
        let known = || self.0.get(&(pod.namespace(), &*pod.labels)).into_iter().flatten();
        is_awaited(pod, now) && known().any(|other| are_alike(other, pod))
    }
}

/// The same for one pod, without a look at all the others.
pub(super) fn is_foretold(pods: &Pods, pod: &Pod, now: Instant) -> bool {
    let mut refused = pods.unbound().map(|entry| &entry.pod).filter(|other| is_provisionable(other));
    is_awaited(pod, now) && refused.any(|other| are_alike(other, pod))
}

fn is_awaited(pod: &Pod, now: Instant) -> bool {
    is_unheard(pod) && now.since(pod.created) < AGE_MAX
}
