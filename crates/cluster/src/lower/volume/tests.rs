use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const BOUND: &str = "pv.kubernetes.io/bind-completed";

/// `claims`, `volumes` and `classes`, each a map from name to object.
fn storage(world: &Value) -> Storage {
    fn named<T: serde::de::DeserializeOwned>(world: &Value, kind: &str) -> BTreeMap<String, T> {
        let objects = world.get(kind).and_then(Value::as_object).cloned().unwrap_or_default();
        objects
            .into_iter()
            .map(|(name, mut object)| {
                if object.get("metadata").is_none() {
                    object["metadata"] = json!({});
                }
                (name, serde_json::from_value(object).unwrap())
            })
            .collect()
    }
    Storage {
        claims: [("shop".into(), named(world, "claims"))].into(),
        volumes: named(world, "volumes"),
        classes: named(world, "classes"),
        refused: Refused::default(),
    }
}

fn lower_in(volumes: Value, storage: &Storage) -> PodVolumes {
    let spec: PodSpec = serde_json::from_value(json!({"containers": [], "volumes": volumes})).unwrap();
    let namespace = Namespace::from("shop");
    let owner = Owner { namespace: &namespace, name: "web", uid: "u1" };
    let metadata = ObjectMeta::default();
    of_pod(&spec, &owner, storage, &mut Oddities::of("Pod", &metadata))
}

fn lower(volumes: Value, world: &Value) -> PodVolumes {
    lower_in(volumes, &storage(world))
}

fn data() -> Value {
    json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
}

fn scratch() -> Value {
    json!([{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])
}

fn bound_claim(volume: &str, class: Value) -> Value {
    json!({"metadata": {"annotations": {BOUND: "yes"}}, "spec": {"volumeName": volume, "storageClassName": class}})
}

fn class(provisioner: &str, topologies: Value) -> Value {
    json!({"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": topologies})
}

fn allowed(zones: &[&str]) -> Value {
    json!({"matchLabelExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "values": zones}]})
}

fn volume_in(source: Value, terms: Value) -> Value {
    let mut spec = json!({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}});
    for (key, value) in source.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"spec": spec})
}

fn csi() -> Value {
    json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}})
}

fn label_in(key: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": "In", "values": values}]})
}

/// The problem that the one volume has, or an empty text.
fn check_problem(volumes: Value, world: &Value, expected: &str) {
    let problems: Vec<String> = lower(volumes, world).problems.iter().map(ToString::to_string).collect();
    match problems.as_slice() {
        [] => assert_eq!("", expected, "{world}"),
        [one] => assert!(!expected.is_empty() && one.starts_with("volume data: ") && one.contains(expected), "{one}"),
        more => panic!("{more:?}"),
    }
}

fn check_places(found: &PodVolumes, expected: &[&str]) {
    let texts: Vec<String> = found.volumes.alternatives.iter().map(ToString::to_string).collect();
    assert_eq!(texts, expected);
}

// 01/VOL-01
#[test]
fn an_unbound_claim_needs_a_class_and_a_bound_one_only_its_volume() {
    let volume = json!({"pv": {"spec": csi()}});
    for (volumes, claim) in [(data(), "data"), (scratch(), "web-data")] {
        let check = |claims: Value, expected: &str| {
            check_problem(volumes.clone(), &json!({"claims": claims, "volumes": volume}), expected);
        };
        check(json!({}), &format!("claim shop/{claim} does not exist"));
        for class in [json!(null), json!(""), json!("gone")] {
            check(json!({claim: bound_claim("pv", class)}), "");
        }
        for class in [json!(null), json!("")] {
            check(json!({claim: {"spec": {"storageClassName": class}}}), "names no storage class");
        }
        check(json!({claim: {"spec": {"storageClassName": "gone"}}}), "storage class gone does not exist");
        check(json!({claim: {"spec": {"storageClassName": "gone", "volumeName": "pv"}}}), "not bound to it yet");
    }
}

#[test]
fn claims_restrict_the_pod_to_where_their_volumes_are_or_may_be() {
    let world = json!({
        "claims": {
            "data": bound_claim("pv", json!("ebs")), "web-data": {"spec": {"storageClassName": "ebs"}},
            "anywhere": bound_claim("nfs", json!("")),
        },
        "volumes": {"pv": volume_in(csi(), json!([label_in(ZONE, &["a"]), label_in(ZONE, &["b"])])), "nfs": {"spec": {}}},
        "classes": {"ebs": class("ebs.csi.aws.com", json!([allowed(&["c", "d"]), allowed(&["e"])]))},
    });
    let zone = |text: &str| format!("{ZONE} In [{text}]");
    check_places(&lower(data(), &world), &[&zone("a"), &zone("b")]);
    check_places(&lower(scratch(), &world), &[&zone("c d"), &zone("e")]);
    let anywhere = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "anywhere"}}]);
    check_places(&lower(anywhere, &world), &[]);
    check_places(&lower(json!([{"name": "tmp", "emptyDir": {}}]), &world), &[]);
}

#[test]
fn only_places_that_suit_all_volumes_remain() {
    let both = |first: Value, second: Value| {
        let world = json!({
            "claims": {"data": bound_claim("one", json!("")), "more": bound_claim("two", json!(""))},
            "volumes": {"one": volume_in(csi(), first), "two": volume_in(csi(), second)},
        });
        let mut volumes = data();
        volumes.as_array_mut().unwrap().push(json!({"name": "more", "persistentVolumeClaim": {"claimName": "more"}}));
        lower(volumes, &world)
    };
    let zones = |zones: &[&str]| Value::from(zones.iter().map(|zone| label_in(ZONE, &[zone])).collect::<Vec<_>>());
    check_places(
        &both(zones(&["a", "b", "c"]), zones(&["c", "a"])),
        &["topology.kubernetes.io/zone In [a]", "topology.kubernetes.io/zone In [c]"],
    );
    let alike = zones(&["a", "b"]);
    check_places(
        &both(alike.clone(), alike),
        &["topology.kubernetes.io/zone In [a]", "topology.kubernetes.io/zone In [b]"],
    );
    check_places(
        &both(json!([label_in(ZONE, &["a"])]), json!([label_in("rack", &["1"]), label_in("rack", &["2"])])),
        &["rack In [1], topology.kubernetes.io/zone In [a]", "rack In [2], topology.kubernetes.io/zone In [a]"],
    );
    let conflict = both(zones(&["a"]), zones(&["b", "c"])).volumes.alternatives;
    assert!(!conflict.is_empty() && conflict.iter().all(|place| place.get(ZONE).unwrap().is_contradiction()));
}

// 01/VOL-05
#[test]
fn a_volume_on_a_nodes_own_disk_forgets_the_node() {
    let places = |source: Value, terms: Value| {
        let world =
            json!({"claims": {"data": bound_claim("pv", json!(""))}, "volumes": {"pv": volume_in(source, terms)}});
        lower(data(), &world).volumes.alternatives
    };
    let zone = Requirements::default().with(ZONE, Requirement::new(Operator::In, ["a"]));
    let on_host = json!({"matchExpressions": [
        {"key": ZONE, "operator": "In", "values": ["a"]}, {"key": HOSTNAME, "operator": "In", "values": ["n1"]},
    ]});
    for source in [json!({"local": {"path": "/"}}), json!({"hostPath": {"path": "/"}})] {
        assert_eq!(places(source.clone(), json!([on_host])), std::slice::from_ref(&zone));
        let only_host = json!([label_in(HOSTNAME, &["n1"]), label_in(ZONE, &["a"])]);
        assert_eq!(places(source, only_host), [Requirements::default(), zone.clone()], "one alternative is anywhere");
    }
    let kept = places(csi(), json!([on_host]));
    assert!(kept[0].get(HOSTNAME).is_some_and(|host| host.has("n1") && !host.has("n2")));
}

#[test]
fn terms_that_say_nothing_allow_nothing() {
    let world = json!({
        "claims": {"data": bound_claim("pv", json!("")), "web-data": {"spec": {"storageClassName": "ebs"}}},
        "volumes": {"pv": volume_in(csi(), json!([{}]))},
        "classes": {"ebs": class("ebs.csi.aws.com", json!([{}]))},
    });
    for volumes in [data(), scratch()] {
        let places = lower(volumes, &world).volumes.alternatives;
        assert!(places[0].iter().any(|(_, requirement)| requirement.is_contradiction()));
    }
}

fn attached(found: &PodVolumes) -> Vec<String> {
    let attached = &found.volumes.attached;
    attached.iter().flat_map(|(driver, ids)| ids.iter().map(move |id| format!("{driver} {id}"))).collect()
}

// 01/VOL-08
#[test]
fn the_driver_comes_from_the_volume_or_the_class_under_its_name_of_today() {
    let driver = |claim: Value, volume: Value, provisioner: &str| {
        let mut other = class("other.example.com", json!(null));
        other["metadata"] = json!({"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}});
        let world = json!({
            "claims": {"data": claim}, "volumes": {"pv": {"spec": volume}},
            "classes": {"fast": class(provisioner, json!(null)), "default": other},
        });
        attached(&lower(data(), &world))
    };
    let unbound = |class: Value| json!({"spec": {"storageClassName": class}});
    assert_eq!(driver(unbound(json!("fast")), json!({}), "csi.example.com"), ["csi.example.com shop/data"]);
    assert_eq!(driver(unbound(json!("fast")), json!({}), "kubernetes.io/aws-ebs"), ["ebs.csi.aws.com shop/data"]);
    assert_eq!(
        driver(unbound(json!("default")), json!({}), "x"),
        ["other.example.com shop/data"],
        "admission filled it in"
    );
    assert!(driver(unbound(json!(null)), json!({}), "x").is_empty(), "nobody looks a default up");
    let bound = bound_claim("pv", json!("fast"));
    assert_eq!(driver(bound.clone(), csi(), "x"), ["ebs.csi.aws.com shop/data"], "the volume decides, not the class");
    let in_tree = json!({"awsElasticBlockStore": {"volumeID": "vol-1"}});
    assert_eq!(driver(bound.clone(), in_tree, "x"), ["ebs.csi.aws.com shop/data"]);
    assert!(driver(bound, json!({"nfs": {"path": "/", "server": "s"}}), "x").is_empty(), "nobody counts these");
}

#[test]
fn volumes_in_the_pod_itself_are_counted_and_shared_claims_once() {
    let world = json!({"claims": {"data": bound_claim("pv", json!(""))}, "volumes": {"pv": {"spec": csi()}}});
    let volumes = json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "again", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "secrets", "csi": {"driver": "secrets.example.com"}},
        {"name": "old", "awsElasticBlockStore": {"volumeID": "vol-9"}},
        {"name": "config", "configMap": {"name": "c"}},
    ]);
    let expected = ["ebs.csi.aws.com shop/data", "ebs.csi.aws.com vol-9", "secrets.example.com u1/secrets"];
    assert_eq!(attached(&lower(volumes, &world)), expected);
}

// 01/VOL-09
#[test]
fn what_cannot_be_used_is_named() {
    let unbound = json!({"spec": {"storageClassName": "ebs"}});
    let deleting = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let check = |claim: Value, volume: Value, class: Value, expected: &str| {
        let world = json!({"claims": {"data": claim}, "volumes": {"pv": volume}, "classes": {"ebs": class}});
        let mut storage = storage(&world);
        storage.refused.provisioners.insert("refused.example.com".to_owned());
        storage.refused.topology_keys.insert("rack".to_owned());
        let problems: Vec<String> = lower_in(data(), &storage).problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), usize::from(!expected.is_empty()), "{problems:?}");
        assert!(problems.iter().all(|problem| problem.contains(expected)), "{problems:?}");
    };
    let ebs = || class("ebs.csi.aws.com", json!(null));
    let pv = || json!({"spec": csi()});
    check(unbound.clone(), pv(), ebs(), "");
    check(bound_claim("pv", json!("ebs")), pv(), ebs(), "");
    check(unbound.clone(), pv(), class("refused.example.com", json!(null)), "refused.example.com");
    let refused = json!({"spec": {"csi": {"driver": "refused.example.com", "volumeHandle": "v"}}});
    check(bound_claim("pv", json!("ebs")), refused, ebs(), "refused.example.com");
    let by_rack = json!([allowed(&["a"]), {"matchLabelExpressions": [{"key": "rack", "values": ["1"]}]}]);
    check(unbound.clone(), pv(), class("ebs.csi.aws.com", by_rack), "to rack");
    for mode in [json!("Immediate"), json!(null)] {
        check(unbound.clone(), pv(), json!({"provisioner": "p", "volumeBindingMode": mode}), "binds at once");
    }
    let mut going = unbound.clone();
    going["metadata"] = deleting.clone();
    check(going, pv(), ebs(), "is being deleted");
    let mut lost = unbound;
    lost["status"] = json!({"phase": "Lost"});
    check(lost, pv(), ebs(), "has lost its volume");
    check(
        bound_claim("pv", json!("ebs")),
        json!({"metadata": deleting, "spec": csi()}),
        ebs(),
        "volume pv, which is being deleted",
    );
    check(bound_claim("gone", json!("ebs")), pv(), ebs(), "volume gone, which does not exist");
}

// 01/VOL-10
#[test]
fn a_named_volume_counts_once_it_is_bound() {
    let mut claim = bound_claim("pv", json!("ebs"));
    let world = |claim: &Value| json!({"claims": {"data": claim}, "volumes": {"pv": {"spec": csi()}}});
    check_problem(data(), &world(&claim), "");
    claim["metadata"]["annotations"] = json!({});
    check_problem(data(), &world(&claim), "not bound to it yet");
}

#[test]
fn an_absurd_number_of_combinations_is_cut_and_stays_true() {
    let racks = |key: &str| Value::from((0..2000).map(|rack| label_in(key, &[&rack.to_string()])).collect::<Vec<_>>());
    let count = 20;
    let claims: serde_json::Map<String, Value> =
        (0..count).map(|i| (format!("c{i}"), bound_claim(&format!("v{i}"), json!("")))).collect();
    let volumes: serde_json::Map<String, Value> =
        (0..count).map(|i| (format!("v{i}"), volume_in(csi(), racks(&format!("rack-{i}"))))).collect();
    let mounts: Vec<Value> = (0..count)
        .map(|i| json!({"name": format!("d{i}"), "persistentVolumeClaim": {"claimName": format!("c{i}")}}))
        .collect();
    let found = lower(mounts.into(), &json!({"claims": claims, "volumes": volumes}));
    assert!(!found.volumes.alternatives.is_empty() && found.volumes.alternatives.len() <= 128);
    for place in &found.volumes.alternatives {
        assert_eq!(place.iter().count(), count, "every volume has its say");
    }
}
