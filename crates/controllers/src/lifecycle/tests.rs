//! One claim, one tick after the other, on an API server in memory.

mod crashing;
mod ending;
mod initializing;
mod launching;
mod living;
mod registering;
mod whole;

use std::time::Duration;

use model::ids::NodeName;
use runtime::Next;
use serde_json::{Value, json};

use super::Lifecycle;
use crate::controller::Controller;
use crate::error::ControllerError;
use crate::testing::{EPOCH, Scripted, World, merged, node_class};

pub(super) const CLASS_LABEL: &str = "karpenter.kwok.sh/kwoknodeclass";
pub(super) const FINALIZER: &str = "karpenter.sh/termination";

pub(super) struct Stage {
    pub(super) world: World,
    pub(super) cloud: Scripted,
    pub(super) lifecycle: Lifecycle,
}

/// A claim that stands alone, as the API server gives it out.
pub(super) fn claim(name: &str, change: Value) -> Value {
    let base = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "generation": 1, "creationTimestamp": EPOCH},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [], "resources": {"requests": {"cpu": "1"}}, "expireAfter": "Never",
        },
    });
    merged(base, change)
}

/// A claim of another autoscaler.
pub(super) fn foreign(name: &str) -> Value {
    claim(name, json!({"spec": {"nodeClassRef": {"group": "example.com", "kind": "OtherClass"}}}))
}

impl Stage {
    pub(super) fn new() -> Self {
        let (world, cloud) = World::scripted();
        world.put(node_class("default"));
        Self { world, cloud, lifecycle: Lifecycle::default() }
    }

    /// With one claim on it.
    pub(super) fn with(object: Value) -> Self {
        let stage = Self::new();
        stage.world.put(object);
        stage
    }

    pub(super) async fn try_tick(&self, name: &str) -> Result<Next, ControllerError> {
        self.world.sync();
        self.lifecycle.tick(&self.world.ctx, &NodeName::from(name), &self.world.id()).await
    }

    pub(super) async fn tick(&self, name: &str) -> Next {
        self.try_tick(name).await.unwrap()
    }

    pub(super) fn claim(&self, name: &str) -> Value {
        self.world.server.get("NodeClaim", name).unwrap()
    }

    pub(super) fn has_claim(&self, name: &str) -> bool {
        self.world.server.get("NodeClaim", name).is_some()
    }

    /// Status, reason and message of a condition.
    pub(super) fn condition(&self, name: &str, type_: &str) -> [String; 3] {
        let claim = self.claim(name);
        let conditions = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default();
        ["status", "reason", "message"].map(|field| found[field].as_str().unwrap_or_default().to_owned())
    }

    pub(super) fn says(&self, name: &str, type_: &str, expected: [&str; 3]) {
        assert_eq!(self.condition(name, type_), expected, "{type_}");
    }

    /// The name of the only Node.
    pub(super) fn node_name(&self) -> String {
        let nodes = self.world.server.all("Node");
        assert_eq!(nodes.len(), 1, "{nodes:?}");
        nodes[0]["metadata"]["name"].as_str().unwrap().to_owned()
    }

    pub(super) fn node(&self) -> Value {
        self.world.server.get("Node", &self.node_name()).unwrap()
    }

    pub(super) fn change_node(&self, change: Value) {
        self.world.put(merged(self.node(), change));
    }

    pub(super) fn change_claim(&self, name: &str, change: Value) {
        self.world.put(merged(self.claim(name), change));
    }

    pub(super) fn kubelet_reports(&self, status: &str) {
        self.change_node(json!({"status": {"conditions": [{"type": "Ready", "status": status}]}}));
    }

    /// A claim that has come all the way.
    pub(super) async fn initialized(change: Value) -> Self {
        let stage = Self::with(claim("a", change));
        stage.tick("a").await;
        stage.kubelet_reports("True");
        stage.tick("a").await;
        stage.says("a", "Initialized", ["True", "Initialized", ""]);
        stage
    }

    /// What the API server does when somebody asks for the claim's end.
    pub(super) fn somebody_deletes(&self, name: &str) {
        let now = jiff::Timestamp::from_second(self.world.ctx.timestamp().as_second()).unwrap().to_string();
        self.change_claim(name, json!({"metadata": {"deletionTimestamp": now, "generation": 2}}));
    }

    pub(super) fn counted(&self, line: &str) -> bool {
        let text = self.world.ctx.metrics.encode();
        let is_there = text.lines().any(|found| found == line);
        if !is_there {
            let name = line.split('{').next().unwrap_or_default();
            let near: Vec<&str> = text.lines().filter(|found| found.starts_with(name)).collect();
            eprintln!("{line} is not among {near:#?}");
        }
        is_there
    }

    pub(super) async fn told(&self, reason: &str) -> Vec<String> {
        let all = self.world.told().await;
        all.into_iter().filter(|(found, _)| found == reason).map(|(_, message)| message).collect()
    }
}

pub(super) fn after(seconds: u64) -> Next {
    Next::After(Duration::from_secs(seconds))
}

pub(super) async fn pass(time: Duration) {
    tokio::time::advance(time).await;
}
