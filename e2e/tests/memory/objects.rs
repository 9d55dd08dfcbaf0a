//! A large cluster in the shape that a live one has: what API servers, kubelets and our own controller would have written.

use anyhow::{Context, Result};
use api::hash::{NODE_POOL_HASH_VERSION, node_pool_hash};
use api::labels::{TERMINATION_FINALIZER, annotations};
use serde_json::{Value, json};

const POOL: &str = "general";
pub(crate) const PODS_PER_SET: usize = 100;
const MACHINE: &str = "s-16x-amd64-linux";

pub(crate) fn class() -> Value {
    json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}})
}

pub(crate) fn pool() -> Value {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let requirements = json!([
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]);
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": POOL}, "spec": {
        "template": {"spec": {"nodeClassRef": class, "requirements": requirements, "expireAfter": "Never"}},
        "disruption": {"consolidateAfter": "Never"},
    }})
}

/// A budget for every tenth set of pods.
pub(crate) fn budget(set: usize) -> Value {
    let name = set_name(set);
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace(set)},
        "spec": {"maxUnavailable": "10%", "selector": {"matchLabels": {"app.kubernetes.io/name": name}}}})
}

pub(crate) fn namespace_object(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("team-{number}")}})
}

/// Who the pods of a set belong to. Nobody here acts on it.
pub(crate) fn replica_set(set: usize) -> Value {
    let (name, labels) = (set_name(set), labels_of_set(set));
    let containers = json!([{"name": "app", "image": "app"}]);
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": format!("{name}-{}", hash_of_set(set)), "namespace": namespace(set), "labels": labels},
        "spec": {"replicas": PODS_PER_SET, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}},
    })
}

fn labels_of_set(set: usize) -> Value {
    json!({
        "app.kubernetes.io/name": set_name(set), "app.kubernetes.io/part-of": "shop", "pod-template-hash": hash_of_set(set),
    })
}

fn hash_of_set(set: usize) -> String {
    format!("{:010x}", set * 7919)
}

/// A claim whose machine has long been part of the cluster. `pool` is the pool as the server stored it.
pub(crate) fn claim(number: usize, pool: &Value) -> Result<Value> {
    let spec = serde_json::from_value(pool["spec"].clone()).context("reading the pool")?;
    let labels = json!({
        "karpenter.sh/nodepool": POOL, "karpenter.kwok.sh/kwoknodeclass": "default",
        "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "karpenter.sh/capacity-type": "on-demand",
        "node.kubernetes.io/instance-type": MACHINE, "topology.kubernetes.io/zone": zone(number),
    });
    let template = &pool["spec"]["template"]["spec"];
    let types: Vec<String> = (0..60).map(|size| format!("s-{size}x-amd64-linux")).collect();
    let requirements = json!([
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
    ]);
    Ok(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": claim_name(number), "labels": labels, "finalizers": [TERMINATION_FINALIZER],
            "annotations": {
                annotations::NODE_POOL_HASH: node_pool_hash(&spec),
                annotations::NODE_POOL_HASH_VERSION: NODE_POOL_HASH_VERSION,
            },
            "ownerReferences": [{
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": POOL, "uid": pool["metadata"]["uid"],
                "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "nodeClassRef": template["nodeClassRef"], "requirements": requirements, "expireAfter": "Never",
            "resources": {"requests": {"cpu": "5", "memory": "10Gi", "pods": "20"}},
        },
    }))
}

pub(crate) fn claim_status(number: usize, now: &str) -> Value {
    let conditions = ["ConsistentStateFound", "Initialized", "Launched", "Ready", "Registered"];
    let condition =
        |name: &str| json!({"type": name, "status": "True", "reason": name, "message": "", "lastTransitionTime": now});
    json!({"status": {
        "providerID": provider_id(number), "nodeName": node_name(number), "capacity": capacity(), "allocatable": capacity(),
        "conditions": conditions.map(condition),
    }})
}

/// The Node of a claim that the server has stored.
pub(crate) fn node(number: usize, claim: &Value, now: &str) -> Value {
    let (name, uid) = (claim_name(number), &claim["metadata"]["uid"]);
    let mut labels = claim["metadata"]["labels"].clone();
    for (key, value) in [
        ("kubernetes.io/hostname", name.as_str()),
        ("karpenter.sh/registered", "true"),
        ("karpenter.sh/initialized", "true"),
        ("topology.kubernetes.io/region", "local"),
    ] {
        labels[key] = value.into();
    }
    let mut notes = claim["metadata"]["annotations"].clone();
    for (key, value) in [
        ("kwok.x-k8s.io/node", &json!("fake")),
        ("karpenter.kwok.sh/nodeclaim", &json!(name)),
        ("karpenter.kwok.sh/nodeclaim-uid", uid),
    ] {
        notes[key] = value.clone();
    }
    let images: Vec<Value> = (0..20)
        .map(|image| json!({"names": [format!("registry.example.com/team/app-{image}:v1.2.3")], "sizeBytes": 123_456_789}))
        .collect();
    let info = json!({
        "kubeletVersion": "v1.36.0", "osImage": "Linux", "architecture": "amd64", "operatingSystem": "linux",
        "containerRuntimeVersion": "containerd://2.0.0", "kernelVersion": "6.12.0", "kubeProxyVersion": "",
        "bootID": uid, "machineID": uid, "systemUUID": uid,
    });
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": node_name(number), "labels": labels, "annotations": notes, "finalizers": [TERMINATION_FINALIZER],
            "ownerReferences": [{
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": name, "uid": uid, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"providerID": provider_id(number)},
        "status": {
            "capacity": capacity(), "allocatable": capacity(), "phase": "Running", "images": images, "nodeInfo": info,
            "conditions": conditions_of_node(now),
        },
    })
}

/// What a kubelet writes again and again.
pub(crate) fn conditions_of_node(now: &str) -> Value {
    let condition = |name: &str, status: &str| {
        json!({"type": name, "status": status, "reason": "KubeletSays", "message": "kubelet says so",
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    let pressures = ["DiskPressure", "MemoryPressure", "PIDPressure"].map(|name| condition(name, "False"));
    pressures.into_iter().chain([condition("Ready", "True")]).collect()
}

/// A pod of a set that the server has stored. `generation` tells it from those that it replaces.
pub(crate) fn pod(number: usize, generation: usize, set: &Value) -> Value {
    let name = set_name(set_of_pod(number));
    let container = json!({
        "name": "app", "image": format!("registry.example.com/team/{name}:v1.2.3"),
        "ports": [{"containerPort": 8080, "name": "http"}],
        "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "REGION", "value": "somewhere"}],
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "token", "readOnly": true}],
    });
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod_name(number, generation), "namespace": namespace(set_of_pod(number)),
            "labels": labels_of_set(set_of_pod(number)),
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set["metadata"]["name"],
                "uid": set["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "containers": [container], "serviceAccountName": "default", "enableServiceLinks": true,
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]}}],
        },
    })
}

pub(crate) fn running(now: &str, number: usize) -> Value {
    let condition = |name: &str| json!({"type": name, "status": "True", "lastTransitionTime": now});
    let names = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let address = format!("10.{}.{}.{}", number >> 16, (number >> 8) & 255, number & 255);
    json!({"status": {
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "hostIP": "10.0.0.1", "startTime": now,
        "conditions": names.map(condition),
        "containerStatuses": [{
            "name": "app", "ready": true, "started": true, "restartCount": 0, "image": "app", "imageID": "sha256:0",
            "containerID": "containerd://0", "state": {"running": {"startedAt": now}},
        }],
    }})
}

/// A pod that no node of the cluster has room for.
pub(crate) fn large_pod(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("large-{number}"), "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "app", "resources": {"requests": {"cpu": "14"}}}]},
    })
}

pub(crate) fn refused(now: &str) -> Value {
    json!({"status": {"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": now,
        "message": "0/5000 nodes are available: 5000 Insufficient cpu.",
    }]}})
}

fn capacity() -> Value {
    json!({"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"})
}

fn zone(number: usize) -> String {
    format!("test-zone-{}", ["a", "b", "c", "d"][number % 4])
}

fn claim_name(number: usize) -> String {
    format!("{POOL}-{number:05}")
}

pub(crate) fn node_name(number: usize) -> String {
    format!("kwok-{POOL}-{number:05}")
}

fn provider_id(number: usize) -> String {
    format!("kwok://{}", node_name(number))
}

pub(crate) fn namespace(set: usize) -> String {
    format!("team-{}", set % 50)
}

fn set_name(set: usize) -> String {
    format!("app-{set:04}")
}

pub(crate) fn set_of_pod(number: usize) -> usize {
    number / PODS_PER_SET
}

pub(crate) fn pod_name(number: usize, generation: usize) -> String {
    let set = set_of_pod(number);
    format!("{}-{}-{number:06}-{generation}", set_name(set), hash_of_set(set))
}
