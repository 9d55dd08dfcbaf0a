//! Which pods came in the place of pods that had to leave a node of ours. They are left alone for a while.
//!
//! A controller makes a new pod for one that was evicted, under another name. So what is remembered is its owner, once for
//! each pod that left, and the next new pods of that owner are those that were moved, once more often than those that left.
//! This is a memory of what happened and no part of a snapshot, which only says what is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::disruption::Moved;
use model::ids::{Namespace, PodName};
use model::pod::Pod;
use model::time::Instant;

use crate::lower::spread::Controller;

/// An owner that has not made a new pod after this time will not make one for the pod that left.
const OWED_FOR: Duration = Duration::from_secs(10 * 60);
/// The API server writes whole seconds, and its clock is not ours.
const SKEW: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Movements {
    /// Those who left, by whom a successor is expected of; the first first.
    owed: BTreeMap<(Namespace, Expected), Vec<Left>>,
    /// For as long as the pod is there: how long that counts is for others to say.
    moved: BTreeMap<PodName, Moved>,
}

/// Who is expected to make a new pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Expected {
    Owner(Arc<Controller>),
    /// Whoever makes pods without an owner makes them again under the same name.
    Name(PodName),
}

#[derive(Clone, Copy, Debug)]
struct Left {
    when: Instant,
    /// How often it had been moved before.
    times: u32,
}

fn expected(pod: &PodName, owner: Option<&Arc<Controller>>) -> (Namespace, Expected) {
    let who = owner.map_or_else(|| Expected::Name(pod.clone()), |owner| Expected::Owner(owner.clone()));
    (pod.namespace.clone(), who)
}

impl Movements {
    /// A pod has to leave.
    pub(super) fn leaves(&mut self, pod: &PodName, owner: Option<&Arc<Controller>>, now: Instant) {
        self.forget_old(now);
        let times = self.moved.get(pod).map_or(0, |moved| moved.times);
        self.owed.entry(expected(pod, owner)).or_default().push(Left { when: now, times });
    }

    /// A pod is new. One that was made before somebody had to leave stands in nobody's place.
    pub(super) fn comes(&mut self, pod: &Pod, owner: Option<&Arc<Controller>>, now: Instant) {
        let key = expected(&pod.name, owner);
        let Some(left) = self.owed.get_mut(&key) else { return };
        left.retain(|left| now.since(left.when) <= OWED_FOR);
        if let Some(first) = left.first().copied().filter(|left| pod.created.plus(SKEW) >= left.when) {
            left.remove(0);
            self.moved.insert(pod.name.clone(), Moved { when: now, times: first.times.saturating_add(1) });
        }
        if left.is_empty() {
            self.owed.remove(&key);
        }
    }

    pub(super) fn forget(&mut self, pod: &PodName) {
        self.moved.remove(pod);
    }

    /// Who still rests, or was moved within some time.
    pub(super) fn lately(&self, now: Instant, first_rest: Duration, within: Duration) -> BTreeMap<PodName, Moved> {
        let counts = |moved: &Moved| now <= moved.rests_until(first_rest) || moved.dearer(now, within) > 1;
        self.moved.iter().filter(|(_, moved)| counts(moved)).map(|(pod, moved)| (pod.clone(), *moved)).collect()
    }

    fn forget_old(&mut self, now: Instant) {
        self.owed.retain(|_, left| left.last().is_some_and(|left| now.since(left.when) <= OWED_FOR));
    }
}
