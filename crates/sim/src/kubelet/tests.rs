use serde_json::json;

use super::*;
use crate::testing::{Stage, pod, server};

fn with_annotations(mut pod: Value, annotations: Value) -> Value {
    pod["metadata"]["annotations"] = annotations;
    pod
}

#[tokio::test(start_paused = true)]
async fn a_node_becomes_ready_after_its_delay_and_says_that_it_is_not_until_then() {
    let settings = Settings { node_ready_seconds: 20, ..Settings::default() };
    let mut stage = Stage::of(server(), vec![Box::new(Kubelets::new(settings))]);
    stage.nodes(&["n1"]);
    stage.pass(10).await;
    assert!(fields::has_condition(&stage.get(Kind::Node, "n1"), "Ready", "False"));
    stage.pass(11).await;
    let node = stage.get(Kind::Node, "n1");
    assert!(is_ready(&node) && fields::has_condition(&node, "MemoryPressure", "False"));
    assert_eq!((&node["status"]["phase"], &node["status"]["allocatable"]["cpu"]), (&json!("Running"), &json!("1k")));
}

#[tokio::test(start_paused = true)]
async fn a_pod_runs_gets_ready_and_ends_when_it_says() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    let annotations = json!({
        "dovetail.dev/start-seconds": "5", "dovetail.dev/ready-seconds": "10", "dovetail.dev/run-seconds": "20",
    });
    stage.create(with_annotations(pod("p", json!({})), annotations));
    let state = |stage: &Stage| {
        let pod = stage.get(Kind::Pod, "p");
        (phase(&pod).to_owned(), is_ready(&pod))
    };
    for (seconds, expected, is_ready) in [
        (4, "Pending", false),
        (2, "Running", false),
        (8, "Running", false),
        (2, "Running", true),
        (10, "Succeeded", false),
    ] {
        stage.pass(seconds).await;
        assert_eq!(state(&stage), (expected.to_owned(), is_ready));
    }
    let pod = stage.get(Kind::Pod, "p");
    assert_eq!(pod["status"]["startTime"], "2026-01-01T00:00:05Z");
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    assert!(fields::has_condition(&pod, "PodScheduled", "True"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_takes_its_time_but_no_more_than_its_grace() {
    for (annotations, grace, seconds) in [
        (json!({}), 30, 0),
        (json!({"dovetail.dev/stop-seconds": "10"}), 30, 10),
        (json!({"dovetail.dev/stop-seconds": "600"}), 20, 20),
    ] {
        let mut stage = Stage::new();
        stage.nodes(&["n1"]);
        stage.create(with_annotations(pod("p", json!({"terminationGracePeriodSeconds": grace})), annotations));
        stage.pass(5).await;
        stage.delete(Kind::Pod, "p");
        if seconds > 0 {
            stage.pass(seconds - 1).await;
            assert!(is_deleting(&stage.get(Kind::Pod, "p")));
        }
        stage.pass(2).await;
        assert!(stage.find(Kind::Pod, "p").is_none(), "{seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_kubelet_does_nothing_until_it_goes_on() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(pod("old", json!({})));
    stage.pass(5).await;
    stop(&stage.server, "n1").unwrap();
    stage.server.create(pod("new", json!({"nodeName": "n1"}))).unwrap();
    stage.delete(Kind::Pod, "old");
    stage.pass(45).await;
    assert!(is_ready(&stage.get(Kind::Node, "n1")));
    stage.pass(10).await;
    assert!(fields::has_condition(&stage.get(Kind::Node, "n1"), "Ready", "Unknown"));
    assert_eq!(phase(&stage.get(Kind::Pod, "new")), "Pending");
    assert!(is_deleting(&stage.get(Kind::Pod, "old")));
    resume(&stage.server, "n1").unwrap();
    stage.pass(5).await;
    assert!(is_ready(&stage.get(Kind::Node, "n1")) && is_ready(&stage.get(Kind::Pod, "new")));
    assert!(stage.find(Kind::Pod, "old").is_none());
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_recovers_are_ready_again() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(pod("p", json!({})));
    stage.pass(5).await;
    set_condition(&stage.server, "n1", "Ready", "False").unwrap();
    stage.pass(5).await;
    assert!(!is_ready(&stage.get(Kind::Pod, "p")));
    set_condition(&stage.server, "n1", "Ready", "True").unwrap();
    stage.pass(5).await;
    assert!(is_ready(&stage.get(Kind::Pod, "p")));
    assert_eq!(set_condition(&stage.server, "n9", "Ready", "True").unwrap_err().code, 404);
}
