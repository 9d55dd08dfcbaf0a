//! Kubelets: nodes become ready, bound pods run, and deleted pods leave.
//!
//! Nobody renews Leases: a write per node every ten seconds would cost more than all the rest and tell nothing. A node that is to
//! fall silent is stopped by name instead, and what the node controller would then find out is written here, after the time that it
//! would have waited. Containers do not crash and init containers need no time.
//!
//! What scenarios may ask for, as annotations of a pod, in whole seconds: `dovetail.dev/start-seconds` until it runs,
//! `dovetail.dev/ready-seconds` from then on until it is ready, `dovetail.dev/run-seconds` until it is over (well, or with
//! `dovetail.dev/exit-code` badly), `dovetail.dev/stop-seconds` that it takes to end, at most its grace period.

mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apiserver::{ApiServer, At, Change, Deletion, Refusal};
use crate::fields::{self, after_seconds, annotation, at_cluster, conditions_with, is_deleting, is_ready, node_of};
use crate::fields::{phase, seconds_in_annotation, uid};
use crate::kinds::Kind;
use crate::standin::StandIn;
use crate::volumes::are_volumes_attached;

/// On a Node: its kubelet is silent while this says `stopped`.
const KUBELET: &str = "dovetail.dev/kubelet";
const START_SECONDS: &str = "dovetail.dev/start-seconds";
const READY_SECONDS: &str = "dovetail.dev/ready-seconds";
const RUN_SECONDS: &str = "dovetail.dev/run-seconds";
const STOP_SECONDS: &str = "dovetail.dev/stop-seconds";
const EXIT_CODE: &str = "dovetail.dev/exit-code";

/// How long the node controller waits for a heartbeat before it holds a node for unreachable.
const SILENCE_SECONDS: i64 = 50;
/// How often a kubelet looks whether the volumes of a pod have come.
const VOLUME_POLL_SECONDS: i64 = 1;

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// From the Node's creation until it is ready.
    pub node_ready_seconds: i64,
    /// From a pod's binding until it runs.
    pub pod_start_seconds: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { node_ready_seconds: 0, pod_start_seconds: 1 }
    }
}

/// The kubelets of all nodes.
#[derive(Default)]
pub struct Kubelets {
    settings: Settings,
    nodes: BTreeMap<Arc<str>, Kubelet>,
    tasks: BTreeSet<(Timestamp, Task)>,
}

#[derive(Debug)]
struct Kubelet {
    node_uid: String,
    is_ready: bool,
    is_stopped: bool,
}

/// What is to be done at a time. Tasks of one instant run in this order. A task whose pod or node is another by then does nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// The kubelet is there, but not ready yet.
    Appear(Arc<str>),
    BecomeReady(Arc<str>),
    /// The node controller has not heard of the kubelet for too long.
    Silence(Arc<str>),
    Start(PodId),
    ShowReady(PodId),
    Finish(PodId),
    Remove(PodId),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PodId {
    at: At,
    uid: Arc<str>,
}

/// Makes a node's kubelet fall silent: nothing there starts or ends any more, and in time the node is held for unreachable.
pub fn stop(server: &ApiServer, node: &str) -> Result<(), Refusal> {
    annotate(server, node, json!("stopped"))
}

/// Lets a stopped kubelet go on.
pub fn resume(server: &ApiServer, node: &str) -> Result<(), Refusal> {
    annotate(server, node, Value::Null)
}

fn annotate(server: &ApiServer, node: &str, value: Value) -> Result<(), Refusal> {
    let patch = json!({"metadata": {"annotations": {KUBELET: value}}});
    server.patch(Kind::Node, &at_cluster(node), &patch).map(drop)
}

/// Makes a node say something about itself, such as `MemoryPressure` or `Ready`. It says so until told otherwise.
pub fn set_condition(server: &ApiServer, node: &str, of_type: &str, status: &str) -> Result<(), Refusal> {
    let at = at_cluster(node);
    let Some(present) = server.get(Kind::Node, &at) else {
        return Err(Refusal { code: 404, reason: "NotFound", message: format!("nodes \"{node}\" not found") });
    };
    let conditions = conditions_with(&present, server.now(), &[[of_type, status, "Scenario", "set by the scenario"]]);
    server.patch_status(Kind::Node, &at, &json!({"status": {"conditions": conditions}})).map(drop)
}

impl Kubelets {
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    fn plan(&mut self, at: Timestamp, task: Task) {
        self.tasks.insert((at, task));
    }

    fn heed_node(&mut self, change: &Change, server: &ApiServer) {
        let name = &change.at.name;
        let Some(node) = &change.after else {
            self.nodes.remove(name);
            return;
        };
        let now = server.now();
        let is_stopped = annotation(node, KUBELET) == Some("stopped");
        match self.nodes.get_mut(name).filter(|kubelet| kubelet.node_uid == uid(node)) {
            None => {
                let kubelet = Kubelet { node_uid: uid(node).to_owned(), is_ready: is_ready(node), is_stopped };
                let is_new = !kubelet.is_ready && !is_stopped;
                self.nodes.insert(name.clone(), kubelet);
                if is_new {
                    self.welcome(name, now);
                }
            }
            Some(kubelet) => {
                let was_ready = std::mem::replace(&mut kubelet.is_ready, is_ready(node));
                let was_stopped = std::mem::replace(&mut kubelet.is_stopped, is_stopped);
                let is_back = kubelet.is_ready && !was_ready;
                match (was_stopped, is_stopped) {
                    (false, true) => self.plan(after_seconds(now, SILENCE_SECONDS), Task::Silence(name.clone())),
                    (true, false) => self.plan(now, Task::BecomeReady(name.clone())),
                    _ => {}
                }
                if is_back || was_stopped && !is_stopped {
                    self.catch_up(name, server);
                }
            }
        }
    }

    fn welcome(&mut self, node: &Arc<str>, now: Timestamp) {
        if self.settings.node_ready_seconds > 0 {
            self.plan(now, Task::Appear(node.clone()));
        }
        self.plan(after_seconds(now, self.settings.node_ready_seconds), Task::BecomeReady(node.clone()));
    }

    /// A node that is ready again takes up all its pods. Tasks that came up meanwhile were dropped.
    fn catch_up(&mut self, node: &str, server: &ApiServer) {
        let now = server.now();
        for pod in server.pods_on(node) {
            let id = PodId::of(&pod);
            if is_deleting(&pod) {
                self.plan(after_seconds(now, stop_seconds(&pod)), Task::Remove(id));
            } else if phase(&pod) == "Pending" {
                self.plan(after_seconds(now, self.start_seconds(&pod)), Task::Start(id));
            } else if phase(&pod) == "Running" {
                let started = fields::moment(&pod["status"]["startTime"]).unwrap_or(now);
                if !is_ready(&pod) {
                    let seconds = seconds_in_annotation(&pod, READY_SECONDS).unwrap_or(0);
                    self.plan(after_seconds(started, seconds).max(now), Task::ShowReady(id.clone()));
                }
                if let Some(seconds) = seconds_in_annotation(&pod, RUN_SECONDS) {
                    self.plan(after_seconds(started, seconds).max(now), Task::Finish(id));
                }
            }
        }
    }

    fn heed_pod(&mut self, change: &Change, server: &ApiServer) {
        let Some(pod) = &change.after else { return };
        if node_of(pod).is_none() {
            return;
        }
        let before = change.before.as_ref();
        let is_new = before.is_none_or(|before| node_of(before).is_none());
        let grace = |pod: &Value| pod["metadata"]["deletionGracePeriodSeconds"].as_i64();
        if is_deleting(pod) {
            if is_new || before.is_some_and(|before| !is_deleting(before) || grace(before) != grace(pod)) {
                self.plan(after_seconds(server.now(), stop_seconds(pod)), Task::Remove(PodId::of(pod)));
            }
        } else if is_new {
            self.plan(after_seconds(server.now(), self.start_seconds(pod)), Task::Start(PodId::of(pod)));
        }
    }

    fn start_seconds(&self, pod: &Value) -> i64 {
        seconds_in_annotation(pod, START_SECONDS).unwrap_or(self.settings.pod_start_seconds)
    }

    /// The kubelet of a pod's node, if it is there and does not keep silent.
    fn kubelet_of(&self, pod: &Value) -> Option<&Kubelet> {
        node_of(pod).and_then(|node| self.nodes.get(node)).filter(|kubelet| !kubelet.is_stopped)
    }

    fn run(&mut self, task: Task, now: Timestamp, server: &ApiServer) {
        match task {
            Task::Appear(node) | Task::BecomeReady(node) | Task::Silence(node) if !self.nodes.contains_key(&node) => {}
            Task::Appear(node) => status::write_node(server, &node, &status::NOT_READY),
            Task::BecomeReady(node) if !self.nodes[&node].is_stopped => {
                status::write_node(server, &node, &status::READY)
            }
            Task::Silence(node) if self.nodes[&node].is_stopped => status::write_node(server, &node, &status::SILENT),
            Task::BecomeReady(_) | Task::Silence(_) => {}
            Task::Start(id) => self.start(id, now, server),
            Task::ShowReady(id) => self.show_ready(&id, now, server),
            Task::Finish(id) => self.finish(&id, now, server),
            Task::Remove(id) => self.remove(&id, server),
        }
    }

    /// The pod of a task, if it is still the same and its node can do anything for it.
    fn pod(&self, id: &PodId, server: &ApiServer) -> Option<Arc<Value>> {
        server.get(Kind::Pod, &id.at).filter(|pod| uid(pod) == &*id.uid && self.kubelet_of(pod).is_some())
    }

    /// The same, if its node is ready. A node that is not starts nothing, but it still lets pods end.
    fn pod_to_run(&self, id: &PodId, server: &ApiServer) -> Option<Arc<Value>> {
        let is_ready = |pod: &Arc<Value>| self.kubelet_of(pod).is_some_and(|kubelet| kubelet.is_ready);
        self.pod(id, server).filter(|pod| is_ready(pod) && !is_deleting(pod))
    }

    fn start(&mut self, id: PodId, now: Timestamp, server: &ApiServer) {
        let Some(pod) = self.pod_to_run(&id, server).filter(|pod| phase(pod) == "Pending") else { return };
        if !are_volumes_attached(&pod, server) {
            self.plan(after_seconds(now, VOLUME_POLL_SECONDS), Task::Start(id));
            return;
        }
        let ready_seconds = seconds_in_annotation(&pod, READY_SECONDS).unwrap_or(0);
        status::write_running(server, &pod, now, ready_seconds == 0);
        if ready_seconds > 0 {
            self.plan(after_seconds(now, ready_seconds), Task::ShowReady(id.clone()));
        }
        if let Some(run_seconds) = seconds_in_annotation(&pod, RUN_SECONDS) {
            self.plan(after_seconds(now, run_seconds), Task::Finish(id));
        }
    }

    fn show_ready(&self, id: &PodId, now: Timestamp, server: &ApiServer) {
        if let Some(pod) = self.pod_to_run(id, server).filter(|pod| phase(pod) == "Running") {
            status::write_running(server, &pod, now, true);
        }
    }

    fn finish(&mut self, id: &PodId, now: Timestamp, server: &ApiServer) {
        let Some(pod) = self.pod(id, server).filter(|pod| phase(pod) == "Running") else { return };
        status::write_over(server, &pod, now, seconds_in_annotation(&pod, EXIT_CODE).unwrap_or(0));
    }

    fn remove(&self, id: &PodId, server: &ApiServer) {
        if self.pod(id, server).is_some_and(|pod| is_deleting(&pod)) {
            let deletion = Deletion { grace_seconds: Some(0), uid: Some(id.uid.to_string()), ..Deletion::default() };
            // It can only be gone already.
            let _ = server.delete(Kind::Pod, &id.at, &deletion);
        }
    }
}

impl StandIn for Kubelets {
    fn name(&self) -> &'static str {
        "kubelets"
    }

    fn heed(&mut self, change: &Change, server: &ApiServer) {
        match change.kind {
            Kind::Node => self.heed_node(change, server),
            Kind::Pod => self.heed_pod(change, server),
            _ => {}
        }
    }

    fn next(&self) -> Option<Timestamp> {
        self.tasks.first().map(|(at, _)| *at)
    }

    fn wake(&mut self, now: Timestamp, server: &ApiServer) {
        // Tasks that are planned meanwhile for this instant wait for the next round: what was written must be heard first.
        let later = self.tasks.split_off(&(after_nanosecond(now), Task::Appear(fields::shared(""))));
        for (_, task) in std::mem::replace(&mut self.tasks, later) {
            self.run(task, now, server);
        }
    }
}

fn after_nanosecond(moment: Timestamp) -> Timestamp {
    moment.checked_add(jiff::SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MAX)
}

impl PodId {
    fn of(pod: &Value) -> Self {
        Self { at: fields::at(pod), uid: uid(pod).into() }
    }
}

/// How long a pod takes to end: not at all, unless it says so, and never longer than it is given.
fn stop_seconds(pod: &Value) -> i64 {
    let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    seconds_in_annotation(pod, STOP_SECONDS).unwrap_or(0).min(grace)
}

#[cfg(test)]
mod tests;
