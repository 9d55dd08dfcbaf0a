//! Which nodes a daemon runs on.

use serde_json::{Value, json};

use crate::fields::{each, is_tolerated, matches_node_terms};

/// Daemons come to nodes in any state but those that somebody shut off for good.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
const TOLERATED_ON_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// What a node is to a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) should_run: bool,
    /// A pod that is there already stays.
    pub(super) may_stay: bool,
}

pub(super) fn suits(spec: &Value, node: &Value) -> Verdict {
    let selector = spec["nodeSelector"].as_object().into_iter().flatten();
    let node_labels = &node["metadata"]["labels"];
    let is_selected = selector.into_iter().all(|(key, value)| node_labels[key.as_str()] == *value);
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let is_near = required.is_null() || matches_node_terms(&required["nodeSelectorTerms"], node);
    let is_named = spec["nodeName"].as_str().is_none_or(|name| name.is_empty() || node["metadata"]["name"] == name);
    if !is_selected || !is_near || !is_named {
        return Verdict { should_run: false, may_stay: false };
    }
    let untolerated = |effect: &str| {
        each(&node["spec"]["taints"])
            .any(|taint| taint["effect"] == effect && !is_tolerated(taint, &spec["tolerations"]))
    };
    let may_stay = !untolerated("NoExecute");
    Verdict { should_run: may_stay && !untolerated("NoSchedule"), may_stay }
}

/// The template with the tolerations that every daemon gets.
pub(super) fn with_tolerations(template: &Value) -> Value {
    let mut template = template.clone();
    let spec = &mut template["spec"];
    let on_host = (spec["hostNetwork"] == true).then_some(TOLERATED_ON_HOST_NETWORK);
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for (key, effect) in TOLERATED.into_iter().chain(on_host) {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    spec["tolerations"] = Value::Array(tolerations);
    template
}

/// Ties a pod to a node by name, in place of whatever nodes its template requires: those have been looked at already.
pub(super) fn aim(spec: &mut Value, node: &str) {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
}

pub(super) fn aimed_at(pod: &Value) -> Option<&str> {
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let mut fields = each(&required["nodeSelectorTerms"]).flat_map(|term| each(&term["matchFields"]));
    fields.find(|field| field["key"] == "metadata.name")?["values"][0].as_str()
}
