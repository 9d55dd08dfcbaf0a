//! DaemonSets keep one pod on every node that suits it. Their pods are bound by the scheduler.

mod suits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::pods::{Pod, Pods};
use super::template::{self, Naming, delete_pod, write_status};
use super::{Outcome, Owner};
use crate::apiserver::{ApiServer, At, Change, Refusal};
use crate::fields::{Rounding, after_seconds, at_cluster, controller_uid, integer, is_deleting, labels, name, node_of};
use crate::fields::{scaled, template_hash, uid};
use crate::kinds::Kind;
use suits::{Verdict, suits};

/// Which node has which pods of each set. Only nodes that changed are looked at again.
#[derive(Debug, Default)]
pub(super) struct DaemonSets {
    sets: BTreeMap<At, Daemons>,
    nodes: BTreeSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct Daemons {
    of_uid: String,
    revision: String,
    pods_by_node: BTreeMap<Arc<str>, BTreeSet<At>>,
    targets: BTreeMap<At, Arc<str>>,
    dirty: BTreeSet<Arc<str>>,
    tallies: BTreeMap<Arc<str>, Tally>,
    total: Tally,
}

/// What one node adds to the set's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    desired: i64,
    current: i64,
    misscheduled: i64,
    ready: i64,
    available: i64,
    updated: i64,
}

/// What all looks at nodes share.
struct Look<'a> {
    server: &'a ApiServer,
    set: &'a Value,
    revision: &'a str,
    /// With the tolerations of daemons.
    template: Value,
    now: Timestamp,
    min_ready: i64,
}

impl DaemonSets {
    pub(super) fn heed(&mut self, change: &Change) {
        if change.kind != Kind::DaemonSet {
            return;
        }
        let Some(set) = &change.after else {
            self.sets.remove(&change.at);
            return;
        };
        let is_settled = change.before.as_ref().is_some_and(|before| before["spec"] == set["spec"]);
        let daemons = self.sets.entry(change.at.clone()).or_default();
        if daemons.of_uid != uid(set) {
            *daemons = Daemons { of_uid: uid(set).to_owned(), ..Daemons::default() };
        }
        if !is_settled {
            daemons.revision = template_hash(&set["spec"]["template"], 0);
            daemons.dirty.extend(self.nodes.iter().cloned());
            daemons.dirty.extend(daemons.pods_by_node.keys().cloned());
        }
    }

    /// Says which sets must look at the node.
    pub(super) fn heed_node(&mut self, change: &Change) -> Vec<At> {
        let node = change.at.name.clone();
        let is_same = |(a, b): (&Arc<Value>, &Arc<Value>)| labels(a) == labels(b) && a["spec"] == b["spec"];
        if change.before.as_ref().zip(change.after.as_ref()).is_some_and(is_same) {
            return Vec::new();
        }
        match &change.after {
            Some(_) => drop(self.nodes.insert(node.clone())),
            None => drop(self.nodes.remove(&node)),
        }
        for daemons in self.sets.values_mut() {
            daemons.dirty.insert(node.clone());
        }
        self.sets.keys().cloned().collect()
    }

    pub(super) fn heed_pod(&mut self, owner: &Owner, change: &Change) {
        let (Kind::DaemonSet, at) = owner else { return };
        let daemons = self.sets.entry(at.clone()).or_default();
        let is_ours =
            |pod: &Arc<Value>| daemons.of_uid.is_empty() || controller_uid(pod) == Some(daemons.of_uid.as_str());
        let target = change.after.as_ref().filter(|pod| is_ours(pod)).and_then(|pod| target(pod));
        if let Some(before) = daemons.targets.remove(&change.at) {
            if let Some(pods) = daemons.pods_by_node.get_mut(&before) {
                pods.remove(&change.at);
                if pods.is_empty() {
                    daemons.pods_by_node.remove(&before);
                }
            }
            daemons.dirty.insert(before);
        }
        if let Some(target) = target {
            daemons.pods_by_node.entry(target.clone()).or_default().insert(change.at.clone());
            daemons.targets.insert(change.at.clone(), target.clone());
            daemons.dirty.insert(target);
        }
    }

    pub(super) fn reconcile(&mut self, at: &At, pods: &Pods, server: &ApiServer) -> Outcome {
        let Some(set) = server.get(Kind::DaemonSet, at) else { return Outcome::default() };
        let Some(daemons) = self.sets.get_mut(at) else { return Outcome::default() };
        let revision = daemons.revision.clone();
        let look = Look {
            server,
            set: &set,
            revision: &revision,
            template: suits::with_tolerations(&set["spec"]["template"]),
            now: server.now(),
            min_ready: integer(&set["spec"]["minReadySeconds"], 0),
        };
        let mut outcome = Outcome::default();
        for node in std::mem::take(&mut daemons.dirty) {
            let (tally, again, refused) = look.tend(&node, &daemons.pods_on(&node, pods));
            daemons.count(&node, tally);
            // A pod that is not available yet, or was refused, must be looked at again.
            if again.is_some() || refused.is_some() {
                daemons.dirty.insert(node);
            }
            outcome.again = outcome.again.into_iter().chain(again).min();
            outcome.refused = outcome.refused.or(refused);
        }
        if !is_deleting(&set) && daemons.total.updated < daemons.total.current {
            daemons.roll(&look, pods);
        }
        daemons.say_status(&look);
        outcome
    }
}

impl Daemons {
    /// The set's pods that are meant for a node, the oldest first.
    fn pods_on<'a>(&'a self, node: &str, pods: &'a Pods) -> Vec<(&'a At, &'a Pod)> {
        let Some(group) = pods.group(&self.of_uid) else { return Vec::new() };
        let here = self.pods_by_node.get(node).into_iter().flatten();
        let mut here: Vec<(&At, &Pod)> = here.filter_map(|at| Some((at, group.pods.get(at)?))).collect();
        here.sort_by(|a, b| {
            (b.1.node.is_some().cmp(&a.1.node.is_some())).then(a.1.created.cmp(&b.1.created)).then(a.0.cmp(b.0))
        });
        here
    }

    fn count(&mut self, node: &Arc<str>, tally: Tally) {
        let before = self.tallies.remove(node).unwrap_or_default();
        self.total.add(before, -1);
        self.total.add(tally, 1);
        if tally != Tally::default() {
            self.tallies.insert(node.clone(), tally);
        }
    }

    /// Deletes pods of an older template: those that do not work at once, the others as far as so many may be missing.
    fn roll(&self, look: &Look<'_>, pods: &Pods) {
        let strategy = &look.set["spec"]["updateStrategy"];
        if strategy["type"] == "OnDelete" {
            return;
        }
        let most = scaled(&strategy["rollingUpdate"]["maxUnavailable"], self.total.desired, Rounding::Up).unwrap_or(1);
        let mut missing = 0;
        let mut candidates = Vec::new();
        for (node, tally) in self.tallies.iter().filter(|(_, tally)| tally.desired > 0) {
            missing += 1 - tally.available.min(1);
            for (at, pod) in self.pods_on(node, pods) {
                if *pod.revision != *look.revision && pod.is_active() {
                    match pod.is_available(look.min_ready, look.now) {
                        true => candidates.push((at, pod)),
                        false => delete_pod(look.server, at, &pod.uid),
                    }
                }
            }
        }
        for (at, pod) in candidates.into_iter().take((most.max(1) - missing).max(0) as usize) {
            delete_pod(look.server, at, &pod.uid);
        }
    }

    fn say_status(&self, look: &Look<'_>) {
        let total = &self.total;
        let status = json!({
            "desiredNumberScheduled": total.desired,
            "currentNumberScheduled": total.current,
            "numberMisscheduled": total.misscheduled,
            "numberReady": total.ready,
            "numberAvailable": total.available,
            "numberUnavailable": total.desired - total.available,
            "updatedNumberScheduled": total.updated,
        });
        write_status(look.server, Kind::DaemonSet, look.set, status);
    }
}

impl Look<'_> {
    /// Makes or deletes what one node needs, and counts what it has now. Also says when a pod there will have been ready long enough.
    fn tend(&self, node: &str, pods: &[(&At, &Pod)]) -> (Tally, Option<Timestamp>, Option<Refusal>) {
        let Some(wire) = self.server.get(Kind::Node, &at_cluster(node)) else {
            // Nobody will ever bind a pod to a node that is gone. Bound ones are for the garbage collector.
            for (at, pod) in pods.iter().filter(|(_, pod)| pod.node.is_none() && !pod.is_deleting) {
                delete_pod(self.server, at, &pod.uid);
            }
            return (Tally::default(), None, None);
        };
        let verdict = suits(&self.template["spec"], &wire);
        let refused = if is_deleting(self.set) { None } else { self.set_right(node, pods, verdict) };
        let staying = pods.iter().filter(|(_, pod)| pod.is_active()).map(|(_, pod)| *pod);
        let staying: Vec<&Pod> = staying.collect();
        let has_any = i64::from(!staying.is_empty());
        if !verdict.should_run {
            return (Tally { misscheduled: has_any, ..Tally::default() }, None, refused);
        }
        let first = staying.first();
        let one_if = |holds: bool| i64::from(holds);
        let tally = Tally {
            desired: 1,
            current: has_any,
            misscheduled: 0,
            ready: one_if(first.is_some_and(|pod| pod.is_ready())),
            available: one_if(first.is_some_and(|pod| pod.is_available(self.min_ready, self.now))),
            updated: one_if(first.is_some_and(|pod| *pod.revision == *self.revision)),
        };
        let ready_for = first.and_then(|pod| Some(after_seconds(pod.ready_since?, self.min_ready)));
        (tally, ready_for.filter(|at| *at > self.now), refused)
    }

    fn set_right(&self, node: &str, pods: &[(&At, &Pod)], verdict: Verdict) -> Option<Refusal> {
        if verdict.should_run && pods.iter().all(|(_, pod)| pod.is_over() && pod.is_deleting) {
            return self.server.create(self.pod_for(node)).err();
        }
        let mut kept = 0;
        for (at, pod) in pods.iter().filter(|(_, pod)| !pod.is_deleting) {
            let is_kept = verdict.may_stay && !pod.is_over() && kept == 0;
            kept += usize::from(is_kept);
            if !is_kept {
                delete_pod(self.server, at, &pod.uid);
            }
        }
        None
    }

    fn pod_for(&self, node: &str) -> Value {
        let mut pod = template::pod(self.set, &self.template, Naming::Generated(format!("{}-", name(self.set))));
        let generation = integer(&self.set["metadata"]["generation"], 1);
        pod["metadata"]["labels"]["controller-revision-hash"] = json!(self.revision);
        pod["metadata"]["labels"]["pod-template-generation"] = json!(generation.to_string());
        suits::aim(&mut pod["spec"], node);
        pod
    }
}

impl Tally {
    fn add(&mut self, other: Self, sign: i64) {
        self.desired += sign * other.desired;
        self.current += sign * other.current;
        self.misscheduled += sign * other.misscheduled;
        self.ready += sign * other.ready;
        self.available += sign * other.available;
        self.updated += sign * other.updated;
    }
}

fn target(pod: &Value) -> Option<Arc<str>> {
    node_of(pod).or_else(|| suits::aimed_at(pod)).map(Into::into)
}
