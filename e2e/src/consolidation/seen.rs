//! What watches have told of a cluster: what is there, and what has come, gone and moved. It is told the time and reads no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anyhow::{Result, bail};
use api::NodeClaim;
use api::conditions::{ConditionStatus, DISRUPTION_REASON};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::WatchEvent;

/// What a node costs, as viewers of the simulated cloud read it; both sides write it.
const PRICE: &str = "eks-node-viewer/instance-price";
const DISRUPTED: &str = "karpenter.sh/disrupted";

pub(super) struct Seen {
    claims: BTreeMap<String, Presence>,
    nodes: BTreeMap<String, (Presence, f64)>,
    pods: BTreeMap<String, Place>,
    /// By uid: a pod that is evicted twice is the same eviction.
    evicted: BTreeSet<String>,
    /// When a claim or a node last came or went.
    last_change: Instant,
    /// When a pod last got its node.
    last_bound: Instant,
    claims_made: usize,
    /// Claims by name that somebody has chosen to go, whether they went or not.
    disrupted: BTreeSet<String>,
    nodes_made: usize,
    nodes_gone: usize,
}

#[expect(clippy::large_enum_variant, reason = "one lives at a time")]
pub(super) enum Change {
    Claim(WatchEvent<NodeClaim>),
    Node(WatchEvent<Node>),
    Pod(WatchEvent<Pod>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Stays,
    /// It is on its way out, or closed to new pods because somebody wants it to go.
    Leaves,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waiting,
    Running,
    Leaving,
}

impl Seen {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            claims: BTreeMap::new(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            evicted: BTreeSet::new(),
            last_change: now,
            last_bound: now,
            claims_made: 0,
            disrupted: BTreeSet::new(),
            nodes_made: 0,
            nodes_gone: 0,
        }
    }

    /// Counts from here on.
    pub(super) fn begin(&mut self, now: Instant) {
        self.evicted.clear();
        self.disrupted.clear();
        (self.claims_made, self.nodes_made, self.nodes_gone) = (0, 0, 0);
        (self.last_change, self.last_bound) = (now, now);
    }

    /// When something last came or went, or a pod got its node.
    pub(super) fn last(&self) -> Instant {
        self.last_change.max(self.last_bound)
    }

    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn dollars_per_hour(&self) -> f64 {
        // In the order of the names, so that equal nodes give equal sums.
        self.nodes.values().map(|(_, price)| price).sum()
    }

    pub(super) fn evictions(&self) -> usize {
        self.evicted.len()
    }

    pub(super) fn claims_made(&self) -> usize {
        self.claims_made
    }

    pub(super) fn claims_disrupted(&self) -> usize {
        self.disrupted.len()
    }

    pub(super) fn nodes_made(&self) -> usize {
        self.nodes_made
    }

    pub(super) fn nodes_gone(&self) -> usize {
        self.nodes_gone
    }

    pub(super) fn ready(&self) -> usize {
        self.count(Place::Running)
    }

    /// So many pods run, none waits or leaves, and no node or claim is about to go.
    pub(super) fn is_settled(&self, pods: usize) -> bool {
        let stays = |presence: &Presence| *presence == Presence::Stays;
        self.pods.len() == pods
            && self.pods.values().all(|place| *place == Place::Running)
            && self.claims.values().all(stays)
            && self.nodes.values().all(|(presence, _)| stays(presence))
            && self.claims.len() == self.nodes.len()
    }

    /// For people, when something does not come to rest.
    pub(super) fn describe(&self) -> String {
        let leaving = self.nodes.values().filter(|(presence, _)| *presence == Presence::Leaves).count();
        format!(
            "{} claims, {} nodes of which {leaving} are leaving, pods: {} run, {} wait, {} leave",
            self.claims.len(),
            self.nodes.len(),
            self.ready(),
            self.count(Place::Waiting),
            self.count(Place::Leaving)
        )
    }

    fn count(&self, wanted: Place) -> usize {
        self.pods.values().filter(|place| **place == wanted).count()
    }

    pub(super) fn see(&mut self, change: Change, now: Instant) -> Result<()> {
        match change {
            Change::Claim(WatchEvent::Added(claim) | WatchEvent::Modified(claim)) => self.see_claim(&claim, now),
            Change::Claim(WatchEvent::Deleted(claim)) => {
                self.disrupted.insert(claim.name_any());
                self.claims.remove(&claim.name_any());
                self.last_change = now;
            }
            Change::Node(WatchEvent::Added(node) | WatchEvent::Modified(node)) => self.see_node(&node, now),
            Change::Node(WatchEvent::Deleted(node)) => {
                self.nodes.remove(&node.name_any());
                self.nodes_gone += 1;
                self.last_change = now;
            }
            Change::Pod(WatchEvent::Added(pod) | WatchEvent::Modified(pod)) => self.see_pod(&pod, now),
            Change::Pod(WatchEvent::Deleted(pod)) => {
                self.see_pod(&pod, now);
                self.pods.remove(&pod.name_any());
            }
            Change::Claim(WatchEvent::Error(error))
            | Change::Node(WatchEvent::Error(error))
            | Change::Pod(WatchEvent::Error(error)) => bail!("a watch was ended: {}", error.message),
            _ => {}
        }
        Ok(())
    }

    fn see_claim(&mut self, claim: &NodeClaim, now: Instant) {
        let presence = presence_of(claim);
        if presence == Presence::Leaves || is_chosen(claim) {
            self.disrupted.insert(claim.name_any());
        }
        if self.claims.insert(claim.name_any(), presence).is_none() {
            self.last_change = now;
            self.claims_made += 1;
        }
    }

    fn see_node(&mut self, node: &Node, now: Instant) {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let is_closed = taints.into_iter().any(|taint| taint.key == DISRUPTED);
        let presence = if is_closed { Presence::Leaves } else { presence_of(node) };
        let price = node.labels().get(PRICE).and_then(|price| price.parse().ok()).unwrap_or_default();
        if self.nodes.insert(node.name_any(), (presence, price)).is_none() {
            self.last_change = now;
            self.nodes_made += 1;
        }
    }

    fn see_pod(&mut self, pod: &Pod, now: Instant) {
        let conditions = || pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let holds = |type_: &str| conditions().any(|condition| condition.type_ == type_ && condition.status == "True");
        // The API server says so of every pod that was evicted through it.
        if holds("DisruptionTarget") {
            self.evicted.extend(pod.uid());
        }
        let place = match (pod.metadata.deletion_timestamp.is_some(), holds("Ready")) {
            (true, _) => Place::Leaving,
            (false, true) => Place::Running,
            (false, false) => Place::Waiting,
        };
        let before = self.pods.insert(pod.name_any(), place);
        if place == Place::Running && before != Some(Place::Running) {
            self.last_bound = now;
        }
    }
}

fn presence_of(object: &impl ResourceExt) -> Presence {
    if object.meta().deletion_timestamp.is_some() { Presence::Leaves } else { Presence::Stays }
}

/// Somebody wants it to go, though it may be taken back.
fn is_chosen(claim: &NodeClaim) -> bool {
    let mut conditions = claim.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == DISRUPTION_REASON && condition.status == ConditionStatus::True)
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::super::objects::class_reference;
    use super::*;

    const MOMENT: &str = "2026-01-01T00:00:00Z";

    /// The watch events `added`, `modified` and `deleted`, of objects as they are on the wire.
    fn event<K: DeserializeOwned>(word: &str, object: Value) -> WatchEvent<K> {
        let object = serde_json::from_value(object).unwrap();
        match word {
            "added" => WatchEvent::Added(object),
            "modified" => WatchEvent::Modified(object),
            _ => WatchEvent::Deleted(object),
        }
    }

    fn condition(type_: &str) -> Value {
        json!({"type": type_, "status": "True", "lastTransitionTime": MOMENT, "reason": "Because", "message": ""})
    }

    fn claim(word: &str, name: &str, conditions: &[&str]) -> Change {
        let conditions: Vec<Value> = conditions.iter().map(|type_| condition(type_)).collect();
        Change::Claim(event(
            word,
            json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name},
                "spec": {"nodeClassRef": class_reference(), "requirements": []},
                "status": {"conditions": conditions},
            }),
        ))
    }

    fn node(word: &str, name: &str, price: &str) -> Change {
        Change::Node(event(word, json!({"metadata": {"name": name, "labels": {PRICE: price}}})))
    }

    fn pod(word: &str, name: &str, conditions: &[&str]) -> Change {
        let conditions: Vec<Value> = conditions.iter().map(|type_| condition(type_)).collect();
        let metadata = json!({"name": name, "uid": format!("uid-of-{name}")});
        Change::Pod(event(word, json!({"metadata": metadata, "status": {"conditions": conditions}})))
    }

    fn see(seen: &mut Seen, changes: impl IntoIterator<Item = Change>) {
        let now = Instant::now();
        changes.into_iter().try_for_each(|change| seen.see(change, now)).unwrap();
    }

    /// One node with its claim and two pods that run, before anything is counted.
    fn resting() -> Seen {
        let mut seen = Seen::new(Instant::now());
        let pods = ["one", "two"].map(|name| pod("added", name, &["Ready"]));
        see(&mut seen, [claim("added", "a", &[]), node("added", "a", "0.5")].into_iter().chain(pods));
        assert!(seen.is_settled(2), "{}", seen.describe());
        seen.begin(Instant::now());
        seen
    }

    #[test]
    fn a_replacement_is_a_node_made_a_node_gone_and_a_claim_disrupted() {
        let mut seen = resting();
        see(&mut seen, [claim("modified", "a", &["DisruptionReason"]), claim("added", "b", &[])]);
        see(&mut seen, [node("added", "b", "0.2"), node("modified", "b", "0.2")]);
        assert_eq!((seen.nodes(), seen.dollars_per_hour()), (2, 0.7));
        see(&mut seen, [claim("deleted", "a", &[]), node("deleted", "a", "0.5")]);
        assert_eq!((seen.nodes(), seen.dollars_per_hour()), (1, 0.2));
        assert_eq!((seen.claims_made(), seen.claims_disrupted()), (1, 1));
        assert_eq!((seen.nodes_made(), seen.nodes_gone()), (1, 1));
    }

    #[test]
    fn a_disruption_that_is_taken_back_counts_once() {
        let mut seen = resting();
        for conditions in [&["DisruptionReason"][..], &[], &["DisruptionReason"], &["Drifted"]] {
            see(&mut seen, [claim("modified", "a", conditions)]);
        }
        assert_eq!((seen.claims_disrupted(), seen.nodes_gone()), (1, 0));
    }

    #[test]
    fn an_eviction_counts_once_and_a_pod_that_is_just_ended_does_not() {
        let mut seen = resting();
        see(&mut seen, [pod("modified", "one", &["Ready", "DisruptionTarget"])]);
        see(&mut seen, [pod("deleted", "one", &["Ready", "DisruptionTarget"]), pod("deleted", "two", &["Ready"])]);
        assert_eq!((seen.evictions(), seen.ready()), (1, 0));
        see(&mut seen, [pod("added", "three", &[]), pod("added", "four", &["Ready"])]);
        assert_eq!((seen.evictions(), seen.ready()), (1, 1));
    }

    #[test]
    fn what_was_there_before_the_count_began_is_not_counted() {
        let seen = resting();
        assert_eq!((seen.claims_made(), seen.nodes_made(), seen.evictions()), (0, 0, 0));
        assert_eq!((seen.claims_disrupted(), seen.nodes_gone(), seen.ready()), (0, 0, 2));
    }
}
