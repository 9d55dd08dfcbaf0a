//! ReplicaSets keep a number of pods.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Outcome;
use super::pods::{Group, Pod, Pods};
use super::template::{self, Naming, delete_pod, write_status};
use crate::apiserver::{ApiServer, At, Change, Refusal};
use crate::fields::{Selector, conditions_with, controller, controller_uid, integer, is_deleting, is_terminal, labels};
use crate::fields::{name, owner_reference, uid};
use crate::kinds::Kind;

pub(super) fn reconcile(at: &At, pods: &Pods, server: &ApiServer) -> Outcome {
    let Some(set) = server.get(Kind::ReplicaSet, at) else { return Outcome::default() };
    let group = pods.group(uid(&set));
    let refused = if is_deleting(&set) { None } else { keep_number(&set, group, pods, server) };
    let again = say_status(&set, group, refused.as_ref(), server);
    Outcome { again, refused }
}

fn keep_number(set: &Value, group: Option<&Group>, pods: &Pods, server: &ApiServer) -> Option<Refusal> {
    let wanted = integer(&set["spec"]["replicas"], 1);
    let active = group.map_or(0, |group| group.counts.active);
    for _ in active..wanted {
        let pod = template::pod(set, &set["spec"]["template"], Naming::Generated(format!("{}-", name(set))));
        if let Err(refusal) = server.create(pod) {
            return Some(refusal);
        }
    }
    if let Some(group) = group.filter(|_| active > wanted) {
        for (at, pod) in victims(group, (active - wanted) as usize, &crowding(set, pods, server), server.now()) {
            delete_pod(server, at, &pod.uid);
        }
    }
    None
}

/// How many active pods each node has, of this set and of its siblings under the same Deployment.
fn crowding(set: &Value, pods: &Pods, server: &ApiServer) -> BTreeMap<Arc<str>, i64> {
    let siblings = match controller_uid(set) {
        Some(owner) => server.owned_by(Kind::ReplicaSet, owner).iter().map(|sibling| uid(sibling).to_owned()).collect(),
        None => vec![uid(set).to_owned()],
    };
    let groups = siblings.iter().filter_map(|sibling| pods.group(sibling));
    let mut crowding = BTreeMap::new();
    for node in groups.flat_map(Group::active).filter_map(|(_, pod)| pod.node.clone()) {
        *crowding.entry(node).or_insert(0) += 1;
    }
    crowding
}

/// The pods that are missed least.
fn victims<'a>(
    group: &'a Group,
    count: usize,
    crowding: &BTreeMap<Arc<str>, i64>,
    now: Timestamp,
) -> Vec<(&'a At, &'a Pod)> {
    let mut ranked: Vec<(&At, &Pod)> = group.active().collect();
    ranked.sort_by(|(_, a), (_, b)| first_to_go(a, b, crowding, now));
    ranked.truncate(count);
    ranked
}

/// The real order: unbound, not yet running, not ready, cheap to delete, in a crowd, ready or made of late, restarted often. Ages
/// compare by their magnitude only; among equals the uid decides, which is to say chance.
fn first_to_go(a: &Pod, b: &Pod, crowding: &BTreeMap<Arc<str>, i64>, now: Timestamp) -> Ordering {
    let crowd = |pod: &Pod| pod.node.as_ref().and_then(|node| crowding.get(node)).copied().unwrap_or(0);
    let readiness = || match (a.ready_since, b.ready_since) {
        (Some(a), Some(b)) if a != b => magnitude(a, now).cmp(&magnitude(b, now)),
        _ => Ordering::Equal,
    };
    (a.node.is_some().cmp(&b.node.is_some()))
        .then_with(|| a.phase.cmp(&b.phase))
        .then_with(|| a.is_ready().cmp(&b.is_ready()))
        .then_with(|| a.deletion_cost.cmp(&b.deletion_cost))
        .then_with(|| crowd(b).cmp(&crowd(a)))
        .then_with(readiness)
        .then_with(|| b.restarts.cmp(&a.restarts))
        .then_with(|| magnitude(a.created, now).cmp(&magnitude(b.created, now)))
        .then_with(|| a.uid.cmp(&b.uid))
}

/// The logarithm of an age.
fn magnitude(since: Timestamp, now: Timestamp) -> i32 {
    let nanos = now.duration_since(since).as_nanos();
    u128::try_from(nanos).ok().and_then(u128::checked_ilog2).map_or(-1, |log| log as i32)
}

fn say_status(set: &Value, group: Option<&Group>, refused: Option<&Refusal>, server: &ApiServer) -> Option<Timestamp> {
    let min_ready = integer(&set["spec"]["minReadySeconds"], 0);
    let counts = group.map(|group| group.counts).unwrap_or_default();
    let (available, again) = group.map_or((0, None), |group| group.available(min_ready, server.now()));
    let mut status = json!({
        "replicas": counts.active,
        "fullyLabeledReplicas": counts.active,
        "readyReplicas": counts.ready,
        "availableReplicas": available,
        "terminatingReplicas": counts.terminating,
    });
    match refused {
        Some(refusal) => {
            let said = ["ReplicaFailure", "True", "FailedCreate", refusal.message.as_str()];
            status["conditions"] = conditions_with(set, server.now(), &[said]);
        }
        None if !set["status"]["conditions"].is_null() => status["conditions"] = Value::Null,
        None => {}
    }
    write_status(server, Kind::ReplicaSet, set, status);
    again
}

/// Pods without an owner and sets that may take them in, and pods whose labels have left their set.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// By namespace.
    sets: BTreeMap<Arc<str>, BTreeMap<At, Selector>>,
    orphans: BTreeMap<Arc<str>, BTreeSet<At>>,
    changed_pods: BTreeSet<At>,
    changed_sets: BTreeSet<At>,
}

impl Orphans {
    pub(super) fn heed_pod(&mut self, change: &Change) {
        let is_orphan = |pod: &Value| controller(pod).is_none() && !is_deleting(pod) && !is_terminal(pod);
        let orphans = self.orphans.entry(change.at.namespace.clone()).or_default();
        match &change.after {
            Some(pod) if is_orphan(pod) => {
                orphans.insert(change.at.clone());
                self.changed_pods.insert(change.at.clone());
            }
            after => {
                orphans.remove(&change.at);
                let relabeled = change.before.as_ref().zip(after.as_ref());
                if relabeled.is_some_and(|(before, after)| labels(before) != labels(after)) {
                    self.changed_pods.insert(change.at.clone());
                }
            }
        }
    }

    pub(super) fn heed_set(&mut self, change: &Change) {
        let sets = self.sets.entry(change.at.namespace.clone()).or_default();
        match change.after.as_ref().filter(|set| !is_deleting(set)) {
            None => drop(sets.remove(&change.at)),
            Some(set) => {
                let selector = Selector::of(&set["spec"]["selector"]);
                if sets.get(&change.at) != Some(&selector) {
                    sets.insert(change.at.clone(), selector);
                    self.changed_sets.insert(change.at.clone());
                }
            }
        }
    }

    /// Ties what belongs together and unties what no longer does.
    pub(super) fn adopt(&mut self, server: &ApiServer) {
        let mut pods = std::mem::take(&mut self.changed_pods);
        for set in std::mem::take(&mut self.changed_sets) {
            pods.extend(self.orphans.get(&set.namespace).into_iter().flatten().cloned());
        }
        for at in pods {
            let Some(pod) = server.get(Kind::Pod, &at) else { continue };
            match controller(&pod) {
                None => self.find_home(&at, &pod, server),
                Some(owner) => self.release(&at, &pod, owner, server),
            }
        }
    }

    fn find_home(&self, at: &At, pod: &Value, server: &ApiServer) {
        let sets = self.sets.get(&at.namespace).into_iter().flatten();
        let Some((home, _)) = sets.into_iter().find(|(_, selector)| selector.matches(labels(pod))) else { return };
        let Some(set) = server.get(Kind::ReplicaSet, home) else { return };
        let mut owners = pod["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        owners.push(owner_reference(&set));
        // A pod that is gone or changed meanwhile comes up again with its next change.
        let _ = server.patch(Kind::Pod, at, &json!({"metadata": {"ownerReferences": owners}}));
    }

    fn release(&self, at: &At, pod: &Value, owner: &Value, server: &ApiServer) {
        let sets = self.sets.get(&at.namespace);
        let selector = sets
            .and_then(|sets| sets.iter().find(|(set, _)| owner["name"] == *set.name && owner["kind"] == "ReplicaSet"));
        if selector.is_none_or(|(_, selector)| selector.matches(labels(pod))) {
            return;
        }
        let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let others: Vec<&Value> = owners.filter(|other| other["uid"] != owner["uid"]).collect();
        let _ = server.patch(Kind::Pod, at, &json!({"metadata": {"ownerReferences": others}}));
    }
}
