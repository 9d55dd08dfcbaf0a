use std::collections::BTreeMap;

use api::labels::LabelRules;
use serde_json::{Value, json};

use super::*;
use crate::lower::volume::Storage;

fn buffer(spec: Value) -> CapacityBuffer {
    let wire = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"namespace": "shop", "name": "spare", "uid": "u1"}, "spec": spec,
    });
    serde_json::from_value(wire).unwrap()
}

fn template(spec: Value) -> PodTemplateSpec {
    serde_json::from_value(json!({"metadata": {"labels": {"app": "web"}}, "spec": spec})).unwrap()
}

fn asking(requests: Value) -> PodTemplateSpec {
    template(json!({"containers": [{"name": "c", "resources": {"requests": requests}}]}))
}

fn check(spec: Value, template: &PodTemplateSpec, source: Source, expected: u32) {
    let found = replicas(&buffer(spec.clone()), &Resolved { template, source });
    assert_eq!(found.value, expected, "{spec}");
}

const ALONE: Source = Source::PodTemplate;

fn of(replicas: impl Into<Option<i32>>) -> Source {
    Source::Workload { replicas: replicas.into() }
}

// 01/BUF-01
#[test]
fn the_number_is_fixed_or_a_share_or_what_limits_hold() {
    let web = asking(json!({"cpu": "1"}));
    check(json!({"replicas": 3}), &web, ALONE, 3);
    check(json!({"replicas": 0}), &web, ALONE, 0);
    check(json!({"replicas": 3, "limits": {"cpu": "2"}}), &web, ALONE, 2);
    check(json!({"limits": {"cpu": "5500m"}}), &web, ALONE, 5);
    check(json!({"percentage": 20}), &web, of(10), 2);
    check(json!({"percentage": 21}), &web, of(10), 3);
    check(json!({"percentage": 1}), &web, of(3), 1);
    check(json!({"percentage": 0}), &web, of(10), 0);
    check(json!({"percentage": 50}), &web, of(0), 0);
    check(json!({"percentage": 250}), &web, of(4), 10);
    check(json!({"percentage": 50}), &web, of(None), 1);
    check(json!({"replicas": 2, "percentage": 50}), &web, of(10), 5);
    check(json!({"replicas": 7, "percentage": 50}), &web, of(10), 7);
    check(json!({"replicas": 2, "percentage": 50, "limits": {"cpu": "4"}}), &web, of(10), 4);
}

// 01/BUF-02
#[test]
fn limits_hold_as_many_whole_pods_as_the_scarcest_allows() {
    let web = asking(json!({"cpu": "1", "memory": "1Gi"}));
    check(json!({"limits": {"cpu": "8", "memory": "3Gi"}}), &web, ALONE, 3);
    check(json!({"limits": {"cpu": "2999m"}}), &web, ALONE, 2);
    check(json!({"limits": {"cpu": "999m"}}), &web, ALONE, 0);
    check(json!({"replicas": 9, "limits": {"example.com/gpu": "1"}}), &web, ALONE, 9);
    let container = |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let two = template(json!({"containers": [container("1"), container("1")]}));
    check(json!({"limits": {"cpu": "5"}}), &two, ALONE, 2);
    let started = template(json!({"containers": [container("1")], "initContainers": [container("4")]}));
    check(json!({"limits": {"cpu": "9"}}), &started, ALONE, 2);
    let mut sidecar = container("1");
    sidecar["restartPolicy"] = "Always".into();
    let beside = template(json!({"containers": [container("1")], "initContainers": [sidecar]}));
    check(json!({"limits": {"cpu": "9"}}), &beside, ALONE, 4);
    let bounded = template(json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}));
    check(json!({"limits": {"cpu": "9"}}), &bounded, ALONE, 4);
}

#[test]
fn a_buffer_that_says_nothing_is_empty_and_told_so() {
    let web = asking(json!({"cpu": "1"}));
    let resolved = Resolved { template: &web, source: ALONE };
    for spec in [json!({}), json!({"limits": {"example.com/gpu": "1"}}), json!({"percentage": 10})] {
        let found = replicas(&buffer(spec), &resolved);
        assert_eq!((found.value, found.oddities.len()), (0, 1));
    }
}

fn lower(spec: Value, template: &PodTemplateSpec) -> Lowered<Vec<Pod>> {
    let (rules, storage) = (LabelRules::default(), Storage::default());
    let (namespaces, workloads) = (BTreeMap::new(), BTreeMap::new());
    let around = Surroundings {
        rules: &rules,
        namespaces: &namespaces,
        storage: &storage,
        workloads: &workloads,
        default_spread: &[],
    };
    pods(&buffer(spec), &Resolved { template, source: ALONE }, &around)
}

#[test]
fn virtual_pods_have_fixed_names_and_no_claims() {
    let web = template(json!({
        "nodeName": "n1",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "scratch", "ephemeral": {}},
            {"name": "secrets", "csi": {"driver": "secrets.example.com"}},
        ],
    }));
    let lowered = lower(json!({"replicas": 2}), &web);
    assert_eq!(lowered, lower(json!({"replicas": 2}), &web));
    assert_eq!(lowered.oddities, []);
    let [one, two] = &lowered.value[..] else { panic!("two pods: {:?}", lowered.value) };
    assert_eq!(one.name.to_string(), "shop/capacity-buffer-spare-1");
    assert_eq!(two.name.to_string(), "shop/capacity-buffer-spare-2");
    assert_eq!((one.uid.as_str(), two.uid.as_str()), ("u1-1", "u1-2"));
    for pod in [one, two] {
        assert_eq!((pod.priority, pod.is_virtual, pod.is_unschedulable), (i32::MIN, true, true));
        assert_eq!(pod.node, None);
        assert_eq!(pod.problems, []);
        assert_eq!(pod.labels.get("app").map(|value| &**value), Some("web"));
        assert_eq!(pod.requests.cpu_milli, 1000);
        assert!(crate::lower::eligible::is_provisionable(pod));
    }
    assert_ne!(one.wants.volumes.attached, two.wants.volumes.attached, "each brings its own inline volumes");
}

#[test]
fn an_absurd_buffer_fills_no_memory() {
    let lowered = lower(json!({"replicas": i32::MAX}), &asking(json!({"cpu": "1"})));
    assert_eq!(lowered.value.len(), MOST_PODS as usize);
    assert_eq!(lowered.oddities.len(), 1);
}
