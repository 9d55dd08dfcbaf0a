//! Reasons whose values are true, and which are enough: nothing that they leave out stands in the way as well.

use model::labels::INSTANCE_TYPE;
use model::pod::{HostPort, Pod, Protocol};
use model::pool::BrokenLimit;
use model::requirements::{Clash, Requirement};
use model::resources::{Resource, Resources};
use model::taints::{Effect, Taint};
use model::volume::AttachLimits;
use model::why::{Obstacle, Unplaced};

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

fn reason(world: &World, sketch: PodSketch) -> Unplaced {
    world.solve(vec![sketch]).plan.unplaced.swap_remove(0)
}

/// The obstacles of the only pool.
fn obstacles(world: &World, sketch: PodSketch) -> Vec<Obstacle> {
    reason(world, sketch).pools.swap_remove(0).1
}

fn clash(key: &str, incoming: Requirement, existing: Requirement) -> Clash {
    Clash::NoCommonValue { key: key.into(), incoming, existing }
}

/// A type that is on sale in one zone, although its label could be any.
fn sold_in(name: &str, zone: &str) -> std::sync::Arc<model::instance::InstanceType> {
    changed(shape(name), |built| {
        built.offerings.retain(|way| **way.label(ZONE).unwrap() == *zone);
    })
}

fn port(number: u16) -> HostPort {
    HostPort { ip: "".into(), port: number, protocol: Protocol::Tcp }
}

fn attaching(sketch: PodSketch, driver: &str) -> PodSketch {
    sketch.change(|pod| drop(pod.wants.volumes.attached.insert(driver.into(), ["v".into(), "w".into()].into())))
}

#[test]
fn a_label_is_named_beside_what_the_rest_of_the_pod_leaves_for_it() {
    let world = world(vec![pool("p").types(vec![sold_in("x", "test-zone-2"), sold_in("y", "test-zone-1")])]);
    let wanted = pod("a").selects(INSTANCE_TYPE, "In x").selects(ZONE, "In test-zone-1");
    assert_eq!(
        obstacles(&world, wanted),
        [Obstacle::Label(clash(INSTANCE_TYPE, req("In x"), req("In y")))],
        "of what is sold in that zone"
    );
}

#[test]
fn of_a_volume_s_place_only_what_fails_is_named() {
    let placed = |place: &[(&str, &str)]| {
        let place = reqs(place);
        pod("a").change(|pod| pod.wants.volumes.alternatives = vec![place])
    };
    let in_region = |name: &str| {
        changed(shape(name), |built| {
            built.requirements.remove(REGION);
            built.requirements.add(REGION, req("In r1"));
        })
    };
    let there = world(vec![pool("p").types(vec![in_region("x")])]);
    let zones = req("In test-zone-1 test-zone-2 test-zone-3");
    assert_eq!(
        obstacles(&there, placed(&[(REGION, "In r1"), (ZONE, "In z9")])),
        [Obstacle::VolumePlace(clash(ZONE, req("In z9"), zones))]
    );
    let node = world(Vec::new()).node("n", &[(REGION, "r1"), (ZONE, "z1")], 4000);
    let (_, told) = reason(&node, placed(&[(REGION, "In r1"), (ZONE, "In z9")])).nearest_node.unwrap();
    assert_eq!(told, [Obstacle::VolumePlace(clash(ZONE, req("In z9"), req("In z1")))]);
    let (_, told) = reason(&node, placed(&[(REGION, "In r9"), (ZONE, "In z9")])).nearest_node.unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn a_limit_is_told_by_the_machine_that_exceeds_it_least() {
    let wide = shape("wide").with("cpu", 2000).with("memory", 16 * GI).build();
    let tall = shape("tall").with("cpu", 8000).with("memory", 4 * GI).build();
    let world = world(vec![pool("p").types(vec![wide, tall]).limit("cpu", 4000).limit("memory", 8 * GI)]);
    let told = obstacles(&world, pod("a").asks("cpu", 100));
    assert!(
        matches!(&told[..], [Obstacle::Limit(BrokenLimit { resource, .. })] if ["cpu", "memory"].contains(&&**resource)),
        "{told:?}"
    );
}

#[test]
fn every_limit_that_the_nearest_machine_exceeds_is_told() {
    let world = world(vec![pool("p").types(vec![shape("four").build()]).limit("cpu", 1000).limit("memory", GI)]);
    let limit = |resource: &str, limit: i64, would_be: i64| {
        Obstacle::Limit(BrokenLimit { resource: resource.into(), limit, would_be })
    };
    let told = obstacles(&world, pod("a").asks("cpu", 100));
    assert_eq!(told, [limit("cpu", 1000, 4000), limit("memory", GI, 4 * GI)]);
}

#[test]
fn every_taint_that_is_not_tolerated_is_told() {
    let taint = |key: &str| Obstacle::Taint(Taint::new(key, "", Effect::NoSchedule));
    let both = pool("p").taint("one", Effect::NoSchedule).taint("two", Effect::NoSchedule);
    let world = world(vec![both]).node("n", &[], 4000).change_node("n", |node| {
        node.taints = ["one", "two"].map(|key| Taint::new(key, "", Effect::NoSchedule)).to_vec();
    });
    let reason = reason(&world, pod("a"));
    assert_eq!(reason.pools[0].1, [taint("one"), taint("two")]);
    assert_eq!(reason.nearest_node.unwrap().1, [taint("one"), taint("two")]);
}

#[test]
fn every_port_that_is_taken_is_told() {
    let ports = |pod: &mut Pod| pod.wants.ports = vec![port(80), port(81), port(82)];
    let clash = |number: u16| Obstacle::Port { wanted: port(number), held: port(number) };
    let world = world(vec![pool("p")])
        .daemon("proxy", |daemon| daemon.ports = vec![port(80), port(81)])
        .node("n", &[], 4000)
        .running("n", vec![pod("there").change(|pod| pod.wants.ports = vec![port(81), port(82)])]);
    let reason = reason(&world, pod("a").change(ports));
    assert_eq!(reason.pools[0].1, [clash(80), clash(81)]);
    assert_eq!(reason.nearest_node.unwrap().1, [clash(80), clash(81), clash(82)]);
}

#[test]
fn every_driver_that_is_full_is_told() {
    let limits = || -> AttachLimits { [("ebs".into(), 1), ("efs".into(), 0)].into() };
    let full = |driver: &str, limit: u32| Obstacle::Attachments { driver: driver.into(), would_be: 2, limit };
    let world = world(vec![pool("p").types(vec![changed(shape("four"), |built| built.attach_limits = limits())])])
        .node("n", &[], 4000)
        .change_node("n", |node| node.attach_limits = limits());
    let reason = reason(&world, attaching(attaching(pod("a"), "ebs"), "efs"));
    assert_eq!(reason.pools[0].1, [full("ebs", 1), full("efs", 0)]);
    assert_eq!(reason.nearest_node.unwrap().1, [full("ebs", 1), full("efs", 0)]);
}

#[test]
fn every_minimum_of_values_that_is_not_met_is_told() {
    let few = pool("p").types(vec![shape("four").build()]).min_values(INSTANCE_TYPE, "Exists", 2);
    let told = obstacles(&world(vec![few.min_values("size", "Exists", 3)]), pod("a"));
    let keys: Vec<&str> = told
        .iter()
        .map(|obstacle| match obstacle {
            Obstacle::MinValues { key, .. } => &**key,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(keys, [INSTANCE_TYPE, "size"]);
}

#[test]
fn two_shortages_are_told_by_one_machine() {
    let wide = shape("wide").with("cpu", 2000).with("memory", 16 * GI).build();
    let tall = shape("tall").with("cpu", 8000).with("memory", 4 * GI).build();
    let world = world(vec![pool("p").types(vec![wide, tall])]);
    let told = obstacles(&world, pod("a").asks("cpu", 9000).asks("memory", 17 * GI));
    let available: Vec<i64> = told
        .iter()
        .map(|obstacle| match obstacle {
            Obstacle::Resource { available, .. } => *available,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!([[1900, 16 * GI - 10 * MI], [7900, 4 * GI - 10 * MI]].contains(&[available[0], available[1]]), "{told:?}");
}

#[test]
fn absurd_daemons_on_absurd_machines_are_survived() {
    let absurd = changed(shape("absurd"), |built| built.overhead = Resources::default().with("cpu", 4002));
    let world = world(vec![pool("p").types(vec![absurd, shape("four").build()])])
        .daemon("greedy", |daemon| daemon.requests = daemon.requests.clone().with("cpu", i64::MAX));
    let reason = reason(&world, pod("a").asks("cpu", 100));
    assert_eq!(reason.pools[0].1, [Obstacle::NoInstanceType]);
}

#[test]
fn a_shortage_beside_absurd_daemons_is_told_without_overflow() {
    let world = world(vec![pool("p").types(vec![shape("four").build()])])
        .daemon("greedy", |daemon| daemon.requests = daemon.requests.clone().with("cpu", 3000));
    let cpu = Obstacle::Resource { resource: Resource::Cpu, wanted: 2000, available: 900 };
    assert_eq!(obstacles(&world, pod("a").asks("cpu", 2000)), [cpu]);
}
