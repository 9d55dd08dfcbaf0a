//! Which pods use which claims.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::apiserver::{ApiServer, At, Change};
use crate::fields::{at_in, each, is_terminal, name, namespace, node_of, owner_reference};
use crate::kinds::Kind;

/// Pods that are bound to a node, by the claims that they name.
#[derive(Debug, Default)]
pub(super) struct Users {
    by_claim: BTreeMap<At, BTreeMap<At, Arc<str>>>,
}

impl Users {
    /// Says which claims have gained or lost a user.
    pub(super) fn heed(&mut self, change: &Change) -> BTreeSet<At> {
        let uses = |pod: &Option<Arc<Value>>| -> BTreeMap<At, Arc<str>> {
            let Some(pod) = pod.as_ref().filter(|pod| !is_terminal(pod)) else { return BTreeMap::new() };
            let Some(node) = node_of(pod) else { return BTreeMap::new() };
            claims_of(pod).map(|claim| (claim, Arc::from(node))).collect()
        };
        let (before, after) = (uses(&change.before), uses(&change.after));
        if before == after {
            return BTreeSet::new();
        }
        for claim in before.keys() {
            if let Some(pods) = self.by_claim.get_mut(claim) {
                pods.remove(&change.at);
                if pods.is_empty() {
                    self.by_claim.remove(claim);
                }
            }
        }
        for (claim, node) in &after {
            self.by_claim.entry(claim.clone()).or_default().insert(change.at.clone(), node.clone());
        }
        before.into_keys().chain(after.into_keys()).collect()
    }

    pub(super) fn is_in_use(&self, claim: &At) -> bool {
        self.by_claim.contains_key(claim)
    }

    /// The nodes that a claim's pods run on.
    pub(super) fn nodes(&self, claim: &At) -> BTreeSet<Arc<str>> {
        self.by_claim.get(claim).into_iter().flat_map(|pods| pods.values().cloned()).collect()
    }
}

/// The claims that a pod names, those made for it alone included.
pub(super) fn claims_of(pod: &Value) -> impl Iterator<Item = At> + '_ {
    each(&pod["spec"]["volumes"]).filter_map(|volume| {
        if let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() {
            return Some(at_in(namespace(pod), claim));
        }
        volume["ephemeral"].is_object().then(|| at_in(namespace(pod), &ephemeral_name(pod, volume)))
    })
}

fn ephemeral_name(pod: &Value, volume: &Value) -> String {
    format!("{}-{}", name(pod), name_of_volume(volume))
}

fn name_of_volume(volume: &Value) -> &str {
    volume["name"].as_str().unwrap_or_default()
}

/// Claims that live and die with a pod.
pub(super) fn create_ephemeral_claims(at: &At, server: &ApiServer) {
    let Some(pod) = server.get(Kind::Pod, at) else { return };
    for volume in each(&pod["spec"]["volumes"]).filter(|volume| volume["ephemeral"].is_object()) {
        let template = &volume["ephemeral"]["volumeClaimTemplate"];
        let mut metadata = template["metadata"].clone();
        if !metadata.is_object() {
            metadata = json!({});
        }
        metadata["name"] = json!(ephemeral_name(&pod, volume));
        metadata["namespace"] = json!(namespace(&pod));
        metadata["ownerReferences"] = json!([owner_reference(&pod)]);
        // One that is there already is somebody else's; the pod then waits for ever, as it would in a real cluster.
        let _ = server.create(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"],
        }));
    }
}
