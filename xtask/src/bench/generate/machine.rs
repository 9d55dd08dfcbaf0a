//! A machine that has come: its claim and its Node.

use serde_json::{Value, json};

use super::draft::{CLASS_GROUP, CLASS_KIND, CREATED, HOSTNAME, POOL, ZONE, condition};

/// Conditions that every claim of a machine has that takes pods.
pub(super) const CAME: [&str; 4] = ["Launched", "Registered", "Initialized", "Ready"];
/// Of one that nothing has come to or gone from for as long as its pool asks for.
pub(super) const SETTLED: [&str; 5] = ["Launched", "Registered", "Initialized", "Ready", "Consolidatable"];

#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) number: usize,
    pub(super) type_name: String,
    pub(super) zone: String,
    pub(super) capacity: Value,
    pub(super) allocatable: Value,
    /// Labels beyond type, zone, pool and class, which every machine has.
    pub(super) labels: Vec<(String, String)>,
    pub(super) conditions: &'static [&'static str],
}

impl Machine {
    pub(super) fn name(&self) -> String {
        format!("node-{:05}", self.number)
    }

    fn provider_id(&self) -> String {
        format!("bench:///{}/{}", self.zone, self.number)
    }

    fn labels(&self) -> Value {
        let mut labels = json!({
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": self.type_name,
            "karpenter.sh/capacity-type": "on-demand",
            "karpenter.sh/nodepool": POOL,
            api::labels::node_class_label(CLASS_GROUP, CLASS_KIND): "default",
        });
        labels[ZONE] = json!(self.zone);
        for (key, value) in &self.labels {
            labels[key] = json!(value);
        }
        labels
    }

    pub(super) fn claim(&self) -> Value {
        let conditions: Vec<Value> = self.conditions.iter().map(|type_| condition(type_)).collect();
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("{POOL}-{:05}", self.number), "creationTimestamp": CREATED, "labels": self.labels()},
            "spec": {
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [self.type_name]},
                ],
                "nodeClassRef": {"group": CLASS_GROUP, "kind": CLASS_KIND, "name": "default"},
                "expireAfter": "Never",
            },
            "status": {
                "providerID": self.provider_id(), "nodeName": self.name(),
                "capacity": self.capacity, "allocatable": self.allocatable, "conditions": conditions,
            },
        })
    }

    pub(super) fn node(&self) -> Value {
        let mut labels = self.labels();
        labels[HOSTNAME] = json!(self.name());
        labels["karpenter.sh/registered"] = json!("true");
        labels["karpenter.sh/initialized"] = json!("true");
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": self.name(), "creationTimestamp": CREATED, "labels": labels},
            "spec": {"providerID": self.provider_id()},
            "status": {
                "capacity": self.capacity, "allocatable": self.allocatable,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        })
    }
}
