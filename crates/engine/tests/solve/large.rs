//! Worlds with thousands of nodes and pods: what is looked at stays within bounds.

use model::pod::HostPort;
use model::pod::Protocol;
use model::taints::{Effect, Taint};
use model::topology::{Namespaces, PodTerm, Selector};
use model::why::Obstacle;

use crate::fixture::*;

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// So many full nodes in one zone, ten pods on each, one of which belongs to an app of its own.
fn full_nodes(count: usize) -> World {
    (0..count).fold(world(Vec::new()), |world, number| {
        let name = format!("node-{number:04}");
        let there = pods(&name, 10, |sketch| sketch.label("app", "x").label("number", &format!("{}", number % 100)));
        world.node(&name, &[(ZONE, "test-zone-1")], 0).running(&name, there)
    })
}

#[test]
fn hundreds_of_shy_pods_among_thousands_of_nodes_learn_who_is_in_their_way() {
    let world = full_nodes(2000);
    let shy = |number: usize| {
        let near = near(HOST, &[("app", "x"), ("number", &format!("{number}"))]);
        pod(&format!("shy-{number:03}")).asks("cpu", 10).apart(near.clone()).apart(PodTerm { key: ZONE.into(), ..near })
    };
    let answer = world.solve((0..300).map(shy).collect());
    assert_eq!(answer.plan.unplaced.len(), 300);
    for (number, unplaced) in answer.plan.unplaced.iter().enumerate() {
        let (node, obstacles) = unplaced.nearest_node.as_ref().unwrap();
        let apart = obstacles.iter().find_map(|obstacle| match obstacle {
            Obstacle::Apart { key, other } if **key == *ZONE => other.clone(),
            _ => None,
        });
        // The first hundred have a target of their own; nobody has the others' number.
        match number {
            0..100 => assert_eq!(&*apart.unwrap().name, format!("node-{number:04}-000"), "{node} {obstacles:?}"),
            _ => assert_eq!(obstacles.len(), 1, "{node} {obstacles:?}"),
        }
    }
}

/// The steps that a plan takes for one pod that fits nowhere, beside a crowd that fits.
fn steps_beside_a_hopeless(hopeless: PodSketch, change: impl FnOnce(World) -> World) -> u64 {
    let there = pods("there", 1, |sketch| sketch.label("app", "y").change(|pod| pod.wants.ports.push(port())));
    let world = change(world(Vec::new()).node("n", &[(ZONE, "test-zone-1")], 64_000).running("n", there));
    let mut all = pods("a", 20, |sketch| sketch.asks("cpu", 100));
    all.push(hopeless);
    let answer = world.judged(all);
    assert_eq!((answer.placed(), answer.plan.unplaced.len()), (20, 1));
    answer.plan.steps
}

fn port() -> HostPort {
    HostPort { ip: "".into(), port: 80, protocol: Protocol::Tcp }
}

#[test]
fn a_pod_that_no_plan_can_place_is_not_thought_about_twice() {
    let plain = |world: World| world;
    let hopeless = || pod("hopeless").asks("cpu", 100);
    let far = |key: &str| PodTerm {
        key: key.into(),
        selector: Selector::Matching(Default::default()),
        namespaces: Namespaces::All,
    };
    for (name, hopeless) in [
        ("label", hopeless().selects("team", "In a")),
        ("port", hopeless().change(|pod| pod.wants.ports.push(port()))),
        ("host", hopeless().apart(far(HOST))),
        ("zone", hopeless().apart(far(ZONE))),
        ("devices", hopeless().change(|pod| pod.wants.has_resource_claims = true)),
        ("amounts", hopeless().asks("cpu", 100_000)),
        ("company", hopeless().together(near(ZONE, &[("app", "nobody")]))),
    ] {
        assert!(steps_beside_a_hopeless(hopeless, plain) < 50, "{name}");
    }
    let tainted = |world: World| {
        let taint = Taint::new("reserved", "", Effect::NoSchedule);
        world.node("m", &[("team", "a")], 4000).change_node("m", |node| node.taints.push(taint))
    };
    assert!(steps_beside_a_hopeless(hopeless().selects("team", "In a"), tainted) < 60);
}

#[test]
fn every_place_that_is_looked_at_for_hope_is_a_step() {
    for count in [1_u64, 2, 7] {
        let full = (0..count).fold(world(Vec::new()), |world, number| world.node(&format!("n-{number}"), &[], 100));
        assert_eq!(full.judged(vec![pod("huge").asks("cpu", 1000)]).plan.steps, count);
    }
    // Whoever might put up with soft taints is asked twice, but only where there are some.
    let wanting = || vec![pod("a").selects("team", "In a")];
    let roomy = world(Vec::new()).node("n", &[], 1000);
    assert_eq!(roomy.judged(wanting()).plan.steps, 2);
    let soft = Taint::new("busy", "", Effect::PreferNoSchedule);
    let tainted = world(Vec::new()).node("n", &[], 1000).change_node("n", |node| node.taints.push(soft));
    assert_eq!(tainted.judged(wanting()).plan.steps, 3);
}

#[test]
fn no_plan_takes_more_steps_than_it_may() {
    // Everybody would fit alone, so there is always something to try again.
    let crowd = || {
        pods("a", 30, |sketch| sketch.asks("cpu", 300).label("app", "x").spread(spread_over(HOST, 1, &[("app", "x")])))
    };
    let world = world(vec![pool("p").limit("nodes", 2)]).node("n", &[], 1000).node("m", &[], 1000);
    let mut most = 0;
    for effort in [0, 1, 10, 100, 1000, 5000, 1_000_000] {
        let pods: Vec<_> = crowd().into_iter().map(|sketch| sketch.0).collect();
        let plan = crate::judged::answer(&world.snapshot, &pods, effort);
        assert!(plan.steps <= effort, "{} of {effort}", plan.steps);
        most = most.max(plan.steps);
    }
    assert!(most > 1000, "second thoughts cost something: {most}");
}

#[test]
fn among_plans_that_seat_as_many_the_first_one_stays() {
    let world = world(Vec::new()).node("n", &[], 1000);
    let answer = world.judged(pods("a", 5, |sketch| sketch.asks("cpu", 400)));
    let placed: Vec<&str> = answer.plan.placements.iter().map(|(pod, _)| &*pod.name).collect();
    assert_eq!(placed, ["a-000", "a-001"]);
    assert!(answer.plan.steps > 100, "others were tried: {}", answer.plan.steps);
}
