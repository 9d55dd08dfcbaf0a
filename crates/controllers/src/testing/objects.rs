//! Objects that most tests need, in their plainest form.

use serde_json::{Value, json};

/// A KWOKNodeClass that is ready.
pub(crate) fn node_class(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": name, "generation": 1},
        "spec": {}, "status": {"conditions": [condition("Ready")]},
    })
}

fn condition(type_: &str) -> Value {
    json!({
        "type": type_, "status": "True", "reason": type_, "message": "", "observedGeneration": 1,
        "lastTransitionTime": super::EPOCH,
    })
}

/// A NodePool that is ready and takes everything that the class `default` sells.
pub(crate) fn node_pool(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name, "generation": 1},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [],
        }}},
        "status": {"nodes": 0, "conditions": [condition("ValidationSucceeded"), condition("NodeClassReady"), condition("Ready")]},
    })
}

/// A pod that the scheduler has found no node for.
pub(crate) fn pending_pod(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": name, "creationTimestamp": super::EPOCH},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": super::EPOCH},
        ]},
    })
}

/// A pod that runs on a node.
pub(crate) fn pod_on(node: &str, name: &str, cpu: &str) -> Value {
    let running = json!({
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": super::EPOCH},
            {"type": "Ready", "status": "True", "lastTransitionTime": super::EPOCH},
        ]},
    });
    merged(pending_pod(name, cpu), running)
}

/// A claim of a pool that has come all the way, and its Node of the same name.
pub(crate) fn machine(name: &str, pool: &str) -> [Value; 2] {
    let labels = json!({
        "karpenter.sh/nodepool": pool, "karpenter.kwok.sh/kwoknodeclass": "default",
        "node.kubernetes.io/instance-type": "c-4x-amd64-linux", "topology.kubernetes.io/zone": "test-zone-a",
        "karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
    });
    let (id, stages) = (format!("kwok://{name}"), ["Launched", "Registered", "Initialized", "Ready"].map(condition));
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": name, "uid": format!("claim-{name}"), "generation": 1, "creationTimestamp": super::EPOCH, "labels": labels,
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [], "expireAfter": "Never",
        },
        "status": {
            "providerID": id, "nodeName": name, "imageID": "image-1",
            "capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "4", "memory": "8Gi"},
            "conditions": stages,
        },
    });
    let known = json!({"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"});
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "uid": format!("node-{name}"), "creationTimestamp": super::EPOCH, "labels": merged(labels, known),
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {"providerID": id},
        "status": {
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": super::EPOCH}],
        },
    });
    [claim, node]
}

/// The first document, changed by the second as a merge patch would.
pub(crate) fn merged(mut base: Value, patch: Value) -> Value {
    super::apiserver::merge(&mut base, &patch);
    base
}
