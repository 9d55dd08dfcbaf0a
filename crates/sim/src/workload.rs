//! Workload controllers: Deployments make ReplicaSets, and ReplicaSets, StatefulSets, DaemonSets and Jobs make pods.
//!
//! One part for all of them, because they share one index of pods by owner. A change marks whom it concerns; each of those is looked
//! at once when all changes have been heard. A ReplicationController is refused by
//! the server: nobody here would make its pods.

mod daemonset;
mod deployment;
mod job;
mod pods;
mod replicaset;
mod statefulset;
mod template;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use crate::apiserver::{ApiServer, At, Change, Refusal};
use crate::fields::{self, after_seconds};
use crate::kinds::Kind;
use crate::standin::StandIn;
use pods::Pods;

/// The longest that a workload waits after its pods were refused again and again.
const RETRY_SECONDS_MAX: i64 = 1000;

/// All workload controllers.
#[derive(Default)]
pub struct Workloads {
    pods: Pods,
    dirty: BTreeSet<Owner>,
    timers: BTreeSet<(Timestamp, Owner)>,
    /// How often in a row a workload's pods were refused.
    refusals: BTreeMap<Owner, u32>,
    orphans: replicaset::Orphans,
    stateful_sets: statefulset::StatefulSets,
    daemon_sets: daemonset::DaemonSets,
    jobs: job::Jobs,
}

/// A workload: its kind and where it lies. The order of kinds is that in which they act: Deployments before ReplicaSets.
type Owner = (Kind, At);

/// What came of looking at a workload.
#[derive(Debug, Default)]
struct Outcome {
    /// When to look again although nothing changes.
    again: Option<Timestamp>,
    /// Why a pod could not be made.
    refused: Option<Refusal>,
}

impl Workloads {
    pub fn new() -> Self {
        Self::default()
    }

    fn reconcile(&mut self, (kind, at): &Owner, server: &ApiServer) -> Outcome {
        match kind {
            Kind::Deployment => deployment::reconcile(at, server),
            Kind::ReplicaSet => replicaset::reconcile(at, &self.pods, server),
            Kind::StatefulSet => self.stateful_sets.reconcile(at, &self.pods, server),
            Kind::DaemonSet => self.daemon_sets.reconcile(at, &self.pods, server),
            Kind::Job => self.jobs.reconcile(at, &self.pods, server),
            _ => Outcome::default(),
        }
    }

    fn heed_pod(&mut self, change: &Change) {
        for owner in self.pods.heed(change) {
            self.daemon_sets.heed_pod(&owner, change);
            self.jobs.heed_pod(&owner, change);
            self.dirty.insert(owner);
        }
        self.orphans.heed_pod(change);
    }

    fn heed_workload(&mut self, change: &Change) {
        let owner = (change.kind, change.at.clone());
        if change.after.is_none() {
            self.refusals.remove(&owner);
        }
        // A ReplicaSet that changes is news for its Deployment.
        if change.kind == Kind::ReplicaSet {
            let either = change.after.as_ref().or(change.before.as_ref());
            self.dirty.extend(either.and_then(|set| owner_of(set)));
            self.orphans.heed_set(change);
        }
        self.stateful_sets.heed(change);
        self.daemon_sets.heed(change);
        self.jobs.heed(change);
        self.dirty.insert(owner);
    }
}

impl StandIn for Workloads {
    fn name(&self) -> &'static str {
        "workload controllers"
    }

    fn heed(&mut self, change: &Change, _server: &ApiServer) {
        match change.kind {
            Kind::Pod => self.heed_pod(change),
            Kind::Node => {
                let concerned = self.daemon_sets.heed_node(change);
                self.dirty.extend(concerned.into_iter().map(|at| (Kind::DaemonSet, at)));
            }
            Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet | Kind::DaemonSet | Kind::Job => {
                self.heed_workload(change);
            }
            _ => {}
        }
    }

    fn settle(&mut self, server: &ApiServer) {
        self.orphans.adopt(server);
        for owner in std::mem::take(&mut self.dirty) {
            let outcome = self.reconcile(&owner, server);
            if let Some(at) = outcome.again {
                self.timers.insert((at, owner.clone()));
            }
            match outcome.refused {
                None => drop(self.refusals.remove(&owner)),
                Some(_) => {
                    let times = self.refusals.entry(owner.clone()).or_default();
                    let seconds = 1_i64.checked_shl(*times).unwrap_or(RETRY_SECONDS_MAX).clamp(1, RETRY_SECONDS_MAX);
                    *times = (*times + 1).min(10);
                    self.timers.insert((after_seconds(server.now(), seconds), owner));
                }
            }
        }
    }

    fn next(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn wake(&mut self, now: Timestamp, _server: &ApiServer) {
        // They act in the next round: what was written in this one has not been heard yet, and would be done twice.
        while let Some((_, owner)) = self.timers.first().filter(|(at, _)| *at <= now).cloned() {
            self.timers.pop_first();
            self.dirty.insert(owner);
        }
    }
}

/// The workload that controls an object.
fn owner_of(object: &Value) -> Option<Owner> {
    let reference = fields::controller(object)?;
    let kind = Kind::of(reference["apiVersion"].as_str()?, reference["kind"].as_str()?)?;
    Some((kind, fields::at_in(fields::namespace(object), reference["name"].as_str()?)))
}

#[cfg(test)]
mod tests;
