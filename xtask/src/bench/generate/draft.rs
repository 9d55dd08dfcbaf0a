//! A workload while it is written down: templates that stand once each, pods with ids of their own, and the one pool.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::diverse::Size;
use crate::bench::file::{FORMAT, MinValues, PodEntry, Policy, Preferences, TypeEntry, Workload};

pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const POOL: &str = "default";
pub(super) const CLASS_GROUP: &str = "bench.dovetail.dev";
pub(super) const CLASS_KIND: &str = "BenchNodeClass";
/// When everything was made; the reference breaks ties by age, and nothing here is older than anything else.
pub(super) const CREATED: &str = "2026-01-01T00:00:00Z";
const NAMESPACE: &str = "default";

pub(super) struct Draft {
    workload: Workload,
    /// Where each template stands, by its text.
    templates: BTreeMap<String, usize>,
    pods: usize,
}

/// What the pods of a template are like.
#[derive(Clone)]
pub(super) struct PodShape {
    size: Size,
    gpus: u32,
    labels: Map<String, Value>,
    /// Parts of the spec beside the container.
    spec: Map<String, Value>,
}

impl PodShape {
    pub(super) fn new(size: Size) -> Self {
        Self { size, gpus: 0, labels: Map::new(), spec: Map::new() }
    }

    pub(super) fn gpus(mut self, count: u32) -> Self {
        self.gpus = count;
        self
    }

    pub(super) fn labelled(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), json!(value));
        self
    }

    pub(super) fn with(mut self, field: &str, value: Value) -> Self {
        self.spec.insert(field.to_owned(), value);
        self
    }

    fn object(&self, status: Value) -> Value {
        let mut requests = json!({"cpu": self.size.cpu(), "memory": self.size.memory()});
        let mut resources = json!({});
        if self.gpus > 0 {
            // An extended resource has a limit, and the request is the same.
            requests["nvidia.com/gpu"] = json!(self.gpus.to_string());
            resources["limits"] = json!({"nvidia.com/gpu": self.gpus.to_string()});
        }
        resources["requests"] = requests;
        let mut spec = self.spec.clone();
        spec.insert("containers".to_owned(), json!([{"name": "main", "image": "main:1", "resources": resources}]));
        json!({
            "metadata": {"creationTimestamp": CREATED, "labels": self.labels},
            "spec": spec,
            "status": status,
        })
    }
}

impl Draft {
    /// A world with one pool that may buy all types, within requirements and limits that nobody reaches.
    pub(super) fn new(name: &str, types: Vec<TypeEntry>, requirements: Value) -> Self {
        let conditions: Vec<Value> =
            ["ValidationSucceeded", "NodeClassReady", "Ready"].into_iter().map(condition).collect();
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": POOL},
            "spec": {
                "template": {"spec": {
                    "requirements": requirements,
                    "nodeClassRef": {"group": CLASS_GROUP, "kind": CLASS_KIND, "name": "default"},
                    "expireAfter": "Never",
                }},
                "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"},
                "limits": {"cpu": "10000000", "memory": "10000000Gi"},
            },
            "status": {"conditions": conditions},
        });
        let workload = Workload {
            format: FORMAT,
            name: name.to_owned(),
            policy: Policy { preferences: Preferences::Respect, min_values: MinValues::Strict },
            well_known_labels: Vec::new(),
            reservation_id_label: String::new(),
            types,
            pools: vec![pool],
            pool_types: BTreeMap::new(),
            namespaces: Vec::new(),
            node_claims: Vec::new(),
            nodes: Vec::new(),
            daemon_sets: Vec::new(),
            pod_templates: Vec::new(),
            bound_pods: Vec::new(),
            pods: Vec::new(),
        };
        Self { workload, templates: BTreeMap::new(), pods: 0 }
    }

    pub(super) fn with_labels(mut self, keys: impl IntoIterator<Item = String>) -> Self {
        self.workload.well_known_labels = keys.into_iter().collect();
        self
    }

    pub(super) fn set_preferences(&mut self, policy: Preferences) {
        self.workload.policy.preferences = policy;
    }

    /// How many nodes may leave at a time.
    pub(super) fn set_budget(&mut self, nodes: &str) {
        for pool in &mut self.workload.pools {
            pool["spec"]["disruption"]["budgets"] = json!([{"nodes": nodes}]);
        }
    }

    pub(super) fn types(&self) -> &[TypeEntry] {
        &self.workload.types
    }

    /// The place of a template for pods that wait.
    pub(super) fn template(&mut self, shape: &PodShape) -> usize {
        let unschedulable = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
        self.place(shape.object(json!({"phase": "Pending", "conditions": [unschedulable]})))
    }

    /// The place of a template for pods that run.
    pub(super) fn running_template(&mut self, shape: &PodShape) -> usize {
        let conditions = json!([{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]);
        self.place(shape.object(json!({"phase": "Running", "conditions": conditions})))
    }

    fn place(&mut self, object: Value) -> usize {
        let templates = &mut self.workload.pod_templates;
        *self.templates.entry(object.to_string()).or_insert_with(|| {
            templates.push(object);
            templates.len() - 1
        })
    }

    /// Adds a pod that wants a place.
    pub(super) fn wait(&mut self, template: usize, name: &str, labels: Option<BTreeMap<String, String>>) {
        let entry = self.entry(template, name, labels, None);
        self.workload.pods.push(entry);
    }

    /// Adds a pod that runs on a node.
    pub(super) fn run(&mut self, template: usize, name: &str, node: &str) {
        let entry = self.entry(template, name, None, Some(node.to_owned()));
        self.workload.bound_pods.push(entry);
    }

    fn entry(
        &mut self,
        template: usize,
        name: &str,
        labels: Option<BTreeMap<String, String>>,
        node: Option<String>,
    ) -> PodEntry {
        self.pods += 1;
        let uid = format!("00000000-0000-4000-8000-{:012}", self.pods);
        PodEntry { template, name: name.to_owned(), namespace: NAMESPACE.to_owned(), uid, labels, node }
    }

    /// Adds a machine that has come: its claim and its Node.
    pub(super) fn stand(&mut self, claim: Value, node: Value) {
        self.workload.node_claims.push(claim);
        self.workload.nodes.push(node);
    }

    pub(super) fn finish(self) -> Workload {
        self.workload
    }
}

pub(super) fn condition(type_: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": CREATED})
}
