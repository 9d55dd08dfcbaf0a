//! Node lifecycle: taints that follow from conditions, evictions that follow from taints, and the collection of pods whose node is
//! gone.
//!
//! Taints come at once; the real controller looks every five seconds and slows down when much of a zone is sick.

mod garbage;
mod taints;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apiserver::{ApiServer, At, Change, Deletion};
use crate::fields::{after_seconds, at_cluster, conditions_with, each, has_condition, is_deleting, is_ready, node_of};
use crate::fields::{tolerates, uid};
use crate::kinds::Kind;
use crate::standin::StandIn;
use garbage::Garbage;

/// The node controller, the taint manager and the pod garbage collector.
#[derive(Default)]
pub struct NodeLifecycle {
    /// NoExecute taints by node, where there are any.
    tainted: BTreeMap<Arc<str>, Vec<Value>>,
    evictions: BTreeMap<At, Eviction>,
    due: BTreeSet<(Timestamp, At)>,
    changed_nodes: BTreeSet<Arc<str>>,
    /// Nodes that were ready until now.
    failed_nodes: BTreeSet<Arc<str>>,
    bound_pods: BTreeSet<At>,
    garbage: Garbage,
}

/// A pod that will be evicted unless its node recovers.
#[derive(Clone, Debug)]
struct Eviction {
    pod_uid: String,
    since: Timestamp,
    due: Timestamp,
}

impl NodeLifecycle {
    pub fn new() -> Self {
        Self::default()
    }

    fn heed_node(&mut self, change: &Change) {
        let name = &change.at.name;
        match (&change.before, &change.after) {
            (_, None) => {
                self.tainted.remove(name);
            }
            (Some(before), Some(after)) => {
                if before["spec"] != after["spec"] || before["status"]["conditions"] != after["status"]["conditions"] {
                    self.changed_nodes.insert(name.clone());
                }
                if is_ready(before) && !is_ready(after) {
                    self.failed_nodes.insert(name.clone());
                }
            }
            (None, Some(_)) => drop(self.changed_nodes.insert(name.clone())),
        }
    }

    fn heed_pod(&mut self, change: &Change) {
        let Some(pod) = &change.after else {
            self.cancel(&change.at);
            return;
        };
        let Some(node) = node_of(pod) else { return };
        if is_deleting(pod) {
            self.cancel(&change.at);
        } else if self.tainted.contains_key(node) {
            let is_same = |before: &Arc<Value>| {
                node_of(before).is_some() && before["spec"]["tolerations"] == pod["spec"]["tolerations"]
            };
            if !change.before.as_ref().is_some_and(is_same) {
                self.bound_pods.insert(change.at.clone());
            }
        }
    }

    fn cancel(&mut self, pod: &At) {
        if let Some(eviction) = self.evictions.remove(pod) {
            self.due.remove(&(eviction.due, pod.clone()));
        }
    }

    /// Pods that tolerate all taints for a time get that time, from the first taint on; others leave at once.
    fn judge(&mut self, pod: &Value, taints: &[Value], server: &ApiServer) {
        let at = crate::fields::at(pod);
        if is_deleting(pod) {
            return;
        }
        match patience(pod, taints) {
            Patience::Forever => self.cancel(&at),
            Patience::None => {
                self.cancel(&at);
                evict(server, pod);
            }
            Patience::Seconds(seconds) => {
                let now = server.now();
                let since = match self.evictions.get(&at) {
                    Some(planned) if after_seconds(planned.since, seconds) < after_seconds(now, seconds) => return,
                    Some(planned) => planned.since,
                    None => now,
                };
                self.cancel(&at);
                let due = after_seconds(since, seconds);
                self.due.insert((due, at.clone()));
                self.evictions.insert(at, Eviction { pod_uid: uid(pod).to_owned(), since, due });
            }
        }
    }

    fn settle_node(&mut self, name: &Arc<str>, server: &ApiServer) {
        let Some(node) = server.get(Kind::Node, &at_cluster(name)) else { return };
        let node = taints::write(&node, server).unwrap_or(node);
        let executing: Vec<Value> =
            each(&node["spec"]["taints"]).filter(|taint| taint["effect"] == "NoExecute").cloned().collect();
        let before = self.tainted.get(name).map_or(&[][..], Vec::as_slice);
        if before == executing.as_slice() {
            return;
        }
        let pods = server.pods_on(name);
        if executing.is_empty() {
            self.tainted.remove(name);
            pods.iter().for_each(|pod| self.cancel(&crate::fields::at(pod)));
            return;
        }
        self.tainted.insert(name.clone(), executing.clone());
        for pod in pods {
            self.judge(&pod, &executing, server);
        }
    }
}

impl StandIn for NodeLifecycle {
    fn name(&self) -> &'static str {
        "node lifecycle"
    }

    fn heed(&mut self, change: &Change, server: &ApiServer) {
        match change.kind {
            Kind::Node => self.heed_node(change),
            Kind::Pod => self.heed_pod(change),
            _ => return,
        }
        self.garbage.heed(change, server);
    }

    fn settle(&mut self, server: &ApiServer) {
        for node in std::mem::take(&mut self.failed_nodes) {
            mark_pods_not_ready(server, &node);
        }
        for node in std::mem::take(&mut self.changed_nodes) {
            self.settle_node(&node, server);
        }
        for at in std::mem::take(&mut self.bound_pods) {
            let Some(pod) = server.get(Kind::Pod, &at) else { continue };
            let taints = node_of(&pod).and_then(|node| self.tainted.get(node)).cloned().unwrap_or_default();
            self.judge(&pod, &taints, server);
        }
    }

    fn next(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at).into_iter().chain(self.garbage.next()).min()
    }

    fn wake(&mut self, now: Timestamp, server: &ApiServer) {
        while let Some((_, at)) = self.due.first().filter(|(due, _)| *due <= now).cloned() {
            let planned = self.evictions.get(&at).map(|eviction| eviction.pod_uid.clone());
            self.cancel(&at);
            let pod = server.get(Kind::Pod, &at).filter(|pod| planned.as_deref() == Some(uid(pod)));
            if let Some(pod) = pod {
                evict(server, &pod);
            }
        }
        self.garbage.collect(now, server);
    }
}

/// For how long a pod bears a node's taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    None,
    Seconds(i64),
    Forever,
}

fn patience(pod: &Value, taints: &[Value]) -> Patience {
    let tolerations = &pod["spec"]["tolerations"];
    let mut least: Option<i64> = None;
    for taint in taints {
        let mut meeting = each(tolerations).filter(|toleration| tolerates(toleration, taint)).peekable();
        if meeting.peek().is_none() {
            return Patience::None;
        }
        let shortest = meeting.filter_map(|toleration| toleration["tolerationSeconds"].as_i64()).min();
        least = least.into_iter().chain(shortest).min();
    }
    match least {
        None => Patience::Forever,
        Some(seconds) if seconds <= 0 => Patience::None,
        Some(seconds) => Patience::Seconds(seconds),
    }
}

fn evict(server: &ApiServer, pod: &Value) {
    let said = ["DisruptionTarget", "True", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"];
    let at = crate::fields::at(pod);
    let conditions = conditions_with(pod, server.now(), &[said]);
    // Whatever is refused here concerns a pod that is gone already.
    let _ = server.patch_status(Kind::Pod, &at, &json!({"status": {"conditions": conditions}}));
    let _ = server.delete(Kind::Pod, &at, &Deletion { uid: Some(uid(pod).to_owned()), ..Deletion::default() });
}

/// Nobody can vouch for the pods of a node that is not ready.
fn mark_pods_not_ready(server: &ApiServer, node: &str) {
    for pod in server.pods_on(node) {
        if has_condition(&pod, "Ready", "True") {
            let conditions = conditions_with(&pod, server.now(), &[["Ready", "False", "", ""]]);
            let patch = json!({"status": {"conditions": conditions}});
            let _ = server.patch_status(Kind::Pod, &crate::fields::at(&pod), &patch);
        }
    }
}

#[cfg(test)]
mod tests;
