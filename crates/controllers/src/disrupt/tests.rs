//! Commands on an API server in memory: begun, waited for, ended, taken back, and found again after a restart.

mod beginning;
mod crashing;
mod ending;
mod looking;
mod resuming;
mod second_look;
mod stopping;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::disruption::{Disruption, Leaver, Method, Worth};
use model::eviction::EvictionCost;
use model::ids::{NodeName, PodName};
use model::plan::PlannedClaim;
use model::price::Price;
use runtime::Next;
use serde_json::{Value, json};

use super::commands::{Commands, Number, Stage as Step};
use super::queue::CommandQueue;
use crate::controller::Controller;
use crate::error::ControllerError;
use crate::testing::{self, EPOCH, World, merged, node_class, node_pool, pod_on};

const TAINT: &str = "karpenter.sh/disrupted";

fn condition(type_: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": type_, "message": "", "observedGeneration": 1, "lastTransitionTime": EPOCH})
}

/// A machine of pool `general` that has come all the way, and says this of itself.
pub(super) fn machine(world: &World, name: &str, conditions: &[&str]) {
    let [mut claim, node] = testing::machine(name, "general");
    let said = claim["status"]["conditions"].as_array_mut().unwrap();
    said.extend(conditions.iter().map(|type_| condition(type_)));
    [claim, node].into_iter().for_each(|object| world.put(object));
}

pub(super) fn leaver(name: &str) -> Leaver {
    Leaver {
        node: name.into(),
        claim: name.into(),
        pool: "general".into(),
        instance_type: Some("c-4x-amd64-linux".into()),
        capacity_type: Some(model::instance::CapacityType::Spot),
        price: Price::from_pico(100_000_000_000),
        pods: Vec::new(),
        cost: EvictionCost::COMMON,
    }
}

pub(super) fn command(method: Method, names: &[&str], replacements: usize) -> Disruption {
    Disruption {
        method,
        leaving: names.iter().map(|name| leaver(name)).collect(),
        replacements: (0..replacements).map(|_| PlannedClaim::bare("general".into())).collect(),
        moves: Vec::new(),
        worth: Worth { before: Price::from_pico(100_000_000_000), ..Worth::default() },
    }
}

pub(super) struct Stage {
    pub(super) world: World,
    pub(super) commands: Arc<Commands>,
    pub(super) queue: CommandQueue,
}

impl Stage {
    /// With these machines, which may be consolidated all at once.
    pub(super) async fn with(names: &[&str]) -> Self {
        let world = World::new();
        world.put(node_class("default"));
        let all = json!({"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}});
        world.put(merged(node_pool("general"), all));
        names.iter().for_each(|name| machine(&world, name, &["Consolidatable"]));
        world.sync();
        world.ctx.catalogs.refresh(&world.ctx, &world.ctx.cloud).await;
        Self::on(world)
    }

    /// A pod of one cpu on one of them, which says so.
    pub(super) fn host(&self, node: &str, pod: &str, what: &mut Disruption) {
        self.world.put(pod_on(node, pod, "1"));
        self.world.sync();
        let hosts = what.leaving.iter_mut().filter(|leaver| leaver.node.as_str() == node);
        hosts.for_each(|leaver| leaver.pods.push(PodName::new("shop", pod)));
    }

    pub(super) fn on(world: World) -> Self {
        let commands = Arc::new(Commands::default());
        Self { world, queue: CommandQueue::new(commands.clone()), commands }
    }

    /// A command that nobody has to wait for.
    pub(super) fn ripe(&self, what: Disruption) -> Number {
        let ripe = self.world.ctx.now();
        self.commands.add(self.world.id(), what, Step::Proposed { ripe })
    }

    pub(super) async fn try_tick(&self, number: Number) -> Result<Next, ControllerError> {
        self.queue.tick(&self.world.ctx, &number, &self.world.id()).await
    }

    pub(super) async fn tick(&self, number: Number) -> Next {
        self.try_tick(number).await.unwrap()
    }

    /// A command of drift that is begun and waits.
    pub(super) async fn begun(&self, names: &[&str], replacements: usize) -> Number {
        let number = self.ripe(command(Method::Drift, names, replacements));
        assert!(matches!(self.tick(number).await, Next::After(_)), "it waits for its replacements");
        number
    }

    pub(super) fn claim(&self, name: &str) -> Option<Value> {
        self.world.server.get("NodeClaim", name)
    }

    pub(super) fn is_tainted(&self, name: &str) -> bool {
        let node = self.world.server.get("Node", name).unwrap_or_default();
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().any(|taint| taint["key"] == TAINT && taint["effect"] == "NoSchedule")
    }

    pub(super) fn reason(&self, name: &str) -> Option<String> {
        let conditions = self.claim(name)?["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition["type"] == "DisruptionReason")?;
        Some(found["reason"].as_str().unwrap_or_default().to_owned())
    }

    pub(super) fn is_leaving(&self, name: &str) -> bool {
        self.world.ctx.store().machine_of_claim(&name.into()).is_some_and(|machine| machine.node.is_leaving)
    }

    pub(super) fn is_deleted(&self, name: &str) -> bool {
        self.claim(name).is_none_or(|claim| !claim["metadata"]["deletionTimestamp"].is_null())
    }

    /// Open, and with no trace of a command.
    pub(super) fn is_as_before(&self, name: &str) -> bool {
        !self.is_tainted(name) && self.reason(name).is_none() && !self.is_leaving(name) && !self.is_deleted(name)
    }

    /// The claims that commands have made and nobody has deleted.
    pub(super) fn replacements(&self) -> Vec<String> {
        let all = self.world.server.all("NodeClaim").into_iter();
        let made = all.filter(|claim| !claim["metadata"]["annotations"]["dovetail.sh/replaces"].is_null());
        let alive = made.filter(|claim| claim["metadata"]["deletionTimestamp"].is_null());
        alive.map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// All claims that nobody has deleted.
    pub(super) fn claims(&self) -> Vec<String> {
        let all = self.world.server.all("NodeClaim").into_iter();
        let alive = all.filter(|claim| claim["metadata"]["deletionTimestamp"].is_null());
        alive.map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// A replacement has come all the way.
    pub(super) fn initialize(&self, name: &str) {
        let conditions = ["Launched", "Registered", "Initialized", "Ready"].map(condition);
        let status = json!({"status": {"providerID": format!("kwok://{name}"), "conditions": conditions}});
        self.world.put(merged(self.claim(name).unwrap(), status));
        self.world.sync();
    }

    pub(super) async fn told(&self, reason: &str) -> Vec<String> {
        let all = self.world.told().await;
        all.into_iter().filter(|(found, _)| found == reason).map(|(_, message)| message).collect()
    }

    pub(super) fn known_claims(&self) -> BTreeSet<NodeName> {
        self.commands.claims()
    }
}

pub(super) async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}
