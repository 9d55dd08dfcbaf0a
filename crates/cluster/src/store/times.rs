//! When pods were first seen waiting and when somebody knew a place for them, for those who measure.

use std::collections::BTreeMap;
use std::time::Duration;

use model::ids::{NodeName, PodName};
use model::time::Instant;

/// How far we have come with a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTimes {
    /// When it was first seen waiting.
    pub seen: Instant,
    /// When it was first decided on, for or against.
    pub decided: Option<Instant>,
    /// Since when a place is known for it.
    pub placed: Option<Instant>,
    /// The same, if the place's pool was known to bring nodes that work.
    pub placed_well: Option<Instant>,
    /// The place, by the name that it had then.
    pub place: Option<NodeName>,
}

/// Whether nodes of a pool are known to join the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Good,
    Unknown,
}

#[derive(Debug, Default)]
pub(super) struct Times(BTreeMap<PodName, PodTimes>);

impl Times {
    pub(super) fn get(&self, pod: &PodName) -> Option<&PodTimes> {
        self.0.get(pod)
    }

    pub(super) fn see(&mut self, pod: &PodName, now: Instant) {
        if !self.0.contains_key(pod) {
            let times = PodTimes { seen: now, decided: None, placed: None, placed_well: None, place: None };
            self.0.insert(pod.clone(), times);
        }
    }

    /// Notes a place, and says how long the first decision took.
    pub(super) fn place(&mut self, pod: &PodName, place: &NodeName, health: Health, now: Instant) -> Option<Duration> {
        let times = self.0.get_mut(pod)?;
        times.placed.get_or_insert(now);
        if health == Health::Good {
            times.placed_well.get_or_insert(now);
        }
        times.place = Some(place.clone());
        times.decide(now)
    }

    /// Notes that there is no place, and says how long the first decision took.
    pub(super) fn refuse(&mut self, pod: &PodName, now: Instant) -> Option<Duration> {
        let times = self.0.get_mut(pod)?;
        (times.placed, times.placed_well, times.place) = (None, None, None);
        times.decide(now)
    }

    pub(super) fn forget(&mut self, pod: &PodName) {
        self.0.remove(pod);
    }
}

impl PodTimes {
    fn decide(&mut self, now: Instant) -> Option<Duration> {
        if self.decided.is_some() {
            return None;
        }
        self.decided = Some(now);
        Some(now.since(self.seen))
    }
}
