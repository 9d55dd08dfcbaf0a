//! Random pods.

use serde_json::{Map, Value, json};

use crate::draw::Draw;
use crate::near::{self, Whose};
use crate::nodes;
use crate::stage::{self, HEAVY};

/// Where the pods of a world can be.
pub(crate) struct Place {
    pub(crate) world: usize,
    pub(crate) nodes: usize,
    pub(crate) namespaces: Vec<&'static str>,
}

/// A pod that stands on a node before anyone is asked, whether or not it could have come there by itself.
pub(crate) struct Standing {
    pub(crate) pod: Value,
    pub(crate) fate: Fate,
}

/// What becomes of a standing pod.
pub(crate) enum Fate {
    Runs,
    /// Told to end, and still there.
    Ends,
    Ended(&'static str),
    /// Its kubelet reports other amounts than are written.
    Resized(Value),
}

pub(crate) fn standing(draw: &mut Draw, place: &Place, index: usize) -> Standing {
    let mut pod = named(draw, place, &format!("w{}-standing-{index}", place.world));
    // Sometimes the node is gone, and nobody has removed the pod yet.
    let node = if draw.chance(3) { "gone".to_owned() } else { nodes::name(place.world, draw.below(place.nodes)) };
    let spec = &mut pod["spec"];
    spec["containers"] = containers(draw, 30);
    spec["nodeName"] = node.into();
    if draw.chance(20) {
        spec["affinity"] = json!({"podAntiAffinity": {REQUIRED: near::terms(draw, Whose::Standing)}});
    }
    if draw.chance(15) {
        set_volumes(draw, spec);
    }
    let fate = match draw.below(12) {
        0..2 => Fate::Ends,
        2 => Fate::Ended(draw.pick(&["Succeeded", "Failed"])),
        3..5 => {
            // So that it matters whether what is written counts beside what is reported.
            spec["containers"][0]["resources"] = large(draw);
            Fate::Resized(resized(draw))
        }
        _ => Fate::Runs,
    };
    Standing { pod, fate }
}

pub(crate) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// What a pod is mostly about. With everything at once, one rule would hide what the next would have said.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Theme {
    Amounts,
    Ports,
    Nodes,
    Volumes,
    Spread,
    Company,
}

impl Theme {
    const ALL: [Self; 9] = [
        Self::Amounts,
        Self::Amounts,
        Self::Ports,
        Self::Nodes,
        Self::Volumes,
        Self::Spread,
        Self::Spread,
        Self::Company,
        Self::Company,
    ];
}

pub(crate) fn pending(draw: &mut Draw, place: &Place, index: usize) -> Value {
    let theme = draw.pick(&Theme::ALL);
    let is_spread = theme == Theme::Spread;
    // The chance of something in a pod that is about it, and in any other.
    let odds = |own: Theme, among: usize, otherwise: usize| if theme == own { among } else { otherwise };
    let mut pod = named(draw, place, &format!("w{}-pending-{index}", place.world));
    let spec = &mut pod["spec"];
    spec["containers"] = containers(draw, odds(Theme::Ports, 70, 5));
    set_amounts(draw, spec, odds(Theme::Amounts, 80, 10));
    if draw.chance(odds(Theme::Ports, 20, 1)) {
        // Then every port is a port of the host.
        spec["hostNetwork"] = true.into();
        spec["containers"][0]["ports"] = json!([{"containerPort": 80}]);
    }
    if draw.chance(odds(Theme::Nodes, 30, 3)) {
        spec["nodeSelector"] = nodes::selector(draw);
    }
    if draw.chance(if is_spread { 50 } else { odds(Theme::Nodes, 60, 25) }) {
        spec["tolerations"] = nodes::tolerations(draw).into();
    }
    if draw.chance(odds(Theme::Spread, 100, 10)) {
        spec["topologySpreadConstraints"] = near::spreads(draw).into();
    }
    if draw.chance(odds(Theme::Volumes, 100, 3)) {
        set_volumes(draw, spec);
    }
    let mut affinity = Map::new();
    if draw.chance(if is_spread { 40 } else { odds(Theme::Nodes, 80, 5) }) {
        let terms = node_terms(draw, place.world);
        affinity.insert("nodeAffinity".to_owned(), json!({REQUIRED: {"nodeSelectorTerms": terms}}));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        if draw.chance(odds(Theme::Company, 60, 5)) {
            affinity.insert(kind.to_owned(), json!({REQUIRED: near::terms(draw, Whose::Pending)}));
        }
    }
    if !affinity.is_empty() {
        spec["affinity"] = affinity.into();
    }
    pod
}

/// What a pod needs beside its containers.
fn set_amounts(draw: &mut Draw, spec: &mut Value, percent: usize) {
    if !draw.chance(percent) {
        return;
    }
    match draw.below(5) {
        0..3 => spec["initContainers"] = init_containers(draw),
        // More than all containers can ask for together.
        3 => spec["resources"] = json!({"requests": {"cpu": draw.pick(&["1", "2"]), "memory": "1.5Gi"}}),
        _ => {}
    }
    if draw.chance(40) {
        spec["runtimeClassName"] = HEAVY.into();
    }
}

fn node_terms(draw: &mut Draw, world: usize) -> Vec<Value> {
    let mut terms = nodes::terms(draw);
    if draw.chance(15) {
        terms.push(nodes::term_with_field(draw, world));
    }
    terms
}

fn named(draw: &mut Draw, place: &Place, name: &str) -> Value {
    let namespace = draw.pick(&place.namespaces);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": near::labels(draw)},
        "spec": {},
    })
}

fn containers(draw: &mut Draw, percent_with_ports: usize) -> Value {
    let count = draw.pick(&[1, 1, 2]);
    let mut containers: Vec<Value> = (0..count)
        .map(|index| json!({"name": format!("c{index}"), "image": "none", "resources": small(draw)}))
        .collect();
    if draw.chance(percent_with_ports) {
        containers[0]["ports"] = ports(draw);
    }
    containers.into()
}

/// Of these some keep running beside the others, and count for everything that starts after them.
fn init_containers(draw: &mut Draw) -> Value {
    let count = draw.between(1, 3);
    let mut containers = Vec::new();
    for index in 0..count {
        let mut container = json!({"name": format!("i{index}"), "image": "none", "resources": large(draw)});
        if draw.chance(50) {
            container["restartPolicy"] = "Always".into();
        }
        if draw.chance(20) {
            container["ports"] = json!([{"containerPort": 90, "hostPort": 90}]);
        }
        containers.push(container);
    }
    containers.into()
}

fn small(draw: &mut Draw) -> Value {
    resources(draw, &["0", "100m", "0.25", "500m"], &["100M", "128Mi", "0.25Gi", "0.5Gi"])
}

fn large(draw: &mut Draw) -> Value {
    resources(draw, &["500m", "0.75", "1", "1500m"], &["0.5Gi", "1G", "1.5Gi"])
}

/// What a container asks for, out of these amounts of cpu and memory.
fn resources(draw: &mut Draw, cpu: &[&str], memory: &[&str]) -> Value {
    let mut amounts = Map::new();
    let mut set = |name: &str, amount: &str| drop(amounts.insert(name.to_owned(), amount.into()));
    if draw.chance(75) {
        set("cpu", draw.pick(cpu));
    }
    if draw.chance(75) {
        set("memory", draw.pick(memory));
    }
    if draw.chance(20) {
        set("ephemeral-storage", draw.pick(&["1", "500m", "1500m"]));
    }
    // What cannot be shared or overcommitted must be written as a limit too.
    let mut whole = Map::new();
    if draw.chance(4) {
        whole.insert("example.com/gpu".to_owned(), "1".into());
    }
    if draw.chance(2) {
        whole.insert("hugepages-2Mi".to_owned(), "2Mi".into());
        amounts.entry("cpu").or_insert_with(|| "100m".into());
    }
    if draw.chance(15) {
        // The API server makes requests of limits that stand alone.
        amounts.extend(whole);
        return json!({"limits": amounts});
    }
    amounts.extend(whole.clone());
    json!({"requests": amounts, "limits": whole})
}

fn resized(draw: &mut Draw) -> Value {
    let held = json!({"cpu": draw.pick(&["50m", "1", "2"]), "memory": draw.pick(&["64Mi", "2Gi"])});
    let allocated = if draw.chance(50) { held.clone() } else { json!({"cpu": "1"}) };
    let status = json!({
        "name": "c0",
        "image": "none",
        "imageID": "none",
        "ready": true,
        "restartCount": 0,
        "resources": {"requests": held},
        "allocatedResources": allocated,
    });
    let mut conditions = Vec::new();
    if draw.chance(80) {
        let reason = draw.pick(&["Infeasible", "Infeasible", "Deferred"]);
        conditions.push(json!({"type": "PodResizePending", "status": "True", "reason": reason}));
    }
    json!({"phase": "Running", "containerStatuses": [status], "conditions": conditions})
}

fn ports(draw: &mut Draw) -> Value {
    let number = draw.pick(&[80, 80, 80, 90]);
    let mut port = json!({
        "containerPort": number,
        "hostPort": number,
        "protocol": draw.pick(&["TCP", "TCP", "TCP", "UDP", "SCTP"]),
    });
    if draw.chance(90) {
        port["hostIP"] = draw.pick(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "0.0.0.0", "::"]).into();
    }
    json!([port])
}

fn set_volumes(draw: &mut Draw, spec: &mut Value) {
    let mut claims = draw.some(&stage::BOUND, 2);
    if draw.chance(40) {
        claims.push(draw.pick(&stage::OTHERS));
    }
    spec["volumes"] = stage::volumes(&claims);
}
