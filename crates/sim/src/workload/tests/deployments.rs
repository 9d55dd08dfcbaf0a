use serde_json::{Value, json};

use crate::fields::{controller, labels, name};
use crate::kinds::Kind;
use crate::testing::{Stage, workload};

fn status(stage: &Stage, field: &str) -> Value {
    stage.get(Kind::Deployment, "web")["status"][field].clone()
}

fn new_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

#[tokio::test(start_paused = true)]
async fn a_deployment_makes_its_pods_through_a_replica_set_and_says_so() {
    let mut stage = Stage::new();
    stage.nodes(&["n1", "n2"]);
    stage.create(workload(Kind::Deployment, "web", json!({"replicas": 3})));
    stage.pass(2).await;
    let sets = stage.server.list(Kind::ReplicaSet);
    let [set] = sets.as_slice() else { panic!("{sets:?}") };
    let hash = labels(set)["pod-template-hash"].as_str().unwrap();
    assert_eq!(name(set), format!("web-{hash}"));
    assert_eq!(set["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    let owner = controller(set).unwrap();
    assert_eq!((&owner["kind"], &owner["blockOwnerDeletion"]), (&json!("Deployment"), &json!(true)));
    for pod in stage.server.list(Kind::Pod) {
        assert!(name(&pod).starts_with(&format!("web-{hash}-")));
        assert_eq!(labels(&pod)["pod-template-hash"], hash);
        assert_eq!(controller(&pod).unwrap()["uid"], set["metadata"]["uid"]);
    }
    for (field, count) in [("replicas", 3), ("readyReplicas", 3), ("availableReplicas", 3), ("updatedReplicas", 3)] {
        assert_eq!(status(&stage, field), count, "{field}");
    }
    let deployment = stage.get(Kind::Deployment, "web");
    assert_eq!(deployment["status"]["observedGeneration"], deployment["metadata"]["generation"]);
    assert_eq!(deployment["status"]["conditions"][0]["reason"], "MinimumReplicasAvailable");
    assert_eq!(deployment["status"]["conditions"][1]["reason"], "NewReplicaSetAvailable");
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_stays_between_its_fenceposts() {
    for (surge, unavailable) in
        [(json!(1), json!(0)), (json!(0), json!(1)), (json!("25%"), json!("25%")), (json!(0), json!(0))]
    {
        let mut stage = Stage::new();
        stage.nodes(&["n1", "n2"]);
        let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        // Pods take three seconds to end, and two until they are ready, so that every state in between is seen.
        let mut deployment = workload(
            Kind::Deployment,
            "web",
            json!({"replicas": 4, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}),
        );
        deployment["spec"]["template"]["metadata"]["annotations"] =
            json!({"dovetail.dev/stop-seconds": "3", "dovetail.dev/ready-seconds": "2"});
        stage.create(deployment);
        stage.pass(10).await;
        stage.patch(Kind::Deployment, "web", new_image("two"));
        let (most_over, most_under) = match (surge.as_i64(), unavailable.as_i64()) {
            (Some(0), Some(0)) => (0, 1),
            (Some(surge), Some(unavailable)) => (surge, unavailable),
            _ => (1, 1),
        };
        for _ in 0..60 {
            stage.pass(1).await;
            assert!(stage.ready_pods() as i64 >= 4 - most_under, "{rolling}: {} ready", stage.ready_pods());
            let staying = stage.pods_that(|pod| pod["metadata"]["deletionTimestamp"].is_null()).len() as i64;
            assert!(staying <= 4 + most_over, "{rolling}: {staying} pods");
        }
        let pods = stage.server.list(Kind::Pod);
        assert_eq!(pods.len(), 4);
        assert!(pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "two"));
        assert_eq!(stage.server.list(Kind::ReplicaSet).len(), 2);
        assert_eq!(
            stage.get(Kind::Deployment, "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
            "2"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn recreating_waits_until_the_last_old_pod_is_gone() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    let mut deployment = workload(Kind::Deployment, "web", json!({"replicas": 2, "strategy": {"type": "Recreate"}}));
    deployment["spec"]["template"]["metadata"]["annotations"] = json!({"dovetail.dev/stop-seconds": "10"});
    stage.create(deployment);
    stage.pass(5).await;
    stage.patch(Kind::Deployment, "web", new_image("two"));
    stage.pass(9).await;
    assert_eq!(stage.pods_that(|pod| pod["spec"]["containers"][0]["image"] == "two"), [""; 0]);
    stage.pass(5).await;
    assert_eq!(stage.pods_that(|pod| pod["spec"]["containers"][0]["image"] == "two").len(), 2);
    assert_eq!(stage.pods().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_scales_but_does_not_roll() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(workload(Kind::Deployment, "web", json!({"replicas": 2})));
    stage.pass(5).await;
    let mut patch = new_image("two");
    patch["spec"]["paused"] = json!(true);
    patch["spec"]["replicas"] = json!(3);
    stage.patch(Kind::Deployment, "web", patch);
    stage.pass(5).await;
    assert_eq!(stage.pods_that(|pod| pod["spec"]["containers"][0]["image"] == "one").len(), 3);
    assert_eq!(stage.pods().len(), 3);
    stage.patch(Kind::Deployment, "web", json!({"spec": {"paused": false}}));
    stage.pass(20).await;
    assert_eq!(stage.pods_that(|pod| pod["spec"]["containers"][0]["image"] == "two").len(), 3);
    assert_eq!(stage.pods().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn scaling_in_the_middle_of_a_roll_shares_the_pods() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(workload(Kind::Deployment, "web", json!({"replicas": 10})));
    stage.pass(5).await;
    // The new pods never become ready, so the roll stops half way: at most 13 pods, at least 8 of them available.
    let mut patch = new_image("two");
    patch["spec"]["template"]["metadata"] = json!({"annotations": {"dovetail.dev/ready-seconds": "9999"}});
    stage.patch(Kind::Deployment, "web", patch);
    stage.pass(20).await;
    assert_eq!(stage.pods_that(|pod| pod["spec"]["containers"][0]["image"] == "one").len(), 8);
    assert_eq!(stage.pods().len(), 13);
    stage.patch(Kind::Deployment, "web", json!({"spec": {"replicas": 20}}));
    stage.pass(20).await;
    // 25 in all, by the proportion of 8 to 5.
    assert_eq!(stage.pods().len(), 25);
    assert!(stage.pods_that(|pod| pod["spec"]["containers"][0]["image"] == "one").len() >= 15);
}

#[tokio::test(start_paused = true)]
async fn old_replica_sets_are_forgotten_beyond_the_limit() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(workload(Kind::Deployment, "web", json!({"replicas": 1, "revisionHistoryLimit": 1})));
    for image in ["two", "three", "four"] {
        stage.pass(10).await;
        stage.patch(Kind::Deployment, "web", new_image(image));
    }
    stage.pass(10).await;
    assert_eq!(stage.server.list(Kind::ReplicaSet).len(), 2);
    // Back to what was before: its set is found again and gets the newest revision.
    stage.patch(Kind::Deployment, "web", new_image("three"));
    stage.pass(10).await;
    assert_eq!(stage.server.list(Kind::ReplicaSet).len(), 2);
    assert_eq!(stage.get(Kind::Deployment, "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "5");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_deployment_takes_everything_along() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(workload(Kind::Deployment, "web", json!({"replicas": 3})));
    stage.pass(5).await;
    stage.delete(Kind::Deployment, "web");
    stage.pass(5).await;
    assert!(stage.pods().is_empty() && stage.server.list(Kind::ReplicaSet).is_empty());
}

#[tokio::test(start_paused = true)]
async fn twenty_thousand_pods_of_one_deployment_are_made_and_run() {
    let mut stage = Stage::new();
    let names: Vec<String> = (0..200).map(|number| format!("n{number:03}")).collect();
    names.iter().for_each(|name| stage.node(name, "a"));
    stage.create(workload(Kind::Deployment, "web", json!({"replicas": 20_000})));
    stage.pass(3).await;
    assert_eq!(status(&stage, "readyReplicas"), 20_000);
}
