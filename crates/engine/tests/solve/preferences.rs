use model::pod::Weighted;
use model::snapshot::PreferencePolicy;
use model::taints::Effect;
use model::topology::SpreadMode;

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";

fn prefers(sketch: PodSketch, weight: i32, key: &str, text: &str) -> PodSketch {
    sketch.change(|pod| pod.wants.preferred_nodes.push(Weighted { weight, item: reqs(&[(key, text)]) }))
}

// 01/PRF-02
#[test]
fn required_terms_are_tried_in_order() {
    let world = world(vec![pool("p")]);
    let terms = |pod: &mut model::pod::Pod| {
        pod.wants.terms =
            vec![reqs(&[(ZONE, "In nowhere")]), reqs(&[(ZONE, "In test-zone-2")]), reqs(&[(ZONE, "In test-zone-1")])];
    };
    assert_eq!(world.solve(vec![pod("a").change(terms)]).value("a", ZONE), "test-zone-2");
}

// 01/PRF-03
#[test]
fn preferences_that_cannot_be_met_are_dropped() {
    let sketch = prefers(prefers(pod("a"), 1, ZONE, "In nowhere"), 9, "instance", "In none");
    assert!(world(vec![pool("p")]).solve(vec![sketch]).is_placed("a"));
}

// 01/PRF-04
#[test]
fn the_heaviest_preference_that_can_be_met_is() {
    let sketch = prefers(
        prefers(prefers(pod("a"), 1, ZONE, "In test-zone-1"), 50, ZONE, "In test-zone-2"),
        100,
        ZONE,
        "In nowhere",
    );
    assert_eq!(world(vec![pool("p")]).solve(vec![sketch]).value("a", ZONE), "test-zone-2");
}

// 01/PRF-05
#[test]
fn a_requirement_beats_a_preference_against_it() {
    let sketch = prefers(pod("a").selects(ZONE, "In test-zone-3"), 1, ZONE, "NotIn test-zone-3");
    assert_eq!(world(vec![pool("p")]).solve(vec![sketch]).value("a", ZONE), "test-zone-3");
}

// 01/PRF-08
#[test]
fn a_soft_taint_is_put_up_with_only_when_nothing_else_helps() {
    let world = world(vec![pool("soft").taint("x", Effect::PreferNoSchedule)]);
    assert!(world.solve(vec![pod("a")]).is_placed("a"));
    assert!(world.solve(vec![prefers(pod("a"), 1, ZONE, "In nowhere")]).is_placed("a"));
}

// 01/PRF-11
#[test]
fn ignored_preferences_have_no_effect() {
    let mut world = world(vec![pool("p")]);
    world.snapshot.policy.preferences = PreferencePolicy::Ignore;
    let soft = |sketch: PodSketch| {
        let mut spread = spread_over("kubernetes.io/hostname", 1, &[("app", "x")]);
        spread.mode = SpreadMode::ScheduleAnyway;
        let away = Weighted { weight: 1, item: near("kubernetes.io/hostname", &[("app", "x")]) };
        prefers(sketch, 1, ZONE, "In test-zone-3")
            .label("app", "x")
            .spread(spread)
            .change(|pod| pod.wants.preferred_apart.push(away))
    };
    let answer = world.solve(pods("a", 3, soft));
    assert_eq!((answer.placed(), answer.claims()), (3, 1));
}

// 01/AFF-07
#[test]
fn preferred_company_and_distance_may_be_given_up() {
    let lonely = |pod: &mut model::pod::Pod| {
        pod.wants.preferred_together.push(Weighted { weight: 1, item: near(ZONE, &[("app", "nobody")]) });
    };
    let shy = |pod: &mut model::pod::Pod| {
        pod.wants.preferred_apart.push(Weighted { weight: 1, item: near(ZONE, &[("app", "x")]) });
    };
    let world = world(vec![pool("p").requires(ZONE, "In test-zone-1")]);
    let answer = world.solve(vec![
        pod("a").change(lonely),
        pod("b").label("app", "x").change(shy),
        pod("c").label("app", "x").change(shy),
    ]);
    assert_eq!(answer.placed(), 3);
}
