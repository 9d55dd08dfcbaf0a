//! The same facts in any order give the same plan.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::atomic::AtomicBool;

use cluster::{Object, Settings, Store};
use engine::solve::{Question, solve};
use k8s_openapi::api::core::v1::{Node, Pod};
use model::plan::Plan;
use model::time::Instant;
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";

/// Something that happens to an object.
#[derive(Clone)]
enum Event {
    Is(Object),
    WasDeleted(Object),
}

fn node() -> Object {
    let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    let wire = json!({
        "metadata": {"name": "n", "resourceVersion": "1", "labels": {ZONE: "a"}},
        "status": {"capacity": amounts, "allocatable": amounts},
    });
    serde_json::from_value::<Node>(wire).unwrap().into()
}

fn pod(name: &str, version: u64, spec: Value) -> Object {
    let mut wire = json!({
        "metadata": {
            "namespace": "default", "name": name, "uid": name, "resourceVersion": version.to_string(),
            "labels": {"app": name},
        },
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        ]},
    });
    for (field, value) in spec.as_object().unwrap() {
        wire["spec"][field] = value.clone();
    }
    serde_json::from_value::<Pod>(wire).unwrap().into()
}

fn apart_from_plain() -> Value {
    let term = json!({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "plain"}}});
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
}

/// A pod that keeps plain ones away, as it was made, as it was bound, and a plain pod that waits.
fn shy(version: u64, node: Option<&str>) -> Object {
    pod("shy", version, json!({"affinity": apart_from_plain(), "nodeName": node}))
}

fn every_order(events: &[Event]) -> Vec<Vec<Event>> {
    let Some((first, rest)) = events.split_first() else { return vec![Vec::new()] };
    let orders = every_order(rest).into_iter().flat_map(|order| {
        (0..=order.len()).map(move |place| {
            let mut longer = order.clone();
            longer.insert(place, first.clone());
            longer
        })
    });
    orders.collect()
}

/// The plan once all of this has been heard of.
fn plan_after(events: &[Event]) -> Plan {
    let now = Instant::from_unix_seconds(0);
    let mut store = Store::new(Settings::default(), now);
    for event in events {
        match event {
            Event::Is(object) => drop(store.apply(object.clone(), now)),
            Event::WasDeleted(object) => drop(store.delete(&object.gone(), now)),
        }
    }
    let batch = store.batch(now);
    let question = Question::about(batch.pods().map(|pod| &**pod).collect());
    let plan = solve(&batch.snapshot, &question, &AtomicBool::new(false));
    assert!(judge::replay(&batch.snapshot, &plan).is_accepted());
    plan
}

fn placed(plan: &Plan) -> Vec<String> {
    plan.placements.iter().map(|(pod, _)| pod.name.to_string()).collect()
}

// 01/AFF-18
#[test]
fn a_running_pod_that_wants_distance_is_known_in_whatever_order_its_story_is_told() {
    let story = [
        Event::Is(node()),
        Event::Is(shy(2, None)),
        Event::Is(shy(4, Some("n"))),
        Event::Is(pod("plain", 3, json!({}))),
    ];
    for order in every_order(&story) {
        let plan = plan_after(&order);
        assert_eq!(placed(&plan), [""; 0]);
        assert_eq!(plan.unplaced.len(), 1);
    }
}

// 01/AFF-18
#[test]
fn a_pod_that_was_deleted_keeps_nobody_away_even_if_the_news_of_it_come_first() {
    let story = [
        Event::Is(node()),
        Event::Is(shy(2, None)),
        Event::Is(shy(4, Some("n"))),
        Event::WasDeleted(shy(5, Some("n"))),
        Event::Is(pod("plain", 3, json!({}))),
    ];
    for order in every_order(&story) {
        assert_eq!(placed(&plan_after(&order)), ["plain"]);
    }
}
