use api::labels::LabelRules;
use model::ids::Namespace;
use model::labels::Labels;
use model::topology::SpreadMode;
use serde_json::{Value, json};

use super::*;
use crate::lower::pod::{Surroundings, pod};
use crate::lower::volume::Storage;

fn named<T: serde::de::DeserializeOwned>(objects: Value) -> BTreeMap<String, T> {
    let objects = objects.as_object().unwrap().clone();
    objects
        .into_iter()
        .map(|(name, spec)| (name, serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()))
        .collect()
}

/// `services`, `rs`, `sts` and `rc`, each a map from name to spec.
fn workloads(world: &Value) -> Workloads {
    let of = |kind: &str| world.get(kind).cloned().unwrap_or_else(|| json!({}));
    Workloads {
        services: named(of("services")),
        replica_sets: named(of("rs")),
        stateful_sets: named(of("sts")),
        replication_controllers: named(of("rc")),
    }
}

fn constraints() -> Vec<TopologySpreadConstraint> {
    let wire = json!([
        {"maxSkew": 1, "topologyKey": "failure-domain.beta.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3},
        {"maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
    ]);
    serde_json::from_value(wire).unwrap()
}

fn lower(wire: Value, worlds: &[(&str, &Value)], constraints: &[TopologySpreadConstraint]) -> Vec<Spread> {
    let (rules, storage, namespaces) = (LabelRules::default(), Storage::default(), BTreeMap::new());
    let workloads: BTreeMap<Namespace, Workloads> =
        worlds.iter().map(|(namespace, world)| ((*namespace).into(), workloads(world))).collect();
    let around = Surroundings {
        rules: &rules,
        namespaces: &namespaces,
        storage: &storage,
        workloads: &workloads,
        default_spread: constraints,
    };
    pod(&serde_json::from_value(wire).unwrap(), &around).value.wants.spread.clone()
}

fn owned(owner: Value) -> Value {
    let labels = json!({"app": "web", "tier": "front", "hash": "1"});
    let mut metadata = json!({"namespace": "shop", "name": "web-1", "labels": labels});
    if !owner.is_null() {
        metadata["ownerReferences"] = json!([owner]);
    }
    json!({"metadata": metadata, "spec": {"containers": []}})
}

fn controller(api_version: &str, kind: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": "web", "uid": "u", "controller": true})
}

fn replica_set() -> Value {
    controller("apps/v1", "ReplicaSet")
}

/// The selector that is deduced, as text; empty for none.
fn check(owner: Value, world: Value, expected: &str) {
    let found = lower(owned(owner), &[("shop", &world)], &constraints());
    let texts: Vec<String> = found
        .iter()
        .map(|spread| match &spread.selector {
            Selector::Matching(requirements) => requirements.to_string(),
            Selector::Nothing => "nothing".to_owned(),
        })
        .collect();
    let expected = if expected.is_empty() { vec![] } else { vec![expected; 2] };
    assert_eq!(texts, expected, "{world}");
}

// 01/DTS-01
#[test]
fn only_pods_without_any_spread_of_their_own_get_the_defaults() {
    let world = json!({"rs": {"web": {"selector": {"matchLabels": {"app": "web"}}}}});
    let spreads = lower(owned(replica_set()), &[("shop", &world)], &constraints());
    let keys: Vec<(&str, i32, Option<i32>, SpreadMode)> =
        spreads.iter().map(|spread| (&*spread.key, spread.max_skew, spread.min_domains, spread.mode)).collect();
    assert_eq!(
        keys,
        [
            ("topology.kubernetes.io/zone", 1, Some(3), SpreadMode::DoNotSchedule),
            ("kubernetes.io/hostname", 2, None, SpreadMode::ScheduleAnyway),
        ]
    );
    let mut own = owned(replica_set());
    own["spec"]["topologySpreadConstraints"] =
        json!([{"maxSkew": 5, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}]);
    let spreads = lower(own, &[("shop", &world)], &constraints());
    assert_eq!(spreads.len(), 1);
    assert_eq!((&*spreads[0].key, &spreads[0].selector), ("rack", &Selector::Nothing));
    assert_eq!(lower(owned(replica_set()), &[("shop", &world)], &[]), []);
}

// 01/DTS-02
#[test]
fn the_selector_comes_from_the_controller_and_the_services() {
    let selector = json!({"selector": {
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}, {"key": "hash", "operator": "Exists"}],
    }});
    let text = "app In [web], hash Exists, tier NotIn [back]";
    check(replica_set(), json!({"rs": {"web": selector}}), text);
    check(
        controller("apps/v1", "StatefulSet"),
        json!({"sts": {"web": {"serviceName": "", "template": {}, "selector": selector["selector"]}}}),
        text,
    );
    check(
        controller("v1", "ReplicationController"),
        json!({"rc": {"web": {"selector": {"app": "web"}}}}),
        "app In [web]",
    );
    let services = json!({
        "a": {"selector": {"app": "web"}}, "b": {"selector": {"tier": "front"}},
        "c": {"selector": {"app": "other"}}, "d": {}, "e": {"selector": {}},
    });
    check(Value::Null, json!({"services": services}), "app In [web], tier In [front]");
    check(Value::Null, json!({"services": {"d": {}, "e": {"selector": {}}}}), "");
    let elsewhere = json!({"services": services});
    assert_eq!(lower(owned(Value::Null), &[("other", &elsewhere)], &constraints()), []);
}

// 01/DTS-03
#[test]
fn a_replication_controller_overrules_services_and_a_replica_set_adds_to_them() {
    let services = json!({"a": {"selector": {"app": "web"}}});
    check(
        controller("v1", "ReplicationController"),
        json!({"services": services, "rc": {"web": {"selector": {"app": "other", "hash": "1"}}}}),
        "app In [other], hash In [1]",
    );
    let world = json!({"services": services, "rs": {"web": {"selector": {"matchLabels": {"app": "other"}}}}});
    let spreads = lower(owned(replica_set()), &[("shop", &world)], &constraints());
    for app in ["web", "other"] {
        let labels: Labels = [("app".into(), app.into())].into();
        assert!(spreads.iter().all(|spread| !spread.selector.selects(&labels)), "both cannot be true of {app}");
    }
    assert_eq!(spreads.len(), 2);
}

// 01/DTS-04
#[test]
fn other_owners_count_only_through_services() {
    let services = json!({"a": {"selector": {"app": "web"}}});
    check(controller("batch/v1", "Job"), json!({}), "");
    check(controller("batch/v1", "Job"), json!({"services": services}), "app In [web]");
    check(replica_set(), json!({}), "");
    check(replica_set(), json!({"services": services}), "app In [web]");
    let mut bystander = replica_set();
    bystander["controller"] = json!(false);
    let world = json!({"rs": {"web": {"selector": {"matchLabels": {"app": "web"}}}}});
    check(bystander.clone(), world.clone(), "");
    bystander.as_object_mut().unwrap().remove("controller");
    check(bystander, world, "");
    let broken = json!({"rs": {"web": {"selector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}}});
    check(replica_set(), broken, "");
}

// 01/DTS-07
#[test]
fn pods_of_other_labels_or_namespaces_get_selectors_of_their_own() {
    let world =
        |app: &str| json!({"services": {"a": {"selector": {"app": app}}, "b": {"selector": {"tier": "front"}}}});
    let (shop, other) = (world("web"), world("api"));
    let worlds = [("shop", &shop), ("other", &other)];
    let selector_of = |namespace: &str, app: &str| {
        let mut pod = owned(Value::Null);
        pod["metadata"]["namespace"] = namespace.into();
        pod["metadata"]["labels"]["app"] = app.into();
        lower(pod, &worlds, &constraints()).swap_remove(0).selector
    };
    let matching = |texts: &[(&str, &str)]| {
        Selector::Matching(
            texts.iter().map(|(key, value)| ((*key).into(), Requirement::value((*value).into()))).collect(),
        )
    };
    assert_eq!(selector_of("shop", "web"), matching(&[("app", "web"), ("tier", "front")]));
    assert_eq!(selector_of("shop", "api"), matching(&[("tier", "front")]));
    assert_eq!(selector_of("other", "web"), matching(&[("tier", "front")]));
    assert_eq!(selector_of("other", "api"), matching(&[("app", "api"), ("tier", "front")]));
}
