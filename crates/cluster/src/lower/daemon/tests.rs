use model::resources::Resources;
use model::taints::{Effect, Taint};
use serde_json::{Value, json};

use super::*;

fn set(template_spec: Value) -> DaemonSet {
    let wire = json!({
        "metadata": {"namespace": "kube-system", "name": "agent"},
        "spec": {"selector": {}, "template": {"metadata": {"labels": {"app": "agent"}}, "spec": template_spec}},
    });
    serde_json::from_value(wire).unwrap()
}

fn live(spec: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"labels": {"app": "agent", "live": "yes"}}, "spec": spec})).unwrap()
}

fn affinity(terms: Value) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

fn check_requests(template_spec: Value, expected: Resources) {
    let lowered = daemon(&set(template_spec.clone()), None);
    assert_eq!(lowered.value.requests, expected.with("pods", 1), "{template_spec}");
    assert_eq!(lowered.oddities, []);
}

#[test]
fn a_template_asks_for_its_limits_where_it_does_not_say() {
    let container = |resources: Value| json!({"name": "c", "resources": resources});
    check_requests(json!({"containers": [container(json!({}))]}), Resources::default());
    check_requests(
        json!({"containers": [
            container(json!({"limits": {"cpu": "2", "memory": "1Ki"}, "requests": {"cpu": "1"}})),
            container(json!({"limits": {"cpu": "500m"}})),
        ]}),
        Resources::default().with("cpu", 1500).with("memory", 1024),
    );
    check_requests(
        json!({
            "containers": [container(json!({"requests": {"cpu": "1"}}))],
            "initContainers": [container(json!({"limits": {"cpu": "3"}})), container(json!({"requests": {"cpu": "2"}}))],
        }),
        Resources::default().with("cpu", 3000),
    );
    check_requests(
        json!({
            "containers": [container(json!({"requests": {"cpu": "1"}}))],
            "resources": {"limits": {"cpu": "4", "memory": "1Ki"}},
        }),
        Resources::default().with("cpu", 1000).with("memory", 1024),
    );
}

// 01/DMN-05
#[test]
fn a_live_pod_knows_its_size_but_the_template_knows_where_it_runs() {
    let container = |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let zone = json!([{"matchExpressions": [
        {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["a"]},
    ]}]);
    let pinned = affinity(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]));
    let template = set(json!({"containers": [container("1")], "affinity": affinity(zone)}));
    for (cpu, milli) in [("100m", 100), ("3", 3000)] {
        let pod = live(json!({"containers": [container(cpu)], "affinity": pinned}));
        let lowered = daemon(&template, Some(&pod)).value;
        assert_eq!(lowered.requests, Resources::default().with("cpu", milli).with("pods", 1));
        assert_eq!(lowered.terms.len(), 1);
        assert_eq!(lowered.terms[0].to_string(), "topology.kubernetes.io/zone In [a]");
        assert_eq!(lowered.labels.len(), 2);
    }
    let unpinned = set(json!({"containers": [container("1")]}));
    let pod = live(json!({"containers": [container("2")], "affinity": pinned}));
    assert_eq!(daemon(&unpinned, Some(&pod)).value.terms, []);
}

#[test]
fn a_template_gets_what_the_controller_grants_to_every_pod_of_its_own() {
    let lowered = daemon(&set(json!({"containers": []})), None).value;
    let tolerates = |key: &str, effect| {
        let taint = Taint::new(key, "", effect);
        lowered.tolerations.iter().any(|toleration| toleration.tolerates(&taint))
    };
    assert!(tolerates("node.kubernetes.io/unschedulable", Effect::NoSchedule));
    assert!(!tolerates("node.kubernetes.io/network-unavailable", Effect::NoSchedule));
    assert!(!tolerates("dedicated", Effect::NoSchedule));
    let host = daemon(
        &set(json!({"containers": [{"name": "c", "ports": [{"containerPort": 9100}]}], "hostNetwork": true})),
        None,
    );
    assert_eq!(host.value.ports[0].port, 9100, "on the host's network every port is the host's");
    assert_eq!(host.value.tolerations.len(), 7);
}

#[test]
fn the_newest_of_its_own_pods_speaks_for_a_daemon_set() {
    let pod = |name: &str, created: &str, kind: &str| -> Pod {
        let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": "agent", "uid": "u"});
        let metadata = json!({
            "namespace": "kube-system", "name": name, "creationTimestamp": created, "ownerReferences": [owner],
        });
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    };
    let pods = [
        pod("old", "2026-01-01T00:00:00Z", "DaemonSet"),
        pod("new", "2026-01-02T00:00:00Z", "DaemonSet"),
        pod("foreign", "2026-01-03T00:00:00Z", "ReplicaSet"),
    ];
    let agent = set(json!({"containers": []}));
    let name = |pods: &[Pod]| newest(&agent, pods).and_then(|pod| pod.metadata.name.clone());
    assert_eq!(name(&pods).as_deref(), Some("new"));
    assert_eq!(name(&pods[2..]), None);
    assert_eq!(name(&[]), None);
}

#[test]
fn a_pod_that_is_lowered_already_tells_the_same() {
    let around = (api::labels::LabelRules::default(), Default::default(), Default::default(), Default::default());
    let around = pod::Surroundings {
        rules: &around.0,
        namespaces: &around.1,
        storage: &around.2,
        workloads: &around.3,
        default_spread: &[],
    };
    let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]);
    let set = set(json!({"containers": [], "affinity": affinity(terms)}));
    let pinned = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]);
    let wire = live(json!({
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}, "ports": [{"containerPort": 1, "hostPort": 9}]}],
        "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "affinity": affinity(pinned),
        "resourceClaims": [{"name": "gpu"}],
    }));
    let lowered = pod::pod(&wire, &around).value;
    assert_eq!(with_live_pod(&daemon(&set, None).value, &lowered), daemon(&set, Some(&wire)).value);
}
