use serde_json::json;

use super::*;
use crate::fields::is_ready;
use crate::kubelet::{resume, set_condition, stop};
use crate::testing::{Stage, pod};

fn taints(stage: &Stage, node: &str) -> Vec<String> {
    let node = stage.get(Kind::Node, node);
    let text = |value: &Value| value.as_str().unwrap_or_default().trim_start_matches("node.kubernetes.io/").to_owned();
    let mut taints: Vec<String> = each(&node["spec"]["taints"])
        .map(|taint| format!("{}:{}", text(&taint["key"]), text(&taint["effect"])))
        .collect();
    taints.sort();
    taints
}

#[tokio::test(start_paused = true)]
async fn taints_follow_conditions_and_leave_others_alone() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    assert_eq!(taints(&stage, "n1"), ["not-ready:NoSchedule"]);
    stage.pass(1).await;
    assert_eq!(taints(&stage, "n1"), [""; 0]);
    stage.patch(
        Kind::Node,
        "n1",
        json!({"spec": {"taints": [{"key": "team", "effect": "NoSchedule"}], "unschedulable": true}}),
    );
    set_condition(&stage.server, "n1", "MemoryPressure", "True").unwrap();
    stage.pass(1).await;
    assert_eq!(taints(&stage, "n1"), ["memory-pressure:NoSchedule", "team:NoSchedule", "unschedulable:NoSchedule"]);
    set_condition(&stage.server, "n1", "Ready", "Unknown").unwrap();
    set_condition(&stage.server, "n1", "MemoryPressure", "False").unwrap();
    stage.patch(Kind::Node, "n1", json!({"spec": {"unschedulable": null}}));
    stage.pass(1).await;
    assert_eq!(taints(&stage, "n1"), ["team:NoSchedule", "unreachable:NoExecute", "unreachable:NoSchedule"]);
    let node = stage.get(Kind::Node, "n1");
    let executing = each(&node["spec"]["taints"]).find(|taint| taint["effect"] == "NoExecute").unwrap();
    assert_eq!(executing["timeAdded"], "2026-01-01T00:00:02Z");
    set_condition(&stage.server, "n1", "Ready", "True").unwrap();
    stage.pass(1).await;
    assert_eq!(taints(&stage, "n1"), ["team:NoSchedule"]);
}

#[tokio::test(start_paused = true)]
async fn pods_leave_a_sick_node_when_their_patience_is_over() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(pod("usual", json!({})));
    let forever = json!([{"operator": "Exists"}]);
    stage.create(pod("stoic", json!({"tolerations": forever})));
    let briefly = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}]);
    stage.create(pod("touchy", json!({"tolerations": briefly})));
    stage.pass(5).await;
    set_condition(&stage.server, "n1", "Ready", "False").unwrap();
    stage.pass(9).await;
    assert_eq!(stage.pods(), ["stoic", "touchy", "usual"]);
    assert_eq!(stage.ready_pods(), 0);
    stage.pass(2).await;
    assert_eq!(stage.pods(), ["stoic", "usual"]);
    stage.pass(287).await;
    assert_eq!(stage.pods(), ["stoic", "usual"]);
    stage.pass(4).await;
    assert_eq!(stage.pods(), ["stoic"]);
    set_condition(&stage.server, "n1", "Ready", "True").unwrap();
    stage.pass(2).await;
    assert!(is_ready(&stage.get(Kind::Pod, "stoic")));
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_silent_node_are_marked_but_nobody_lets_them_go() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(pod("p", json!({})));
    stage.pass(5).await;
    stop(&stage.server, "n1").unwrap();
    stage.pass(345).await;
    assert!(!is_deleting(&stage.get(Kind::Pod, "p")));
    stage.pass(10).await;
    assert!(is_deleting(&stage.get(Kind::Pod, "p")));
    assert!(has_condition(&stage.get(Kind::Pod, "p"), "DisruptionTarget", "True"));
    stage.pass(3600).await;
    resume(&stage.server, "n1").unwrap();
    stage.pass(5).await;
    assert!(stage.pods().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_recovers_in_time_keeps_its_pods() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(pod("p", json!({})));
    stage.pass(5).await;
    stop(&stage.server, "n1").unwrap();
    stage.pass(300).await;
    assert_eq!(taints(&stage, "n1"), ["unreachable:NoExecute", "unreachable:NoSchedule"]);
    resume(&stage.server, "n1").unwrap();
    stage.pass(600).await;
    assert!(is_ready(&stage.get(Kind::Pod, "p")));
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_is_not_tolerated_evicts_at_once() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(pod("there", json!({})));
    stage.pass(5).await;
    stage.patch(Kind::Node, "n1", json!({"spec": {"taints": [{"key": "away", "effect": "NoExecute"}]}}));
    stage.server.create(pod("newcomer", json!({"nodeName": "n1"}))).unwrap();
    stage.pass(2).await;
    assert!(stage.pods().is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_is_gone_are_collected_after_a_quarantine() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(pod("p", json!({})));
    stage.pass(5).await;
    stage.delete(Kind::Node, "n1");
    // The collector comes by at 0:20 and waits forty seconds from then on.
    stage.pass(50).await;
    assert_eq!(stage.pods(), ["p"]);
    stage.pass(10).await;
    assert!(stage.pods().is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_on_a_node_that_is_out_of_service_are_let_go_by_force() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(pod("p", json!({})));
    stage.pass(5).await;
    stop(&stage.server, "n1").unwrap();
    stage.pass(60).await;
    stage.delete(Kind::Pod, "p");
    stage.pass(60).await;
    assert_eq!(stage.pods(), ["p"]);
    let mut taints = stage.get(Kind::Node, "n1")["spec"]["taints"].clone();
    let out = json!({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"});
    taints.as_array_mut().unwrap().push(out);
    stage.patch(Kind::Node, "n1", json!({"spec": {"taints": taints}}));
    stage.pass(21).await;
    assert!(stage.pods().is_empty());
}
