//! Which pods came in the place of pods that had to leave a node of ours. They are left alone for a while.
//!
//! A controller makes a new pod for one that was evicted, under another name. So what is remembered is its owner, once for
//! each pod that left, and the next new pods of that owner are those that were moved. This is a memory of what happened and
//! no part of a snapshot, which only says what is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::ids::{Namespace, PodName};
use model::pod::Pod;
use model::time::Instant;

use crate::lower::spread::Controller;

/// An owner that has not made a new pod after this time will not make one for the pod that left.
const OWED_FOR: Duration = Duration::from_secs(10 * 60);
/// The API server writes whole seconds, and its clock is not ours.
const SKEW: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Moved {
    /// When pods left, by owner; the first first.
    owed: BTreeMap<(Namespace, Arc<Controller>), Vec<Instant>>,
    /// For as long as the pod is there: how long that counts is for others to say.
    moved: BTreeMap<PodName, Instant>,
}

impl Moved {
    /// A pod has to leave.
    pub(super) fn leaves(&mut self, pod: &PodName, owner: Option<&Arc<Controller>>, now: Instant) {
        self.forget_old(now);
        if let Some(owner) = owner {
            self.owed.entry((pod.namespace.clone(), owner.clone())).or_default().push(now);
        }
    }

    /// A pod is new. One that was made before somebody had to leave stands in nobody's place.
    pub(super) fn comes(&mut self, pod: &Pod, owner: Option<&Arc<Controller>>, now: Instant) {
        let Some(owner) = owner else { return };
        let key = (pod.name.namespace.clone(), owner.clone());
        let Some(times) = self.owed.get_mut(&key) else { return };
        times.retain(|left| now.since(*left) <= OWED_FOR);
        if times.first().is_some_and(|left| pod.created.plus(SKEW) >= *left) {
            times.remove(0);
            self.moved.insert(pod.name.clone(), now);
        }
        if times.is_empty() {
            self.owed.remove(&key);
        }
    }

    pub(super) fn forget(&mut self, pod: &PodName) {
        self.moved.remove(pod);
    }

    pub(super) fn lately(&self, now: Instant, lately: Duration) -> BTreeMap<PodName, Instant> {
        let is_fresh = |moved: &Instant| now.since(*moved) <= lately;
        self.moved.iter().filter(|(_, moved)| is_fresh(moved)).map(|(pod, moved)| (pod.clone(), *moved)).collect()
    }

    fn forget_old(&mut self, now: Instant) {
        self.owed.retain(|_, times| times.last().is_some_and(|left| now.since(*left) <= OWED_FOR));
    }
}
