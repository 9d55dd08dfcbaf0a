use serde_json::{Value, json};

use crate::fields::{each, node_of};
use crate::kinds::Kind;
use crate::testing::{Stage, server, workload};
use crate::workload::Workloads;

fn nodes_with_daemons(stage: &Stage) -> Vec<String> {
    let pods = stage.server.list(Kind::Pod);
    let mut nodes: Vec<String> = pods.iter().filter_map(|pod| node_of(pod).map(str::to_owned)).collect();
    nodes.sort();
    nodes
}

fn status(stage: &Stage, field: &str) -> Value {
    stage.get(Kind::DaemonSet, "agent")["status"][field].clone()
}

#[tokio::test(start_paused = true)]
async fn every_node_gets_one_also_those_that_come_later() {
    let mut stage = Stage::new();
    stage.nodes(&["n1", "n2"]);
    stage.create(workload(Kind::DaemonSet, "agent", json!({})));
    stage.pass(2).await;
    assert_eq!(nodes_with_daemons(&stage), ["n1", "n2"]);
    stage.nodes(&["n3"]);
    stage.pass(2).await;
    assert_eq!(nodes_with_daemons(&stage), ["n1", "n2", "n3"]);
    for field in
        ["desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable", "updatedNumberScheduled"]
    {
        assert_eq!(status(&stage, field), 3, "{field}");
    }
    assert_eq!(status(&stage, "numberMisscheduled"), 0);
    let pod = &stage.server.list(Kind::Pod)[0];
    let keys: Vec<&str> =
        each(&pod["spec"]["tolerations"]).filter_map(|toleration| toleration["key"].as_str()).collect();
    assert!(keys.contains(&"node.kubernetes.io/unschedulable") && keys.contains(&"node.kubernetes.io/disk-pressure"));
    // A lost one is replaced.
    let lost = stage.pods()[0].clone();
    stage.delete(Kind::Pod, &lost);
    stage.pass(3).await;
    assert_eq!(status(&stage, "numberReady"), 3);
}

#[tokio::test(start_paused = true)]
async fn only_nodes_that_suit_are_served() {
    let mut stage = Stage::new();
    stage.nodes(&["n1", "n2", "n3"]);
    stage.patch(Kind::Node, "n1", json!({"metadata": {"labels": {"disk": "fast"}}}));
    stage.patch(Kind::Node, "n2", json!({"metadata": {"labels": {"disk": "fast"}}}));
    stage.pass(1).await;
    let closed = json!({"spec": {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}});
    stage.patch(Kind::Node, "n2", closed);
    let mut agent = workload(Kind::DaemonSet, "agent", json!({}));
    agent["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "fast"});
    stage.create(agent);
    stage.pass(2).await;
    assert_eq!(nodes_with_daemons(&stage), ["n1"]);
    assert_eq!(status(&stage, "desiredNumberScheduled"), 1);
    // Who is there stays when the node is closed to newcomers, and counts as out of place.
    stage.patch(Kind::Node, "n1", json!({"spec": {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}}));
    stage.patch(Kind::Node, "n2", json!({"spec": {"taints": null}}));
    stage.pass(2).await;
    assert_eq!(nodes_with_daemons(&stage), ["n1", "n2"]);
    assert_eq!(status(&stage, "numberMisscheduled"), 1);
    // A node that is no longer meant loses its pod.
    stage.patch(Kind::Node, "n1", json!({"metadata": {"labels": {"disk": "slow"}}}));
    stage.pass(2).await;
    assert_eq!(nodes_with_daemons(&stage), ["n2"]);
    assert_eq!(status(&stage, "numberMisscheduled"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_update_rolls_one_node_at_a_time() {
    let mut stage = Stage::new();
    stage.nodes(&["n1", "n2", "n3"]);
    stage.create(workload(Kind::DaemonSet, "agent", json!({})));
    stage.pass(2).await;
    stage.patch(
        Kind::DaemonSet,
        "agent",
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "two"}]}}}}),
    );
    for _ in 0..10 {
        stage.pass(1).await;
        assert!(stage.ready_pods() >= 2);
    }
    let pods = stage.server.list(Kind::Pod);
    assert!(pods.len() == 3 && pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "two"));
    assert_eq!(status(&stage, "updatedNumberScheduled"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_for_a_node_that_is_gone_goes_too() {
    let mut stage = Stage::of(server(), vec![Box::new(Workloads::new())]);
    stage.nodes(&["n1", "n2"]);
    stage.patch(Kind::Node, "n1", json!({"spec": {"taints": null}}));
    stage.patch(Kind::Node, "n2", json!({"spec": {"taints": null}}));
    stage.create(workload(Kind::DaemonSet, "agent", json!({})));
    stage.settle();
    assert_eq!(stage.pods().len(), 2);
    stage.delete(Kind::Node, "n1");
    stage.settle();
    assert_eq!(stage.pods().len(), 1);
    assert_eq!(status(&stage, "desiredNumberScheduled"), 1);
}
