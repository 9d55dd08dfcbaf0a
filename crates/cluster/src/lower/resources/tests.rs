use serde_json::{Value, json};

use super::*;

fn asks(requests: Value) -> Value {
    json!({"name": "c", "resources": {"requests": requests}})
}

fn named(name: &str, cpu: &str) -> Value {
    json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
}

fn sidecar(cpu: &str) -> Value {
    json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
}

fn lower(pod: Value) -> Lowered<Resources> {
    of_pod(&serde_json::from_value(pod).unwrap())
}

fn check(pod: Value, expected: Resources) {
    let lowered = lower(pod.clone());
    assert_eq!(lowered.value, expected.with("pods", 1), "{pod}");
    assert_eq!(lowered.oddities, [], "{pod}");
}

fn check_cpu(pod: Value, milli: i64) {
    check(pod, Resources::default().with("cpu", milli));
}

// 01/PCK-13
#[test]
fn a_pod_asks_for_its_containers_or_its_hungriest_start() {
    check(
        json!({"spec": {"containers": [asks(json!({"cpu": "1", "memory": "1Gi"})), asks(json!({"cpu": "250m"}))]}}),
        Resources::default().with("cpu", 1250).with("memory", 1 << 30),
    );
    let with_init =
        |init: Value| json!({"spec": {"containers": [named("a", "1"), named("b", "1")], "initContainers": init}});
    check_cpu(with_init(json!([named("i", "1"), named("j", "3")])), 3000);
    check_cpu(with_init(json!([named("i", "1500m"), named("j", "500m")])), 2000);
    // A sidecar stays, so it counts beside the containers and beside every init container that comes after it.
    check_cpu(with_init(json!([sidecar("1")])), 3000);
    check_cpu(with_init(json!([sidecar("1"), named("i", "3")])), 4000);
    check_cpu(with_init(json!([named("i", "3"), sidecar("500m")])), 3000);
    check_cpu(with_init(json!([sidecar("1"), named("i", "3"), sidecar("2")])), 5000);
}

// 01/PCK-13
#[test]
fn the_pods_own_requests_replace_the_sum_and_overhead_comes_on_top() {
    let pod = |resources: Value, overhead: Value| {
        let container = asks(json!({"cpu": "1", "memory": "1Ki", "example.com/gpu": "1"}));
        json!({"spec": {"containers": [container], "resources": resources, "overhead": overhead}})
    };
    let base = Resources::default().with("cpu", 1000).with("memory", 1024).with("example.com/gpu", 1);
    check(pod(json!({}), json!({})), base.clone());
    check(
        pod(json!({"requests": {"cpu": "4", "hugepages-2Mi": "2Mi", "example.com/gpu": "9"}}), json!({})),
        base.clone().with("cpu", 4000).with("hugepages-2Mi", 2 << 20),
    );
    check(
        pod(json!({"requests": {"cpu": "4"}}), json!({"cpu": "250m", "memory": "1Ki"})),
        base.clone().with("cpu", 4250).with("memory", 2048),
    );
    check(pod(json!({"limits": {"cpu": "4"}}), json!({})), base);
}

fn resized(condition: Value, status: Value) -> Value {
    let mut container_status = json!({
        "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
    });
    for (field, value) in status.as_object().unwrap() {
        container_status[field] = value.clone();
    }
    json!({
        "spec": {"containers": [asks(json!({"cpu": "1", "memory": "1Ki"}))]},
        "status": {"conditions": condition, "containerStatuses": [container_status]},
    })
}

// 01/PCK-13
#[test]
fn a_resize_in_place_holds_the_greater_of_old_and_new() {
    let base = Resources::default().with("cpu", 1000).with("memory", 1024);
    let held = json!({"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"memory": "2Ki"}});
    check(resized(json!([]), held.clone()), base.clone().with("cpu", 3000).with("memory", 2048));
    check(resized(json!([]), json!({"resources": {"requests": {"cpu": "500m"}}})), base.clone());
    // The scheduler looks at what is allocated only beside what is reported.
    check(resized(json!([]), json!({"allocatedResources": {"memory": "2Ki"}})), base);
    let infeasible = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
    let small = json!({"resources": {"requests": {"cpu": "500m", "memory": "1Ki"}}});
    check(resized(infeasible, small.clone()), Resources::default().with("cpu", 500).with("memory", 1024));
    let deferred = json!([{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]);
    check(resized(deferred, small), Resources::default().with("cpu", 1000).with("memory", 1024));
}

#[test]
fn amounts_are_rounded_up_once_after_adding_up() {
    let twice = |requests: Value| json!({"spec": {"containers": [asks(requests.clone()), asks(requests)]}});
    check(twice(json!({"memory": "400m"})), Resources::default().with("memory", 1));
    check(twice(json!({"memory": "600m"})), Resources::default().with("memory", 2));
    check(twice(json!({"cpu": "100u"})), Resources::default().with("cpu", 2));
    check(twice(json!({"example.com/gpu": "0"})), Resources::default());
}

#[test]
fn absurd_amounts_saturate_and_unreadable_ones_fit_nowhere() {
    let most = asks(json!({"cpu": "9e30", "memory": "8Ei"}));
    let pod = json!({"spec": {"containers": [most.clone(), most.clone(), asks(json!({"memory": "-5"}))]}});
    check(pod, Resources::default().with("cpu", i64::MAX).with("memory", i64::MAX));
    let lowered = lower(json!({"spec": {"containers": [asks(json!({"memory": "much"}))]}}));
    assert_eq!(lowered.value.memory_bytes, i64::MAX);
    assert_eq!(&*lowered.oddities[0].field, "containers[c].resources.requests[memory]");
}

#[test]
fn a_pod_takes_one_place_whatever_it_says() {
    check(json!({"spec": {"containers": [asks(json!({"pods": "7"}))]}}), Resources::default());
    check(json!({"metadata": {"name": "empty"}}), Resources::default());
}

#[test]
fn lists_of_our_own_kinds_keep_their_units() {
    let list = serde_json::from_value(json!({"cpu": "1500m", "memory": "1Gi", "ephemeral-storage": "1", "pods": "3"}));
    let expected =
        Resources::default().with("cpu", 1500).with("memory", 1 << 30).with("ephemeral-storage", 1).with("pods", 3);
    assert_eq!(of_list(&list.unwrap()), expected);
}
