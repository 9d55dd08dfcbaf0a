//! What the store promises, by what goes wrong in clusters: late facts, lost facts, facts twice, names used again.

mod assumed;
mod disturbing;
mod machines;
mod moved;
mod pods;
mod pools;
mod shuffled;
mod stopped;
mod synced;
mod times;

use std::sync::Arc;

use model::ids::{NodeName, PodName};
use model::time::Instant;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::object::Object;

pub(super) const CLASS_LABEL: &str = "karpenter.kwok.sh/kwoknodeclass";

pub(super) fn at(second: i64) -> Instant {
    Instant::from_unix_seconds(second)
}

pub(super) fn store() -> Store {
    let classes = NodeClasses::new([("karpenter.kwok.sh", "KWOKNodeClass")]);
    Store::new(Settings { classes, ..Settings::default() }, at(0))
}

pub(super) fn read<T: DeserializeOwned>(wire: Value) -> T {
    serde_json::from_value(wire.clone()).unwrap_or_else(|error| panic!("{error}: {wire}"))
}

pub(super) fn merged(mut base: Value, change: Value) -> Value {
    fn merge(base: &mut Value, change: Value) {
        match (base, change) {
            (Value::Object(base), Value::Object(change)) => {
                for (key, value) in change {
                    merge(base.entry(key).or_insert(Value::Null), value);
                }
            }
            (base, change) => *base = change,
        }
    }
    merge(&mut base, change);
    base
}

/// A pod of namespace `shop` that asks for one cpu.
pub(super) fn pod(name: &str, change: Value) -> Object {
    let base = json!({
        "metadata": {"namespace": "shop", "name": name, "uid": format!("{name}-uid"), "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    });
    Object::from(read::<k8s_openapi::api::core::v1::Pod>(merged(base, change)))
}

pub(super) fn waiting() -> Value {
    json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}})
}

pub(super) fn bound(node: &str) -> Value {
    json!({"spec": {"nodeName": node}})
}

pub(super) fn version(number: u64) -> Value {
    json!({"metadata": {"resourceVersion": number.to_string()}})
}

pub(super) fn deleting() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
}

/// A Node of ours of pool `a`, registered and initialized.
pub(super) fn node(name: &str, id: &str, change: Value) -> Object {
    let base = json!({
        "metadata": {"name": name, "uid": format!("{name}-uid"), "labels": {
            CLASS_LABEL: "default", "karpenter.sh/nodepool": "a", "node.kubernetes.io/instance-type": "m",
            "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        }},
        "spec": {"providerID": id},
        "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}},
    });
    Object::from(read::<k8s_openapi::api::core::v1::Node>(merged(base, change)))
}

/// What turns a Node of ours into somebody else's.
pub(super) fn foreign() -> Value {
    let no = Value::Null;
    json!({"metadata": {"labels": null}, "spec": {"providerID": no}})
}

pub(super) fn not_registered() -> Value {
    json!({"metadata": {"labels": {"karpenter.sh/registered": "", "karpenter.sh/initialized": ""}}})
}

/// A claim of ours of pool `a` that was not launched yet.
pub(super) fn claim(name: &str, change: Value) -> api::NodeClaim {
    let base = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "uid": format!("{name}-uid"), "labels": {
            CLASS_LABEL: "default", "karpenter.sh/nodepool": "a",
        }},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [],
        },
    });
    read(merged(base, change))
}

pub(super) fn launched(id: &str) -> Value {
    json!({"status": {"providerID": id, "capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}})
}

pub(super) fn node_pool(name: &str, change: Value) -> Object {
    let base = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name, "uid": format!("{name}-uid")},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [],
        }}},
    });
    Object::from(read::<api::NodePool>(merged(base, change)))
}

pub(super) fn condition(type_: &str, status: &str) -> Value {
    json!({"status": {"conditions": [
        {"type": type_, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]}})
}

pub(super) fn machine_type(name: &str) -> Arc<model::instance::InstanceType> {
    let requirements = model::requirements::Requirements::default();
    Arc::new(model::instance::InstanceType {
        name: name.into(),
        requirements,
        capacity: model::resources::Resources::default().with("cpu", 4000),
        overhead: Default::default(),
        offerings: Vec::new(),
        attach_limits: Default::default(),
        has_capacity_overlay: false,
    })
}

pub(super) fn named(name: &str) -> PodName {
    PodName::new("shop", name)
}

impl Store {
    fn is_nominated(&self, name: &NodeName, now: Instant) -> bool {
        self.nominated(now).contains(name)
    }

    /// Takes in objects at second zero, where nobody looks at what comes of it.
    pub(super) fn with(mut self, objects: impl IntoIterator<Item = Object>) -> Self {
        for object in objects {
            self.apply(object, at(0));
        }
        self
    }

    pub(super) fn end(&mut self, object: Object) -> Change {
        self.delete(&object.gone(), at(0))
    }

    /// The names under which machines are shown.
    pub(super) fn shown(&self) -> Vec<&str> {
        self.machines().keys().map(NodeName::as_str).collect()
    }

    pub(super) fn cpu_used(&self, node: &str) -> i64 {
        self.usage(&node.into()).requests.cpu_milli
    }
}
