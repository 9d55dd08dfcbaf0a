//! What a hundred thousand pods cost: memory, the time to take each in, and the time of a snapshot.
//!
//! Run it with `cargo bench -p cluster`. Memory is what the process holds, read from the kernel, so it counts what the
//! allocator wastes as well.

use std::time::{Duration, Instant as Stopwatch};

use cluster::{Kind, Object, Settings, Store};
use model::time::Instant;
use serde_json::json;

const PODS: usize = 100_000;
const REPLICAS: usize = 100;
const PODS_PER_NODE: usize = 50;

fn main() {
    let mut store = Store::new(Settings::default(), at(0));
    let before = resident_bytes();
    let mut spent = Duration::ZERO;
    for number in 0..PODS {
        let json = pod(number, 1);
        let (took, ()) = timed(|| {
            let object = Object::decode(Kind::Pod, json.as_bytes()).expect("the pod is valid");
            store.apply(object, at(0));
        });
        spent += took;
    }
    let after = resident_bytes();
    eprintln!("{PODS} pods of {} bytes of JSON each", pod(0, 1).len());
    eprintln!("store: {} bytes per pod", per_pod(before, after));
    eprintln!("taking one in: {:?}", spent / u32::try_from(PODS).unwrap_or(u32::MAX));

    let (took, first) = timed(|| store.snapshot(at(1)));
    eprintln!("first snapshot: {took:?}, {} bytes per pod more", per_pod(after, resident_bytes()));
    for number in 0..100 {
        store.apply(Object::decode(Kind::Pod, pod(number, 2).as_bytes()).expect("the pod is valid"), at(2));
    }
    let (took, second) = timed(|| store.snapshot(at(2)));
    eprintln!("one more while the first is held: {took:?}, {} bytes per pod more", per_pod(after, resident_bytes()));
    assert_eq!((first.pods.len(), second.pods.len()), (PODS, PODS));
    drop((first, second));
    for number in 0..100 {
        store.apply(Object::decode(Kind::Pod, pod(number, 3).as_bytes()).expect("the pod is valid"), at(3));
    }
    let (took, third) = timed(|| store.snapshot(at(3)));
    eprintln!("after a change of 100 pods: {took:?}");
    assert_eq!(third.pods.len(), PODS);
}

fn at(second: i64) -> Instant {
    Instant::from_unix_seconds(second)
}

fn per_pod(before: usize, after: usize) -> usize {
    after.saturating_sub(before) / PODS
}

/// A pod like those of an ordinary Deployment, with what API servers and kubelets write into it.
fn pod(number: usize, version: u64) -> String {
    let (set, replica) = (number / REPLICAS, number % REPLICAS);
    let hash = format!("{:010x}", set * 7919);
    let container = json!({
        "name": "app", "image": format!("registry.example.com/team/app-{set}:v1.2.3"), "imagePullPolicy": "IfNotPresent",
        "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
        "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "REGION", "value": "somewhere"}],
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "token", "readOnly": true}],
    });
    let condition =
        |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"});
    let wire = json!({
        "metadata": {
            "name": format!("app-{set}-{hash}-{replica:05}"), "namespace": format!("team-{}", set % 50),
            "uid": format!("{number:08x}-0000-4000-8000-{number:012x}"), "resourceVersion": (number as u64 * 10 + version).to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "app.kubernetes.io/name": format!("app-{set}"), "app.kubernetes.io/part-of": "shop", "version": version.to_string(),
                "pod-template-hash": hash,
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{set}-{hash}"), "uid": format!("rs-{set}"),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "nodeName": format!("ip-10-0-{}-{}.ec2.internal", number / PODS_PER_NODE / 250, number / PODS_PER_NODE % 250),
            "containers": [container], "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "priority": 0,
            "serviceAccountName": "default", "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": format!("app-{set}")}},
            }],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        },
        "status": {
            "phase": "Running", "podIP": "10.1.2.3", "hostIP": "10.0.0.1", "startTime": "2026-01-01T00:00:05Z",
            "conditions": [condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
        },
    });
    wire.to_string()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Stopwatch::now();
    let result = work();
    (start.elapsed(), result)
}

fn resident_bytes() -> usize {
    const PAGE: usize = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").expect("this runs on Linux");
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("the kernel says how much is resident") * PAGE
}
