//! Which node comes closest to taking a pod, and what exactly it lacks.

use model::pod::{HostPort, Protocol};
use model::requirements::Clash;
use model::resources::Resource;
use model::taints::{Effect, Taint};
use model::volume::AttachLimits;
use model::why::{Obstacle, Unplaced};

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const APP: [(&str, &str); 1] = [("app", "x")];

fn port() -> HostPort {
    HostPort { ip: "".into(), port: 80, protocol: Protocol::Tcp }
}

fn only_reason(world: &World, pod: PodSketch) -> Unplaced {
    world.judged(vec![pod]).plan.unplaced.swap_remove(0)
}

/// A pod that wants a bit of everything, and two labels that no node has.
fn demanding() -> PodSketch {
    let volume = |pod: &mut model::pod::Pod| {
        pod.wants.volumes.alternatives = vec![reqs(&[(ZONE, "In test-zone-1")])];
        pod.wants.volumes.attached.entry("ebs".into()).or_default().insert("v".into());
        pod.wants.ports.push(port());
    };
    let unmet = pod("a").selects("team", "In a").selects("stage", "In b").asks("cpu", 1000).asks("memory", GI);
    unmet.apart(near(HOST, &APP)).change(volume)
}

/// A node that lacks just the two labels.
fn good(world: World, name: &str) -> World {
    world.node(name, &[(ZONE, "test-zone-1")], 1000).change_node(name, |node| node.allocatable.memory_bytes = GI)
}

#[test]
fn each_kind_of_obstacle_makes_a_node_less_near() {
    type Change = fn(World) -> World;
    let worse: [(&str, Change); 7] = [
        ("taint", |world| world.change_node("a", |node| node.taints.push(Taint::new("keep", "", Effect::NoSchedule)))),
        ("place", |world| world.change_node("a", |node| drop(node.labels.insert(ZONE.into(), "test-zone-2".into())))),
        ("cpu", |world| world.change_node("a", |node| node.allocatable.cpu_milli = 999)),
        ("memory", |world| world.change_node("a", |node| node.allocatable.memory_bytes = GI - 1)),
        ("port", |world| world.running("a", vec![pod("porter").change(|pod| pod.wants.ports.push(port()))])),
        ("volumes", |world| {
            world.change_node("a", |node| node.attach_limits = AttachLimits::from([("ebs".into(), 0)]))
        }),
        ("company", |world| world.running("a", vec![pod("there").label("app", "x")])),
    ];
    let base = || good(good(world(Vec::new()), "a"), "b");
    let (node, obstacles) = only_reason(&base(), demanding()).nearest_node.unwrap();
    assert_eq!((node.as_str(), obstacles.len()), ("a", 2), "{obstacles:?}");
    for (name, worsen) in worse {
        let (node, obstacles) = only_reason(&worsen(base()), demanding()).nearest_node.unwrap();
        assert_eq!((node.as_str(), obstacles.len()), ("b", 2), "{name}: {obstacles:?}");
        // Where there is no other node, the obstacle is named beside the labels.
        let alone = worsen(good(world(Vec::new()), "a"));
        assert_eq!(only_reason(&alone, demanding()).nearest_node.unwrap().1.len(), 3, "{name}");
    }
    // All together are all counted.
    let all = worse.iter().fold(base(), |world, (_, worsen)| worsen(world));
    assert_eq!(only_reason(&all, demanding()).nearest_node.unwrap().0.as_str(), "b");
    let alone = worse.iter().fold(good(world(Vec::new()), "a"), |world, (_, worsen)| worsen(world));
    assert_eq!(only_reason(&alone, demanding()).nearest_node.unwrap().1.len(), 9);
}

#[test]
fn what_is_just_enough_or_not_asked_for_is_no_obstacle() {
    let wanting = || pod("a").asks("cpu", 1000).selects("team", "In a");
    let exact = world(Vec::new()).node("n", &[], 1000);
    let (_, obstacles) = only_reason(&exact, wanting()).nearest_node.unwrap();
    assert!(
        matches!(obstacles[..], [Obstacle::Label(Clash::NoCommonValue { .. } | Clash::UnknownKey { .. })]),
        "{obstacles:?}"
    );
    let daemon_to_come = world(Vec::new())
        .node("n", &[], 500)
        .daemon("d", |daemon| daemon.requests = daemon.requests.clone().with("cpu", 1000));
    let (_, obstacles) = only_reason(&daemon_to_come, pod("a").selects("team", "In a")).nearest_node.unwrap();
    assert_eq!(obstacles.len(), 1, "less than nothing is enough for nothing: {obstacles:?}");
    let (_, obstacles) = only_reason(&daemon_to_come, pod("a").asks("cpu", 1)).nearest_node.unwrap();
    assert_eq!(obstacles, [Obstacle::Resource { resource: Resource::Cpu, wanted: 1, available: -500 }]);
}

#[test]
fn of_two_nodes_with_as_many_obstacles_the_first_is_named_however_much_room_they_have() {
    let wanting = || pod("a").asks("cpu", 1000).selects("team", "In a").selects("stage", "In b");
    let exact = world(Vec::new()).node("a", &[], 1000).node("b", &[], 4000);
    assert_eq!(only_reason(&exact, wanting()).nearest_node.unwrap().0.as_str(), "a");
    let on_a = world(Vec::new()).node("a", &[("d", "x")], 500).node("b", &[], 4000).daemon("d", |daemon| {
        daemon.requests = daemon.requests.clone().with("cpu", 1000);
        daemon.selector.add("d", req("In x"));
    });
    let modest = pod("a").selects("team", "In a").selects("stage", "In b");
    assert_eq!(only_reason(&on_a, modest).nearest_node.unwrap().0.as_str(), "a");
}

#[test]
fn one_constraint_is_named_before_two_others_that_would_do_as_well() {
    // Only the arm type has so much memory: either the memory goes, or both labels.
    let wanting =
        pod("a").selects("kubernetes.io/arch", "In amd64").selects("size", "In small").asks("memory", 100 * GI);
    let obstacles = only_reason(&world(vec![pool("p")]), wanting).pools.swap_remove(0).1;
    assert!(matches!(obstacles[..], [Obstacle::Resource { resource: Resource::Memory, .. }]), "{obstacles:?}");
}

#[test]
fn a_node_with_one_obstacle_is_near_enough_and_two_are_not() {
    let world = world(Vec::new()).node("a", &[], 100).node("b", &[("team", "a")], 100).node("c", &[("team", "a")], 200);
    let reason = only_reason(&world, pod("a").asks("cpu", 1000).selects("team", "In a"));
    assert_eq!(reason.nearest_node.unwrap().0.as_str(), "b");
}

#[test]
fn nodes_that_take_nobody_are_never_near() {
    let world = world(Vec::new())
        .node("leaving", &[("team", "a")], 100)
        .change_node("leaving", |node| node.is_leaving = true)
        .node("overdrawn", &[("team", "a")], 100)
        .running("overdrawn", vec![pod("there").asks("cpu", 200)])
        .node("small", &[], 50);
    let reason = only_reason(&world, pod("a").asks("cpu", 90).selects("team", "In a"));
    assert_eq!(reason.nearest_node.unwrap().0.as_str(), "small");
}

#[test]
fn a_port_that_a_daemon_takes_on_every_machine_is_named() {
    let world = world(vec![pool("p")]).daemon("d", |daemon| daemon.ports.push(port()));
    let reason = only_reason(&world, pod("a").change(|pod| pod.wants.ports.push(port())));
    assert_eq!(reason.pools[0].1, [Obstacle::Port { wanted: port(), held: port() }]);
}

#[test]
fn the_most_volumes_that_any_machine_attaches_are_named() {
    let with_limit = |name: &str, most: u32| {
        changed(shape(name), |built| built.attach_limits = AttachLimits::from([("ebs".into(), most)]))
    };
    let types = vec![with_limit("a", 1), with_limit("b", 2), with_limit("c", 0)];
    let wanting = pod("a").change(|pod| {
        let volumes = pod.wants.volumes.attached.entry("ebs".into()).or_default();
        volumes.extend(["u", "v", "w"].map(Into::into));
    });
    let reason = only_reason(&world(vec![pool("p").types(types)]), wanting);
    assert_eq!(reason.pools[0].1, [Obstacle::Attachments { driver: "ebs".into(), would_be: 3, limit: 2 }]);
}

#[test]
fn a_shortage_is_told_beside_the_daemons_of_the_machine() {
    let world = world(vec![pool("p").types(series(3))])
        .daemon("d", |daemon| daemon.requests = daemon.requests.clone().with("cpu", 400));
    let reason = only_reason(&world, pod("a").asks("cpu", 9000));
    assert_eq!(reason.pools[0].1, [Obstacle::Resource { resource: Resource::Cpu, wanted: 9000, available: 2500 }]);
}

#[test]
fn a_minimum_of_values_that_cannot_be_met_says_how_many_there_are() {
    let world = world(vec![pool("p").types(series(3)).min_values("node.kubernetes.io/instance-type", "Exists", 3)]);
    let reason = only_reason(&world, pod("a").asks("cpu", 1500));
    let key = "node.kubernetes.io/instance-type".into();
    assert_eq!(reason.pools[0].1, [Obstacle::MinValues { key, wanted: 3, found: 2 }]);
}

#[test]
fn a_spread_says_how_many_are_where() {
    let crowd = |world: World, name: &str, zone: &str, count: usize| {
        world.node(name, &[(ZONE, zone)], 0).running(name, pods(name, count, |sketch| sketch.label("app", "x")))
    };
    let world = world(vec![pool("p").requires(ZONE, "In test-zone-1 test-zone-2")]);
    let world = crowd(crowd(world, "one", "test-zone-1", 3), "two", "test-zone-2", 1);
    let bound = pod("b").label("app", "x").spread(spread_over(ZONE, 1, &APP));
    let zones = vec![reqs(&[(ZONE, "In test-zone-1")])];
    let reason = only_reason(&world, bound.asks("cpu", 1).change(|pod| pod.wants.volumes.alternatives = zones));
    let spread = Obstacle::Spread {
        key: ZONE.into(),
        max_skew: 1,
        least: 1,
        domains: vec![("test-zone-1".into(), 3), ("test-zone-2".into(), 1)],
    };
    assert_eq!(reason.pools[0].1, std::slice::from_ref(&spread));
    let (node, obstacles) = reason.nearest_node.unwrap();
    assert_eq!((node.as_str(), obstacles.contains(&spread)), ("one", true), "{obstacles:?}");
}
