//! Pools: told apart by labels, bounded by limits, spread over zones; and nodes that are none of our business.

use std::collections::BTreeMap;

use e2e::Replica;
use e2e::replica::wait_for;
use serde_json::{Value, json};

use crate::stage::{LIMIT, Stage, deployment, merged, pool};

fn labelled(name: &str, team: &str) -> Value {
    merged(pool(name, json!([])), json!({"spec": {"template": {"metadata": {"labels": {"example.com/team": team}}}}}))
}

fn of_template(name: &str, replicas: u32, spec: Value) -> Value {
    merged(deployment(name, replicas, json!({"cpu": "1"})), json!({"spec": {"template": {"spec": spec}}}))
}

// 01/CON-01
#[test]
fn pools_are_told_apart_by_a_custom_label_beside_nodes_of_another_owner() {
    let stage = Stage::kwok();
    stage.apply(&labelled("red", "red"));
    stage.apply(&labelled("blue", "blue"));
    stage.apply(&json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "theirs", "labels": {"example.com/team": "other"}},
        "spec": {"providerID": "other://theirs", "taints": [{"key": "example.com/closed", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "64", "memory": "64Gi", "pods": "100"}, "allocatable": {"cpu": "64", "memory": "64Gi", "pods": "100"}},
    }));
    let theirs = || {
        let node = stage.get(&["node", "theirs"]);
        // Kubernetes itself adds and removes taints for readiness.
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let own: Vec<Value> = taints
            .into_iter()
            .filter(|taint| !taint["key"].as_str().unwrap().starts_with("node.kubernetes.io/"))
            .collect();
        (
            node["metadata"]["labels"].clone(),
            node["metadata"]["finalizers"].clone(),
            node["metadata"]["uid"].clone(),
            own,
        )
    };
    let live = Replica::start(&stage.cluster, &[]).unwrap();
    let before = theirs();
    for team in ["red", "blue"] {
        stage.apply(&of_template(team, 3, json!({"nodeSelector": {"example.com/team": team}})));
    }
    stage.rolled_out("red", &live);
    stage.rolled_out("blue", &live);
    stage.agrees(&live);
    for team in ["red", "blue"] {
        for pod in stage.items(&["pods", &format!("--selector=app={team}")]) {
            let node = stage.get(&["node", pod["spec"]["nodeName"].as_str().unwrap()]);
            assert_eq!(node["metadata"]["labels"]["karpenter.sh/nodepool"], *team);
            assert_eq!(node["metadata"]["labels"]["example.com/team"], *team);
        }
    }
    assert_eq!(theirs(), before);
}

#[test]
fn limits_stop_growth_with_an_event_that_names_them() {
    let stage = Stage::kwok();
    let sizes = json!([{"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]}]);
    stage.apply(&merged(pool("small", sizes), json!({"spec": {"limits": {"cpu": "8"}}})));
    let live = Replica::start(&stage.cluster, &[]).unwrap();
    stage.apply(&deployment("web", 12, json!({"cpu": "1"})));
    let message = stage.event("FailedScheduling", "limit", &live);
    assert!(message.contains("small") && message.contains("cpu"), "{message}");
    stage.agrees(&live);
    assert_eq!(stage.items(&["nodeclaims"]).len(), 2, "two machines of four cores");
    let running = || stage.items(&["pods", "--field-selector=status.phase=Running"]).len();
    // Three on each, beside what the system keeps.
    wait_for("six pods to run", LIMIT, || Ok((running() == 6).then_some(()))).unwrap();
    stage
        .cluster
        .succeed(&["patch", "nodepool", "small", "--type=merge", "--patch", r#"{"spec":{"limits":{"cpu":"16"}}}"#])
        .unwrap();
    stage.rolled_out("web", &live);
}

#[test]
fn pods_are_spread_over_zones() {
    let stage = Stage::kwok();
    stage.apply(&pool("general", json!([])));
    let live = Replica::start(&stage.cluster, &[]).unwrap();
    let spread = json!([{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]);
    stage.apply(&of_template("web", 8, json!({"topologySpreadConstraints": spread})));
    stage.rolled_out("web", &live);
    let mut zones: BTreeMap<String, usize> = BTreeMap::new();
    for pod in stage.items(&["pods"]) {
        let node = stage.get(&["node", pod["spec"]["nodeName"].as_str().unwrap()]);
        let zone = node["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str().unwrap().to_owned();
        *zones.entry(zone).or_default() += 1;
    }
    assert_eq!(zones.into_values().collect::<Vec<_>>(), [2, 2, 2, 2]);
}
