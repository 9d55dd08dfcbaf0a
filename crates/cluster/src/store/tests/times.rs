use std::time::Duration;

use super::*;
use crate::wake::Step;

const SECOND: Duration = Duration::from_secs(1);

fn healthy() -> Object {
    node_pool("a", condition("NodeRegistrationHealthy", "True"))
}

// 01/STA-12, 02/ST12
#[test]
fn times_of_a_pod_are_taken_once_and_forgotten_in_time() {
    let mut store = store().with([node_pool("a", json!({})), claim("c", launched("id-1")).into()]);
    store.apply(pod("p", waiting()), at(10));
    store.apply(pod("p", merged(waiting(), json!({"metadata": {"labels": {"x": "y"}}}))), at(11));
    assert_eq!(store.pod_times(&named("p")).unwrap().seen, at(10), "first seen is first seen");
    assert_eq!(store.nominate(&named("p"), &"c".into(), at(12)), Some(2 * SECOND));
    assert_eq!(store.nominate(&named("p"), &"c".into(), at(13)), None, "the first decision is timed once");
    let times = store.pod_times(&named("p")).unwrap().clone();
    assert_eq!((times.placed, times.placed_well), (Some(at(12)), None), "nobody knows whether nodes of the pool work");
    store.apply(healthy(), at(14));
    store.nominate(&named("p"), &"c".into(), at(14));
    store.nominate(&named("p"), &"c".into(), at(15));
    let times = store.pod_times(&named("p")).unwrap().clone();
    assert_eq!((times.placed, times.placed_well), (Some(at(12)), Some(at(14))));
    assert_eq!(store.refuse(&named("p"), at(16)), None);
    let times = store.pod_times(&named("p")).unwrap().clone();
    assert_eq!(
        (times.placed, times.placed_well, times.place),
        (None, None, None),
        "a refusal ends the wait for a node"
    );
    store.end(pod("p", json!({})));
    assert_eq!(store.pod_times(&named("p")), None);
    store.apply(pod("q", bound("n")), at(20));
    assert_eq!((store.nominate(&named("q"), &"c".into(), at(21)), store.refuse(&named("q"), at(21))), (None, None));
    assert_eq!(store.pod_times(&named("q")), None, "a bound pod waits for nothing");
}

// 01/POD-03
#[test]
fn a_pod_tied_to_a_host_is_ignored_and_its_decision_counted_once() {
    let tied = json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": "n"}}});
    let mut store = store();
    store.apply(pod("p", merged(waiting(), tied)), at(10));
    let batch = store.batch(at(13));
    assert_eq!((batch.pending.len(), batch.ignored.len()), (0, 1));
    assert_eq!(store.refuse(&named("p"), at(13)), Some(3 * SECOND));
    assert_eq!(store.refuse(&named("p"), at(14)), None);
    assert_eq!(store.pod_times(&named("p")).unwrap().placed, None);
}

// 01/MET-04
#[test]
fn the_place_of_a_pod_is_known_on_new_claims_and_on_nodes_that_are_there() {
    let mut store = store().with([pod("p", waiting()), pod("q", waiting()), node("n", "", foreign())]);
    store.assume_claim(claim("new", json!({})), at(1));
    store.nominate(&named("p"), &"new".into(), at(1));
    store.nominate(&named("q"), &"n".into(), at(1));
    let place = |name: &str| store.pod_times(&named(name)).unwrap().place.clone();
    assert_eq!((place("p"), place("q")), (Some("new".into()), Some("n".into())));
}

#[test]
fn a_pods_steps_are_told_with_how_long_they_took() {
    let stamp = |second: i64| format!("1970-01-01T00:00:{second:02}Z");
    let state = |node: Option<&str>, conditions: Value| {
        pod(
            "p",
            json!({
                "metadata": {"creationTimestamp": stamp(1)}, "spec": {"nodeName": node}, "status": {"conditions": conditions},
            }),
        )
    };
    let refused = || json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
    let is_bound = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(9)});
    let is_ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": stamp(12)});
    let mut store = store().with([healthy(), claim("c", launched("id-1")).into()]);
    assert_eq!(store.apply(state(None, refused()), at(2)).milestones, []);
    store.nominate(&named("p"), &"c".into(), at(4));
    let steps = store.apply(state(Some("n"), json!([is_bound])), at(10)).milestones;
    let told = |step: &crate::wake::Milestone| (step.step, step.waited, step.since_placed, step.since_placed_well);
    assert_eq!(
        steps.iter().map(told).collect::<Vec<_>>(),
        [(Step::Bound, 8 * SECOND, Some(5 * SECOND), Some(5 * SECOND))]
    );
    let steps = store.apply(state(Some("n"), json!([is_bound, is_ready])), at(13)).milestones;
    assert_eq!(
        steps.iter().map(told).collect::<Vec<_>>(),
        [(Step::Started, 11 * SECOND, Some(8 * SECOND), Some(8 * SECOND))]
    );
    assert_eq!(store.pod_times(&named("p")), None, "nothing is measured after this");
    let steps = store.apply(pod("old", json!({"spec": {"nodeName": "n"}})), at(13)).milestones;
    assert_eq!(steps, [], "who knows when one came that was there before us");
}
