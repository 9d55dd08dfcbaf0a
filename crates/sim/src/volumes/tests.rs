use serde_json::json;

use super::*;
use crate::apiserver::Refusal;
use crate::fields::{at_in, is_ready, node_of};
use crate::kubelet;
use crate::node_lifecycle::NodeLifecycle;
use crate::testing::{Stage, pod, server};

fn class(stage: &Stage, spec: Value) {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk"},
        "provisioner": "csi.test",
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        class[key.as_str()] = value.clone();
    }
    stage.create(class);
}

fn claim(stage: &Stage, name: &str) {
    stage.create(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "disk",
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }));
}

fn pod_with(stage: &Stage, name: &str, claim: &str) {
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    stage.create(pod(name, json!({"volumes": volumes})));
}

fn bind(stage: &Stage, pod: &str, node: &str) -> Result<(), Refusal> {
    stage.server.bind(&at_in("default", pod), node)
}

/// Without anybody who binds pods.
fn quiet() -> Stage {
    let settings =
        Settings { drivers: vec![Driver { name: "csi.test".into(), attachable: Some(3) }], ..Settings::default() };
    Stage::of(
        server(),
        vec![
            Box::new(kubelet::Kubelets::new(kubelet::Settings::default())),
            Box::new(NodeLifecycle::new()),
            Box::new(Volumes::new(settings)),
        ],
    )
}

fn zone_of(stage: &Stage, claim: &str) -> Value {
    let claim = stage.get(Kind::PersistentVolumeClaim, claim);
    let volume = stage.get(Kind::PersistentVolume, claim["spec"]["volumeName"].as_str().unwrap());
    let required = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    required[0]["matchExpressions"][0]["values"][0].clone()
}

fn attachments(stage: &Stage) -> Vec<(String, bool)> {
    let all = stage.server.list(Kind::VolumeAttachment);
    let one = |found: &Arc<Value>| {
        (found["spec"]["nodeName"].as_str().unwrap().to_owned(), found["status"]["attached"] == true)
    };
    all.iter().map(one).collect()
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_for_its_consumer_ends_in_its_pods_zone() {
    let mut stage = quiet();
    stage.node("n1", "a");
    stage.node("n2", "b");
    class(&stage, json!({"volumeBindingMode": "WaitForFirstConsumer"}));
    claim(&stage, "data");
    pod_with(&stage, "p", "data");
    stage.pass(60).await;
    assert_eq!(phase(&stage.get(Kind::PersistentVolumeClaim, "data")), "Pending");
    let chosen = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n2"}}});
    stage.patch(Kind::PersistentVolumeClaim, "data", chosen);
    stage.pass(3).await;
    let bound = stage.get(Kind::PersistentVolumeClaim, "data");
    assert_eq!((phase(&bound), zone_of(&stage, "data")), ("Bound", json!("b")));
    assert_eq!(bound["spec"]["volumeName"], format!("pvc-{}", uid(&bound)));
    bind(&stage, "p", "n2").unwrap();
    stage.pass(1).await;
    assert_eq!(attachments(&stage), [("n2".to_owned(), false)]);
    assert!(!is_ready(&stage.get(Kind::Pod, "p")));
    stage.pass(3).await;
    assert_eq!(attachments(&stage), [("n2".to_owned(), true)]);
    assert!(is_ready(&stage.get(Kind::Pod, "p")));
    stage.delete(Kind::Pod, "p");
    stage.pass(2).await;
    assert_eq!(attachments(&stage), [("n2".to_owned(), true)]);
    stage.pass(3).await;
    assert_eq!(attachments(&stage), []);
}

#[tokio::test(start_paused = true)]
async fn a_node_out_of_the_classes_reach_is_given_back() {
    let mut stage = quiet();
    stage.node("n1", "a");
    let reach = json!([{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]);
    class(&stage, json!({"volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": reach}));
    claim(&stage, "data");
    let chosen = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}});
    stage.patch(Kind::PersistentVolumeClaim, "data", chosen);
    stage.pass(5).await;
    let claim = stage.get(Kind::PersistentVolumeClaim, "data");
    assert_eq!(phase(&claim), "Pending");
    assert!(claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].is_null());
}

#[tokio::test(start_paused = true)]
async fn an_immediate_claim_gets_a_volume_in_a_zone_that_is_allowed() {
    let mut stage = quiet();
    stage.node("n1", "a");
    let reach = json!([{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}]}]);
    class(&stage, json!({"allowedTopologies": reach}));
    claim(&stage, "data");
    stage.pass(3).await;
    assert!(["b", "c"].contains(&zone_of(&stage, "data").as_str().unwrap()));
}

fn volume(stage: &Stage, name: &str, size: &str, labels: Value) {
    stage.create(json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "labels": labels},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": "disk",
            "hostPath": {"path": "/x"},
        },
    }));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_there_is_taken_if_it_is_the_smallest_that_fits() {
    let mut stage = quiet();
    class(&stage, json!({"provisioner": "kubernetes.io/no-provisioner"}));
    claim(&stage, "data");
    stage.pass(10).await;
    assert_eq!(phase(&stage.get(Kind::PersistentVolumeClaim, "data")), "Pending");
    volume(&stage, "small", "5Gi", json!({}));
    volume(&stage, "large", "50Gi", json!({}));
    volume(&stage, "right", "20Gi", json!({}));
    stage.pass(1).await;
    let claim = stage.get(Kind::PersistentVolumeClaim, "data");
    assert_eq!((&claim["spec"]["volumeName"], phase(&claim)), (&json!("right"), "Bound"));
    assert_eq!(claim["status"]["capacity"]["storage"], "20Gi");
    assert_eq!(phase(&stage.get(Kind::PersistentVolume, "large")), "Available");
    // Somebody must look at it before it is used again.
    stage.delete(Kind::PersistentVolumeClaim, "data");
    stage.pass(1).await;
    assert!(stage.find(Kind::PersistentVolumeClaim, "data").is_none());
    assert_eq!(phase(&stage.get(Kind::PersistentVolume, "right")), "Released");
}

#[tokio::test(start_paused = true)]
async fn a_claim_in_use_stays_and_takes_its_volume_along_when_it_goes() {
    let mut stage = quiet();
    stage.node("n1", "a");
    class(&stage, json!({}));
    claim(&stage, "data");
    pod_with(&stage, "p", "data");
    bind(&stage, "p", "n1").unwrap();
    stage.pass(10).await;
    assert!(is_ready(&stage.get(Kind::Pod, "p")));
    stage.delete(Kind::PersistentVolumeClaim, "data");
    stage.pass(60).await;
    assert!(is_deleting(&stage.get(Kind::PersistentVolumeClaim, "data")));
    stage.delete(Kind::Pod, "p");
    stage.pass(1).await;
    assert!(stage.find(Kind::PersistentVolumeClaim, "data").is_none());
    assert!(stage.server.list(Kind::PersistentVolume).is_empty());
    stage.pass(5).await;
    assert_eq!(attachments(&stage), []);
}

#[tokio::test(start_paused = true)]
async fn a_disk_leaves_one_node_before_it_comes_to_the_next() {
    let mut stage = quiet();
    stage.node("n1", "a");
    stage.node("n2", "a");
    class(&stage, json!({}));
    claim(&stage, "data");
    pod_with(&stage, "p", "data");
    bind(&stage, "p", "n1").unwrap();
    stage.pass(10).await;
    stage.delete(Kind::Pod, "p");
    stage.pass(1).await;
    pod_with(&stage, "q", "data");
    bind(&stage, "q", "n2").unwrap();
    stage.pass(1).await;
    assert_eq!(attachments(&stage), [("n1".to_owned(), true)]);
    stage.pass(2).await;
    assert_eq!(attachments(&stage), [("n2".to_owned(), false)]);
    stage.pass(4).await;
    assert!(is_ready(&stage.get(Kind::Pod, "q")));
    assert_eq!(node_of(&stage.get(Kind::Pod, "q")), Some("n2"));
}

#[tokio::test(start_paused = true)]
async fn nodes_say_which_drivers_they_have_and_claims_of_a_pod_go_with_it() {
    let mut stage = quiet();
    stage.node("n1", "a");
    class(&stage, json!({}));
    let template = json!({"spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "disk", "resources": {"requests": {"storage": "1Gi"}},
    }});
    let volumes = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]);
    stage.create(pod("p", json!({"volumes": volumes})));
    stage.settle();
    let drivers = stage.get(Kind::CsiNode, "n1")["spec"]["drivers"].clone();
    assert_eq!(drivers[0]["allocatable"]["count"], 3);
    bind(&stage, "p", "n1").unwrap();
    stage.pass(10).await;
    assert!(is_ready(&stage.get(Kind::Pod, "p")));
    assert_eq!(phase(&stage.get(Kind::PersistentVolumeClaim, "p-scratch")), "Bound");
    stage.delete(Kind::Pod, "p");
    stage.pass(10).await;
    assert!(stage.find(Kind::PersistentVolumeClaim, "p-scratch").is_none());
    stage.delete(Kind::Node, "n1");
    stage.settle();
    assert!(stage.find(Kind::CsiNode, "n1").is_none());
}
