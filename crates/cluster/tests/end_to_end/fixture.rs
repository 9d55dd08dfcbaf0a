//! A small cluster, written as its objects are on the wire.
//!
//! Two zones sell machines of 2, 4 and 8 cpus on demand; a pool may use a third zone where a test says so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use api::labels::LabelRules;
use api::{CapacityBuffer, NodeClaim, NodePool};
use cluster::lower;
use cluster::lower::buffer::{Resolved, Source};
use cluster::lower::eligible::is_provisionable;
use cluster::lower::node::{NodeClasses, Parts};
use cluster::lower::pod::Surroundings;
use cluster::lower::spread::Workloads;
use cluster::lower::volume::Storage;
use engine::solve::{Question, solve};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node as WireNode, Pod as WirePod, PodTemplateSpec, TopologySpreadConstraint};
use model::ids::{Namespace, PodName};
use model::instance::{InstanceType, Offering};
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL};
use model::plan::{Plan, PlannedClaim, Target};
use model::pod::Pod;
use model::pool::Pool;
use model::price::Price;
use model::requirements::{Operator, Requirement, Requirements};
use model::resources::Resources;
use model::snapshot::Snapshot;
use model::time::Instant;
use model::volume::AttachLimits;
use serde_json::{Value, json};

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const HOST: &str = "kubernetes.io/hostname";
const CLASS_LABEL: &str = "karpenter.kwok.sh/kwoknodeclass";

fn class() -> Value {
    json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"})
}

pub(crate) fn read<T: serde::de::DeserializeOwned>(wire: Value) -> T {
    serde_json::from_value(wire).unwrap()
}

/// Lays one object over another; lists are replaced.
pub(crate) fn merged(mut base: Value, change: Value) -> Value {
    match (&mut base, change) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (key, value) in changes {
                let old = fields.remove(&key).unwrap_or(Value::Null);
                fields.insert(key, merged(old, value));
            }
            base
        }
        (_, change) => change,
    }
}

/// A pod that waits, of a tenth of a cpu unless it says otherwise.
pub(crate) fn pod(name: &str, change: Value) -> Value {
    let base = json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        ]},
    });
    merged(base, change)
}

/// The same pod, running on a node.
pub(crate) fn bound(pod: Value, node: &str) -> Value {
    let scheduled = json!([{"type": "PodScheduled", "status": "True"}]);
    merged(pod, json!({"spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": scheduled}}))
}

/// The name by which a replica set or another controller owns a pod.
pub(crate) fn owner(api_version: &str, kind: &str, name: &str) -> Value {
    json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": "u", "controller": true}])
}

/// What asks for so much cpu.
pub(crate) fn asking(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]})
}

/// A pool of every machine in zones a and b.
pub(crate) fn pool(name: &str, change: Value) -> Value {
    let zones = json!([{"key": ZONE, "operator": "In", "values": ["a", "b"]}]);
    let base = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": {"spec": {"nodeClassRef": class(), "requirements": zones}}},
        "status": {"nodes": 0, "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]},
    });
    merged(base, change)
}

/// A node that nobody manages.
pub(crate) fn node(name: &str, zone: &str, cpu: &str) -> Value {
    let amounts = json!({"cpu": cpu, "memory": "64Gi", "pods": "110"});
    json!({
        "metadata": {"name": name, "labels": {ZONE: zone, HOST: name}},
        "status": {"capacity": amounts, "allocatable": amounts},
    })
}

/// Everything that stands in the API server, as far as a test needs it.
pub(crate) struct Cluster {
    pods: Vec<WirePod>,
    machines: Vec<(Option<WireNode>, Option<NodeClaim>)>,
    pools: Vec<NodePool>,
    daemon_sets: Vec<DaemonSet>,
    buffers: Vec<(CapacityBuffer, PodTemplateSpec)>,
    pub(crate) storage: Storage,
    workloads: BTreeMap<Namespace, Workloads>,
    default_spread: Vec<TopologySpreadConstraint>,
}

pub(crate) fn cluster(pools: impl IntoIterator<Item = Value>) -> Cluster {
    Cluster {
        pods: Vec::new(),
        machines: Vec::new(),
        pools: pools.into_iter().map(read).collect(),
        daemon_sets: Vec::new(),
        buffers: Vec::new(),
        storage: Storage::default(),
        workloads: BTreeMap::new(),
        default_spread: Vec::new(),
    }
}

impl Cluster {
    pub(crate) fn pods(mut self, pods: impl IntoIterator<Item = Value>) -> Self {
        self.pods.extend(pods.into_iter().map(read::<WirePod>));
        self
    }

    pub(crate) fn node(mut self, node: Value) -> Self {
        self.machines.push((Some(read(node)), None));
        self
    }

    /// A machine of ours, as far as it has come.
    pub(crate) fn machine(mut self, (node, claim): (Option<Value>, Value)) -> Self {
        self.machines.push((node.map(read), Some(read(claim))));
        self
    }

    pub(crate) fn daemon_set(mut self, name: &str, template: Value) -> Self {
        let wire = json!({
            "metadata": {"namespace": "kube-system", "name": name},
            "spec": {"selector": {}, "template": {"spec": template}},
        });
        self.daemon_sets.push(read(wire));
        self
    }

    pub(crate) fn buffer(mut self, name: &str, replicas: i32, template: Value) -> Self {
        let wire = json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}")},
            "spec": {"replicas": replicas, "podTemplateRef": {"name": name}},
        });
        self.buffers.push((read(wire), read(template)));
        self
    }

    pub(crate) fn replica_set(mut self, name: &str, labels: Value) -> Self {
        let wire = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}}});
        self.workloads.entry("default".into()).or_default().replica_sets.insert(name.to_owned(), read(wire));
        self
    }

    pub(crate) fn default_spread(mut self, constraints: Value) -> Self {
        self.default_spread = read(constraints);
        self
    }

    /// What the cluster means to the engine, and the pods that it would be asked about.
    pub(crate) fn lowered(&self) -> (Snapshot, Batch) {
        let (rules, namespaces) = (LabelRules::default(), BTreeMap::new());
        let around = Surroundings {
            rules: &rules,
            namespaces: &namespaces,
            storage: &self.storage,
            workloads: &self.workloads,
            default_spread: &self.default_spread,
        };
        let mut batch = Batch::default();
        let mut snapshot = Snapshot::empty(Instant::from_unix_seconds(0));
        for pod in self.pods.iter().map(|wire| lower::pod::pod(wire, &around).value) {
            match (is_provisionable(&pod), pod.problems.is_empty()) {
                (true, true) => batch.pending.push(pod.clone()),
                (true, false) => batch.ignored.push(pod.clone()),
                (false, _) => {}
            }
            snapshot.pods.insert(pod.name.clone(), Arc::new(pod));
        }
        for (buffer, template) in &self.buffers {
            let resolved = Resolved { template, source: Source::PodTemplate };
            for pod in lower::buffer::pods(buffer, &resolved, &around).value {
                snapshot.pods.insert(pod.name.clone(), Arc::new(pod.clone()));
                batch.buffered.push(pod);
            }
        }
        let pools = self.pools.iter().map(|wire| lower::pool::pool(wire, catalogue()));
        snapshot.pools = pools.map(|pool| (pool.name.clone(), Arc::new(pool))).collect();
        let classes = NodeClasses::new([("karpenter.kwok.sh", "KWOKNodeClass")]);
        for (node, claim) in &self.machines {
            let parts = Parts {
                node: node.as_ref(),
                claim: claim.as_ref(),
                csi: None,
                pool: claim.as_ref().and_then(|claim| pool_of(&snapshot, claim)),
                is_marked: false,
            };
            let node = lower::node::node(parts, &classes).unwrap().value;
            snapshot.nodes.insert(node.name.clone(), Arc::new(node));
        }
        let daemons = self.daemon_sets.iter().map(|set| lower::daemon::daemon(set, None).value);
        snapshot.daemons = daemons.map(|daemon| (daemon.name.clone(), Arc::new(daemon))).collect();
        (snapshot, batch)
    }

    /// One pass: lower, solve, and have the judge look at the plan.
    pub(crate) fn pass(&self) -> Pass {
        let (snapshot, batch) = self.lowered();
        let plan = planned(&snapshot, &batch);
        Pass { snapshot, batch, plan }
    }
}

/// A plan for the pods of a batch, which the judge accepts.
pub(crate) fn planned(snapshot: &Snapshot, batch: &Batch) -> Plan {
    let pods = batch.pending.iter().chain(&batch.buffered).collect();
    let question = Question::about(pods);
    let plan = solve(snapshot, &question, &AtomicBool::new(false));
    let verdict = judge::replay(snapshot, &plan);
    assert!(verdict.is_accepted(), "{verdict}\n{plan:#?}");
    plan
}

fn pool_of<'a>(snapshot: &'a Snapshot, claim: &NodeClaim) -> Option<&'a Pool> {
    let name = claim.metadata.labels.as_ref()?.get(NODE_POOL)?;
    snapshot.pools.get(&name.as_str().into()).map(|pool| &**pool)
}

/// Pods that wait.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) pending: Vec<Pod>,
    pub(crate) ignored: Vec<Pod>,
    pub(crate) buffered: Vec<Pod>,
}

/// What came of a pass.
pub(crate) struct Pass {
    pub(crate) snapshot: Snapshot,
    pub(crate) batch: Batch,
    pub(crate) plan: Plan,
}

impl Pass {
    pub(crate) fn target(&self, pod: &str) -> Option<&Target> {
        let name = PodName::new("default", pod);
        self.plan.placements.iter().find(|(placed, _)| *placed == name).map(|(_, target)| target)
    }

    /// The value of a label where a pod goes; the place itself for the hostname.
    pub(crate) fn domain(&self, pod: &str, key: &str) -> String {
        match self.target(pod).unwrap_or_else(|| panic!("{pod} has no place")) {
            Target::Node(name) => self.snapshot.nodes[name].labels[key].to_string(),
            Target::Claim(number) if key == HOST => format!("claim {number}"),
            Target::Claim(number) => {
                let requirement = self.plan.claims[*number].requirements.get(key).unwrap();
                let values: Vec<&str> = requirement.listed().unwrap().iter().map(|value| &**value).collect();
                values.join(" ")
            }
        }
    }

    /// How many of the pods with this prefix go to each value of a label.
    pub(crate) fn spread(&self, prefix: &str, key: &str) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for (pod, _) in self.plan.placements.iter().filter(|(pod, _)| pod.name.starts_with(prefix)) {
            *counts.entry(self.domain(&pod.name, key)).or_default() += 1;
        }
        counts
    }

    pub(crate) fn placed(&self) -> usize {
        self.plan.placements.len()
    }

    pub(crate) fn claims(&self) -> usize {
        self.plan.claims.len()
    }
}

/// Counts by domain, to compare with.
pub(crate) fn counts(expected: &[(&str, usize)]) -> BTreeMap<String, usize> {
    expected.iter().map(|(domain, count)| ((*domain).to_owned(), *count)).collect()
}

fn catalogue() -> Vec<Arc<InstanceType>> {
    [2, 4, 8].into_iter().map(|cpus| Arc::new(instance_type(cpus))).collect()
}

fn instance_type(cpus: i64) -> InstanceType {
    let requirement = |values: &[&str]| Requirement::new(Operator::In, values.iter().copied());
    let name = format!("m-{cpus}");
    let offering = |zone: &str| Offering {
        requirements: Requirements::default()
            .with(ZONE, requirement(&[zone]))
            .with(CAPACITY_TYPE, requirement(&["on-demand"])),
        price: Price::from_pico(cpus * 1_000_000),
        is_available: true,
        reservation: None,
        capacity_override: None,
        overhead_override: None,
        has_price_overlay: false,
    };
    InstanceType {
        name: name.as_str().into(),
        requirements: Requirements::default()
            .with(INSTANCE_TYPE, requirement(&[&name]))
            .with("kubernetes.io/arch", requirement(&["amd64"]))
            .with("kubernetes.io/os", requirement(&["linux"]))
            .with(ZONE, requirement(&["a", "b", "c"]))
            .with(CAPACITY_TYPE, requirement(&["on-demand"])),
        capacity: Resources::default().with("cpu", cpus * 1000).with("memory", cpus << 32).with("pods", 110),
        overhead: Resources::default(),
        offerings: ["a", "b", "c"].map(offering).into(),
        attach_limits: AttachLimits::new(),
        has_capacity_overlay: false,
    }
}

/// How far a machine has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Unlaunched,
    Launched,
    Joined,
    Registered,
    Initialized,
}

pub(crate) const STAGES: [Stage; 5] =
    [Stage::Unlaunched, Stage::Launched, Stage::Joined, Stage::Registered, Stage::Initialized];

/// The Node and the NodeClaim of a planned claim that was made and has come so far. The cloud gives the cheapest type.
pub(crate) fn machine(name: &str, planned: &PlannedClaim, stage: Stage) -> (Option<Value>, Value) {
    let requirements: Vec<Value> = planned
        .requirements
        .iter()
        .map(|(key, requirement)| {
            let values: Vec<&str> = requirement.listed().unwrap().iter().map(|value| &**value).collect();
            json!({"key": &**key, "operator": "In", "values": values})
        })
        .collect();
    let mut claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {NODE_POOL: planned.pool.as_str(), CLASS_LABEL: "default"}},
        "spec": {
            "nodeClassRef": class(), "requirements": requirements,
            "resources": {"requests": {"cpu": format!("{}m", planned.requests.cpu_milli)}},
        },
    });
    if stage == Stage::Unlaunched {
        return (None, claim);
    }
    let first = |key: &str| planned.requirements.get(key).unwrap().listed().unwrap().iter().next().unwrap().to_string();
    let chosen = catalogue().into_iter().find(|offered| offered.name == planned.types[0]).unwrap();
    let amounts = json!({
        "cpu": format!("{}m", chosen.capacity.cpu_milli), "pods": "110",
        "memory": chosen.capacity.memory_bytes.to_string(),
    });
    let labels = json!({
        NODE_POOL: planned.pool.as_str(), CLASS_LABEL: "default", INSTANCE_TYPE: chosen.name.as_str(),
        ZONE: first(ZONE), CAPACITY_TYPE: "on-demand", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
    });
    let id = format!("kwok://{name}");
    let status = json!({"providerID": id, "capacity": amounts, "allocatable": amounts});
    claim = merged(claim, json!({"metadata": {"labels": labels}, "status": status}));
    if stage == Stage::Launched {
        return (None, claim);
    }
    let host = format!("node-of-{name}");
    let mut node = json!({
        "metadata": {"name": host, "labels": merged(labels, json!({HOST: host}))}, "spec": {"providerID": id},
    });
    let shed = json!([
        {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    ]);
    node = merged(
        node,
        match stage {
            Stage::Joined => json!({"spec": {"taints": shed}}),
            Stage::Registered => json!({
                "metadata": {"labels": {"karpenter.sh/registered": "true"}}, "spec": {"taints": [shed[1]]},
            }),
            _ => json!({
                "metadata": {"labels": {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}},
                "status": {"capacity": amounts, "allocatable": amounts},
            }),
        },
    );
    (Some(node), claim)
}
