//! A cluster for tests of its parts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use runtime::{Clock, Rng};
use serde_json::{Value, json};

use crate::admission::admit;
use crate::apiserver::{ApiServer, At, Change, Deletion, Hooks};
use crate::budgets::Budgets;
use crate::fields::{at, at_cluster, at_in, is_ready, name, node_of, phase};
use crate::kinds::Kind;
use crate::kubelet::{self, Kubelets};
use crate::node_lifecycle::NodeLifecycle;
use crate::standin::StandIn;
use crate::standins::StandIns;
use crate::volumes::{self, Volumes};
use crate::workload::Workloads;

/// A server and the parts that act on it.
pub(crate) struct Stage {
    pub(crate) server: ApiServer,
    stand_ins: StandIns,
}

pub(crate) fn server() -> ApiServer {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let hooks = Hooks { admit: Some(admit), ..Hooks::default() };
    ApiServer::with_hooks(Clock::virtual_from(epoch), Rng::new(7), hooks)
}

impl Stage {
    /// Everything but a scheduler that judges: pods are bound to ready nodes in turn, daemons to their own.
    pub(crate) fn new() -> Self {
        Self::with(volumes::Settings::default())
    }

    pub(crate) fn with(settings: volumes::Settings) -> Self {
        let parts: Vec<Box<dyn StandIn>> = vec![
            Box::new(Workloads::new()),
            Box::new(BindsInTurn::default()),
            Box::new(Kubelets::new(kubelet::Settings::default())),
            Box::new(NodeLifecycle::new()),
            Box::new(Volumes::new(settings)),
            Box::new(Budgets::new()),
        ];
        Self::of(server(), parts)
    }

    pub(crate) fn of(server: ApiServer, parts: Vec<Box<dyn StandIn>>) -> Self {
        Self { stand_ins: StandIns::new(server.clone(), parts), server }
    }

    /// Lets time pass, and whatever happens by itself meanwhile.
    pub(crate) async fn pass(&mut self, seconds: u64) {
        let _ = tokio::time::timeout(Duration::from_secs(seconds), self.stand_ins.run()).await;
        self.stand_ins.settle();
    }

    /// What happens without any time passing.
    pub(crate) fn settle(&mut self) {
        self.stand_ins.settle();
    }

    pub(crate) fn create(&self, object: Value) -> Arc<Value> {
        self.server.create(object).unwrap()
    }

    pub(crate) fn nodes(&self, names: &[&str]) {
        for node in names {
            self.node(node, "a");
        }
    }

    pub(crate) fn node(&self, node: &str, zone: &str) {
        self.create(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": node, "labels": {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": node}},
        }));
    }

    pub(crate) fn get(&self, kind: Kind, name: &str) -> Arc<Value> {
        self.find(kind, name).unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    pub(crate) fn find(&self, kind: Kind, name: &str) -> Option<Arc<Value>> {
        let at = if kind.is_namespaced() { at_in("default", name) } else { at_cluster(name) };
        self.server.get(kind, &at)
    }

    pub(crate) fn patch(&self, kind: Kind, name: &str, patch: Value) {
        let at = at(&self.get(kind, name));
        self.server.patch(kind, &at, &patch).unwrap();
    }

    pub(crate) fn delete(&self, kind: Kind, name: &str) {
        let at = at(&self.get(kind, name));
        self.server.delete(kind, &at, &Deletion::default()).unwrap();
    }

    /// Names of pods, in order.
    pub(crate) fn pods(&self) -> Vec<String> {
        self.pods_that(|_| true)
    }

    pub(crate) fn pods_that(&self, holds: impl Fn(&Value) -> bool) -> Vec<String> {
        let pods = self.server.list(Kind::Pod);
        pods.iter().filter(|pod| holds(pod)).map(|pod| name(pod).to_owned()).collect()
    }

    pub(crate) fn ready_pods(&self) -> usize {
        self.pods_that(|pod| is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null()).len()
    }
}

/// A workload with one container and the label `app: web`.
pub(crate) fn workload(kind: Kind, name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": kind.api_version(), "kind": kind.as_str(), "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "one"}]},
            },
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key.as_str()] = value.clone();
    }
    object
}

pub(crate) fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "one"}]},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key.as_str()] = value.clone();
    }
    pod
}

/// Binds pods to nodes that are ready, one after the other. It knows nothing of room; the scheduler has tests of its own.
#[derive(Default)]
struct BindsInTurn {
    waiting: BTreeSet<At>,
    turn: usize,
}

impl StandIn for BindsInTurn {
    fn name(&self) -> &'static str {
        "binder for tests"
    }

    fn heed(&mut self, change: &Change, _server: &ApiServer) {
        let is_waiting = |pod: &&Arc<Value>| node_of(pod).is_none() && phase(pod) == "Pending";
        match (change.kind, change.after.as_ref().filter(is_waiting)) {
            (Kind::Pod, Some(_)) => drop(self.waiting.insert(change.at.clone())),
            (Kind::Pod, None) => drop(self.waiting.remove(&change.at)),
            _ => {}
        }
    }

    fn settle(&mut self, server: &ApiServer) {
        if self.waiting.is_empty() {
            return;
        }
        let is_open = |node: &Arc<Value>| is_ready(node) && node["spec"]["taints"].is_null();
        let nodes: Vec<Arc<Value>> = server.list(Kind::Node).into_iter().filter(is_open).collect();
        for at in self.waiting.clone() {
            let Some(pod) = server.get(Kind::Pod, &at) else { continue };
            let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
            let target = required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str().map(str::to_owned);
            let next = || nodes.get(self.turn % nodes.len().max(1)).map(|node| name(node).to_owned());
            if let Some(node) = target.or_else(next)
                && server.bind(&at, &node).is_ok()
            {
                self.turn += 1;
            }
        }
    }

    fn next(&self) -> Option<Timestamp> {
        None
    }

    fn wake(&mut self, _now: Timestamp, _server: &ApiServer) {}
}
