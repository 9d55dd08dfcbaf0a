//! Pods that nobody else will ever remove: their node is gone, or shut off, or they never had one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apiserver::{ApiServer, At, Change, Deletion};
use crate::fields::{
    self, after_seconds, at_cluster, conditions_with, each, is_deleting, is_ready, is_terminal, node_of, uid,
};
use crate::kinds::Kind;

/// The collector comes by so often.
const ROUND_SECONDS: i64 = 20;
/// A node must have been missing for so long before its pods are given up.
const QUARANTINE_SECONDS: i64 = 40;
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

#[derive(Debug, Default)]
pub(super) struct Garbage {
    nodes: BTreeSet<Arc<str>>,
    /// Nodes that pods are bound to although they are not there, and when their pods go.
    missing: BTreeMap<Arc<str>, Timestamp>,
    /// Pods that are leaving and that no kubelet may let go.
    stuck: BTreeSet<(Timestamp, At)>,
}

impl Garbage {
    pub(super) fn heed(&mut self, change: &Change, server: &ApiServer) {
        let now = server.now();
        match (change.kind, &change.after) {
            (Kind::Node, Some(node)) => {
                self.nodes.insert(change.at.name.clone());
                self.missing.remove(&change.at.name);
                if is_out_of_service(node) {
                    let leaving = server.pods_on(&change.at.name);
                    let leaving = leaving.iter().filter(|pod| is_deleting(pod)).map(|pod| fields::at(pod));
                    self.stuck.extend(leaving.map(|at| (next_round(now), at)));
                }
            }
            (Kind::Node, None) => {
                self.nodes.remove(&change.at.name);
                self.note_missing(&change.at.name, now);
            }
            (Kind::Pod, Some(pod)) => self.heed_pod(&change.at, pod, now, server),
            _ => {}
        }
    }

    fn note_missing(&mut self, node: &Arc<str>, now: Timestamp) {
        self.missing.entry(node.clone()).or_insert_with(|| after_seconds(next_round(now), QUARANTINE_SECONDS));
    }

    fn heed_pod(&mut self, at: &At, pod: &Value, now: Timestamp, server: &ApiServer) {
        let is_given_up =
            |name: &str| server.get(Kind::Node, &at_cluster(name)).is_some_and(|node| is_out_of_service(&node));
        match node_of(pod) {
            Some(name) if !self.nodes.contains(name) => self.note_missing(&name.into(), now),
            place if is_deleting(pod) && place.is_none_or(is_given_up) => {
                self.stuck.insert((next_round(now), at.clone()));
            }
            _ => {}
        }
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        let stuck = self.stuck.first().map(|(at, _)| *at);
        self.missing.values().copied().chain(stuck).min()
    }

    pub(super) fn collect(&mut self, now: Timestamp, server: &ApiServer) {
        let due: Vec<Arc<str>> =
            self.missing.iter().filter(|(_, at)| **at <= now).map(|(node, _)| node.clone()).collect();
        for node in due {
            self.missing.remove(&node);
            for pod in server.pods_on(&node) {
                give_up(server, &pod, "PodGC: node no longer exists");
            }
        }
        while let Some((_, at)) = self.stuck.first().filter(|(at, _)| *at <= now).cloned() {
            self.stuck.pop_first();
            let Some(pod) = server.get(Kind::Pod, &at).filter(|pod| is_deleting(pod)) else { continue };
            let is_stuck = match node_of(&pod) {
                None => true,
                Some(node) => {
                    let node = server.get(Kind::Node, &at_cluster(node));
                    node.is_some_and(|node| is_out_of_service(&node) && !is_ready(&node))
                }
            };
            if is_stuck {
                give_up(server, &pod, "PodGC: node is out of service");
            }
        }
    }
}

fn is_out_of_service(node: &Value) -> bool {
    each(&node["spec"]["taints"]).any(|taint| taint["key"] == OUT_OF_SERVICE)
}

/// The collector's rounds are counted from the epoch, so that they do not depend on when it was first needed.
fn next_round(now: Timestamp) -> Timestamp {
    let seconds = now.as_second();
    let passed = seconds.rem_euclid(ROUND_SECONDS);
    let is_on_time = passed == 0 && now.subsec_nanosecond() == 0;
    let wait = if is_on_time { 0 } else { ROUND_SECONDS - passed };
    Timestamp::from_second(seconds + wait).unwrap_or(now)
}

fn give_up(server: &ApiServer, pod: &Value, message: &str) {
    let at = fields::at(pod);
    if !is_terminal(pod) {
        let said = ["DisruptionTarget", "True", "DeletionByPodGC", message];
        let status = json!({"phase": "Failed", "conditions": conditions_with(pod, server.now(), &[said])});
        // Whatever is refused here concerns a pod that is gone already.
        let _ = server.patch_status(Kind::Pod, &at, &json!({"status": status}));
    }
    let deletion = Deletion { grace_seconds: Some(0), uid: Some(uid(pod).to_owned()), ..Deletion::default() };
    let _ = server.delete(Kind::Pod, &at, &deletion);
}
