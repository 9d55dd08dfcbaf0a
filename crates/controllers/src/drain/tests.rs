//! Nodes on their way out, on an API server in memory.

mod evicting;
mod terminating;

use std::sync::Arc;
use std::time::Duration;

use engine::drain::Order;
use model::ids::{NodeName, PodName, Uid};
use runtime::{Next, Queue, Rng};
use serde_json::{Value, json};

use super::*;
use crate::testing::{EPOCH, Scripted, World, merged, node_class, pod_on};

const FINALIZER: &str = "karpenter.sh/termination";
const DEADLINE: &str = "karpenter.sh/nodeclaim-termination-timestamp";
const ID: &str = "kwok://n";

struct Stage {
    world: World,
    cloud: Scripted,
    evictions: Arc<Evictions>,
    termination: NodeTermination,
    queue: EvictionQueue,
}

/// A Node of ours that somebody has deleted.
fn leaving_node(name: &str, change: Value) -> Value {
    let base = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "finalizers": [FINALIZER], "deletionTimestamp": EPOCH, "creationTimestamp": EPOCH,
            "labels": {
                "karpenter.kwok.sh/kwoknodeclass": "default", "karpenter.sh/nodepool": "default",
                "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
                "node.kubernetes.io/instance-type": "m", "topology.kubernetes.io/zone": "z1",
            },
        },
        "spec": {"providerID": format!("kwok://{name}")},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    merged(base, change)
}

/// The claim of a Node, registered and all.
fn claim_of(name: &str, change: Value) -> Value {
    let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "lastTransitionTime": EPOCH, "observedGeneration": 1});
    let base = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": format!("claim-{name}"), "generation": 1, "finalizers": [FINALIZER], "deletionTimestamp": EPOCH,
            "labels": {"karpenter.sh/nodepool": "default"},
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [], "expireAfter": "Never",
        },
        "status": {
            "providerID": format!("kwok://{name}"), "nodeName": name,
            "conditions": [condition("Launched"), condition("Registered"), condition("Initialized")],
        },
    });
    merged(base, change)
}

impl Stage {
    fn new() -> Self {
        let (world, cloud) = World::scripted();
        world.put(node_class("default"));
        let evictions = Arc::new(Evictions::default());
        let orders = Queue::new("evictions", EvictionQueue::backoff(), Rng::new(1));
        let termination = NodeTermination::new(evictions.clone(), orders);
        Self { world, cloud, queue: EvictionQueue::new(evictions.clone()), evictions, termination }
    }

    /// With the Node `n` and its claim.
    fn with(objects: impl IntoIterator<Item = Value>) -> Self {
        let stage = Self::new();
        for object in [leaving_node("n", json!({})), claim_of("n", json!({}))].into_iter().chain(objects) {
            stage.world.put(object);
        }
        stage
    }

    async fn try_tick(&self, node: &str) -> Result<Next, ControllerError> {
        self.world.sync();
        self.termination.tick(&self.world.ctx, &NodeName::from(node), &self.world.id()).await
    }

    async fn tick(&self) -> Next {
        self.try_tick("n").await.unwrap()
    }

    fn order(&self, pod: &str) -> Order {
        Order { pod: PodName::new("shop", pod), uid: Uid::from(format!("uid-{pod}")) }
    }

    async fn attempt(&self, pod: &str) -> Next {
        self.world.sync();
        self.queue.tick(&self.world.ctx, &self.order(pod), &self.world.id()).await.unwrap()
    }

    /// The pods that are ordered to go.
    fn ordered(&self, pods: &[&str]) -> Vec<String> {
        let is_ordered = |pod: &&&str| self.evictions.get(&self.order(pod)).is_some();
        pods.iter().filter(is_ordered).map(ToString::to_string).collect()
    }

    fn has_node(&self, name: &str) -> bool {
        self.world.server.get("Node", name).is_some()
    }

    fn has_pod(&self, name: &str) -> bool {
        self.world.server.get("Pod", name).is_some()
    }

    fn condition(&self, type_: &str) -> [String; 2] {
        let claim = self.world.server.get("NodeClaim", "claim-n").unwrap_or_default();
        let conditions = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default();
        ["status", "reason"].map(|field| found[field].as_str().unwrap_or_default().to_owned())
    }

    fn counted(&self, line: &str) {
        let text = self.world.ctx.metrics.encode();
        let name = line.split('{').next().unwrap_or_default();
        let near: Vec<&str> = text.lines().filter(|found| found.starts_with(name)).collect();
        assert!(near.contains(&line), "{line} is not among {near:#?}");
    }

    async fn told(&self, reason: &str) -> Vec<String> {
        let all = self.world.told().await;
        all.into_iter().filter(|(found, _)| found == reason).map(|(_, message)| message).collect()
    }
}

fn pod(name: &str) -> Value {
    merged(pod_on("n", name, "100m"), json!({"spec": {"terminationGracePeriodSeconds": 30}}))
}

fn with_deadline(time: &str) -> Value {
    claim_of("n", json!({"metadata": {"annotations": {DEADLINE: time}}}))
}

async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}
