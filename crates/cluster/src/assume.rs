//! What we have asked for or decided, and the world does not show yet.
//!
//! A claim that was just created is in the store before any watch tells of it; a machine that is to go counts as leaving
//! before anybody has deleted it; a node that pods were planned onto is left alone for a while. None of this is a fact, so
//! all of it runs out by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use model::ids::{NodeName, PodName, PoolName};
use model::time::Instant;

/// After this a claim that no watch has shown should be looked for at the API server.
pub(crate) const OVERDUE_AFTER: Duration = Duration::from_secs(15);
/// After this it is given up, whether anybody looked or not.
const UNSEEN_AT_MOST: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub(crate) struct Assumed {
    /// Claims that we created and no watch has shown, with the time of their creation.
    unseen: BTreeMap<NodeName, Instant>,
    /// Claims that we have decided to remove, with the time until when that holds without a renewal.
    marks: BTreeMap<NodeName, Instant>,
    /// Claims of static pools whose replacement is on its way, likewise.
    replacing: BTreeMap<NodeName, Instant>,
    /// Machines that pods are about to come to, by whichever name they had when the pods were planned, and for how long each pod
    /// holds them.
    nominations: BTreeMap<NodeName, BTreeMap<PodName, Instant>>,
    /// Where pods that wait, or whose nodes leave by a command, are to go, by the name that the place had then.
    promises: BTreeMap<PodName, NodeName>,
    /// Nodes that somebody has permission to create and has not created yet.
    reserved: BTreeMap<PoolName, i64>,
    buffered: BTreeMap<NodeName, u32>,
}

/// What has run out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RunOut {
    pub(crate) unseen: Vec<NodeName>,
    pub(crate) marks: Vec<NodeName>,
}

impl Assumed {
    pub(crate) fn expect_claim(&mut self, name: &NodeName, now: Instant) {
        self.unseen.entry(name.clone()).or_insert(now);
    }

    /// A claim was seen, or is not expected any more. Says whether it was.
    pub(crate) fn confirm_claim(&mut self, name: &NodeName) -> bool {
        self.unseen.remove(name).is_some()
    }

    pub(crate) fn is_unseen(&self, name: &NodeName) -> bool {
        self.unseen.contains_key(name)
    }

    pub(crate) fn overdue(&self, now: Instant) -> impl Iterator<Item = &NodeName> {
        let is_overdue = move |since: Instant| now.since(since) >= OVERDUE_AFTER;
        self.unseen.iter().filter(move |(_, since)| is_overdue(**since)).map(|(name, _)| name)
    }

    pub(crate) fn marks(&self) -> &BTreeMap<NodeName, Instant> {
        &self.marks
    }

    pub(crate) fn mark(&mut self, claim: &NodeName, until: Instant) {
        self.marks.insert(claim.clone(), until);
    }

    pub(crate) fn unmark(&mut self, claim: &NodeName) -> bool {
        self.marks.remove(claim).is_some()
    }

    pub(crate) fn begin_replacing(&mut self, claim: &NodeName, until: Instant) {
        self.replacing.insert(claim.clone(), until);
    }

    pub(crate) fn end_replacing(&mut self, claim: &NodeName) {
        self.replacing.remove(claim);
    }

    pub(crate) fn is_replacing(&self, claim: &NodeName) -> bool {
        self.replacing.contains_key(claim)
    }

    /// Nobody takes a nomination back by renewing it for a shorter time.
    pub(crate) fn nominate(&mut self, pod: &PodName, machine: &NodeName, until: Instant) {
        let end = self.nominations.entry(machine.clone()).or_default().entry(pod.clone()).or_insert(until);
        *end = (*end).max(until);
    }

    pub(crate) fn is_nominated(&self, name: &NodeName, now: Instant) -> bool {
        self.nominations.get(name).is_some_and(|pods| pods.values().any(|until| now < *until))
    }

    pub(crate) fn nominated(&self, now: Instant) -> impl Iterator<Item = &NodeName> {
        self.nominations.keys().filter(move |name| self.is_nominated(name, now))
    }

    /// Nobody waits for a pod any more.
    pub(crate) fn end_nominations(&mut self, pod: &PodName) {
        self.nominations.retain(|_, pods| {
            pods.remove(pod);
            !pods.is_empty()
        });
    }

    pub(crate) fn promise(&mut self, pod: &PodName, place: &NodeName) {
        self.promises.insert(pod.clone(), place.clone());
    }

    pub(crate) fn promised(&self, pod: &PodName) -> Option<&NodeName> {
        self.promises.get(pod)
    }

    pub(crate) fn forget_promise(&mut self, pod: &PodName) {
        self.promises.remove(pod);
    }

    /// Permission for at most `wanted` more nodes beside `present` ones.
    pub(crate) fn reserve(&mut self, pool: &PoolName, places: Places) -> i64 {
        let reserved = self.reserved.entry(pool.clone()).or_default();
        let room =
            places.limit.map_or(i64::MAX, |limit| limit.saturating_sub(places.present).saturating_sub(*reserved));
        let granted = places.wanted.min(room).max(0);
        *reserved = reserved.saturating_add(granted);
        if *reserved == 0 {
            self.reserved.remove(pool);
        }
        granted
    }

    pub(crate) fn release(&mut self, pool: &PoolName, count: i64) {
        let Some(reserved) = self.reserved.get_mut(pool) else { return };
        *reserved = reserved.saturating_sub(count.max(0));
        if *reserved <= 0 {
            self.reserved.remove(pool);
        }
    }

    pub(crate) fn set_buffered(&mut self, counts: BTreeMap<NodeName, u32>) {
        self.buffered = counts;
    }

    pub(crate) fn buffered(&self, node: &NodeName) -> u32 {
        self.buffered.get(node).copied().unwrap_or(0)
    }

    /// A claim is gone, and everything that was assumed of it.
    pub(crate) fn forget_claim(&mut self, name: &NodeName) {
        self.unseen.remove(name);
        self.marks.remove(name);
        self.replacing.remove(name);
        self.nominations.remove(name);
    }

    pub(crate) fn forget_node(&mut self, name: &NodeName) {
        self.nominations.remove(name);
        self.buffered.remove(name);
    }

    pub(crate) fn run_out(&mut self, now: Instant) -> RunOut {
        self.nominations.retain(|_, pods| {
            pods.retain(|_, until| now < *until);
            !pods.is_empty()
        });
        self.replacing.retain(|_, until| now < *until);
        let names = |ended: BTreeMap<NodeName, Instant>| ended.into_keys().collect();
        let unseen = self.unseen.extract_if(.., |_, since| now.since(*since) >= UNSEEN_AT_MOST).collect();
        let marks = self.marks.extract_if(.., |_, until| *until <= now).collect();
        RunOut { unseen: names(unseen), marks: names(marks) }
    }
}

/// A wish for more nodes of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) limit: Option<i64>,
    pub(crate) present: i64,
    pub(crate) wanted: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Instant {
        Instant::from_unix_seconds(second)
    }

    // 01/STA-11
    #[test]
    fn places_are_granted_in_full_in_part_or_not_at_all() {
        let (mut assumed, pool) = (Assumed::default(), PoolName::from("a"));
        let wish = |present, wanted| Places { limit: Some(10), present, wanted };
        assert_eq!(assumed.reserve(&pool, wish(3, 4)), 4, "all that was asked for");
        assert_eq!(assumed.reserve(&pool, wish(3, 4)), 3, "what the limit has left beside the first four");
        assert_eq!(assumed.reserve(&pool, wish(3, 4)), 0);
        assert_eq!(assumed.reserve(&pool, wish(12, 4)), 0, "over the limit already");
        assumed.release(&pool, 2);
        assert_eq!(assumed.reserve(&pool, wish(3, 4)), 2);
        assumed.release(&pool, 100);
        assert_eq!(assumed.reserved, BTreeMap::new(), "never below nothing");
        assert_eq!(assumed.reserve(&pool, wish(0, 100)), 10);
        assert_eq!(assumed.reserve(&"b".into(), Places { limit: None, present: 5, wanted: 7 }), 7);
        assert_eq!(assumed.reserve(&"b".into(), Places { limit: None, present: 5, wanted: -7 }), 0);
    }

    #[test]
    fn assumptions_run_out() {
        let mut assumed = Assumed::default();
        assumed.expect_claim(&"new".into(), at(0));
        assumed.mark(&"old".into(), at(60));
        let pod = PodName { namespace: "default".into(), name: "pod".into() };
        assumed.nominate(&pod, &"node".into(), at(20));
        assumed.nominate(&pod, &"node".into(), at(10));
        assumed.begin_replacing(&"drifted".into(), at(60));
        assert_eq!(assumed.run_out(at(15)), RunOut::default());
        assert!(assumed.is_nominated(&"node".into(), at(19)) && !assumed.is_nominated(&"node".into(), at(20)));
        assert_eq!(assumed.overdue(at(15)).count(), 1);
        assert!(assumed.is_replacing(&"drifted".into()));
        assert_eq!(assumed.run_out(at(60)).marks, ["old".into()]);
        assert!(!assumed.is_replacing(&"drifted".into()));
        assert_eq!(assumed.run_out(at(300)).unseen, ["new".into()]);
        assert_eq!(assumed.overdue(at(400)).count(), 0);
    }
}
