use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::apiserver::{ApiServer, At};
use crate::testing::{pod, server};

/// A cluster with these objects.
fn cluster(objects: impl IntoIterator<Item = Value>) -> ApiServer {
    let server = server();
    objects.into_iter().for_each(|object| drop(server.create(object).unwrap()));
    server
}

fn create(object: Value, server: &ApiServer) -> Result<Arc<Value>, String> {
    server.create(object).map_err(|refusal| format!("{} {}", refusal.code, refusal.message))
}

fn admitted(spec: Value, server: &ApiServer) -> Result<Arc<Value>, String> {
    create(pod("p", spec), server)
}

fn container(resources: Value) -> Value {
    json!({"containers": [{"name": "c", "image": "i", "resources": resources}]})
}

fn class(name: &str, value: i64) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value})
}

#[tokio::test(start_paused = true)]
async fn a_bare_pod_gets_what_the_cluster_settles() {
    let pod = admitted(json!({}), &server()).unwrap();
    let spec = &pod["spec"];
    assert_eq!(spec["priority"], 0);
    assert_eq!(spec["preemptionPolicy"], "PreemptLowerPriority");
    assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    let tolerated: Vec<_> =
        each(&spec["tolerations"]).map(|t| (t["key"].as_str().unwrap(), t["tolerationSeconds"].clone())).collect();
    assert_eq!(
        tolerated,
        [("node.kubernetes.io/not-ready", json!(300)), ("node.kubernetes.io/unreachable", json!(300))]
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_tolerates_a_silent_node_already_is_left_alone() {
    let tolerations = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 5, "effect": "NoExecute"}]);
    let pod = admitted(json!({"tolerations": tolerations}), &server()).unwrap();
    assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!(pod["spec"]["tolerations"][0]["tolerationSeconds"], 5);
    let pod = admitted(json!({"tolerations": [{"operator": "Exists"}]}), &server()).unwrap();
    assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn priority_comes_from_the_class_or_the_default_or_is_nought() {
    let classes = || cluster([class("high", 1000)]);
    assert_eq!(admitted(json!({"priorityClassName": "high"}), &classes()).unwrap()["spec"]["priority"], 1000);
    let critical = admitted(json!({"priorityClassName": "system-node-critical"}), &classes()).unwrap();
    assert_eq!(critical["spec"]["priority"], 2_000_001_000);
    assert_eq!(
        admitted(json!({"priorityClassName": "none"}), &classes()).unwrap_err(),
        "403 pods \"p\" is forbidden: no PriorityClass with name none was found"
    );
    assert!(admitted(json!({"priority": 7}), &classes()).unwrap_err().contains("(7) must not be provided in pod spec"));
    let mut usual = class("usual", 5);
    usual["globalDefault"] = json!(true);
    usual["preemptionPolicy"] = json!("Never");
    let pod = admitted(json!({}), &cluster([class("high", 1000), usual])).unwrap();
    assert_eq!((&pod["spec"]["priority"], &pod["spec"]["priorityClassName"]), (&json!(5), &json!("usual")));
    assert_eq!(pod["spec"]["preemptionPolicy"], "Never");
}

#[tokio::test(start_paused = true)]
async fn only_one_priority_class_is_the_default() {
    let marked = |name: &str| {
        let mut class = class(name, 1);
        class["globalDefault"] = json!(true);
        class
    };
    assert_eq!(
        create(marked("second"), &cluster([marked("first")])).unwrap_err(),
        "403 priorityclasses.scheduling.k8s.io \"second\" is forbidden: PriorityClass first is already marked as default. Only one default can exist"
    );
}

#[tokio::test(start_paused = true)]
async fn a_runtime_class_brings_overhead_selector_and_tolerations() {
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [{"key": "vm", "operator": "Exists"}]},
    });
    let server = cluster([class]);
    let pod = admitted(json!({"runtimeClassName": "vm"}), &server).unwrap();
    assert_eq!(pod["spec"]["overhead"], json!({"cpu": "250m"}));
    assert_eq!(pod["spec"]["nodeSelector"], json!({"vm": "yes"}));
    assert_eq!(pod["spec"]["tolerations"][0], json!({"key": "vm", "operator": "Exists"}));
    for (spec, why) in [
        (json!({"runtimeClassName": "none"}), "pod rejected: RuntimeClass \"none\" not found"),
        (
            json!({"overhead": {"cpu": "1"}}),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            json!({"runtimeClassName": "vm", "overhead": {"cpu": "1"}}),
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            json!({"runtimeClassName": "vm", "nodeSelector": {"vm": "no"}}),
            "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no",
        ),
    ] {
        assert_eq!(admitted(spec, &server).unwrap_err(), format!("403 pods \"p\" is forbidden: {why}"));
    }
}

/// A cluster whose namespace `default` has a limit range.
fn limit_range(item: Value) -> ApiServer {
    let metadata = json!({"name": "r", "namespace": "default"});
    cluster([json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [item]}})])
}

#[tokio::test(start_paused = true)]
async fn a_limit_range_fills_in_what_containers_leave_open() {
    let range = limit_range(
        json!({"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "64Mi"}, "defaultRequest": {"cpu": "100m"}}),
    );
    let pod = admitted(json!({}), &range).unwrap();
    let resources = &pod["spec"]["containers"][0]["resources"];
    assert_eq!(resources, &json!({"limits": {"cpu": "2"}, "requests": {"cpu": "100m", "memory": "64Mi"}}));
    assert_eq!(pod["status"]["qosClass"], "Burstable");
}

#[tokio::test(start_paused = true)]
async fn a_limit_range_refuses_too_little_too_much_and_too_wide() {
    let check = |item: Value, resources: Value, why: &str| {
        let said = admitted(container(resources), &limit_range(item)).unwrap_err();
        assert_eq!(said, format!("403 pods \"p\" is forbidden: {why}"));
    };
    check(
        json!({"type": "Container", "min": {"cpu": "500m"}, "max": {"cpu": "1"}}),
        json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "2"}}),
        "[minimum cpu usage per Container is 500m, but request is 100m, maximum cpu usage per Container is 1, but limit is 2]",
    );
    check(
        json!({"type": "Pod", "max": {"memory": "1Gi"}}),
        json!({"limits": {"memory": "2Gi"}}),
        "maximum memory usage per Pod is 1Gi, but limit is 2Gi",
    );
    check(
        json!({"type": "Pod", "min": {"memory": "1Gi"}}),
        json!({}),
        "minimum memory usage per Pod is 1Gi.  No request is specified",
    );
    check(
        json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}),
        json!({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}),
        "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
    );
}

fn claim(name: &str, spec: Value) -> Value {
    let metadata = json!({"name": name, "namespace": "default"});
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn a_claim_takes_the_newest_default_class() {
    let server = server();
    for (name, is_default) in [("old", "true"), ("new", "true"), ("newest", "false")] {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": is_default});
        let metadata = json!({"name": name, "annotations": annotations});
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata, "provisioner": "x"});
        create(class, &server).unwrap();
    }
    for (name, given, expected) in [("a", Value::Null, "new"), ("b", json!(""), ""), ("c", json!("old"), "old")] {
        let claim = create(claim(name, json!({"storageClassName": given})), &server).unwrap();
        assert_eq!(claim["spec"]["storageClassName"], expected);
        assert_eq!(claim["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_outside_its_namespaces_limits_is_refused() {
    let range = limit_range(json!({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}));
    let refusal = create(claim("c", json!({"resources": {"requests": {"storage": "2Gi"}}})), &range).unwrap_err();
    let why = "403 persistentvolumeclaims \"c\" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi";
    assert_eq!(refusal, why);
}

#[tokio::test(start_paused = true)]
async fn nodes_are_born_unready() {
    let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let node = |spec: Value| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": spec});
    for spec in [json!({}), json!({"taints": [not_ready]})] {
        assert_eq!(create(node(spec), &server()).unwrap()["spec"]["taints"], json!([not_ready]));
    }
}

#[tokio::test(start_paused = true)]
async fn volumes_are_held_until_nobody_uses_them() {
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {}});
    let made = create(volume, &server()).unwrap();
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_leaves_out_what_admission_filled_in_keeps_it() {
    let server = cluster([class("high", 1000)]);
    let made = admitted(json!({"priorityClassName": "high"}), &server).unwrap();
    let patch = json!({
        "metadata": {"labels": {"changed": "yes"}},
        "spec": {"priority": null, "preemptionPolicy": null, "tolerations": null},
    });
    let changed = server.patch(Kind::Pod, &At::of(&made), &patch).unwrap();
    assert_eq!(changed["metadata"]["labels"]["changed"], "yes");
    assert_eq!(changed["spec"], made["spec"]);
}

#[tokio::test(start_paused = true)]
async fn there_is_one_default_priority_however_it_came_to_be() {
    let server = cluster([class("low", 1), class("high", 1000)]);
    let mark = |name: &str| {
        let patch = json!({"globalDefault": true});
        let marked = server.patch(Kind::PriorityClass, &At::new("", name), &patch);
        marked.map(drop).map_err(|refusal| format!("{} {}", refusal.code, refusal.message))
    };
    assert_eq!(mark("low"), Ok(()));
    assert_eq!(mark("low"), Ok(()), "it is no rival of its own");
    let why = "PriorityClass low is already marked as default. Only one default can exist";
    assert_eq!(mark("high"), Err(format!("403 priorityclasses.scheduling.k8s.io \"high\" is forbidden: {why}")));
}

#[tokio::test(start_paused = true)]
async fn a_bound_claim_grows_within_its_limits_if_its_class_lets_it() {
    let range = limit_range(json!({"type": "PersistentVolumeClaim", "max": {"storage": "5Gi"}}));
    for (name, grows) in [("elastic", true), ("rigid", false)] {
        let storage = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": "p", "allowVolumeExpansion": grows});
        range.create(storage).unwrap();
        let of_class = json!({"storageClassName": name, "resources": {"requests": {"storage": "1Gi"}}});
        range.create(claim(name, of_class)).unwrap();
        range
            .patch_status(
                Kind::PersistentVolumeClaim,
                &At::new("default", name),
                &json!({"status": {"phase": "Bound"}}),
            )
            .unwrap();
    }
    let grow = |name: &str, size: &str| {
        let patch = json!({"spec": {"resources": {"requests": {"storage": size}}}});
        let grown = range.patch(Kind::PersistentVolumeClaim, &At::new("default", name), &patch);
        grown.map(drop).map_err(|refusal| refusal.message)
    };
    assert_eq!(grow("elastic", "4Gi"), Ok(()));
    assert!(grow("elastic", "6Gi").unwrap_err().contains("maximum storage usage"));
    assert!(grow("rigid", "2Gi").unwrap_err().contains("must support resize"));
}
