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
