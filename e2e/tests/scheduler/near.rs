//! Random ways for a pod to stand to other pods.

use serde_json::{Map, Value, json};

use crate::draw::Draw;
use crate::nodes::{HOSTNAME, RACK, ZONE};

/// Namespaces and their labels. A world uses one or two of them.
pub(crate) const NAMESPACES: [(&str, &[(&str, &str)]); 4] = [
    ("red", &[("team", "a"), ("env", "prod")]),
    ("blue", &[("team", "b"), ("env", "prod")]),
    ("green", &[("team", "a")]),
    ("grey", &[]),
];

const APPS: [&str; 3] = ["web", "db", "cache"];
/// What is common, so that pods have something to do with each other.
const USUAL: [&str; 3] = ["web", "web", "db"];
const TIERS: [&str; 2] = ["front", "back"];
const TOPOLOGIES: [&str; 4] = [ZONE, ZONE, HOSTNAME, RACK];

pub(crate) fn labels(draw: &mut Draw) -> Map<String, Value> {
    let mut labels = Map::new();
    for (key, values, percent) in [("app", &USUAL[..], 90), ("tier", &TIERS[..], 60), ("rev", &["1", "2"], 80)] {
        if draw.chance(percent) {
            labels.insert(key.to_owned(), draw.pick(values).into());
        }
    }
    labels
}

/// A selector of pods; none at all selects nothing, an empty one everything.
fn selector(draw: &mut Draw) -> Option<Value> {
    match draw.below(20) {
        0 => None,
        1 => Some(json!({})),
        2..12 => Some(json!({"matchLabels": {"app": draw.pick(&USUAL)}})),
        12..16 => Some(json!({"matchExpressions": [expression(draw)]})),
        _ => Some(json!({"matchLabels": {"tier": draw.pick(&TIERS)}, "matchExpressions": [expression(draw)]})),
    }
}

fn expression(draw: &mut Draw) -> Value {
    let (key, values) = draw.pick(&[("app", &APPS[..]), ("app", &APPS[..]), ("tier", &TIERS[..])]);
    match draw.below(6) {
        0..2 => json!({"key": key, "operator": "In", "values": draw.some(values, 2)}),
        2..4 => json!({"key": key, "operator": "NotIn", "values": draw.some(values, 1)}),
        4 => json!({"key": key, "operator": "Exists"}),
        _ => json!({"key": key, "operator": "DoesNotExist"}),
    }
}

pub(crate) fn spreads(draw: &mut Draw) -> Vec<Value> {
    let mut spreads: Vec<Value> = Vec::new();
    for _ in 0..draw.pick(&[1, 1, 2, 3]) {
        let spread = spread(draw);
        // The API server wants each key once per mode.
        let is_twin = |other: &Value| {
            other["topologyKey"] == spread["topologyKey"] && other["whenUnsatisfiable"] == spread["whenUnsatisfiable"]
        };
        if !spreads.iter().any(is_twin) {
            spreads.push(spread);
        }
    }
    spreads
}

fn spread(draw: &mut Draw) -> Value {
    let mode = if draw.chance(80) { "DoNotSchedule" } else { "ScheduleAnyway" };
    let mut spread = json!({
        "topologyKey": draw.pick(&TOPOLOGIES),
        "maxSkew": draw.pick(&[1, 1, 1, 2]),
        "whenUnsatisfiable": mode,
    });
    if let Some(selector) = selector(draw) {
        spread["labelSelector"] = selector;
        if draw.chance(40) {
            spread["matchLabelKeys"] = json!(["rev"]);
        }
    }
    if mode == "DoNotSchedule" && draw.chance(30) {
        spread["minDomains"] = draw.between(1, 5).into();
    }
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if draw.chance(50) {
            spread[policy] = draw.pick(&["Honor", "Ignore"]).into();
        }
    }
    spread
}

/// Whose terms are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    Standing,
    Pending,
}

pub(crate) fn terms(draw: &mut Draw, whose: Whose) -> Vec<Value> {
    let count = draw.pick(&[1, 1, 1, 2]);
    (0..count).map(|_| term(draw, whose)).collect()
}

fn term(draw: &mut Draw, whose: Whose) -> Value {
    let mut term = json!({"topologyKey": draw.pick(&TOPOLOGIES)});
    if let Some(selector) = selector(draw) {
        term["labelSelector"] = selector;
        match draw.below(4) {
            0 => term["matchLabelKeys"] = json!(["rev"]),
            1 => term["mismatchLabelKeys"] = json!(["rev"]),
            _ => {}
        }
    }
    if draw.chance(25) {
        term["namespaces"] = draw.some(&NAMESPACES, 2).into_iter().map(|(name, _)| name).collect();
    }
    if draw.chance(40) {
        term["namespaceSelector"] = match draw.below(4) {
            0 => json!({}),
            1 => json!({"matchLabels": {"team": "a"}}),
            2 => json!({"matchLabels": {"kubernetes.io/metadata.name": "blue"}}),
            // See `a_new_pods_term_that_namespaces_without_labels_match_is_taken_for_all_namespaces`.
            _ if whose == Whose::Pending => json!({"matchExpressions": [{"key": "env", "operator": "Exists"}]}),
            _ => json!({"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]}),
        };
    }
    term
}
