//! The whole process, from a claim that somebody wrote to its end.

use serde_json::json;

use super::*;
use crate::testing::{Trouble, pod_on};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_claim_of_nobodys_pool_lives_and_ends() {
    let stage = Stage::with(claim("a", json!({})));
    stage.world.run(Duration::from_secs(5)).await;
    stage.says("a", "Registered", ["True", "Registered", ""]);
    stage.kubelet_reports("True");
    stage.world.run(Duration::from_secs(5)).await;
    stage.says("a", "Ready", ["True", "Ready", ""]);
    stage.somebody_deletes("a");
    stage.world.run(Duration::from_secs(30)).await;
    assert!(!stage.has_claim("a"));
    assert!(stage.world.server.all("Node").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_deletes_takes_its_claim_along() {
    let stage = Stage::initialized(json!({})).await;
    let now = stage.world.ctx.timestamp().to_string();
    stage.change_node(json!({"metadata": {"deletionTimestamp": now}}));
    stage.world.run(Duration::from_secs(30)).await;
    assert!(!stage.has_claim("a"));
    assert!(stage.world.server.all("Node").is_empty());
    assert!(stage.cloud.calls("terminate") >= 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_changes_under_our_hands_costs_no_second_launch() {
    let stage = Stage::with(claim("a", json!({})));
    for _ in 0..3 {
        stage.world.server.trouble("PATCH /api/v1/nodes/", Trouble::Refuses(409));
    }
    stage.world.run(Duration::from_secs(5)).await;
    stage.says("a", "Registered", ["True", "Registered", ""]);
    assert_eq!(stage.cloud.calls("launch"), 1);
    let patches = stage.world.server.asked("PATCH /api/v1/nodes/").len();
    assert_eq!(patches, 4, "three that came too late, and one in time");
}

/// Which of these pods are there.
fn left(stage: &Stage, pods: &[&str]) -> Vec<String> {
    let is_there = |pod: &&&str| stage.world.server.get("Pod", pod).is_some();
    pods.iter().filter(is_there).map(ToString::to_string).collect()
}

// 02/E4
#[tokio::test(start_paused = true)]
async fn protected_pods_go_as_their_time_runs_out_and_others_when_the_grace_of_the_node_does() {
    let stage = Stage::initialized(json!({"spec": {"terminationGracePeriod": "30m"}})).await;
    let node = stage.node_name();
    let started = json!({
        "spec": {"terminationGracePeriodSeconds": 30},
        "status": {"startTime": stage.world.ctx.timestamp().to_string()},
    });
    let pods = ["free", "short", "long", "lasting"];
    for (pod, wish) in pods.into_iter().zip([None, Some("5m"), Some("10m"), Some("true")]) {
        let wish = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": wish}}});
        stage.world.put(merged(merged(pod_on(&node, pod, "100m"), started.clone()), wish));
    }
    stage.somebody_deletes("a");
    let looking = async {
        for (time, expected) in [(4, 1), (2, 2), (3, 2), (2, 3), (18, 3)] {
            tokio::time::sleep(time * MINUTE).await;
            assert_eq!(left(&stage, &pods), &pods[expected..], "at {}", stage.world.ctx.timestamp());
            assert!(stage.has_claim("a"));
        }
    };
    futures::join!(stage.world.run(31 * MINUTE), looking);
    assert_eq!(left(&stage, &pods), [""; 0]);
    assert!(!stage.has_claim("a"));
    assert!(stage.world.server.all("Node").is_empty());
}

// 02/E5
#[tokio::test(start_paused = true)]
async fn a_pod_with_a_slow_stop_hook_is_cut_off_with_the_grace_of_its_node() {
    let stage = Stage::initialized(json!({"spec": {"terminationGracePeriod": "5m"}})).await;
    // Its kubelet keeps it for as long as the hook runs, and the hook never ends.
    let slow = json!({
        "metadata": {"finalizers": ["example.com/hook"]}, "spec": {"terminationGracePeriodSeconds": 3600},
    });
    stage.world.put(merged(pod_on(&stage.node_name(), "slow", "100m"), slow));
    stage.somebody_deletes("a");
    let looking = async {
        tokio::time::sleep(4 * MINUTE).await;
        assert!(stage.has_claim("a"), "the hook has its time");
    };
    // The node goes a minute after the pod should have.
    futures::join!(stage.world.run(7 * MINUTE), looking);
    let cuts = stage.world.server.asked("DELETE /api/v1/namespaces/shop/pods/slow");
    assert_eq!(cuts.len(), 1, "{cuts:?}");
    let grace = cuts[0].body["gracePeriodSeconds"].as_u64().unwrap();
    assert!((290..=300).contains(&grace), "{grace} s of the hour that it wants");
    assert!(!stage.has_claim("a"));
    assert!(stage.world.server.all("Node").is_empty());
}

// 02/E7
#[tokio::test(start_paused = true)]
async fn claims_without_a_pool_end_when_they_do_not_register_or_their_class_is_of_no_use() {
    let stage = Stage::with(claim("late", json!({})));
    stage.world.put(merged(node_class("default"), json!({"spec": {"nodeRegistrationDelay": "10h"}})));
    stage.world.put(claim("lost", json!({"spec": {"nodeClassRef": {"name": "missing"}}})));
    let unready = json!({"status": {"conditions": [
        {"type": "Ready", "status": "False", "reason": "Broken", "message": "broken", "observedGeneration": 1, "lastTransitionTime": EPOCH},
    ]}});
    stage.world.put(merged(node_class("unready"), unready));
    stage.world.put(claim("early", json!({"spec": {"nodeClassRef": {"name": "unready"}}})));
    let looking = async {
        tokio::time::sleep(14 * MINUTE).await;
        stage.says("late", "Launched", ["True", "Launched", ""]);
        assert!(!stage.has_claim("lost"), "no class");
        assert!(!stage.has_claim("early"), "no class that works");
    };
    futures::join!(stage.world.run(16 * MINUTE), looking);
    assert!(!stage.has_claim("late"));
    assert!(stage.world.server.all("Node").is_empty() && stage.world.server.all("ConfigMap").is_empty());
}

// 01/API-22
#[tokio::test(start_paused = true)]
async fn no_duty_ever_touches_claims_and_nodes_of_others() {
    let stage = Stage::with(claim("a", json!({})));
    let condition =
        |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "lastTransitionTime": EPOCH});
    let theirs = json!({
        "metadata": {"finalizers": [FINALIZER], "labels": {"karpenter.sh/nodepool": "theirs"}},
        "spec": {"expireAfter": "1m", "terminationGracePeriod": "1m"},
        "status": {"providerID": "other://1", "nodeName": "theirs", "conditions": [condition("Launched"), condition("Registered")]},
    });
    let ending = json!({"metadata": {"deletionTimestamp": EPOCH}});
    stage.world.put(merged(foreign("old"), theirs.clone()));
    stage.world.put(merged(merged(foreign("ending"), theirs), ending.clone()));
    stage.world.put(foreign("new"));
    for (name, change) in [("theirs", json!({})), ("theirs-ending", ending)] {
        stage.world.put(merged(
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "finalizers": [FINALIZER], "labels": {"karpenter.sh/nodepool": "theirs"}},
                "spec": {"providerID": "other://1"},
            }),
            change,
        ));
        stage.world.put(pod_on(name, &format!("on-{name}"), "100m"));
    }
    let all = || -> Vec<Value> {
        let of = |kind: &str| stage.world.server.all(kind);
        let names = ["old", "ending", "new", "theirs", "theirs-ending"];
        let is_theirs = |object: &Value| names.contains(&object["metadata"]["name"].as_str().unwrap_or_default());
        [of("NodeClaim"), of("Node")].concat().into_iter().filter(is_theirs).chain(of("Pod")).collect()
    };
    let before = all();
    assert_eq!(before.len(), 7);
    stage.world.run(60 * MINUTE).await;
    assert_eq!(all(), before);
    stage.says("a", "Registered", ["True", "Registered", ""]);
}
