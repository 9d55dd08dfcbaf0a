//! Places that were promised: pods of a command that is being carried out keep theirs, whoever else is planned for.

use std::sync::atomic::AtomicBool;

use engine::solve::{Question, solve};
use model::pod::Pod;
use proptest::prelude::*;

use crate::fixture::*;
use crate::random::{any_world, seeded};

/// Where pods go when these places were promised.
fn with_promises(world: &World, pods: Vec<PodSketch>, promised: &[(&str, &str)]) -> Answer {
    let pods: Vec<Pod> = pods.into_iter().map(|sketch| sketch.0).collect();
    let named = |name: &str| pods.iter().find(|pod| &*pod.name.name == name).unwrap().name.clone();
    let promised = promised.iter().map(|(pod, node)| (named(pod), (*node).into())).collect();
    let question = Question { promised, ..Question::about(pods.iter().collect()) };
    let plan = solve(&world.snapshot, &question, &AtomicBool::new(false));
    let mut snapshot = world.snapshot.clone();
    for pod in &pods {
        snapshot.pods.entry(pod.name.clone()).or_insert_with(|| pod.clone().into());
    }
    let verdict = judge::replay(&snapshot, &plan);
    assert!(verdict.is_accepted(), "{verdict}\n{plan:#?}");
    Answer { plan }
}

#[test]
fn nobody_takes_a_place_that_was_promised_to_another() {
    let world = world(vec![pool("p")]).node("a", &[], 2000).node("b", &[], 4000);
    let pods = || vec![pod("small").asks("cpu", 2000), pod("large").asks("cpu", 3000).priority(9)];
    let usual = world.judged(pods());
    assert_eq!((usual.node("large"), usual.node("small")), ("b", "a"));
    let answer = with_promises(&world, pods(), &[("small", "b")]);
    assert_eq!(answer.node("small"), "b", "even where somebody more important could have it");
    assert_eq!(answer.claim("large").pods.len(), 1);
}

// Planned one by one, the first pods would take the room of others, and the last one would be bought a machine.
#[test]
fn a_plan_that_just_fits_is_not_spoiled_by_planning_again() {
    let world = world(vec![pool("p")]).node("a", &[], 3000).node("b", &[], 4000);
    let pods = || vec![pod("two").asks("cpu", 2000), pod("two-more").asks("cpu", 2000), pod("three").asks("cpu", 3000)];
    let promised = [("three", "a"), ("two", "b"), ("two-more", "b")];
    let answer = with_promises(&world, pods(), &promised);
    assert_eq!((answer.placed(), answer.claims()), (3, 0));
    promised.iter().for_each(|(pod, node)| assert_eq!(answer.node(pod), *node));
}

#[test]
fn a_promise_that_cannot_be_kept_is_forgotten() {
    let world = world(vec![pool("p")])
        .node("full", &[], 1000)
        .node("wrong", &[("disk", "slow")], 4000)
        .node("right", &[("disk", "fast")], 4000)
        .running("full", vec![pod("there").asks("cpu", 500)]);
    let pods = || {
        vec![
            pod("grown").asks("cpu", 1000),
            pod("picky").asks("cpu", 1000).selects("disk", "In fast"),
            pod("late").asks("cpu", 1000).selects("disk", "In fast"),
        ]
    };
    let answer = with_promises(&world, pods(), &[("grown", "full"), ("picky", "wrong"), ("late", "gone")]);
    assert_eq!((answer.placed(), answer.claims()), (3, 0));
    assert_eq!((answer.node("picky"), answer.node("late")), ("right", "right"));
}

proptest! {
    #![proptest_config(seeded(300))]

    #[test]
    fn a_plan_with_promises_keeps_all_rules(
        ((snapshot, pods), places) in (any_world(), proptest::collection::vec(0..4_u8, 12))
    ) {
        let place = |(pod, place): (&Pod, &u8)| (pod.name.clone(), format!("node-{place}").into());
        let promised = pods.iter().zip(&places).map(place).collect();
        let question = Question { promised, ..Question::about(pods.iter().collect()) };
        let plan = solve(&snapshot, &question, &AtomicBool::new(false));
        let verdict = judge::replay(&snapshot, &plan);
        prop_assert!(verdict.is_accepted(), "{}\n{plan:#?}", verdict);
    }
}
