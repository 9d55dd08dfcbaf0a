//! Random nodes, and random demands on their labels.

use serde_json::{Map, Value, json};

use crate::draw::Draw;

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const RACK: &str = "example.com/rack";
const DISK: &str = "disk";
const GENERATION: &str = "example.com/generation";

pub(crate) const ZONES: [&str; 3] = ["a", "b", "c"];
const RACKS: [&str; 2] = ["r1", "r2"];
const DISKS: [&str; 3] = ["ssd", "hdd", ""];
/// Not all of them are numbers.
const GENERATIONS: [&str; 4] = ["2", "07", "10", "x"];

pub(crate) const MOST_NODES: usize = 6;

/// Worlds take turns with two sets of names: when the second set's last node has been seen, so has the end of the first
/// set, and its names can be used again.
pub(crate) fn name(world: usize, index: usize) -> String {
    format!("{}{index}", ["even-", "odd-"][world % 2])
}

pub(crate) fn nodes(draw: &mut Draw, world: usize) -> Vec<Value> {
    let count = draw.between(2, MOST_NODES);
    let mut nodes: Vec<Value> = (0..count).map(|index| node(draw, &name(world, index))).collect();
    if draw.chance(10) {
        // A kubelet that has not reported yet. Never the last node, which the fence asks for.
        nodes[0]["status"] = json!({});
    }
    nodes
}

fn node(draw: &mut Draw, name: &str) -> Value {
    let amounts = amounts(draw);
    let is_cordoned = draw.chance(3);
    let mut taints = taints(draw);
    if is_cordoned {
        // The node lifecycle controller, which is not running here, keeps this one beside the flag.
        taints.push(json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels(draw, name)},
        "spec": {"taints": taints, "unschedulable": is_cordoned},
        "status": {"capacity": amounts, "allocatable": amounts},
    })
}

fn labels(draw: &mut Draw, name: &str) -> Map<String, Value> {
    let mut labels = Map::new();
    // Kubelets always set it, to the node's name unless told otherwise.
    labels.insert(HOSTNAME.to_owned(), name.into());
    for (key, values, percent) in [
        (ZONE, &["a", "a", "b", "b", "c"][..], 90),
        (RACK, &RACKS[..], 80),
        (DISK, &DISKS[..], 70),
        (GENERATION, &GENERATIONS[..], 70),
    ] {
        if draw.chance(percent) {
            labels.insert(key.to_owned(), draw.pick(values).into());
        }
    }
    labels
}

fn taints(draw: &mut Draw) -> Vec<Value> {
    let mut taints = Vec::new();
    if draw.chance(10) {
        let effect = draw.pick(&["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        taints.push(json!({"key": "dedicated", "value": draw.pick(&["batch", "web"]), "effect": effect}));
    }
    if draw.chance(9) {
        taints.push(json!({"key": "level", "value": draw.pick(&["5", "50", "high"]), "effect": "NoSchedule"}));
    }
    taints
}

fn amounts(draw: &mut Draw) -> Map<String, Value> {
    let mut amounts = Map::new();
    let mut set = |name: &str, amount: &str| drop(amounts.insert(name.to_owned(), amount.into()));
    set("cpu", draw.pick(&["1500m", "2", "4", "8"]));
    set("memory", draw.pick(&["2G", "4Gi", "8Gi"]));
    set("pods", draw.pick(&["4", "9", "110", "110"]));
    // A few bytes only, so that it shows who rounds what and when.
    set("ephemeral-storage", draw.pick(&["3", "5500m", "20", "20"]));
    if draw.chance(60) {
        set("example.com/gpu", draw.pick(&["1", "2"]));
    }
    if draw.chance(60) {
        set("hugepages-2Mi", "4Mi");
    }
    amounts
}

/// Terms of a node selector, of which one must hold.
pub(crate) fn terms(draw: &mut Draw) -> Vec<Value> {
    let count = draw.pick(&[1, 1, 2, 3]);
    let mut terms: Vec<Value> = (0..count)
        .map(|_| {
            let count = draw.pick(&[1, 1, 2]);
            let expressions: Vec<Value> = (0..count).map(|_| expression(draw)).collect();
            json!({"matchExpressions": expressions})
        })
        .collect();
    if draw.chance(5) {
        // Selects nothing.
        terms.push(json!({}));
    }
    terms
}

fn expression(draw: &mut Draw) -> Value {
    if draw.chance(20) {
        let bound = draw.pick(&["1", "2", "7", "9"]);
        return json!({"key": GENERATION, "operator": draw.pick(&["Gt", "Lt"]), "values": [bound]});
    }
    let (key, values) =
        draw.pick(&[(ZONE, &ZONES[..]), (RACK, &RACKS[..]), (DISK, &DISKS[..]), (GENERATION, &GENERATIONS[..])]);
    match draw.below(8) {
        0..4 => json!({"key": key, "operator": "In", "values": draw.some(values, 2)}),
        4..6 => json!({"key": key, "operator": "NotIn", "values": draw.some(values, 2)}),
        6 => json!({"key": key, "operator": "Exists"}),
        _ => json!({"key": key, "operator": "DoesNotExist"}),
    }
}

/// A term that also names a node by its field.
pub(crate) fn term_with_field(draw: &mut Draw, world: usize) -> Value {
    let node = name(world, draw.below(3));
    let field = json!({"key": "metadata.name", "operator": draw.pick(&["In", "NotIn"]), "values": [node]});
    let mut term = json!({"matchFields": [field]});
    if draw.chance(30) {
        term["matchExpressions"] = json!([expression(draw)]);
    }
    term
}

pub(crate) fn selector(draw: &mut Draw) -> Value {
    let (key, values) = draw.pick(&[(ZONE, &ZONES[..2]), (DISK, &DISKS[..])]);
    json!({key: draw.pick(values)})
}

pub(crate) fn tolerations(draw: &mut Draw) -> Vec<Value> {
    let effect = draw.pick(&["", "", "NoSchedule", "NoExecute"]);
    let one = match draw.below(7) {
        0 => json!({"operator": "Exists"}),
        1 => json!({"key": "dedicated", "operator": "Exists", "effect": effect}),
        2 => json!({"key": "dedicated", "value": draw.pick(&["batch", "web"]), "effect": effect}),
        3..5 => json!({"key": "level", "operator": draw.pick(&["Gt", "Lt"]), "value": draw.pick(&["5", "20", "50"])}),
        5 => json!({"key": "level", "operator": "Equal", "value": "high"}),
        _ => json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": effect}),
    };
    if draw.chance(30) { vec![one, json!({"key": "dedicated", "operator": "Exists"})] } else { vec![one] }
}
