//! Pods that the scheduler has refused of late. It judges one pod after the other and takes seconds for hundreds of them; those
//! who are exactly like one that was refused need not wait to hear the same (decision 0037).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::ids::Namespace;
use model::labels::Labels;
use model::pod::Pod;
use model::time::Instant;

use crate::lower::eligible::{are_alike, is_unheard};

/// For so long what the scheduler said of one pod is taken to hold for another.
const TRUE_FOR: Duration = Duration::from_secs(5);
/// A pod that has waited for longer is not the scheduler's, or it has forgotten it.
const AGE_MAX: Duration = Duration::from_secs(60);

/// The latest for each set of labels, and when that was.
#[derive(Debug, Default)]
pub(super) struct Refused(BTreeMap<(Namespace, Labels), (Arc<Pod>, Instant)>);

impl Refused {
    pub(super) fn note(&mut self, pod: &Arc<Pod>, now: Instant) {
        self.0.retain(|_, (_, at)| now.since(*at) < TRUE_FOR);
        self.0.insert((pod.namespace().clone(), pod.labels.clone()), (pod.clone(), now));
    }

    /// Whether the scheduler has yet to judge this pod, and has just refused one that is the same to it.
    pub(super) fn foretells(&self, pod: &Pod, now: Instant) -> bool {
        // Most pods that wait were judged long ago, and labels are dear to compare.
        if self.0.is_empty() || !is_unheard(pod) || now.since(pod.created) >= AGE_MAX {
            return false;
        }
        let latest = self.0.get(&(pod.namespace().clone(), pod.labels.clone()));
        latest.is_some_and(|(other, at)| now.since(*at) < TRUE_FOR && are_alike(other, pod))
    }
}
