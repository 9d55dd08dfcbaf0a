//! What happens when a pod comes, changes or goes, or when something changes that decides what it means.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod as WirePod;
use model::eviction::is_reschedulable;
use model::ids::PodName;
use model::pod::{Life, Owner, Pod, Readiness};
use model::time::Instant;

use super::disturbing::only_takes_room;
use super::refused::is_foretold;
use super::versions::Stamp;
use super::{Store, surroundings};
use crate::lower::eligible::is_provisionable;
use crate::lower::facts::{Moments, facts, moments};
use crate::lower::pod::pod as lower;
use crate::lower::ties::Ties;
use crate::object::{Key, Kind, version};
use crate::wake::{Change, Duty, Milestone, Step};

/// How a pod leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// It has ended. It holds nothing any more, whoever keeps it for its logs.
    Ended,
    Deleted,
}

impl Store {
    pub(super) fn take_pod(&mut self, wire: &WirePod, now: Instant, change: &mut Change) {
        let around = surroundings(&self.settings, &self.namespaces, &self.volumes, &self.workloads);
        let lowered = lower(wire, &around);
        let (pod, version) = (lowered.value, version(&wire.metadata));
        let name = pod.name.clone();
        if pod.life == Life::Terminal {
            // Its later states would count, should there be any; only its earlier ones come too late.
            let stamp = Stamp { version, uid: None };
            self.versions.bury(Key::of_pod(&name), stamp, now);
            self.drop_pod(&name, Departure::Ended, now, change);
            return;
        }
        let ties = Ties::of(wire, &pod, &around);
        let before = self.pods.get(&name).map(|entry| entry.pod.clone());
        if before.as_ref().is_some_and(|before| before.uid != pod.uid) {
            // Another pod has the name now, and nobody told us that the first one went.
            self.drop_pod(&name, Departure::Deleted, now, change);
        }
        let before = before.filter(|before| before.uid == pod.uid);
        let set_before = self.pods.get(&name).and_then(|entry| self.daemons.remove_pod(entry));
        self.pods.put(pod, facts(wire), ties, version);
        let Some(entry) = self.pods.get(&name) else { return };
        if before.is_none() && self.synced.has_listed(Kind::Pod) {
            self.moved.comes(&entry.pod, entry.facts.owner.as_ref(), now);
        }
        let after = entry.pod.clone();
        let set_after = self.daemons.add_pod(entry);
        if let Some(before) = &before {
            self.note_milestones(before, &after, moments(wire), now, change);
        }
        for set in set_before.into_iter().chain(set_after) {
            self.see_daemon_set(&set, now, change);
        }
        if before.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &after)) {
            change.oddities.extend(lowered.oddities);
            self.note_pod(before.as_deref(), &after, now, change);
        }
    }

    pub(super) fn drop_pod(&mut self, name: &PodName, departure: Departure, now: Instant, change: &mut Change) {
        let Some(entry) = self.pods.remove(name) else { return };
        self.snapshots.touch_pod(name);
        self.times.forget(name);
        self.end_nominations(name, entry.pod.node.as_ref());
        self.assumed.forget_promise(name);
        if let Some(set) = self.daemons.remove_pod(&entry) {
            self.see_daemon_set(&set, now, change);
        }
        // One that waited may have been all that an empty node was kept for. One that goes with its machine gives room to nobody, and
        // of the machine's own end everybody hears.
        if !self.goes_with_its_machine(&entry.pod) && !self.is_on_restless(&entry.pod) {
            self.disturb(now, change);
        }
        if let Some(node) = &entry.pod.node {
            if departure == Departure::Ended && entry.pod.owner != Owner::DaemonSet {
                change.wake(Duty::PodEvent(node.clone()));
            }
            if self.leaving.contains(node) {
                change.wake(Duty::Node(node.clone()));
                if entry.pod.life == Life::Active && is_reschedulable(&entry.pod) {
                    self.moved.leaves(name, entry.facts.owner.as_ref(), now);
                }
            }
        }
        self.moved.forget(name);
    }

    /// Looks at pods again whose surroundings have changed.
    pub(super) fn renew_pods(&mut self, names: BTreeSet<PodName>, now: Instant, change: &mut Change) {
        for name in names {
            let around = surroundings(&self.settings, &self.namespaces, &self.volumes, &self.workloads);
            let Some(entry) = self.pods.get(&name) else { continue };
            let Some(ties) = &entry.ties else { continue };
            let before = entry.pod.clone();
            let lowered = ties.renewed(&before, entry.facts.owner.as_deref(), &around);
            if lowered.value == *before {
                continue;
            }
            change.oddities.extend(lowered.oddities);
            self.pods.renew(lowered.value);
            let Some(entry) = self.pods.get(&name) else { continue };
            let (after, set) = (entry.pod.clone(), entry.daemon_set());
            if let Some(set) = set {
                self.see_daemon_set(&set, now, change);
            }
            self.note_pod(Some(&before), &after, now, change);
        }
    }

    fn note_pod(&mut self, before: Option<&Pod>, after: &Arc<Pod>, now: Instant, change: &mut Change) {
        self.snapshots.touch_pod(&after.name);
        if is_provisionable(after) || is_foretold(&self.pods, after, now) {
            self.times.see(&after.name, now);
            change.wake(Duty::Provision(after.uid.clone()));
        }
        // What the first list shows has been there before us.
        let is_known = before.is_some() || self.synced.has_listed(Kind::Pod);
        let goes_away = before.is_some() && self.goes_with_its_machine(after);
        let begins_to_go = before.is_some_and(|before| before.life == Life::Active && after.life != Life::Active);
        let is_quiet = goes_away
            || (begins_to_go && self.is_on_restless(after))
            || only_takes_room(before, after, || self.is_where_expected(after));
        if is_known && !is_quiet {
            self.disturb(now, change);
        }
        let Some(node) = &after.node else { return };
        if self.leaving.contains(node) {
            change.wake(Duty::Node(node.clone()));
        }
        let has_come = is_known && before.is_none_or(|before| before.node.is_none());
        if before.is_some_and(|before| before.node.is_none()) {
            self.assumed.forget_promise(&after.name);
        }
        // Its controller makes another one as soon as it begins to go.
        if begins_to_go && self.leaving.contains(node) && before.is_some_and(is_reschedulable) {
            let owner = self.pods.get(&after.name).and_then(|entry| entry.facts.owner.clone());
            self.moved.leaves(&after.name, owner.as_ref(), now);
        }
        if (has_come || begins_to_go) && after.owner != Owner::DaemonSet {
            change.wake(Duty::PodEvent(node.clone()));
        }
    }

    /// Whether a pod that was bound leaves no room behind that was kept for it: the last look at what may leave did not know that it
    /// waits, or it went where it was to go.
    fn is_where_expected(&self, pod: &Pod) -> bool {
        !self.reckoned_with.contains(&pod.name) || self.promised(&pod.name) == pod.node.as_ref()
    }

    fn goes_with_its_machine(&self, pod: &Pod) -> bool {
        pod.node.as_ref().is_some_and(|node| self.leaving.contains(node))
    }

    /// Whether the room that a pod leaves is of no use yet: its node has been disturbed lately, so nobody is moved to it or from it
    /// to save money before its claim says that it has settled, of which everybody hears. A node that has drifted does not wait
    /// for that, and may be kept by this very pod.
    fn is_on_restless(&self, pod: &Pod) -> bool {
        let machine = pod.node.as_ref().and_then(|node| self.machines.shown().get(node));
        pod.owner != Owner::DaemonSet && machine.is_some_and(|machine| self.is_restless(&machine.node))
    }

    fn note_milestones(&mut self, before: &Pod, after: &Pod, moments: Moments, now: Instant, change: &mut Change) {
        let times = self.times.get(&after.name).cloned();
        let mut reach = |step: Step, at: Option<Instant>| {
            let at = at.unwrap_or(now);
            change.milestones.push(Milestone {
                pod: after.name.clone(),
                step,
                waited: at.since(moments.created),
                since_placed: times.as_ref().and_then(|times| Some(at.since(times.placed?))),
                since_placed_well: times.as_ref().and_then(|times| Some(at.since(times.placed_well?))),
            });
        };
        if before.node.is_none() && after.node.is_some() {
            reach(Step::Bound, moments.bound);
        }
        if before.is_ready != Readiness::Ready && after.is_ready == Readiness::Ready {
            reach(Step::Started, moments.ready);
            // Nothing is measured after this.
            self.times.forget(&after.name);
        }
    }
}
