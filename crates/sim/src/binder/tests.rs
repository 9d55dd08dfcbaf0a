mod crowds;
mod drawn;
mod judged;
mod preemption;
mod town;
mod volumes;

use serde_json::json;

use super::{Settings, back_off};
use crate::kinds::Kind;
use town::{Town, pod};

#[tokio::test(start_paused = true)]
async fn a_pod_goes_to_the_emptiest_node() {
    let mut town = Town::new();
    town.node("m", json!({}));
    town.node("n", json!({}));
    town.standing("x", "m", json!({"cpu": "2", "memory": "2Gi"}));
    town.create(pod("p", json!({"cpu": "1", "memory": "1Gi"}), json!({})));
    assert_eq!(town.place("p"), "n");
    let status = &town.get(Kind::Pod, "p")["status"]["conditions"][0];
    assert_eq!((&status["type"], &status["status"]), (&json!("PodScheduled"), &json!("True")));
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_spread_go_to_different_zones() {
    let mut town = Town::new();
    for (node, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c")] {
        town.node(node, json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}}));
    }
    let spread = json!([{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]);
    for name in ["p", "q", "r"] {
        town.create(pod(name, json!({"cpu": "100m"}), json!({"topologySpreadConstraints": spread})));
    }
    let mut zones: Vec<String> = ["p", "q", "r"].map(|name| town.place(name)[..1].to_owned()).to_vec();
    zones.sort();
    assert_eq!(zones, ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn pods_of_one_controller_are_spread_without_being_asked() {
    let mut town = Town::new();
    for (node, cpu) in [("a1", "64"), ("a2", "64"), ("b1", "4")] {
        let zone = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": &node[..1]}}});
        town.node_of(node, cpu, zone);
    }
    let set = town.create(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "set", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }));
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": set["metadata"]["uid"], "controller": true,
    }]);
    let mut places = Vec::new();
    for name in ["p", "q", "r"] {
        let mut object = pod(name, json!({"cpu": "1", "memory": "1Gi"}), json!({}));
        object["metadata"]["ownerReferences"] = owner.clone();
        town.create(object);
        places.push(town.place(name));
    }
    places.sort();
    assert_eq!(places, ["a1", "a2", "b1"], "the small node in the other zone would be last by room alone");
}

#[tokio::test(start_paused = true)]
async fn pods_that_wait_are_spread_by_a_service_that_comes_later() {
    let mut town = Town::new();
    // They belong to nobody, so nothing spreads them.
    for name in ["p", "q", "r"] {
        town.create(pod(name, json!({"cpu": "1", "memory": "1Gi"}), json!({})));
    }
    town.create(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}},
    }));
    for (name, cpu) in [("a1", "64"), ("a2", "64"), ("b1", "4")] {
        let zone = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": &name[..1]}}});
        town.create_quietly(town::node(name, cpu, zone));
    }
    town.pump();
    let mut places = ["p", "q", "r"].map(|name| town.place(name));
    places.sort();
    assert_eq!(places, ["a1", "a2", "b1"], "the small node in the other zone would be last by room alone");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_for_a_claim_is_tried_when_the_claim_comes() {
    let mut town = Town::new();
    town.node("n", json!({}));
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    town.create(pod("p", json!({"cpu": "1"}), json!({"volumes": volumes})));
    assert_eq!(town.place("p"), "");
    town.create(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "none"},
        "provisioner": "kubernetes.io/no-provisioner",
    }));
    town.create(json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
        "spec": {"storageClassName": "none", "claimRef": {"namespace": "default", "name": "data"}, "hostPath": {"path": "/"}},
    }));
    town.create(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"storageClassName": "none", "volumeName": "v"},
    }));
    town.patch_status(Kind::PersistentVolumeClaim, "data", json!({"phase": "Bound"}));
    assert_eq!(town.place("p"), "n");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_labelled_later_counts_for_those_who_avoid_it() {
    let mut town = Town::new();
    let cordoned = json!({"spec": {"unschedulable": true}});
    town.node("m", cordoned.clone());
    town.node("n", cordoned);
    town.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "loud"}}));
    let mut loud = pod("l", json!({"cpu": "1"}), json!({"nodeName": "n"}));
    loud["metadata"]["namespace"] = json!("loud");
    town.create(loud);
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"noise": "much"}},
    }]}});
    town.create(pod("p", json!({"cpu": "1"}), json!({"affinity": apart})));
    town.patch(Kind::Namespace, "loud", json!({"metadata": {"labels": {"noise": "much"}}}));
    town.patch(Kind::Node, "n", json!({"spec": {"unschedulable": null}}));
    assert_eq!(town.place("p"), "", "somebody loud is there");
    town.patch(Kind::Node, "m", json!({"spec": {"unschedulable": null}}));
    assert_eq!(town.place("p"), "m");
}

#[tokio::test(start_paused = true)]
async fn taints_and_cordons_keep_pods_off() {
    let mut town = Town::new();
    town.node("m", json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}));
    town.node("n", json!({"spec": {"unschedulable": true}}));
    town.create(pod("p", json!({"cpu": "1"}), json!({})));
    assert_eq!(town.place("p"), "");
    assert_eq!(
        town.message("p"),
        "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. preemption: 0/2 nodes are \
         available: 2 Preemption is not helpful for scheduling."
    );
    town.create(pod("q", json!({"cpu": "1"}), json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]})));
    assert_eq!(town.place("q"), "m");
    town.patch(Kind::Node, "n", json!({"spec": {"unschedulable": null}}));
    assert_eq!(town.place("p"), "n");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_is_told_why_and_a_new_node_takes_it() {
    let mut town = Town::new();
    town.create(pod("p", json!({"cpu": "8", "memory": "1Gi"}), json!({})));
    assert_eq!(town.message("p"), "no nodes available to schedule pods");
    town.node("m", json!({}));
    town.node_of("n", "1", json!({"metadata": {"labels": {"tier": "small"}}}));
    town.create(pod("q", json!({"cpu": "8", "memory": "64Gi"}), json!({})));
    let told = "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory. preemption: 0/2 nodes are available: 2 Preemption is \
                not helpful for scheduling.";
    assert_eq!(town.message("q"), told);
    let condition = town.condition("q");
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("Unschedulable")));
    town.node_of("big", "16", json!({}));
    assert_eq!((town.place("p").as_str(), town.place("q").as_str()), ("big", ""));
}

#[tokio::test(start_paused = true)]
async fn who_leaves_makes_room_for_who_waits() {
    let mut town = Town::new();
    town.node("m", json!({}));
    town.standing("x", "m", json!({"cpu": "3"}));
    town.create(pod("p", json!({"cpu": "2"}), json!({})));
    let words = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for \
                 incoming pod.";
    assert_eq!(town.message("p"), words);
    town.end("x");
    assert_eq!(town.place("p"), "m");
}

#[tokio::test(start_paused = true)]
async fn the_more_important_pod_comes_first_and_of_equals_the_older() {
    let mut town = Town::new();
    for (name, priority) in [("a", 0), ("b", 0), ("c", 5)] {
        town.create_quietly(pod(name, json!({"cpu": "3"}), json!({"priority": priority, "preemptionPolicy": "Never"})));
    }
    town.create_quietly(town::node("m", "4", json!({})));
    town.create_quietly(town::node("n", "4", json!({})));
    town.pump();
    assert_ne!(town.place("c"), "");
    assert_ne!(town.place("a"), "");
    assert_eq!(town.place("b"), "");
}

#[tokio::test(start_paused = true)]
async fn back_off_is_waited_for_where_pods_are_not_taken_early() {
    let mut town = Town::with(Settings { pops_early: false, ..Settings::default() });
    town.node("m", json!({}));
    town.create(pod("p", json!({"cpu": "8"}), json!({})));
    town.node_of("n", "16", json!({}));
    assert_eq!(town.place("p"), "", "its back-off is one second");
    town.advance(1).await;
    assert_eq!(town.place("p"), "n");
    let waits = [1, 2, 3, 4, 5, 9, 99].map(|attempts| {
        let settings = Settings::default();
        back_off(settings.back_off, settings.back_off_most, attempts).as_secs()
    });
    assert_eq!(waits, [1, 2, 4, 8, 10, 10, 10]);
}

#[tokio::test(start_paused = true)]
async fn one_attempt_takes_its_time() {
    let mut town = Town::with(Settings { per_pod: std::time::Duration::from_secs(1), ..Settings::default() });
    town.node("m", json!({}));
    for name in ["p", "q"] {
        town.create_quietly(pod(name, json!({"cpu": "1"}), json!({})));
    }
    town.pump();
    assert_eq!((town.place("p").as_str(), town.place("q").as_str()), ("m", ""));
    town.advance(1).await;
    assert_eq!(town.place("q"), "m");
}

#[tokio::test(start_paused = true)]
async fn gates_keep_a_pod_from_being_tried() {
    let mut town = Town::new();
    town.node("m", json!({}));
    town.create(pod("p", json!({"cpu": "1"}), json!({"schedulingGates": [{"name": "example.com/wait"}]})));
    assert_eq!((town.place("p").as_str(), &town.condition("p")["reason"]), ("", &json!("SchedulingGated")));
    town.patch(Kind::Pod, "p", json!({"spec": {"schedulingGates": []}}));
    assert_eq!(town.place("p"), "m");
}

#[tokio::test(start_paused = true)]
async fn pods_of_another_scheduler_are_left_alone() {
    let mut town = Town::new();
    town.node("m", json!({}));
    town.create(pod("p", json!({"cpu": "3"}), json!({"schedulerName": "mine"})));
    assert_eq!((town.place("p").as_str(), town.condition("p")), ("", json!(null)));
    town.bind("p", "m");
    town.create(pod("q", json!({"cpu": "2"}), json!({})));
    assert_eq!(town.place("q"), "", "but they take room once they are bound");
}

#[tokio::test(start_paused = true)]
async fn a_pod_made_for_one_node_goes_there_and_waits_for_it() {
    let mut town = Town::new();
    town.node("m", json!({}));
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": ["n"]}]);
    let terms = json!({"nodeSelectorTerms": [{"matchFields": fields}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    town.create(pod("p", json!({"cpu": "1"}), json!({"affinity": affinity})));
    let start = "0/1 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity].";
    assert_eq!((town.place("p").as_str(), town.message("p").starts_with(start)), ("", true), "{}", town.message("p"));
    town.node("o", json!({}));
    assert_eq!(town.place("p"), "");
    town.node("n", json!({}));
    assert_eq!(town.place("p"), "n");
}

#[tokio::test(start_paused = true)]
async fn a_seed_decides_among_equal_nodes() {
    let places = |seed: u64| {
        let mut town = Town::seeded(seed, Settings::default());
        (0..20).for_each(|number| town.node(&format!("n{number}"), json!({})));
        (0..8).for_each(|number| drop(town.create(pod(&format!("p{number}"), json!({"cpu": "1"}), json!({})))));
        (0..8).map(|number| town.place(&format!("p{number}"))).collect::<Vec<_>>()
    };
    assert_eq!(places(1), places(1));
    assert_ne!(places(1), places(2));
}

#[tokio::test(start_paused = true)]
async fn who_must_be_near_another_follows_it() {
    let mut town = Town::new();
    for node in ["m", "n"] {
        town.node(node, json!({}));
    }
    let term = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "lead"}}}]);
    let near = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}});
    town.create(pod("p", json!({"cpu": "1"}), near));
    let told = "0/2 nodes are available: 2 node(s) didn't match pod affinity rules.";
    assert!(town.place("p").is_empty() && town.message("p").starts_with(told), "{}", town.message("p"));
    let mut lead = pod("q", json!({"cpu": "1"}), json!({}));
    lead["metadata"]["labels"] = json!({"app": "lead"});
    town.create(lead);
    assert_eq!(town.place("p"), town.place("q"));
    assert_ne!(town.place("p"), "");
}

#[tokio::test(start_paused = true)]
async fn pods_that_nothing_helps_are_tried_again_every_five_minutes() {
    let mut town = Town::new();
    town.create(pod("p", json!({"cpu": "8"}), json!({})));
    let (now, next) = (town.server.now(), town.next());
    assert_eq!(next.map(|next| next.duration_since(now).as_secs()), Some(300));
    town.advance(300).await;
    assert_eq!(town.next().map(|next| next.duration_since(now).as_secs()), Some(600));
}
