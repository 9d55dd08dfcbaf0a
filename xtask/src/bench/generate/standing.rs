//! A cluster that is busy: nodes of many sizes, each with twenty pods, and some room left.

use serde_json::{Value, json};

use super::diverse::{Size, add_generic};
use super::draft::{CLASS_GROUP, CLASS_KIND, CREATED, Draft, HOSTNAME, POOL, PodShape, ZONE, condition};
use super::series;
use crate::bench::random::Random;

pub(super) const NODES: usize = 5_000;
const PODS_PER_NODE: usize = 20;
/// How full a node is at most, in hundredths of what pods can have.
const FULL_PERCENT: i64 = 85;

pub(super) fn add_cluster(draft: &mut Draft, nodes: usize, waiting: usize, random: &mut Random) {
    for number in 0..nodes {
        add_node(draft, number, random);
    }
    add_generic(draft, waiting, random);
}

/// The node is the smallest that its pods leave some room on.
fn add_node(draft: &mut Draft, number: usize, random: &mut Random) {
    let sizes: Vec<Size> = (0..PODS_PER_NODE).map(|_| Size::draw(random)).collect();
    let cpu: i64 = sizes.iter().map(|size| size.cpu_milli).sum();
    let memory: i64 = sizes.iter().map(|size| size.memory_mib).sum();
    let holds = |cores: &i64| {
        let (free_cpu, free_memory) = (cores * 1000 - 100, cores * 2048 - 10);
        cpu * 100 <= free_cpu * FULL_PERCENT && memory * 100 <= free_memory * FULL_PERCENT
    };
    let cores = (1..=400).find(holds).unwrap_or(400);
    let machine = Machine { number, cores, zone: series::ZONES[number % series::ZONES.len()] };
    draft.stand(machine.claim(), machine.node());
    for (index, size) in sizes.iter().enumerate() {
        let template = draft.running_template(&PodShape::new(*size).labelled("app", "resident"));
        draft.run(template, &format!("resident-{number}-{index}"), &machine.name());
    }
}

struct Machine {
    number: usize,
    cores: i64,
    zone: &'static str,
}

impl Machine {
    fn name(&self) -> String {
        format!("node-{:05}", self.number)
    }

    fn provider_id(&self) -> String {
        format!("bench:///{}/{}", self.zone, self.number)
    }

    fn labels(&self) -> Value {
        let mut labels = json!({
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": series::type_name(self.cores),
            "topology.kubernetes.io/region": series::REGION,
            "karpenter.sh/capacity-type": "on-demand",
            "karpenter.sh/nodepool": POOL,
            api::labels::node_class_label(CLASS_GROUP, CLASS_KIND): "default",
        });
        labels[ZONE] = json!(self.zone);
        for (key, value) in series::labels(self.cores) {
            labels[key] = json!(value);
        }
        labels
    }

    fn capacity(&self) -> Value {
        let (cores, bytes, pods) = series::amounts(self.cores);
        let memory = api::Quantity::from_bytes(bytes).to_string();
        json!({"cpu": cores.to_string(), "memory": memory, "pods": pods.to_string()})
    }

    fn allocatable(&self) -> Value {
        let (cores, bytes, pods) = series::amounts(self.cores);
        let cpu = api::Quantity::from_milli(cores * 1000 - 100).to_string();
        let memory = api::Quantity::from_bytes(bytes - (10 << 20)).to_string();
        json!({"cpu": cpu, "memory": memory, "pods": pods.to_string()})
    }

    fn claim(&self) -> Value {
        let conditions: Vec<Value> =
            ["Launched", "Registered", "Initialized", "Ready"].into_iter().map(condition).collect();
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("{POOL}-{:05}", self.number), "creationTimestamp": CREATED, "labels": self.labels()},
            "spec": {
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [series::type_name(self.cores)]},
                ],
                "nodeClassRef": {"group": CLASS_GROUP, "kind": CLASS_KIND, "name": "default"},
                "expireAfter": "Never",
            },
            "status": {
                "providerID": self.provider_id(), "nodeName": self.name(),
                "capacity": self.capacity(), "allocatable": self.allocatable(), "conditions": conditions,
            },
        })
    }

    fn node(&self) -> Value {
        let mut labels = self.labels();
        labels[HOSTNAME] = json!(self.name());
        labels["karpenter.sh/registered"] = json!("true");
        labels["karpenter.sh/initialized"] = json!("true");
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": self.name(), "creationTimestamp": CREATED, "labels": labels},
            "spec": {"providerID": self.provider_id()},
            "status": {
                "capacity": self.capacity(), "allocatable": self.allocatable(),
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        })
    }
}
