//! What the API server fills in when a built-in object does not say it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::meta;
use crate::fields::{quantity, sum_of_pod};
use crate::kinds::Kind;

/// Fills in what is absent. Doing it twice changes nothing.
pub(super) fn fill(kind: Kind, object: &mut Value) {
    match kind {
        Kind::Pod => {
            pod_spec(&mut object["spec"]);
            ports_of_host(&mut object["spec"]);
            requests_of_containers(&mut object["spec"]);
            requests_of_pod(&mut object["spec"]);
        }
        Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet | Kind::DaemonSet | Kind::Job => {
            workload(kind, &mut object["spec"]);
        }
        Kind::PersistentVolumeClaim => or(&mut object["spec"], "volumeMode", json!("Filesystem")),
        Kind::PersistentVolume => {
            or(&mut object["spec"], "volumeMode", json!("Filesystem"));
            or(&mut object["spec"], "persistentVolumeReclaimPolicy", json!("Retain"));
        }
        Kind::StorageClass => {
            or(object, "reclaimPolicy", json!("Delete"));
            or(object, "volumeBindingMode", json!("Immediate"));
        }
        Kind::PriorityClass => or(object, "preemptionPolicy", json!("PreemptLowerPriority")),
        Kind::LimitRange => limit_range(&mut object["spec"]),
        Kind::Service => {
            or(&mut object["spec"], "type", json!("ClusterIP"));
            or(&mut object["spec"], "sessionAffinity", json!("None"));
        }
        _ => {}
    }
}

/// The pods of a job bear its name and uid, and its selector asks for the uid. Needs the job's uid.
pub(super) fn name_pods_of_job(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let (name, uid) = (meta::name(job).to_owned(), meta::uid(job).to_owned());
    let spec = &mut job["spec"];
    let labels = &mut spec["template"]["metadata"]["labels"];
    for (key, value) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        labels[key] = value.as_str().into();
    }
    spec["selector"] = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
}

/// How a pod stands when memory runs out, by what its containers ask for.
pub(super) fn qos_class(spec: &Value) -> &'static str {
    let mut requests: BTreeMap<&str, i128> = BTreeMap::new();
    let mut limits: BTreeMap<&str, i128> = BTreeMap::new();
    let mut is_guaranteed = true;
    let own = spec["resources"].as_object().map(|_| &spec["resources"]);
    let containers =
        ["containers", "initContainers"].into_iter().flat_map(|list| spec[list].as_array().into_iter().flatten());
    let of_containers: Vec<&Value> = containers.map(|container| &container["resources"]).collect();
    for resources in own.map_or(of_containers, |own| vec![own]) {
        add(&resources["requests"], &mut requests);
        is_guaranteed &= add(&resources["limits"], &mut limits) == 2;
    }
    match () {
        () if requests.is_empty() && limits.is_empty() => "BestEffort",
        () if is_guaranteed && requests == limits => "Guaranteed",
        () => "Burstable",
    }
}

/// Adds what counts and says how many it was.
fn add<'a>(amounts: &'a Value, sums: &mut BTreeMap<&'a str, i128>) -> usize {
    let mut count = 0;
    for name in ["cpu", "memory"] {
        let milli = quantity(&amounts[name]).map_or(0, |amount| amount.milli());
        if milli > 0 {
            *sums.entry(name).or_default() += i128::from(milli);
            count += 1;
        }
    }
    count
}

fn or(object: &mut Value, member: &str, value: Value) {
    if object[member].is_null() && !value.is_null() {
        object[member] = value;
    }
}

/// The amounts of one list stand for those that another leaves open.
fn amounts_from(resources: &mut Value, to: &str, from: &str) {
    for (name, amount) in resources[from].as_object().cloned().into_iter().flatten() {
        or(&mut resources[to], &name, amount);
    }
}

fn all_containers(spec: &mut Value) -> impl Iterator<Item = &mut Value> {
    let members = spec.as_object_mut().into_iter().flatten();
    let lists = members.filter(|(member, _)| ["containers", "initContainers"].contains(&member.as_str()));
    lists.flat_map(|(_, list)| list.as_array_mut().into_iter().flatten())
}

fn ports(container: &mut Value) -> impl Iterator<Item = &mut Value> {
    container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten()
}

fn pod_spec(spec: &mut Value) {
    or(spec, "restartPolicy", json!("Always"));
    or(spec, "dnsPolicy", json!("ClusterFirst"));
    or(spec, "schedulerName", json!("default-scheduler"));
    or(spec, "terminationGracePeriodSeconds", json!(30));
    or(spec, "securityContext", json!({}));
    for container in all_containers(spec) {
        let image = container["image"].as_str().unwrap_or_default();
        let tag =
            image.rsplit_once('/').map_or(image, |(_, name)| name).split_once(':').map_or("latest", |(_, tag)| tag);
        let policy = if tag == "latest" && !image.contains('@') { "Always" } else { "IfNotPresent" };
        or(container, "imagePullPolicy", json!(policy));
        or(container, "resources", json!({}));
        or(container, "terminationMessagePath", json!("/dev/termination-log"));
        or(container, "terminationMessagePolicy", json!("File"));
        for port in ports(container) {
            or(port, "protocol", json!("TCP"));
        }
    }
}

/// In the network of its host a port of a pod is a port of the host. Templates of pods leave it open.
fn ports_of_host(spec: &mut Value) {
    if spec["hostNetwork"] != true {
        return;
    }
    for port in all_containers(spec).flat_map(ports) {
        let number = port["containerPort"].clone();
        or(port, "hostPort", number);
    }
}

/// Who limits a resource and asks for none of it asks for the limit.
fn requests_of_containers(spec: &mut Value) {
    for container in all_containers(spec) {
        amounts_from(&mut container["resources"], "requests", "limits");
    }
}

/// A pod with limits of its own asks for what its containers ask for together, then for those limits.
fn requests_of_pod(spec: &mut Value) {
    if spec["resources"]["limits"].as_object().is_none_or(Map::is_empty) {
        return;
    }
    for resource in ["cpu", "memory"] {
        if let Some(sum) = sum_of_pod(spec, "requests", resource) {
            or(&mut spec["resources"]["requests"], resource, json!(sum.to_string()));
        }
    }
    amounts_from(&mut spec["resources"], "requests", "limits");
}

/// What containers get by default follows from what else is said of them: the limit from the maximum, the request from the default
/// limit, then from the minimum.
fn limit_range(spec: &mut Value) {
    let items = spec.get_mut("limits").and_then(Value::as_array_mut).into_iter().flatten();
    for item in items.filter(|item| item["type"] == "Container") {
        amounts_from(item, "default", "max");
        amounts_from(item, "defaultRequest", "default");
        amounts_from(item, "defaultRequest", "min");
    }
}

fn workload(kind: Kind, spec: &mut Value) {
    if spec["template"]["spec"].is_object() {
        pod_spec(&mut spec["template"]["spec"]);
    }
    match kind {
        Kind::Deployment => {
            or(spec, "replicas", json!(1));
            or(&mut spec["strategy"], "type", json!("RollingUpdate"));
            if spec["strategy"]["type"] == "RollingUpdate" {
                or(&mut spec["strategy"]["rollingUpdate"], "maxSurge", json!("25%"));
                or(&mut spec["strategy"]["rollingUpdate"], "maxUnavailable", json!("25%"));
            }
            or(spec, "revisionHistoryLimit", json!(10));
            or(spec, "progressDeadlineSeconds", json!(600));
        }
        Kind::ReplicaSet => or(spec, "replicas", json!(1)),
        Kind::StatefulSet => stateful_set(spec),
        Kind::DaemonSet => {
            or(&mut spec["updateStrategy"], "type", json!("RollingUpdate"));
            if spec["updateStrategy"]["type"] == "RollingUpdate" {
                or(&mut spec["updateStrategy"]["rollingUpdate"], "maxSurge", json!(0));
                or(&mut spec["updateStrategy"]["rollingUpdate"], "maxUnavailable", json!(1));
            }
            or(spec, "revisionHistoryLimit", json!(10));
        }
        _ => job(spec),
    }
}

fn stateful_set(spec: &mut Value) {
    or(spec, "replicas", json!(1));
    or(spec, "podManagementPolicy", json!("OrderedReady"));
    or(spec, "revisionHistoryLimit", json!(10));
    or(&mut spec["updateStrategy"], "type", json!("RollingUpdate"));
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        or(&mut spec["updateStrategy"]["rollingUpdate"], "partition", json!(0));
    }
    or(&mut spec["persistentVolumeClaimRetentionPolicy"], "whenDeleted", json!("Retain"));
    or(&mut spec["persistentVolumeClaimRetentionPolicy"], "whenScaled", json!("Retain"));
    for claim in spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut).into_iter().flatten() {
        or(claim, "apiVersion", json!("v1"));
        or(claim, "kind", json!("PersistentVolumeClaim"));
        or(&mut claim["spec"], "volumeMode", json!("Filesystem"));
        or(&mut claim["status"], "phase", json!("Pending"));
    }
}

fn job(spec: &mut Value) {
    // A job that says neither does one thing once; one that says how many at a time is done when any of them says so.
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        spec["completions"] = 1.into();
    }
    or(spec, "parallelism", json!(1));
    or(spec, "backoffLimit", json!(6));
    or(spec, "completionMode", json!("NonIndexed"));
    or(spec, "suspend", json!(false));
    or(spec, "podReplacementPolicy", json!("TerminatingOrFailed"));
}

#[cfg(test)]
mod tests;
