//! The live controller on a real control plane, with kwok as kubelet, under the role that it is shipped with.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod crash;
mod disruption;
mod ec2;
mod leader;
mod leaving;
mod pools;
mod scale;
mod scenarios;
mod stage;
mod workshop;

use std::collections::BTreeSet;

use e2e::Replica;
use e2e::replica::wait_for;
use serde_json::{Value, json};

use stage::{LIMIT, Stage, deployment, merged, pool};

// 01/POD-09
#[test]
fn five_pods_get_nodes_and_run() {
    let stage = Stage::kwok();
    stage.apply(&pool("general", json!([])));
    let mut live = Replica::start(&stage.cluster, &[]).unwrap();
    stage.apply(&deployment("web", 5, json!({"cpu": "1", "memory": "256Mi"})));
    stage.rolled_out("web", &live);
    stage.agrees(&live);
    for message in ["found provisionable pod(s)", "created nodeclaim", "launched nodeclaim", "initialized nodeclaim"] {
        assert!(live.log().contains(&format!("\"message\":\"{message}\"")), "{message} is not in {}", live.log());
    }
    let metrics = live.metrics().unwrap();
    assert!(
        metrics.contains("karpenter_nodeclaims_created_total{reason=\"provisioned\",nodepool=\"general\""),
        "{metrics}"
    );
    assert!(live.terminate().unwrap().success(), "{}", live.log());
}

// 02/E6
#[test]
fn expiry_replaces_nodes_and_every_pod_finds_a_new_place() {
    let stage = Stage::kwok();
    stage.apply(&merged(pool("general", json!([])), json!({"spec": {"template": {"spec": {"expireAfter": "45s"}}}})));
    let live = Replica::start(&stage.cluster, &[]).unwrap();
    stage.apply(&deployment("web", 5, json!({"cpu": "1"})));
    stage.rolled_out("web", &live);
    let names = |kind: &str| -> BTreeSet<String> {
        let name = |object: &Value| object["metadata"]["name"].as_str().map(str::to_owned);
        stage.items(&[kind]).iter().filter_map(name).collect()
    };
    let (claims, nodes) = (names("nodeclaims"), names("nodes"));
    let moved = wait_for("all pods to run on other nodes", LIMIT, || {
        let pods = stage.items(&["pods", "--field-selector=status.phase=Running"]);
        let has_moved = |pod: &&Value| pod["spec"]["nodeName"].as_str().is_some_and(|node| !nodes.contains(node));
        let is_over = pods.iter().filter(has_moved).count() == 5 && names("nodeclaims").is_disjoint(&claims);
        Ok(is_over.then_some(()))
    });
    moved.unwrap_or_else(|error| panic!("{error}: {claims:?} of {nodes:?}\n{}", live.log()));
    let metrics = live.metrics().unwrap();
    assert!(
        metrics.contains("karpenter_nodeclaims_disrupted_total{reason=\"expired\",nodepool=\"general\""),
        "{metrics}"
    );
}

#[test]
fn a_pool_without_its_class_says_so_and_stops_nothing() {
    let stage = Stage::kwok();
    stage.apply(&pool("general", json!([])));
    let live = Replica::start(&stage.cluster, &[]).unwrap();
    let mut broken = pool("broken", json!([]));
    broken["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "missing".into();
    stage.apply(&broken);
    stage.apply(&deployment("web", 1, json!({"cpu": "1"})));
    stage.rolled_out("web", &live);
    let ready = wait_for("the pool to be judged", LIMIT, || {
        Ok(stage::condition(&stage.get(&["nodepool", "broken"]), "NodeClassReady"))
    });
    assert_eq!(ready.unwrap(), "False");
}

#[test]
fn a_pod_that_asks_for_more_than_any_machine_has_is_told_so() {
    let stage = Stage::kwok();
    stage.apply(&pool("general", json!([])));
    let live = Replica::start(&stage.cluster, &[]).unwrap();
    stage.apply(&deployment("huge", 1, json!({"cpu": "1000"})));
    let message = stage.event("FailedScheduling", "cpu", &live);
    assert!(message.starts_with("Failed to schedule pod, ") && message.contains("general"), "{message}");
    stage.apply(&deployment("web", 1, json!({"cpu": "1"})));
    stage.rolled_out("web", &live);
}
