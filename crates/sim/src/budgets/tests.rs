use serde_json::json;

use super::*;
use crate::fields::{condition, stamp};
use crate::testing::{Stage, pod, workload};

fn budget(spec: Value) -> Value {
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        budget["spec"][key.as_str()] = value.clone();
    }
    budget
}

/// Expected, desired, healthy, allowed.
fn numbers(stage: &Stage) -> [i64; 4] {
    let status = stage.get(Kind::PodDisruptionBudget, "b")["status"].clone();
    ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"].map(|field| integer(&status[field], -1))
}

fn reason(stage: &Stage) -> Value {
    condition(&stage.get(Kind::PodDisruptionBudget, "b"), "DisruptionAllowed").unwrap()["reason"].clone()
}

#[tokio::test(start_paused = true)]
async fn budgets_allow_what_is_healthy_beyond_what_is_desired() {
    for (replicas, spec, expected) in [
        (3, json!({"minAvailable": "50%"}), [3, 2, 3, 1]),
        (3, json!({"maxUnavailable": "50%"}), [3, 1, 3, 2]),
        (3, json!({"minAvailable": 2}), [3, 2, 3, 1]),
        (3, json!({"minAvailable": 5}), [3, 5, 3, 0]),
        (3, json!({"maxUnavailable": 0}), [3, 3, 3, 0]),
        (10, json!({"maxUnavailable": "25%"}), [10, 7, 10, 3]),
        (0, json!({"maxUnavailable": 1}), [0, 0, 0, 0]),
    ] {
        let mut stage = Stage::new();
        stage.nodes(&["n1"]);
        stage.create(workload(Kind::Deployment, "web", json!({"replicas": replicas})));
        stage.create(budget(spec.clone()));
        stage.pass(3).await;
        assert_eq!(numbers(&stage), expected, "{replicas} {spec}");
        let allows = expected[3] > 0;
        assert_eq!(reason(&stage), if allows { "SufficientPods" } else { "InsufficientPods" });
        let wire = stage.get(Kind::PodDisruptionBudget, "b");
        assert_eq!(wire["status"]["observedGeneration"], wire["metadata"]["generation"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_follows_its_workloads_and_its_pods() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(workload(Kind::StatefulSet, "web", json!({"replicas": 4, "podManagementPolicy": "Parallel"})));
    stage.create(budget(json!({"maxUnavailable": "25%"})));
    stage.pass(3).await;
    assert_eq!(numbers(&stage), [4, 3, 4, 1]);
    // Asked for, but not there yet.
    stage.patch(Kind::StatefulSet, "web", json!({"spec": {"replicas": 8}}));
    stage.settle();
    assert_eq!(numbers(&stage), [8, 6, 4, 0]);
    stage.pass(3).await;
    assert_eq!(numbers(&stage), [8, 6, 8, 2]);
    stage.patch(Kind::PodDisruptionBudget, "b", json!({"spec": {"selector": {"matchLabels": {"app": "none"}}}}));
    stage.settle();
    assert_eq!(numbers(&stage), [0, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn pods_without_a_controller_count_only_for_a_plain_number() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(pod("a", json!({})));
    stage.create(pod("b", json!({})));
    stage.create(budget(json!({"minAvailable": 1})));
    stage.pass(3).await;
    assert_eq!(numbers(&stage), [2, 1, 2, 1]);
    stage.patch(Kind::PodDisruptionBudget, "b", json!({"spec": {"minAvailable": null, "maxUnavailable": 1}}));
    stage.pass(1).await;
    assert_eq!(numbers(&stage), [0, 0, 2, 0]);
}

#[tokio::test(start_paused = true)]
async fn owners_that_cannot_be_scaled_make_a_budget_fail_safe() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(workload(Kind::DaemonSet, "web", json!({})));
    stage.create(budget(json!({"maxUnavailable": 1})));
    stage.pass(3).await;
    assert_eq!(reason(&stage), "SyncFailed");
    assert_eq!(numbers(&stage)[3], 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_its_way_out_counts_as_gone_for_two_minutes() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(workload(Kind::Deployment, "web", json!({"replicas": 3})));
    stage.create(budget(json!({"maxUnavailable": 1})));
    stage.pass(3).await;
    let leaving = stage.pods()[0].clone();
    // As the eviction of a pod does before it deletes it.
    let patch = json!({"status": {"disruptionsAllowed": 0, "disruptedPods": {leaving: stamp(stage.server.now())}}});
    stage.server.patch_status(Kind::PodDisruptionBudget, &at_in("default", "b"), &patch).unwrap();
    stage.pass(60).await;
    assert_eq!(numbers(&stage), [3, 2, 2, 0]);
    stage.pass(61).await;
    assert_eq!(numbers(&stage), [3, 2, 3, 1]);
    let wire = stage.get(Kind::PodDisruptionBudget, "b");
    assert!(wire["status"]["disruptedPods"].as_object().is_none_or(|pods| pods.is_empty()));
}
