//! Pods that the scheduler has refused of late. It judges one pod after the other and takes seconds for hundreds of them; those
//! who are exactly like one that was refused need not wait to hear the same (decision 0037).

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ids::Namespace;
use model::labels::Labels;
use model::pod::Pod;
use model::time::Instant;

use crate::lower::eligible::{UNJUDGED_MAX, are_alike, is_unjudged};

/// The latest for each set of labels, and when that was.
#[derive(Debug, Default)]
pub(super) struct Refused(BTreeMap<(Namespace, Labels), (Arc<Pod>, Instant)>);

impl Refused {
    pub(super) fn note(&mut self, pod: &Arc<Pod>, now: Instant) {
        self.0.retain(|_, (_, at)| now.since(*at) < UNJUDGED_MAX);
        self.0.insert((pod.namespace().clone(), pod.labels.clone()), (pod.clone(), now));
    }

    /// Whether the scheduler has yet to judge this pod, and has just refused one that is the same to it.
    pub(super) fn foretells(&self, pod: &Pod, now: Instant) -> bool {
        // Most pods that wait were judged long ago, and labels are dear to compare.
        if self.0.is_empty() || !is_unjudged(pod, now) {
            return false;
        }
        let latest = self.0.get(&(pod.namespace().clone(), pod.labels.clone()));
        latest.is_some_and(|(other, at)| now.since(*at) < UNJUDGED_MAX && are_alike(other, pod))
    }
}
