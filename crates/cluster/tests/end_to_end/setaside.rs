//! Pods that cannot be helped, beside others that can.

use model::ids::PodName;
use model::plan::Plan;
use model::why::PodProblem;
use serde_json::{Value, json};

use crate::fixture::*;

fn others() -> Vec<Value> {
    (0..5).map(|number| pod(&format!("other-{number}"), json!({"spec": asking("900m")}))).collect()
}

fn base() -> Cluster {
    cluster([pool("default", json!({}))]).node(node("there", "a", "2"))
}

fn is_spoken_of(plan: &Plan, pod: &str) -> bool {
    let name = PodName::new("default", pod);
    plan.placements.iter().any(|(placed, _)| *placed == name)
        || plan.unplaced.iter().any(|unplaced| unplaced.pod == name)
        || plan.claims.iter().any(|claim| claim.pods.contains(&name))
}

fn hostname_term() -> Value {
    json!({"matchExpressions": [{"key": HOST, "operator": "In", "values": ["there"]}]})
}

// 01/POD-03
#[test]
fn a_pod_tied_to_a_hostname_is_set_aside_even_where_that_node_has_room() {
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [hostname_term()]}});
    let preferred =
        json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": hostname_term()}]});
    let without = base().pods(others()).pass().plan;
    for tie in [json!({"nodeSelector": {HOST: "there"}}), json!({"affinity": {"nodeAffinity": required}})] {
        let pass = base().pods([pod("tied", json!({"spec": tie}))]).pods(others()).pass();
        let ignored: Vec<&str> = pass.batch.ignored.iter().map(|pod| &*pod.name.name).collect();
        assert_eq!(ignored, ["tied"]);
        assert!(matches!(pass.batch.ignored[0].problems[..], [PodProblem::Requirement { .. }]));
        assert!(!is_spoken_of(&pass.plan, "tied"));
        assert_eq!(pass.plan, without, "and nobody else notices");
    }
    let preferring = pod("preferring", json!({"spec": {"affinity": {"nodeAffinity": preferred}}}));
    assert!(base().pods([preferring]).pass().target("preferring").is_some());
}

fn mounting(name: &str, volume: Value) -> Value {
    pod(name, json!({"spec": {"volumes": [merged(json!({"name": "data"}), volume)]}}))
}

/// A volume claim with this spec.
fn add_claim(cluster: &mut Cluster, name: &str, spec: Value) {
    let wire =
        json!({"metadata": {"namespace": "default", "name": name}, "spec": spec, "status": {"phase": "Pending"}});
    cluster.storage.claims.entry("default".into()).or_default().insert(name.to_owned(), read(wire));
}

/// Pods whose storage is broken, each in its own way.
fn with_broken_storage() -> Cluster {
    let claimed = |name: &str| mounting(name, json!({"persistentVolumeClaim": {"claimName": name}}));
    let mut cluster = base().pods([
        claimed("no-claim"),
        mounting("no-own-claim", json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}})),
        claimed("no-class"),
        claimed("no-class-name"),
        claimed("no-volume"),
        claimed("lost"),
    ]);
    add_claim(&mut cluster, "no-class", json!({"storageClassName": "missing"}));
    add_claim(&mut cluster, "no-class-name", json!({}));
    add_claim(&mut cluster, "no-volume", json!({"volumeName": "missing"}));
    add_claim(&mut cluster, "lost", json!({"storageClassName": "late"}));
    let claims = cluster.storage.claims.get_mut(&"default".into()).unwrap();
    claims.get_mut("lost").unwrap().status.as_mut().unwrap().phase = Some("Lost".to_owned());
    let class = json!({
        "metadata": {"name": "late"}, "provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}],
    });
    cluster.storage.classes.insert("late".to_owned(), read(class));
    cluster
}

// 01/POD-06
#[test]
fn pods_with_broken_storage_are_set_aside_and_hold_up_nobody() {
    let pass = with_broken_storage().pods(others()).pass();
    assert_eq!(pass.plan, base().pods(others()).pass().plan, "the plan is that for the others alone");
    assert_eq!(pass.placed(), 5);
    let mut told: Vec<(&str, String)> = Vec::new();
    for pod in &pass.batch.ignored {
        let [PodProblem::Volume { volume, text }] = &pod.problems[..] else {
            panic!("{}: {:?}", pod.name, pod.problems)
        };
        assert_eq!(&**volume, "data");
        assert!(!is_spoken_of(&pass.plan, &pod.name.name));
        told.push((&pod.name.name, text.to_string()));
    }
    let names: Vec<&str> = told.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["no-claim", "no-own-claim", "no-class", "no-class-name", "no-volume", "lost"]);
    for (name, text) in told {
        let claim = if name == "no-own-claim" { "no-own-claim-data" } else { name };
        assert!(text.contains(&format!("default/{claim}")), "{name}: {text}");
    }
}

// 01/POD-06
#[test]
fn a_pod_is_served_as_soon_as_its_storage_is_mended() {
    let mut cluster = with_broken_storage();
    for name in ["no-claim", "no-class"] {
        add_claim(&mut cluster, name, json!({"storageClassName": "late"}));
    }
    let pass = cluster.pass();
    assert_eq!((pass.placed(), pass.batch.ignored.len()), (2, 4));
    assert_eq!((pass.domain("no-claim", ZONE), pass.domain("no-class", ZONE)), ("b".to_owned(), "b".to_owned()));
}
