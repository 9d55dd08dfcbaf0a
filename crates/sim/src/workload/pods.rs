//! What controllers know of the pods that they own.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{Owner, owner_of};
use crate::apiserver::{At, Change};
use crate::fields::{self, annotation, controller_uid, each, integer, labels};

/// Pods by the uid of their owner.
#[derive(Debug, Default)]
pub(super) struct Pods {
    groups: BTreeMap<Arc<str>, Group>,
}

/// The pods of one owner, and how many are what.
#[derive(Debug)]
pub(super) struct Group {
    owner: Owner,
    pub(super) pods: BTreeMap<At, Pod>,
    pub(super) counts: Counts,
}

/// Kept up with every change, so that nobody counts thousands of pods because one of them moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) active: i64,
    pub(super) ready: i64,
    pub(super) terminating: i64,
}

#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) uid: Arc<str>,
    pub(super) node: Option<Arc<str>>,
    pub(super) phase: Phase,
    pub(super) ready_since: Option<Timestamp>,
    pub(super) is_deleting: bool,
    pub(super) created: Timestamp,
    pub(super) deletion_cost: i64,
    pub(super) restarts: i64,
    /// Which template it was made from.
    pub(super) revision: Arc<str>,
    /// Its place in an indexed Job.
    pub(super) index: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Pending,
    Unknown,
    Running,
    Succeeded,
    Failed,
}

impl Pods {
    pub(super) fn group(&self, owner_uid: &str) -> Option<&Group> {
        self.groups.get(owner_uid)
    }

    /// Takes note of a pod's change and says whose pods it concerns.
    pub(super) fn heed(&mut self, change: &Change) -> Vec<Owner> {
        let mut concerned = Vec::new();
        let before = change.before.as_ref().and_then(|pod| controller_uid(pod));
        let after = change.after.as_ref().and_then(|pod| Some((controller_uid(pod)?, pod)));
        if let Some(uid) = before
            && let Some(group) = self.groups.get_mut(uid)
        {
            group.remove(&change.at);
            let is_empty = group.pods.is_empty();
            if after.is_none_or(|(of, _)| of != uid) {
                concerned.push(group.owner.clone());
                if is_empty {
                    self.groups.remove(uid);
                }
            }
        }
        if let Some((uid, pod)) = after {
            let Some(group) = self.group_for(uid, pod) else { return concerned };
            group.insert(change.at.clone(), Pod::of(pod));
            concerned.push(group.owner.clone());
        }
        concerned
    }

    fn group_for(&mut self, uid: &str, pod: &Value) -> Option<&mut Group> {
        if !self.groups.contains_key(uid) {
            let owner = owner_of(pod)?;
            let group = Group { owner, pods: BTreeMap::new(), counts: Counts::default() };
            self.groups.insert(uid.into(), group);
        }
        self.groups.get_mut(uid)
    }
}

impl Group {
    fn insert(&mut self, at: At, pod: Pod) {
        self.counts.add(&pod, 1);
        self.pods.insert(at, pod);
    }

    fn remove(&mut self, at: &At) {
        if let Some(pod) = self.pods.remove(at) {
            self.counts.add(&pod, -1);
        }
    }

    pub(super) fn active(&self) -> impl Iterator<Item = (&At, &Pod)> {
        self.pods.iter().filter(|(_, pod)| pod.is_active())
    }

    /// How many have been ready for so long, and when the next one will have been.
    pub(super) fn available(&self, min_ready_seconds: i64, now: Timestamp) -> (i64, Option<Timestamp>) {
        if min_ready_seconds <= 0 {
            return (self.counts.ready, None);
        }
        let since = self.active().filter_map(|(_, pod)| pod.ready_since);
        let mut from: Vec<Timestamp> = since.map(|since| fields::after_seconds(since, min_ready_seconds)).collect();
        from.sort();
        let available = from.partition_point(|at| *at <= now);
        (available as i64, from.get(available).copied())
    }
}

impl Counts {
    fn add(&mut self, pod: &Pod, sign: i64) {
        if pod.is_active() {
            self.active += sign;
            self.ready += if pod.is_ready() { sign } else { 0 };
        }
        if pod.is_deleting && !pod.is_over() {
            self.terminating += sign;
        }
    }
}

impl Pod {
    fn of(pod: &Value) -> Self {
        let conditions = &pod["status"]["conditions"];
        let ready = each(conditions).find(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        let restarts =
            each(&pod["status"]["containerStatuses"]).map(|status| integer(&status["restartCount"], 0)).sum();
        let own_labels = labels(pod);
        let revision =
            ["controller-revision-hash", "pod-template-hash"].iter().find_map(|key| own_labels[key].as_str());
        Self {
            uid: fields::uid(pod).into(),
            node: fields::node_of(pod).map(Into::into),
            phase: Phase::of(fields::phase(pod)),
            ready_since: ready
                .map(|ready| fields::moment(&ready["lastTransitionTime"]).unwrap_or(Timestamp::UNIX_EPOCH)),
            is_deleting: fields::is_deleting(pod),
            created: fields::created(pod),
            deletion_cost: annotation(pod, "controller.kubernetes.io/pod-deletion-cost")
                .and_then(|cost| cost.parse().ok())
                .unwrap_or(0),
            restarts,
            revision: revision.unwrap_or_default().into(),
            index: annotation(pod, "batch.kubernetes.io/job-completion-index").and_then(|index| index.parse().ok()),
        }
    }

    /// Neither over nor on its way out.
    pub(super) fn is_active(&self) -> bool {
        !self.is_deleting && !self.is_over()
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready_since.is_some()
    }

    pub(super) fn is_available(&self, min_ready_seconds: i64, now: Timestamp) -> bool {
        self.ready_since
            .is_some_and(|since| fields::after_seconds(since, min_ready_seconds) <= now || min_ready_seconds <= 0)
    }
}

impl Phase {
    fn of(phase: &str) -> Self {
        match phase {
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            "Unknown" => Self::Unknown,
            _ => Self::Pending,
        }
    }
}
