use std::collections::BTreeMap;

use api::labels::LabelRules;
use model::ids::Namespace;
use model::labels::Labels;
use serde_json::{Value, json};

use super::*;
use crate::lower::pod::pod;
use crate::lower::spread::Workloads;
use crate::lower::volume::Storage;

/// A small cluster of two stages: an empty one, and one in which everything that pods refer to is there.
struct World {
    rules: LabelRules,
    namespaces: BTreeMap<Namespace, Labels>,
    storage: Storage,
    workloads: BTreeMap<Namespace, Workloads>,
    default_spread: Vec<wire::TopologySpreadConstraint>,
}

impl World {
    fn empty() -> Self {
        let spread =
            json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}]);
        Self {
            rules: LabelRules::default(),
            namespaces: BTreeMap::new(),
            storage: Storage::default(),
            workloads: BTreeMap::new(),
            default_spread: serde_json::from_value(spread).unwrap(),
        }
    }

    fn full() -> Self {
        let read = |wire: Value| serde_json::from_value(wire).unwrap();
        let mut world = Self::empty();
        world.namespaces.insert("bank".into(), [("team".into(), "a".into())].into());
        let claim = json!({"metadata": {}, "spec": {"storageClassName": "late"}});
        world.storage.claims.entry("shop".into()).or_default().insert("data".into(), read(claim));
        let class: wire::PersistentVolumeClaim = serde_json::from_value(json!({"metadata": {}, "spec": {}})).unwrap();
        world.storage.claims.entry("shop".into()).or_default().insert("web-1-scratch".into(), class);
        let late = json!({
            "metadata": {}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["a"]}]}],
        });
        world.storage.classes.insert("late".into(), serde_json::from_value(late).unwrap());
        let set = json!({"metadata": {}, "spec": {"selector": {"matchLabels": {"app": "web"}}}});
        let workloads = world.workloads.entry("shop".into()).or_default();
        workloads.replica_sets.insert("web".into(), serde_json::from_value(set).unwrap());
        world
    }

    fn around(&self) -> Surroundings<'_> {
        Surroundings {
            rules: &self.rules,
            namespaces: &self.namespaces,
            storage: &self.storage,
            workloads: &self.workloads,
            default_spread: &self.default_spread,
        }
    }
}

/// Lowers a pod in one world and renews it in the other; that must give what lowering it there gives.
fn check(spec: Value) {
    let wire: wire::Pod = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web-1", "uid": "u", "labels": {"app": "web"}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true},
        ]},
        "spec": spec,
    }))
    .unwrap();
    let controller = Controller::of(&wire.metadata);
    for (before, after) in [(World::empty(), World::full()), (World::full(), World::empty())] {
        let old = pod(&wire, &before.around()).value;
        let ties = Ties::of(&wire, &old, &before.around()).expect("every pod of these tests has ties");
        let renewed = ties.renewed(&old, controller.as_ref(), &after.around());
        assert_eq!(renewed.value, pod(&wire, &after.around()).value, "{spec}");
        assert_ne!(renewed.value, old, "{spec}: the worlds must make a difference");
    }
}

#[test]
fn a_pod_that_is_renewed_equals_one_that_is_lowered_anew() {
    let own_spread =
        json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}]);
    check(json!({"containers": []}));
    check(json!({"containers": [], "topologySpreadConstraints": own_spread, "volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {}},
        {"name": "inline", "csi": {"driver": "example.com"}},
    ]}));
    let term = json!({"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {"matchLabels": {"team": "a"}}});
    for (side, strength) in
        [("podAffinity", "required"), ("podAntiAffinity", "required"), ("podAntiAffinity", "preferred")]
    {
        let item = if strength == "required" { term.clone() } else { json!({"weight": 1, "podAffinityTerm": term}) };
        let field = format!("{strength}DuringSchedulingIgnoredDuringExecution");
        check(json!({
            "containers": [], "topologySpreadConstraints": own_spread, "affinity": {side: {field: [item]}},
            "nodeSelector": {"bad key!": "x"}, "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        }));
    }
}

#[test]
fn a_pod_that_refers_to_nothing_has_no_ties() {
    let world = World { default_spread: Vec::new(), ..World::full() };
    let wire: wire::Pod = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"containers": [], "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "csi": {"driver": "x"}}]},
    }))
    .unwrap();
    assert_eq!(Ties::of(&wire, &pod(&wire, &world.around()).value, &world.around()), None);
}
