//! The taints that a node's conditions ask for.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::apiserver::ApiServer;
use crate::fields::{condition, each, stamp};
use crate::kinds::Kind;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Condition, status, taint.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];

/// Brings a node's taints up to its conditions. Gives the node as it is then, if it had to be changed.
pub(super) fn write(node: &Value, server: &ApiServer) -> Option<Arc<Value>> {
    let wanted = wanted(node);
    let is_owned = |taint: &Value| {
        let key = taint["key"].as_str().unwrap_or_default();
        match taint["effect"].as_str() {
            Some("NoSchedule") => key == UNSCHEDULABLE || BY_CONDITION.iter().any(|(_, _, owned)| *owned == key),
            // Without a word about readiness nothing is known, and these stay as they are.
            Some("NoExecute") => [NOT_READY, UNREACHABLE].contains(&key) && condition(node, "Ready").is_some(),
            _ => false,
        }
    };
    let is_wanted =
        |taint: &Value| wanted.iter().any(|(key, effect)| taint["key"] == *key && taint["effect"] == *effect);
    let present = &node["spec"]["taints"];
    let mut taints: Vec<Value> = each(present).filter(|taint| !is_owned(taint) || is_wanted(taint)).cloned().collect();
    let kept = taints.len();
    for (key, effect) in &wanted {
        if !taints.iter().any(|taint| taint["key"] == *key && taint["effect"] == *effect) {
            taints.push(json!({"key": key, "effect": effect, "timeAdded": stamp(server.now())}));
        }
    }
    if taints.len() == kept && each(present).count() == kept {
        return None;
    }
    let taints = if taints.is_empty() { Value::Null } else { Value::Array(taints) };
    // A node that has gone meanwhile needs no taints.
    server.patch(Kind::Node, &crate::fields::at(node), &json!({"spec": {"taints": taints}})).ok()
}

fn wanted(node: &Value) -> Vec<(&'static str, &'static str)> {
    let mut wanted = Vec::new();
    for (of_type, status, key) in BY_CONDITION {
        if condition(node, of_type).is_some_and(|condition| condition["status"] == status) {
            wanted.push((key, "NoSchedule"));
            if of_type == "Ready" {
                wanted.push((key, "NoExecute"));
            }
        }
    }
    if node["spec"]["unschedulable"] == true {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    wanted
}
