use serde_json::json;

use crate::apiserver::ApiServer;
use crate::fields::{at_in, controller, is_ready, name, phase};
use crate::kinds::Kind;
use crate::standin::StandIn;
use crate::testing::{Stage, pod, server, workload};
use crate::workload::Workloads;

/// Only workload controllers: whatever else happens to pods, the test does.
fn bare() -> Stage {
    let parts: Vec<Box<dyn StandIn>> = vec![Box::new(Workloads::new())];
    Stage::of(server(), parts)
}

fn run(server: &ApiServer, pod: &str, node: &str, is_ready: bool) {
    let at = at_in("default", pod);
    server.bind(&at, node).unwrap();
    let status = if is_ready { "True" } else { "False" };
    let since = server.now().to_string();
    let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": since});
    server.patch_status(Kind::Pod, &at, &json!({"status": {"phase": "Running", "conditions": [condition]}})).unwrap();
}

#[tokio::test(start_paused = true)]
async fn scaling_down_takes_who_is_missed_least() {
    let mut stage = bare();
    stage.create(workload(Kind::ReplicaSet, "web", json!({"replicas": 6})));
    stage.settle();
    let pods = stage.pods();
    // Unbound, pending on a node, not ready, cheap, in a crowd, and one more.
    stage.server.bind(&at_in("default", &pods[1]), "n1").unwrap();
    run(&stage.server, &pods[2], "n2", false);
    run(&stage.server, &pods[3], "n3", true);
    run(&stage.server, &pods[4], "n4", true);
    run(&stage.server, &pods[5], "n5", true);
    let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}});
    stage.patch(Kind::Pod, &pods[4], cost);
    for (left, gone) in [(5, 0), (4, 1), (3, 2), (2, 4)] {
        stage.patch(Kind::ReplicaSet, "web", json!({"spec": {"replicas": left}}));
        stage.settle();
        let staying = stage.pods_that(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(staying.len(), left);
        assert!(!staying.contains(&pods[gone]), "{left} left");
    }
}

#[tokio::test(start_paused = true)]
async fn scaling_down_thins_out_crowds_and_spares_the_old() {
    let mut stage = bare();
    stage.create(workload(Kind::ReplicaSet, "web", json!({"replicas": 2})));
    stage.settle();
    let old = stage.pods();
    old.iter().for_each(|pod| run(&stage.server, pod, "n1", true));
    stage.pass(3600).await;
    stage.patch(Kind::ReplicaSet, "web", json!({"spec": {"replicas": 4}}));
    stage.settle();
    let young = stage.pods_that(|pod| !old.contains(&name(pod).to_owned()));
    young.iter().for_each(|pod| run(&stage.server, pod, "n2", true));
    stage.pass(1).await;
    // Two and two: the young go first. Then the old ones are a crowd.
    stage.patch(Kind::ReplicaSet, "web", json!({"spec": {"replicas": 3}}));
    stage.settle();
    let staying = stage.pods_that(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    assert!(old.iter().all(|pod| staying.contains(pod)), "{staying:?}");
    stage.patch(Kind::ReplicaSet, "web", json!({"spec": {"replicas": 2}}));
    stage.settle();
    let staying = stage.pods_that(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(staying.iter().filter(|pod| old.contains(pod)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn deleted_and_failed_pods_are_replaced() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(workload(Kind::ReplicaSet, "web", json!({"replicas": 3})));
    stage.pass(2).await;
    let pods = stage.pods();
    stage.delete(Kind::Pod, &pods[0]);
    let failed = json!({"status": {"phase": "Failed"}});
    stage.server.patch_status(Kind::Pod, &at_in("default", &pods[1]), &failed).unwrap();
    stage.pass(3).await;
    assert_eq!(stage.pods_that(|pod| is_ready(pod) && phase(pod) == "Running").len(), 3);
    assert!(!stage.pods().contains(&pods[0]));
    assert_eq!(stage.get(Kind::ReplicaSet, "web")["status"]["readyReplicas"], 3);
}

#[tokio::test(start_paused = true)]
async fn orphans_that_match_are_adopted_and_strangers_let_go() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(pod("early", json!({})));
    stage.create(workload(Kind::ReplicaSet, "web", json!({"replicas": 2})));
    stage.pass(2).await;
    assert_eq!(controller(&stage.get(Kind::Pod, "early")).unwrap()["name"], "web");
    assert_eq!(stage.pods().len(), 2);
    stage.patch(Kind::Pod, "early", json!({"metadata": {"labels": {"app": "other"}}}));
    stage.pass(2).await;
    assert!(controller(&stage.get(Kind::Pod, "early")).is_none());
    assert_eq!(stage.pods().len(), 3);
    stage.create(pod("late", json!({})));
    stage.pass(2).await;
    // One too many now: somebody goes.
    assert_eq!(stage.pods_that(|pod| controller(pod).is_some()).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn pods_count_as_available_after_they_were_ready_for_long_enough() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(workload(Kind::ReplicaSet, "web", json!({"replicas": 2, "minReadySeconds": 30})));
    stage.pass(10).await;
    let status = stage.get(Kind::ReplicaSet, "web")["status"].clone();
    assert_eq!((&status["readyReplicas"], &status["availableReplicas"]), (&json!(2), &json!(0)));
    stage.pass(25).await;
    assert_eq!(stage.get(Kind::ReplicaSet, "web")["status"]["availableReplicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_set_whose_pods_are_refused_says_so_and_tries_again() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    let mut set = workload(Kind::ReplicaSet, "web", json!({"replicas": 1}));
    set["spec"]["template"]["spec"]["priorityClassName"] = json!("late");
    stage.create(set);
    stage.pass(5).await;
    let condition = stage.get(Kind::ReplicaSet, "web")["status"]["conditions"][0].clone();
    assert_eq!((&condition["type"], &condition["reason"]), (&json!("ReplicaFailure"), &json!("FailedCreate")));
    stage.create(json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "late"}, "value": 5,
    }));
    stage.pass(20).await;
    let pods = stage.server.list(Kind::Pod);
    assert!(pods.len() == 1 && is_ready(&pods[0]));
    assert!(stage.get(Kind::ReplicaSet, "web")["status"]["conditions"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_set_that_grows_at_the_moment_of_its_timer_makes_no_pod_twice() {
    let mut stage = bare();
    stage.create(workload(Kind::ReplicaSet, "web", json!({"replicas": 1, "minReadySeconds": 60})));
    stage.settle();
    run(&stage.server, &stage.pods()[0], "n", true);
    stage.settle();
    // The pod counts as available from now on, which is looked at by a timer; and just now somebody wants more.
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    let mut follower = stage.server.follow();
    stage.patch(Kind::ReplicaSet, "web", json!({"spec": {"replicas": 3}}));
    stage.settle();
    let changes = std::iter::from_fn(|| follower.try_next());
    let made = changes.filter(|change| change.kind == Kind::Pod && change.before.is_none()).count();
    assert_eq!(made, 2);
    assert_eq!(stage.get(Kind::ReplicaSet, "web")["status"]["availableReplicas"], 1);
}
