use model::pod::{HostPort, Protocol};
use model::requirements::Requirements;
use model::volume::AttachLimits;

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const APP: [(&str, &str); 1] = [("app", "x")];

/// A pod whose volumes can be reached in one of these places.
fn reaching(sketch: PodSketch, places: &[&[(&str, &str)]]) -> PodSketch {
    let places: Vec<Requirements> = places.iter().map(|place| reqs(place)).collect();
    sketch.change(|pod| pod.wants.volumes.alternatives = places)
}

/// A pod with one more volume to attach.
fn attaching(sketch: PodSketch, driver: &str, volume: &str) -> PodSketch {
    sketch.change(|pod| pod.wants.volumes.attached.entry(driver.into()).or_default().extend([volume.into()]))
}

/// Pods with two volumes each.
fn pairs(count: usize) -> Vec<PodSketch> {
    pods("pair", count, |sketch| {
        let name = sketch.0.name.name.clone();
        attaching(attaching(sketch, "ebs", &format!("{name}-data")), "ebs", &format!("{name}-log"))
    })
}

fn limit(most: u32) -> AttachLimits {
    [("ebs".into(), most)].into()
}

/// A pool of one type that holds a hundred pods and so many volumes.
fn roomy(most: u32) -> PoolSketch {
    let roomy = || shape("roomy").with("cpu", 64_000).with("memory", 64 * GI).with("pods", 100);
    pool("p").types(vec![changed(roomy(), |built| built.attach_limits = limit(most))])
}

// 01/VOL-02
#[test]
fn a_pod_goes_where_its_volumes_are() {
    let world = world(vec![pool("p")]);
    let one = |places: &[(&str, &str)]| world.judged(vec![reaching(pod("a"), &[places])]);
    assert_eq!(one(&[(ZONE, "In test-zone-3")]).value("a", ZONE), "test-zone-3");
    assert_eq!(one(&[(ZONE, "In test-zone-1 test-zone-3")]).value("a", ZONE), "test-zone-1 test-zone-3");
    assert!(!one(&[(ZONE, "In nowhere")]).is_placed("a"));
    let selecting = |zone: &str| {
        let sketch = pod("a").selects(ZONE, zone);
        world.judged(vec![reaching(sketch, &[&[(ZONE, "In test-zone-1 test-zone-3")]])])
    };
    assert_eq!(selecting("NotIn test-zone-1").value("a", ZONE), "test-zone-3");
    assert!(!selecting("In test-zone-2").is_placed("a"));
}

// 01/VOL-02
#[test]
fn volumes_choose_among_the_nodes_that_are_there() {
    let world = world(Vec::new())
        .node("n1", &[(ZONE, "test-zone-1")], 4000)
        .node("n2", &[(ZONE, "test-zone-2")], 4000)
        .node("n3", &[], 4000);
    let at = |zone: &str| world.judged(vec![reaching(pod("a"), &[&[(ZONE, zone)]])]);
    assert_eq!(at("In test-zone-2").node("a"), "n2");
    assert!(!at("In test-zone-3").is_placed("a"));
}

// 01/VOL-03
#[test]
fn places_of_a_volume_are_alternatives() {
    let either: [&[(&str, &str)]; 2] = [&[(ZONE, "In test-zone-1")], &[(ZONE, "In test-zone-2")]];
    let shy = |sketch: PodSketch| reaching(sketch.label("app", "x").apart(near(ZONE, &APP)), &either);
    let answer = world(vec![pool("p")]).judged(pods("a", 3, shy));
    assert_eq!(answer.skew("a", ZONE), [1, 1], "and the third has nowhere to go");
    let nodes = world(Vec::new()).node("n1", &[(ZONE, "test-zone-1")], 4000).node("n2", &[(ZONE, "test-zone-2")], 4000);
    assert_eq!(nodes.judged(pods("a", 3, shy)).placed(), 2);
}

// 01/VOL-04
#[test]
fn several_volumes_are_reached_together_or_not_at_all() {
    let together: [&[(&str, &str)]; 3] = [
        &[(ZONE, "In test-zone-1"), (ZONE, "In test-zone-2")],
        &[(ZONE, "In nowhere"), ("special", "In optional")],
        &[(ZONE, "In test-zone-1"), ("special", "In optional")],
    ];
    let world = world(vec![pool("p")]);
    let answer = world.judged(vec![reaching(pod("a"), &together)]);
    assert_eq!((answer.value("a", ZONE), answer.types("a")), ("test-zone-1".into(), vec!["arm-instance-type".into()]));
    let answer = world.judged(vec![reaching(pod("a"), &together[..2]), pod("b")]);
    assert!(!answer.is_placed("a") && answer.is_placed("b"));
}

// 01/VOL-06
#[test]
fn the_place_of_a_volume_does_not_change_which_domains_a_spread_counts() {
    let mut world = world(vec![pool("p")]);
    for zone in 1..=3 {
        let node = format!("n{zone}");
        let there = pod(&format!("there-{zone}")).label("app", "x");
        world = world.node(&node, &[(ZONE, &format!("test-zone-{zone}"))], 10).running(&node, vec![there]);
    }
    let mut spread = spread_over(ZONE, 1, &APP);
    spread.min_domains = Some(3);
    let bound = |name: &str| {
        let sketch = pod(name).asks("cpu", 100).label("app", "x").spread(spread.clone());
        reaching(sketch, &[&[(ZONE, "In test-zone-1")]])
    };
    let answer = world.judged(vec![bound("a"), bound("b")]);
    assert_eq!((answer.placed(), answer.value("a", ZONE)), (1, "test-zone-1".into()));
}

// 01/VOL-07
#[test]
fn a_node_takes_no_more_volumes_than_it_can_attach() {
    let fresh =
        || world(vec![pool("p")]).node("n", &[], 64_000).change_node("n", |node| node.attach_limits = limit(10));
    let answer = fresh().judged(pairs(6));
    assert_eq!((answer.placed(), answer.claims()), (6, 1));
    let shared = fresh().judged(pods("a", 100, |sketch| attaching(sketch, "ebs", "shared")));
    assert_eq!((shared.placed(), shared.claims()), (100, 0));
    let unlimited = fresh().judged(pods("a", 50, |sketch| {
        let name = sketch.0.name.name.clone();
        attaching(sketch, "nfs", &name)
    }));
    assert_eq!((unlimited.placed(), unlimited.claims()), (50, 0));
    let held = fresh().running("n", pairs(5));
    assert_eq!(held.judged(vec![attaching(pod("a"), "ebs", "another")]).claims(), 1);
    assert_eq!(held.judged(vec![attaching(pod("a"), "ebs", "pair-000-data")]).node("a"), "n");
}

#[test]
fn a_new_node_takes_no_more_volumes_than_its_type_can_attach() {
    let answer = world(vec![roomy(4)]).judged(pairs(5));
    assert_eq!((answer.placed(), answer.claims()), (5, 3));
    let shared = world(vec![roomy(1)]).judged(pods("a", 90, |sketch| attaching(sketch, "ebs", "shared")));
    assert_eq!((shared.placed(), shared.claims()), (90, 1));
    let nfs = world(vec![roomy(0)]).judged(vec![attaching(pod("a"), "nfs", "v"), attaching(pod("b"), "ebs", "v")]);
    assert!(nfs.is_placed("a") && !nfs.is_placed("b"));
}

#[test]
fn types_that_cannot_attach_enough_are_not_listed() {
    let of = |name: &str, most: u32| changed(shape(name), |built| built.attach_limits = limit(most));
    let world = world(vec![pool("p").types(vec![of("one", 1), of("two", 2), shape("any").build()])]);
    assert_eq!(world.judged(pairs(1)).types("pair-000"), ["any", "two"]);
}

// 01/VOL-11
#[test]
fn a_pod_is_not_in_its_own_way_where_it_stands() {
    let own = || {
        let port = HostPort { ip: "".into(), port: 80, protocol: Protocol::Tcp };
        attaching(pod("a"), "ebs", "data").asks("cpu", 900).change(|pod| pod.wants.ports.push(port))
    };
    let world = world(vec![pool("p")])
        .node("n", &[], 1000)
        .change_node("n", |node| node.attach_limits = limit(1))
        .running("n", vec![own()]);
    assert_eq!(world.solve(vec![own()]).node("a"), "n");
}
