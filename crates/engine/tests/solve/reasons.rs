//! Why pods stay pending and why claims exist, with the values that clash.

use std::sync::atomic::AtomicBool;

use engine::solve::{Question, solve};
use model::pool::BrokenLimit;
use model::requirements::Clash;
use model::resources::Resource;
use model::taints::{Effect, Taint};
use model::why::{Obstacle, Unplaced};

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

fn reason(world: &World, pods: Vec<PodSketch>, name: &str) -> Unplaced {
    world.solve(pods).plan.unplaced.into_iter().find(|unplaced| *unplaced.pod.name == *name).unwrap()
}

/// The obstacles of the only pool.
fn obstacles(world: &World, pods: Vec<PodSketch>, name: &str) -> Vec<Obstacle> {
    reason(world, pods, name).pools.swap_remove(0).1
}

#[test]
fn a_taint_is_named() {
    let world = world(vec![pool("p").taint("team", Effect::NoSchedule)]);
    assert_eq!(obstacles(&world, vec![pod("a")], "a"), [Obstacle::Taint(Taint::new("team", "", Effect::NoSchedule))]);
}

#[test]
fn a_label_is_named_with_both_sides() {
    let world = world(vec![pool("p").requires(ZONE, "In test-zone-1")]);
    let wanted = req("In test-zone-3");
    assert_eq!(
        obstacles(&world, vec![pod("a").selects(ZONE, "In test-zone-3")], "a"),
        [Obstacle::Label(Clash::NoCommonValue { key: ZONE.into(), incoming: wanted, existing: req("In test-zone-1") })]
    );
    assert_eq!(
        obstacles(&world, vec![pod("a").selects("zone", "In x")], "a"),
        [Obstacle::Label(Clash::UnknownKey { key: "zone".into(), typo_of: Some(ZONE.into()) })]
    );
}

#[test]
fn a_shortage_says_how_much_is_wanted_and_how_much_there_is() {
    let world = world(vec![pool("p").types(series(3))]);
    let cpu = Obstacle::Resource { resource: Resource::Cpu, wanted: 9000, available: 2900 };
    assert_eq!(obstacles(&world, vec![pod("a").asks("cpu", 9000)], "a"), [cpu]);
}

#[test]
fn two_constraints_that_both_stand_in_the_way_are_both_named() {
    let world = world(vec![pool("p").types(series(3)).taint("team", Effect::NoSchedule)]);
    let found = obstacles(&world, vec![pod("a").asks("cpu", 9000)], "a");
    assert_eq!(found.len(), 2);
    assert!(matches!(found[0], Obstacle::Taint(_)));
    assert!(matches!(found[1], Obstacle::Resource { resource: Resource::Cpu, .. }));
}

#[test]
fn a_limit_says_what_the_use_would_come_to() {
    let world = world(vec![pool("p").types(series(4)).limit("cpu", 3000)]);
    let limit = BrokenLimit { resource: "cpu".into(), limit: 3000, would_be: 4000 };
    assert_eq!(obstacles(&world, vec![pod("a").asks("cpu", 3500)], "a"), [Obstacle::Limit(limit)]);
}

#[test]
fn other_pods_are_named_by_the_rule_that_they_stand_behind() {
    let world = world(vec![pool("p").requires(ZONE, "In test-zone-1")]);
    let shy = |name: &str| pod(name).label("app", "x").apart(near(ZONE, &[("app", "x")]));
    assert!(matches!(obstacles(&world, vec![shy("a"), shy("b")], "b")[..], [Obstacle::Apart { .. }, ..]));
    let lonely = pod("a").together(near(HOST, &[("app", "nobody")]));
    assert_eq!(obstacles(&world, vec![lonely], "a"), [Obstacle::Together { key: HOST.into() }]);
}

#[test]
fn the_pool_with_the_fewest_obstacles_is_the_closest() {
    let far = pool("far").weight(10).taint("a", Effect::NoSchedule).requires(ZONE, "In test-zone-1");
    let near = pool("near").requires(ZONE, "In test-zone-1");
    let reason = reason(&world(vec![far, near]), vec![pod("a").selects(ZONE, "In test-zone-3")], "a");
    assert_eq!(reason.closest_pool.unwrap().as_str(), "near");
    assert_eq!(
        reason.pools.iter().map(|(name, obstacles)| (name.as_str(), obstacles.len())).collect::<Vec<_>>(),
        [("far", 2), ("near", 1)]
    );
}

#[test]
fn the_nearest_node_says_everything_that_is_in_the_way() {
    let world =
        world(Vec::new()).node("small", &[(ZONE, "test-zone-1")], 500).node("large", &[(ZONE, "test-zone-2")], 8000);
    let reason = reason(&world, vec![pod("a").asks("cpu", 1000).selects(ZONE, "In test-zone-1")], "a");
    let (node, obstacles) = reason.nearest_node.unwrap();
    assert_eq!(node.as_str(), "large", "one obstacle each; the first by name wins");
    assert!(matches!(obstacles[..], [Obstacle::Label(Clash::NoCommonValue { .. })]));
    assert_eq!(reason.general, [Obstacle::NoPool]);
}

#[test]
fn a_claim_says_what_kept_its_first_pod_off_the_nodes_that_are_there() {
    let world = world(vec![pool("p")]).node("small", &[], 500);
    let answer = world.solve(vec![pod("a").asks("cpu", 1000)]);
    let binding = answer.claim("a").reason.binding.clone();
    assert_eq!(binding, Some(Obstacle::Resource { resource: Resource::Cpu, wanted: 1000, available: 500 }));
}

#[test]
fn a_pod_whose_turn_did_not_come_is_told_so() {
    let world = world(vec![pool("p").types(vec![shape("four").build()])]);
    let pods: Vec<_> = pods("a", 3, |sketch| sketch.asks("cpu", 3000)).into_iter().map(|sketch| sketch.0).collect();
    let question = Question { effort: 1, ..Question::about(pods.iter().collect()) };
    let plan = solve(&world.snapshot, &question, &AtomicBool::new(false));
    assert_eq!((plan.placements.len(), plan.steps), (1, 1));
    assert!(plan.unplaced.iter().all(|unplaced| unplaced.general == [Obstacle::NotReached]));
}

#[test]
fn a_cancelled_question_keeps_what_was_found() {
    let world = world(vec![pool("p")]).node("n", &[], 0);
    let pods: Vec<_> = pods("a", 3, |sketch| sketch.asks("cpu", 1)).into_iter().map(|sketch| sketch.0).collect();
    let question = Question::about(pods.iter().collect());
    let plan = solve(&world.snapshot, &question, &AtomicBool::new(true));
    assert_eq!((plan.placements.len(), plan.unplaced.len(), plan.steps), (0, 3, 0));
    // Nobody waits for reasons either: they are short, and say so.
    for unplaced in &plan.unplaced {
        assert_eq!((&unplaced.general[..], &unplaced.nearest_node), (&[Obstacle::NotReached][..], &None));
        assert!(unplaced.pools.is_empty() && unplaced.closest_pool.is_none());
    }
}

// 01/DRA-01
#[test]
fn a_pod_with_resource_claims_is_refused_with_that_reason() {
    let world = world(vec![pool("p")]);
    let reason = reason(&world, vec![pod("a").change(|pod| pod.wants.has_resource_claims = true), pod("b")], "a");
    assert_eq!(reason.general, [Obstacle::ResourceClaims]);
}
