//! What kubelets write about nodes and pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apiserver::ApiServer;
use crate::fields::{self, annotation, at_cluster, conditions_with, each, stamp};
use crate::kinds::Kind;

/// Type, status, reason and message of a condition.
type Said = [&'static str; 4];

/// What the kubelets of the simulated cloud say of a healthy node.
pub(super) const READY: [Said; 5] = [
    ["Ready", "True", "KubeletReady", "kubelet is posting ready status"],
    ["MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"],
    ["DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"],
    ["PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"],
    ["NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"],
];

pub(super) const NOT_READY: [Said; 1] = [["Ready", "False", "KubeletNotReady", "container runtime network not ready"]];

const UNKNOWN: &str = "Kubelet stopped posting node status.";

/// What the node controller says of a node that says nothing any more.
pub(super) const SILENT: [Said; 4] = [
    ["Ready", "Unknown", "NodeStatusUnknown", UNKNOWN],
    ["MemoryPressure", "Unknown", "NodeStatusUnknown", UNKNOWN],
    ["DiskPressure", "Unknown", "NodeStatusUnknown", UNKNOWN],
    ["PIDPressure", "Unknown", "NodeStatusUnknown", UNKNOWN],
];

pub(super) fn write_node(server: &ApiServer, node: &str, said: &[Said]) {
    let at = at_cluster(node);
    let Some(present) = server.get(Kind::Node, &at) else { return };
    let mut status = json!({"conditions": conditions_with(&present, server.now(), said)});
    if said[0][1] == "True" {
        status["phase"] = json!("Running");
        let found = &present["status"];
        if found["addresses"].is_null() {
            status["addresses"] = json!([{"type": "Hostname", "address": node}]);
        }
        if found["nodeInfo"].is_null() {
            status["nodeInfo"] = node_facts(&present);
        }
        // A node that nobody gave a size is as large as the simulated cloud's kubelets make it.
        for amounts in ["capacity", "allocatable"] {
            if found[amounts].is_null() {
                status[amounts] = json!({"cpu": "1k", "memory": "1Ti", "pods": "1M"});
            }
        }
    }
    // A node that has gone meanwhile needs no status.
    let _ = server.patch_status(Kind::Node, &at, &json!({"status": status}));
}

fn node_facts(node: &Value) -> Value {
    let label = |key: &str, otherwise: &str| node["metadata"]["labels"][key].as_str().unwrap_or(otherwise).to_owned();
    json!({
        "architecture": label("kubernetes.io/arch", "amd64"), "operatingSystem": label("kubernetes.io/os", "linux"),
        "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
        "kubeletVersion": "fake", "machineID": "", "osImage": "", "systemUUID": "",
    })
}

/// The pod runs, ready or not.
pub(super) fn write_running(server: &ApiServer, pod: &Value, now: Timestamp, is_ready: bool) {
    let ready = if is_ready { ["True", ""] } else { ["False", "ContainersNotReady"] };
    let mut said = vec![
        ["PodReadyToStartContainers", "True", "", ""],
        ["Initialized", "True", "", ""],
        ["Ready", ready[0], ready[1], ""],
        ["ContainersReady", ready[0], ready[1], ""],
    ];
    let gates = each(&pod["spec"]["readinessGates"]).filter_map(|gate| gate["conditionType"].as_str());
    said.extend(gates.map(|gate| [gate, "True", "", ""]));
    let since = pod["status"]["startTime"].as_str().map_or_else(|| stamp(now), str::to_owned);
    let state = json!({"running": {"startedAt": since}});
    let status = json!({
        "phase": "Running",
        "startTime": since,
        "conditions": conditions_with(pod, now, &said),
        "containerStatuses": containers(pod, is_ready, &state),
    });
    write(server, pod, status);
}

/// The pod is over, well when it ended with nought.
pub(super) fn write_over(server: &ApiServer, pod: &Value, now: Timestamp, exit_code: i64) {
    let (phase, reason) = if exit_code == 0 { ("Succeeded", "Completed") } else { ("Failed", "Error") };
    let said = if exit_code == 0 { "PodCompleted" } else { "PodFailed" };
    let state = json!({"terminated": {
        "exitCode": exit_code, "reason": reason, "startedAt": pod["status"]["startTime"], "finishedAt": stamp(now),
    }});
    let conditions = [["Ready", "False", said, ""], ["ContainersReady", "False", said, ""]];
    let status = json!({
        "phase": phase,
        "conditions": conditions_with(pod, now, &conditions),
        "containerStatuses": containers(pod, false, &state),
    });
    write(server, pod, status);
}

fn containers(pod: &Value, is_ready: bool, state: &Value) -> Vec<Value> {
    let is_started = !state["running"].is_null();
    let one = |container: &Value| {
        let image = container["image"].as_str().unwrap_or_default();
        json!({
            "name": container["name"], "image": image, "imageID": image, "ready": is_ready, "started": is_started,
            "restartCount": 0, "state": state,
        })
    };
    each(&pod["spec"]["containers"]).map(one).collect()
}

fn write(server: &ApiServer, pod: &Value, status: Value) {
    debug_assert!(annotation(pod, "kubernetes.io/config.mirror").is_none(), "mirror pods are not simulated");
    // A pod that has gone meanwhile needs no status.
    let _ = server.patch_status(Kind::Pod, &fields::at(pod), &json!({"status": status}));
}
