use model::instance::Offering;
use model::requirements::{Operator, Requirement};
use model::taints::Effect;
use model::volume::AttachLimits;
use serde_json::{Value, json};

use super::*;
use crate::lower::pool::pool;

const CLASS_LABEL: &str = "karpenter.kwok.sh/kwoknodeclass";

fn classes() -> NodeClasses {
    NodeClasses::new([("karpenter.kwok.sh", "KWOKNodeClass")])
}

fn merge(base: &mut Value, change: &Value) {
    match (base, change) {
        (Value::Object(base), Value::Object(change)) => {
            for (key, value) in change {
                merge(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, change) => *base = change.clone(),
    }
}

fn claim(change: Value) -> NodeClaim {
    let mut wire = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "claim-1", "labels": {
            "karpenter.sh/nodepool": "default", CLASS_LABEL: "default", "topology.kubernetes.io/zone": "a",
        }},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [],
            "taints": [{"key": "dedicated", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "cni", "effect": "NoExecute"}],
        },
        "status": {"providerID": "kwok://1"},
    });
    merge(&mut wire, &change);
    serde_json::from_value(wire).unwrap()
}

fn wire_node(change: Value) -> v1::Node {
    let mut wire = json!({
        "metadata": {"name": "node-1", "labels": {
            "karpenter.sh/nodepool": "default", CLASS_LABEL: "default",
            "node.kubernetes.io/instance-type": "c-1", "kubernetes.io/hostname": "host-1",
        }},
        "spec": {"providerID": "kwok://1", "taints": []},
    });
    merge(&mut wire, &change);
    serde_json::from_value(wire).unwrap()
}

fn marked(labels: &[&str]) -> Value {
    let labels: serde_json::Map<String, Value> = labels.iter().map(|key| ((*key).to_owned(), "true".into())).collect();
    json!({"metadata": {"labels": labels}})
}

fn lower(node: Option<&v1::Node>, claim: Option<&NodeClaim>) -> Option<Node> {
    let parts = Parts { node, claim, csi: None, pool: None, is_marked: false };
    super::node(parts, &classes()).map(|lowered| {
        assert_eq!(lowered.oddities, []);
        lowered.value
    })
}

fn taint_texts(node: &Node) -> Vec<String> {
    node.taints.iter().map(ToString::to_string).collect()
}

fn starting_taints() -> Value {
    json!({"spec": {"taints": [
        {"key": "dedicated", "effect": "NoSchedule"},
        {"key": "cni", "effect": "NoExecute", "value": "x"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
        {"key": "readiness.k8s.io/network", "effect": "PreferNoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
    ]}})
}

// 01/TNT-04
#[test]
fn a_starting_node_hides_what_it_will_shed_and_a_started_one_nothing() {
    let mut node = starting_taints();
    merge(&mut node, &marked(&[REGISTERED]));
    let kept = ["dedicated:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"];
    assert_eq!(taint_texts(&lower(Some(&wire_node(node.clone())), Some(&claim(json!({})))).unwrap()), kept);
    merge(&mut node, &marked(&[INITIALIZED]));
    assert_eq!(lower(Some(&wire_node(node.clone())), Some(&claim(json!({})))).unwrap().taints.len(), 6);
    assert_eq!(lower(Some(&wire_node(node)), None).unwrap().taints.len(), 6, "a node without a claim");
    let foreign: v1::Node = serde_json::from_value(json!({
        "metadata": {"name": "other"}, "spec": starting_taints()["spec"],
    }))
    .unwrap();
    assert_eq!(lower(Some(&foreign), None).unwrap().taints.len(), 6);
}

#[test]
fn before_registration_the_claim_is_believed() {
    let joined = lower(Some(&wire_node(starting_taints())), Some(&claim(json!({})))).unwrap();
    assert_eq!(taint_texts(&joined), ["dedicated:NoSchedule"]);
    assert_eq!(joined.name.as_str(), "node-1", "pods are bound to the Node by its name");
    assert_eq!(joined.progress, Progress::Starting { has_node: true });
    assert_eq!(joined.labels.get("topology.kubernetes.io/zone").map(|zone| &**zone), Some("a"));
    assert_eq!(joined.labels.get(HOSTNAME).map(|host| &**host), Some("host-1"));
    assert_eq!(joined.labels.get(INSTANCE_TYPE), None);
    let registered = lower(Some(&wire_node(marked(&[REGISTERED]))), Some(&claim(json!({})))).unwrap();
    assert_eq!(registered.labels.get(INSTANCE_TYPE).map(|name| &**name), Some("c-1"));
    assert_eq!(registered.labels.get("topology.kubernetes.io/zone"), None);
    let launched = lower(None, Some(&claim(json!({})))).unwrap();
    assert_eq!((launched.name.as_str(), launched.has_node()), ("claim-1", false));
    assert_eq!(launched.labels.get(HOSTNAME).map(|host| &**host), Some("claim-1"));
    assert_eq!(launched.pool, Some("default".into()));
}

// 01/EXN-08
#[test]
fn what_a_starting_node_reports_as_zero_comes_from_the_claim() {
    let amounts = json!({"cpu": "4", "memory": "8Gi", "example.com/gpu": "2"});
    let claim = claim(json!({"status": {"capacity": amounts, "allocatable": amounts}}));
    let reported = json!({"cpu": "3900m", "example.com/gpu": "0"});
    let node = |labels: &[&str]| {
        let mut change = json!({"status": {"capacity": reported, "allocatable": reported}});
        merge(&mut change, &marked(labels));
        wire_node(change)
    };
    let promised = Resources::default().with("cpu", 4000).with("memory", 8 << 30).with("example.com/gpu", 2);
    let filled = promised.clone().with("cpu", 3900);
    let check = |node: Option<&v1::Node>, expected: &Resources| {
        let found = lower(node, Some(&claim)).unwrap();
        assert_eq!((&found.capacity, &found.allocatable), (expected, expected));
    };
    check(None, &promised);
    check(Some(&node(&[])), &filled);
    check(Some(&node(&[REGISTERED])), &filled);
    check(Some(&node(&[REGISTERED, INITIALIZED])), &Resources::default().with("cpu", 3900));
}

#[test]
fn a_node_of_ours_waits_for_its_machine_and_its_type() {
    let without_id = wire_node(json!({"spec": {"providerID": ""}}));
    assert_eq!(lower(Some(&without_id), None), None);
    let untyped: v1::Node = serde_json::from_value(json!({
        "metadata": {"name": "n", "labels": {CLASS_LABEL: "default"}}, "spec": {"providerID": "kwok://1"},
    }))
    .unwrap();
    assert_eq!(lower(Some(&untyped), None), None);
    let alone = lower(Some(&untyped), Some(&claim(json!({})))).unwrap();
    assert!(!alone.has_node(), "the claim stands for it meanwhile");
    assert_eq!(lower(None, None), None);
    let foreign: v1::Node = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
    let found = lower(Some(&foreign), None).unwrap();
    assert_eq!((found.pool.clone(), found.is_initialized()), (None, true));
    let mut other_class = claim(json!({}));
    other_class.spec.node_class_ref.kind = "EC2NodeClass".to_owned();
    assert_eq!(lower(None, Some(&other_class)), None, "another autoscaler's claim");
}

#[test]
fn a_node_leaves_when_it_or_its_claim_is_deleted_or_its_machine_is() {
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let terminating = json!({"status": {"conditions": [{
        "type": "InstanceTerminating", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    let leaves = |node: Value, claim_change: Option<Value>| {
        lower(Some(&wire_node(node)), claim_change.map(claim).as_ref()).unwrap().is_leaving
    };
    assert!(!leaves(json!({}), Some(json!({}))));
    assert!(leaves(json!({}), Some(deleted.clone())));
    assert!(leaves(json!({}), Some(terminating)));
    assert!(leaves(deleted.clone(), None));
    assert!(leaves(deleted, Some(json!({}))));
    let claim = claim(json!({}));
    let parts = Parts { node: None, claim: Some(&claim), csi: None, pool: None, is_marked: true };
    assert!(super::node(parts, &classes()).unwrap().value.is_leaving);
}

#[test]
fn old_label_spellings_answer_to_the_new_and_a_cordon_is_a_taint() {
    let node: v1::Node = serde_json::from_value(json!({
        "metadata": {"name": "n", "labels": {"failure-domain.beta.kubernetes.io/zone": "a"}},
        "spec": {"unschedulable": true},
    }))
    .unwrap();
    let found = lower(Some(&node), None).unwrap();
    assert_eq!(found.labels.get("topology.kubernetes.io/zone").map(|zone| &**zone), Some("a"));
    assert_eq!(found.labels.get(HOSTNAME).map(|host| &**host), Some("n"));
    assert_eq!(found.taints, [Taint::new("node.kubernetes.io/unschedulable", "", Effect::NoSchedule)]);
}

#[test]
fn attach_limits_come_from_the_csi_node() {
    let csi: CSINode = serde_json::from_value(json!({"metadata": {}, "spec": {"drivers": [
        {"name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": {"count": 25}},
        {"name": "odd", "nodeID": "i", "allocatable": {"count": -3}},
        {"name": "efs.csi.aws.com", "nodeID": "i"},
        {"name": "open", "nodeID": "i", "allocatable": {}},
    ]}}))
    .unwrap();
    let node = wire_node(json!({}));
    let parts = Parts { node: Some(&node), claim: None, csi: Some(&csi), pool: None, is_marked: false };
    let expected: AttachLimits = [("ebs.csi.aws.com".into(), 25), ("odd".into(), 0)].into();
    assert_eq!(super::node(parts, &classes()).unwrap().value.attach_limits, expected);
}

fn machine(name: &str, cpu: i64) -> Arc<InstanceType> {
    let requirements = Requirements::default()
        .with(INSTANCE_TYPE, Requirement::new(Operator::In, [name]))
        .with("topology.kubernetes.io/zone", Requirement::new(Operator::In, ["a", "b"]));
    Arc::new(InstanceType {
        name: name.into(),
        requirements,
        capacity: Resources::default().with("cpu", cpu).with("pods", 10),
        overhead: Resources::default(),
        offerings: Vec::<Offering>::new(),
        attach_limits: AttachLimits::new(),
        has_capacity_overlay: false,
    })
}

#[test]
fn an_unlaunched_claim_may_become_any_type_that_suits_it() {
    let wire = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}, "requirements": [],
        }}},
    }))
    .unwrap();
    let pool = pool(&wire, vec![machine("small", 1000), machine("large", 4000), machine("other", 4000)]);
    let claim = claim(json!({
        "spec": {
            "requirements": [{"key": INSTANCE_TYPE, "operator": "In", "values": ["small", "large"]}],
            "resources": {"requests": {"cpu": "2", "pods": "3"}},
        },
        "status": {"providerID": ""},
    }));
    let parts = Parts { node: None, claim: Some(&claim), csi: None, pool: Some(&pool), is_marked: false };
    let found = super::node(parts, &classes()).unwrap().value;
    let Progress::Unlaunched { types, requirements } = &found.progress else { panic!("{:?}", found.progress) };
    assert_eq!(types.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["large"]);
    assert!(requirements.get("topology.kubernetes.io/zone").is_some_and(|zone| zone.has("a") && !zone.has("b")));
    assert_eq!(requirements.get(HOSTNAME), None);
    let parts = Parts { pool: None, ..parts };
    let orphan = super::node(parts, &classes()).unwrap().value;
    assert!(matches!(orphan.progress, Progress::Unlaunched { types, .. } if types.is_empty()));
}
