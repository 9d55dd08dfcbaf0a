//! What is news and what is not.
//!
//! Facts come from watches, from lists, and from the answers to our own writes, and these overtake one another. An object's
//! resource version says which of two states is newer, so an old one is dropped, whichever way it comes. What was deleted is
//! remembered for a while, lest a late state of it bring it back.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::ids::Uid;
use model::time::Instant;

use crate::object::{Key, Kind, Version};

/// How late a fact can come. Answers to our writes and lists from a lagging server come within seconds.
const REMEMBERED_FOR: Duration = Duration::from_secs(120);
/// And how many departed are remembered; a cluster that loses more in two minutes has other worries.
const MOST_REMEMBERED: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct Versions {
    /// Of every object that is kept, but for pods, whose entries have it.
    held: BTreeMap<Key, Version>,
    departed: BTreeMap<Key, Departed>,
    /// In the order in which they are forgotten. One that departed twice is here twice, and the later one counts.
    departures: VecDeque<(Instant, Key)>,
}

#[derive(Debug)]
struct Departed {
    version: Version,
    uid: Option<Uid>,
    /// Until when it is remembered.
    until: Instant,
}

/// A state of an object, by what tells it from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) version: Version,
    pub(super) uid: Option<Uid>,
}

impl Versions {
    pub(super) fn held(&self, key: &Key) -> Option<Version> {
        self.held.get(key).copied()
    }

    pub(super) fn hold(&mut self, key: Key, version: Version) {
        self.held.insert(key, version);
    }

    pub(super) fn let_go(&mut self, key: &Key) {
        self.held.remove(key);
    }

    pub(super) fn keys_of(&self, kind: Kind) -> impl Iterator<Item = &Key> {
        let first = Key { kind, namespace: "".into(), name: "".into() };
        self.held.range(first..).map(|(key, _)| key).take_while(move |key| key.kind == kind)
    }

    /// Whether the object was deleted after this state.
    pub(super) fn is_departed(&self, key: &Key, stamp: &Stamp) -> bool {
        let Some(departed) = self.departed.get(key) else { return false };
        let is_same = stamp.uid.is_some() && stamp.uid == departed.uid;
        is_same || (departed.version.is_some() && !is_newer(stamp.version, departed.version))
    }

    pub(super) fn bury(&mut self, key: Key, stamp: Stamp, now: Instant) {
        if stamp.version.is_none() && stamp.uid.is_none() {
            return;
        }
        let until = now.plus(REMEMBERED_FOR);
        let before = self.departed.remove(&key);
        let (version, uid) = match before {
            // The later one counts; what is not said stays.
            Some(before) if before.version > stamp.version => (before.version, before.uid),
            Some(before) => (stamp.version, stamp.uid.or(before.uid)),
            None => (stamp.version, stamp.uid),
        };
        self.departed.insert(key.clone(), Departed { version, uid, until });
        self.departures.push_back((until, key));
        while self.departures.len() > MOST_REMEMBERED {
            self.forget_first();
        }
    }

    pub(super) fn forget_until(&mut self, now: Instant) {
        while self.departures.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((until, key)) = self.departures.pop_front() else { return };
        if self.departed.get(&key).is_some_and(|departed| departed.until == until) {
            self.departed.remove(&key);
        }
    }
}

/// Whether a state is newer than the one that is held.
pub(super) fn is_newer(version: Version, held: Version) -> bool {
    match (version, held) {
        (Some(version), Some(held)) => version > held,
        _ => true,
    }
}

/// Whether two states of an object's metadata differ in their version alone.
pub(super) fn differ_in_version_alone(before: &ObjectMeta, after: &ObjectMeta) -> bool {
    let mut after = after.clone();
    after.resource_version = before.resource_version.clone();
    *before == after
}
