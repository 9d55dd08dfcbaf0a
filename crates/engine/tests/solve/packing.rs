use std::collections::BTreeSet;
use std::sync::Arc;

use model::ids::PodName;
use model::plan::Plan;
use model::pod::Pod;
use model::snapshot::Snapshot;

use crate::fixture::*;
use crate::judged::answer;
use crate::random::{any_open_world, draws};

// 01/PCK-01
#[test]
fn what_no_single_type_has_is_not_placed() {
    let world = world(vec![pool("p")]);
    let answer = world.solve(vec![
        pod("huge").asks("cpu", 512_000),
        pod("mixed").asks("fake.com/vendor-a", 1).asks("fake.com/vendor-b", 1),
        pod("fine").asks("cpu", 1000),
    ]);
    assert!(!answer.is_placed("huge") && !answer.is_placed("mixed") && answer.is_placed("fine"));
}

// 01/PCK-02
#[test]
fn different_needs_get_different_nodes() {
    let world = world(vec![pool("p")]);
    let answer = world.solve(vec![
        pod("amd").selects("kubernetes.io/arch", "In amd64"),
        pod("arm").selects("kubernetes.io/arch", "In arm64"),
        pod("gpu-a").asks("fake.com/vendor-a", 1).selects("kubernetes.io/arch", "In amd64"),
        pod("gpu-b").asks("fake.com/vendor-b", 1).selects("kubernetes.io/arch", "In amd64"),
        pod("zone-3")
            .selects("topology.kubernetes.io/zone", "In test-zone-3")
            .selects("karpenter.sh/capacity-type", "In on-demand"),
    ]);
    assert_eq!(answer.placed(), 5);
    assert_ne!(answer.target("amd"), answer.target("arm"));
    assert_ne!(answer.target("gpu-a"), answer.target("gpu-b"));
}

// 01/PCK-08
#[test]
fn the_cheapest_type_comes_first_and_all_that_fit_are_listed() {
    let answer = world(vec![pool("p").types(series(5))]).solve(vec![pod("a").asks("cpu", 2500)]);
    assert_eq!(answer.types("a"), ["fake-it-2", "fake-it-3", "fake-it-4"]);
    assert_eq!(answer.claim("a").reason.cheapest.as_ref().map(|name| name.as_str()), Some("fake-it-2"));
    assert_eq!(answer.claim("a").reason.runner_up.as_ref().map(|(name, _)| name.as_str()), Some("fake-it-3"));
    assert_eq!(answer.claim("a").price, answer.claim("a").reason.price);
}

// 01/PCK-09
#[test]
fn forty_large_and_twenty_small_pods_need_twenty_nodes() {
    let world = world(vec![pool("p")]);
    let amd = |sketch: PodSketch| sketch.selects("kubernetes.io/arch", "In amd64");
    let mut all = pods("large", 40, |sketch| amd(sketch.asks("memory", 1_800_000_000)));
    all.extend(pods("small", 20, |sketch| amd(sketch.asks("memory", 400_000_000))));
    let answer = world.solve(all);
    assert_eq!((answer.placed(), answer.claims()), (60, 20));
}

// 01/PCK-10
#[test]
fn the_number_of_pods_fills_a_node_too() {
    let answer = world(vec![pool("p").types(vec![shape("five").build()])])
        .solve(pods("tiny", 25, |sketch| sketch.asks("cpu", 10)));
    assert_eq!((answer.placed(), answer.claims()), (25, 5));
}

// 01/PCK-11
#[test]
fn a_large_and_a_small_pod_get_machines_of_their_own_size() {
    let answer = world(vec![pool("p").types(series(5))])
        .solve(vec![pod("large").asks("cpu", 4500), pod("small").asks("cpu", 1000)]);
    assert_eq!(answer.claims(), 2);
    assert_eq!(answer.types("large"), ["fake-it-4"]);
    assert_eq!(answer.types("small")[0], "fake-it-1");
}

// 01/PCK-12
#[test]
fn nothing_of_an_unknown_resource_is_nothing() {
    let answer = world(vec![pool("p")]).solve(vec![pod("a").asks("example.com/unknown", 0)]);
    assert!(answer.is_placed("a"));
}

// 01/PCK-18
#[test]
fn pods_that_avoid_each_other_get_a_node_each() {
    let avoid = |sketch: PodSketch| sketch.label("app", "x").apart(near("kubernetes.io/hostname", &[("app", "x")]));
    let answer = world(vec![pool("p")]).solve(pods("a", 7, avoid));
    assert_eq!((answer.placed(), answer.claims()), (7, 7));
}

#[test]
fn equal_questions_get_equal_plans_in_any_order() {
    let make = || {
        pods("a", 12, |sketch| {
            sketch.asks("cpu", 700).label("app", "x").spread(spread_over(
                "topology.kubernetes.io/zone",
                1,
                &[("app", "x")],
            ))
        })
    };
    let world = world(vec![pool("p"), pool("q")]);
    let forward = world.solve(make());
    let mut reversed = make();
    reversed.reverse();
    assert_eq!(world.solve(reversed).plan, forward.plan);
}

#[test]
fn important_pods_come_first_when_there_is_not_room_for_all() {
    let world = world(Vec::new()).node("n", &[], 1000);
    let answer = world.solve(vec![pod("a").asks("cpu", 900).priority(1), pod("b").asks("cpu", 200).priority(10)]);
    assert!(answer.is_placed("b") && !answer.is_placed("a"));
}

fn placed(plan: &Plan) -> BTreeSet<&PodName> {
    plan.placements.iter().map(|(pod, _)| pod).collect()
}

/// The plan with the least effort that seats the same pods: with none left to think twice or to pack.
fn first_plan(snapshot: &Snapshot, pods: &[Pod], whole: &Plan) -> Plan {
    let (mut least, mut most) = (0, whole.steps);
    while least < most {
        let middle = least.midpoint(most);
        if placed(&answer(snapshot, pods, middle)) == placed(whole) { most = middle } else { least = middle + 1 }
    }
    answer(snapshot, pods, least)
}

/// What is packed anew is cheaper than what was found pod by pod, or it is not used.
#[test]
fn second_thoughts_make_no_plan_dearer() {
    let mut cheaper = 0;
    for (number, (mut snapshot, pods)) in draws(any_open_world(), 400).into_iter().enumerate() {
        // With many sizes there is more to choose from.
        for pool in snapshot.pools.values_mut().filter(|_| number % 2 == 0) {
            Arc::make_mut(pool).instance_types = series(16);
        }
        let whole = answer(&snapshot, &pods, u64::MAX);
        let first = first_plan(&snapshot, &pods, &whole);
        assert_eq!(placed(&first), placed(&whole));
        let cost = |plan: &Plan| plan.price().pico() + snapshot.policy.node_fee.pico() * plan.claims.len() as i64;
        assert!(cost(&whole) <= cost(&first), "world {number}: {} -> {}", cost(&first), cost(&whole));
        cheaper += usize::from(cost(&whole) < cost(&first));
    }
    println!("# {cheaper} became cheaper");
    assert!(cheaper > 0, "there is nothing to compare");
}
