use serde_json::{Value, json};

use super::town::{Town, pod};
use crate::kinds::Kind;

fn class(name: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "ebs.csi.aws.com", "volumeBindingMode": mode,
    })
}

fn claim(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

fn user(name: &str, claim: &str) -> Value {
    pod(name, json!({"cpu": "1"}), json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}))
}

fn provision(town: &mut Town, claim: &str, zone: &str) {
    let terms =
        json!([{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]);
    town.create(json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("pv-{claim}")},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "late",
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": format!("vol-{claim}")},
            "claimRef": {"namespace": "default", "name": claim},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }));
    let annotations = json!({"pv.kubernetes.io/bind-completed": "yes"});
    town.patch(
        Kind::PersistentVolumeClaim,
        claim,
        json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": format!("pv-{claim}")}}),
    );
    town.patch_status(Kind::PersistentVolumeClaim, claim, json!({"phase": "Bound"}));
}

fn two_zones() -> Town {
    let mut town = Town::new();
    for (name, zone) in [("a", "a"), ("b", "b")] {
        town.node(name, json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}}));
    }
    town.create(class("late", "WaitForFirstConsumer"));
    town.create(class("now", "Immediate"));
    town
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_for_a_node_is_told_one_and_the_pod_is_bound_when_it_has_its_volume() {
    let mut town = two_zones();
    town.create(claim("data", "late"));
    town.create(user("p", "data"));
    assert_eq!(town.place("p"), "");
    let chosen =
        town.get(Kind::PersistentVolumeClaim, "data")["metadata"]["annotations"]["volume.kubernetes.io/selected-node"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
    assert!(["a", "b"].contains(&chosen.as_str()), "{chosen}");
    // The room is taken meanwhile.
    for name in ["q", "r"] {
        town.create(pod(name, json!({"cpu": "3500m"}), json!({})));
    }
    let placed: Vec<String> = ["q", "r"].iter().map(|name| town.place(name)).filter(|node| !node.is_empty()).collect();
    assert_eq!((placed.len(), placed.contains(&chosen)), (1, false));
    provision(&mut town, "data", &chosen);
    assert_eq!(town.place("p"), chosen);
}

#[tokio::test(start_paused = true)]
async fn a_choice_that_the_provisioner_gives_up_is_made_again() {
    let mut town = two_zones();
    town.create(claim("data", "late"));
    town.create(user("p", "data"));
    let key = "volume.kubernetes.io/selected-node";
    town.patch(Kind::PersistentVolumeClaim, "data", json!({"metadata": {"annotations": {key: null}}}));
    assert!(town.get(Kind::PersistentVolumeClaim, "data")["metadata"]["annotations"][key].is_null());
    town.advance(1).await;
    assert!(town.get(Kind::PersistentVolumeClaim, "data")["metadata"]["annotations"][key].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_pod_goes_where_its_volume_is() {
    for zone in ["a", "b"] {
        let mut town = two_zones();
        town.create(claim("data", "late"));
        provision(&mut town, "data", zone);
        town.create(user("p", "data"));
        assert_eq!(town.place("p"), zone);
    }
}

#[tokio::test(start_paused = true)]
async fn claims_that_are_missing_or_not_bound_yet_are_waited_for() {
    let mut town = two_zones();
    town.create(user("p", "data"));
    let start = "0/2 nodes are available: persistentvolumeclaim \"data\" not found. preemption: 0/2 nodes are available: 2 Preemption is \
                 not helpful for scheduling.";
    assert_eq!(town.message("p"), start);
    town.create(claim("data", "now"));
    let told = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.";
    assert!(town.message("p").starts_with(told), "{}", town.message("p"));
    provision(&mut town, "data", "b");
    assert_eq!(town.place("p"), "b");
}

#[tokio::test(start_paused = true)]
async fn a_node_takes_no_more_volumes_than_its_driver_can_attach() {
    let mut town = two_zones();
    let drivers =
        json!([{"name": "ebs.csi.aws.com", "nodeID": "i-1", "topologyKeys": [], "allocatable": {"count": 1}}]);
    town.create(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "b"}, "spec": {"drivers": drivers},
    }));
    for name in ["one", "two"] {
        town.create(claim(name, "late"));
        provision(&mut town, name, "b");
        town.create(user(name, name));
    }
    assert_eq!((town.place("one").as_str(), town.place("two").as_str()), ("b", ""));
    assert!(town.message("two").contains("1 node(s) exceed max volume count"), "{}", town.message("two"));
    town.end("one");
    assert_eq!(town.place("two"), "b");
}
