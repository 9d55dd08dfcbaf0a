use super::*;

fn filled(kind: Kind, mut object: Value) -> Value {
    fill(kind, &mut object);
    let once = object.clone();
    fill(kind, &mut object);
    assert_eq!(object, once);
    object
}

fn pod(spec: Value) -> Value {
    filled(Kind::Pod, json!({"spec": spec}))
}

fn workload(kind: Kind, spec: Value) -> Value {
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": []}});
    let mut object = json!({"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}});
    meta::merge(&mut object["spec"], &spec);
    filled(kind, object)["spec"].clone()
}

fn check(containers: Value, expected: &str) {
    let pod = pod(json!({"containers": containers}));
    assert_eq!(qos_class(&pod["spec"]), expected, "{pod}");
}

#[test]
fn quality_follows_requests_and_limits() {
    check(json!([{"name": "a"}]), "BestEffort");
    check(json!([{"name": "a", "resources": {"requests": {"cpu": "1"}}}]), "Burstable");
    check(json!([{"name": "a", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]), "Guaranteed");
    let resources = json!({"requests": {"cpu": "1000m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1024Mi"}});
    check(json!([{"name": "a", "resources": resources}]), "Guaranteed");
    check(json!([{"name": "a", "resources": resources}, {"name": "b"}]), "Burstable");
    check(json!([{"name": "a", "resources": {"requests": {"example.com/x": "1"}}}]), "BestEffort");
}

#[test]
fn a_bare_pod_gets_what_it_left_open() {
    let spec = &pod(json!({"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}))["spec"];
    assert_eq!((&spec["restartPolicy"], &spec["schedulerName"]), (&json!("Always"), &json!("default-scheduler")));
    assert_eq!(spec["terminationGracePeriodSeconds"], 30);
    assert_eq!(spec["containers"][0]["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
}

#[test]
fn a_port_in_the_network_of_the_host_is_a_port_of_the_host() {
    let spec = json!({"hostNetwork": true, "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]});
    let expected = json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]);
    assert_eq!(pod(spec.clone())["spec"]["containers"][0]["ports"], expected);
    let template = workload(Kind::DaemonSet, json!({"template": {"spec": spec}}))["template"].clone();
    assert!(template["spec"]["containers"][0]["ports"][0]["hostPort"].is_null());
}

#[test]
fn requests_follow_limits_where_they_are_missing() {
    let resources = json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}});
    for list in ["containers", "initContainers"] {
        let pod = pod(json!({list: [{"name": "c", "resources": resources}]}));
        let requests = &pod["spec"][list][0]["resources"]["requests"];
        assert_eq!(requests, &json!({"cpu": "1", "memory": "1Gi"}));
    }
    check(json!([{"name": "c", "resources": resources}]), "Burstable");
}

#[test]
fn amounts_of_a_whole_pod_follow_its_containers_then_its_limits() {
    let containers = json!([{"name": "c", "resources": {"requests": {"cpu": "250m"}}}]);
    let spec = json!({"containers": containers, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}});
    assert_eq!(pod(spec)["spec"]["resources"]["requests"], json!({"cpu": "250m", "memory": "1Gi"}));
    let without_limits = json!({"containers": containers, "resources": {"requests": {"memory": "1Gi"}}});
    assert_eq!(pod(without_limits)["spec"]["resources"]["requests"], json!({"memory": "1Gi"}));
}

#[test]
fn a_limit_range_has_defaults_by_its_bounds() {
    let item = json!({"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "64Mi"}});
    let range = filled(Kind::LimitRange, json!({"spec": {"limits": [item, {"type": "Pod", "max": {"cpu": "2"}}]}}));
    let limits = &range["spec"]["limits"];
    assert_eq!(limits[0]["default"], json!({"cpu": "2"}));
    assert_eq!(limits[0]["defaultRequest"], json!({"cpu": "2", "memory": "64Mi"}));
    assert_eq!(limits[1], json!({"type": "Pod", "max": {"cpu": "2"}}));
}

#[test]
fn workloads_get_their_defaults() {
    let deployment = workload(Kind::Deployment, json!({}));
    assert_eq!(deployment["replicas"], 1);
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    assert_eq!(deployment["strategy"], rolling);
    assert_eq!(deployment["template"]["spec"]["terminationGracePeriodSeconds"], 30);
    let recreate = workload(Kind::Deployment, json!({"strategy": {"type": "Recreate"}}));
    assert_eq!(recreate["strategy"], json!({"type": "Recreate"}));
    let stateful = workload(Kind::StatefulSet, json!({"volumeClaimTemplates": [{"metadata": {"name": "v"}}]}));
    assert_eq!(stateful["podManagementPolicy"], "OrderedReady");
    let kept = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    assert_eq!(stateful["persistentVolumeClaimRetentionPolicy"], kept);
    assert_eq!(stateful["volumeClaimTemplates"][0]["spec"]["volumeMode"], "Filesystem");
    assert_eq!(workload(Kind::DaemonSet, json!({}))["updateStrategy"]["rollingUpdate"]["maxUnavailable"], 1);
}

#[test]
fn a_job_gets_a_selector_of_its_own() {
    let template = json!({"spec": {"containers": [], "restartPolicy": "Never"}});
    let mut job = json!({"metadata": {"name": "w", "uid": "u1"}, "spec": {"template": template}});
    fill(Kind::Job, &mut job);
    name_pods_of_job(&mut job);
    let spec = &job["spec"];
    assert_eq!((&spec["completions"], &spec["parallelism"], &spec["backoffLimit"]), (&json!(1), &json!(1), &json!(6)));
    assert_eq!(spec["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}}));
    assert_eq!(spec["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"], "w");
    assert!(workload(Kind::Job, json!({"parallelism": 3}))["completions"].is_null());
}

#[test]
fn storage_has_defaults() {
    let class = filled(Kind::StorageClass, json!({"provisioner": "x"}));
    assert_eq!((&class["reclaimPolicy"], &class["volumeBindingMode"]), (&json!("Delete"), &json!("Immediate")));
    assert_eq!(filled(Kind::PersistentVolumeClaim, json!({}))["spec"], json!({"volumeMode": "Filesystem"}));
    let expected = json!({"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"});
    assert_eq!(filled(Kind::PersistentVolume, json!({}))["spec"], expected);
}
