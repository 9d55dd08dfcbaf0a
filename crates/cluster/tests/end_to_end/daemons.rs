//! DaemonSets, as far as machines must be larger for them.

use serde_json::{Value, json};

use crate::fixture::*;

fn resources(resources: Value) -> Value {
    json!({"name": "c", "resources": resources})
}

fn alone(container: Value) -> Value {
    json!({"containers": [container]})
}

// 01/DMN-01
#[test]
fn a_daemon_adds_what_the_scheduler_would_count_for_it() {
    let cpu = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let limit = |cpu: &str| json!({"limits": {"cpu": cpu}});
    let with_init = |init: Value, main: Value| json!({"containers": [main], "initContainers": [init]});
    let sidecar = merged(resources(cpu("1")), json!({"restartPolicy": "Always"}));
    for (template, added, types) in [
        (alone(resources(cpu("1"))), 1000, vec!["m-4", "m-8"]),
        (alone(resources(limit("1"))), 1000, vec!["m-4", "m-8"]),
        (
            alone(resources(json!({"requests": {"cpu": "300m"}, "limits": {"cpu": "5"}}))),
            300,
            vec!["m-2", "m-4", "m-8"],
        ),
        (json!({"containers": [resources(cpu("1")), resources(limit("1"))]}), 2000, vec!["m-4", "m-8"]),
        (with_init(resources(cpu("3")), resources(cpu("1"))), 3000, vec!["m-8"]),
        (with_init(resources(limit("3")), resources(cpu("1"))), 3000, vec!["m-8"]),
        (with_init(resources(cpu("1")), resources(limit("3"))), 3000, vec!["m-8"]),
        (with_init(sidecar, resources(cpu("2"))), 3000, vec!["m-8"]),
        (alone(resources(json!({}))), 0, vec!["m-2", "m-4", "m-8"]),
        (alone(resources(cpu("0"))), 0, vec!["m-2", "m-4", "m-8"]),
    ] {
        let pass = cluster([pool("default", json!({}))])
            .daemon_set("agent", template.clone())
            .pods([pod("web", json!({"spec": asking("1500m")}))])
            .pass();
        let claim = &pass.plan.claims[0];
        assert_eq!((claim.requests.cpu_milli, claim.requests.pods), (1500 + added, 2), "{template}");
        let found: Vec<&str> = claim.types.iter().map(|name| name.as_str()).collect();
        assert_eq!(found, types, "{template}");
    }
}

// 01/DMN-01
#[test]
fn daemons_that_leave_no_room_leave_the_pod_without_a_place() {
    let placed = |each: &str| {
        cluster([pool("default", json!({}))])
            .daemon_set("one", asking(each))
            .daemon_set("two", asking(each))
            .pods([pod("web", json!({"spec": asking("1")}))])
            .pass()
            .placed()
    };
    assert_eq!((placed("3500m"), placed("3501m")), (1, 0));
}

// 01/DMN-01
#[test]
fn a_node_keeps_room_for_a_daemon_that_has_not_come_yet() {
    for (cpu, claims) in [("1", 0), ("1001m", 1)] {
        let pass = cluster([pool("default", json!({}))])
            .daemon_set("agent", alone(resources(json!({"limits": {"cpu": "1"}}))))
            .node(node("there", "a", "2"))
            .pods([pod("web", json!({"spec": asking(cpu)}))])
            .pass();
        assert_eq!((pass.placed(), pass.claims()), (1, claims), "{cpu}");
    }
}
