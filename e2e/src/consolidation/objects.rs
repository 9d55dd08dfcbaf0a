//! What stories put into their clusters.

use serde_json::{Value, json};

/// The label by which pods of all stories are found.
pub(super) const SELECTOR: &str = "story=consolidation";
pub(super) const POOL: &str = "default";
pub(super) const CONSOLIDATE_AFTER: &str = "30s";

pub(super) fn class() -> Value {
    json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}})
}

/// A pool of machines of at most 16 cores on demand, all of which may be disrupted at once.
pub(super) fn pool(consolidate_after: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": POOL},
        "spec": {
            "template": {"spec": {
                "expireAfter": "Never",
                "nodeClassRef": class_reference(),
                "requirements": [
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "karpenter.kwok.sh/instance-size", "operator": "Lt", "values": ["32"]},
                ],
            }},
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": consolidate_after,
                "budgets": [{"nodes": "100%"}],
            },
        },
    })
}

pub(super) fn class_reference() -> Value {
    json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"})
}

/// Pods that ask for this much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) cpu_milli: u64,
    pub(super) memory_mib: u64,
}

/// What scale-downs are made of.
pub(super) const WEB: Kind = Kind { name: "web", cpu_milli: 1000, memory_mib: 256 };

impl Kind {
    pub(super) fn labels(&self) -> Value {
        json!({"story": "consolidation", "app": self.name})
    }

    pub(super) fn pod_spec(&self) -> Value {
        let requests = json!({"cpu": format!("{}m", self.cpu_milli), "memory": format!("{}Mi", self.memory_mib)});
        json!({"containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}]})
    }

    pub(super) fn deployment(&self, replicas: usize) -> Value {
        self.workload("Deployment", replicas)
    }

    pub(super) fn replica_set(&self, replicas: usize) -> Value {
        self.workload("ReplicaSet", replicas)
    }

    fn workload(&self, kind: &str, replicas: usize) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": self.name, "namespace": "default"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": self.name}},
                "template": {"metadata": {"labels": self.labels()}, "spec": self.pod_spec()},
            },
        })
    }
}
