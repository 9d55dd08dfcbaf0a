//! Small choices that decide what a claim can still become.

use std::sync::Arc;

use model::instance::InstanceType;
use model::pod::{HostPort, Protocol};
use model::price::Price;
use model::volume::AttachLimits;

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const CAPACITY: &str = "karpenter.sh/capacity-type";
const APP: [(&str, &str); 1] = [("app", "x")];

fn sold(name: &str, is_sold: impl Fn(&str, &str) -> bool) -> Arc<InstanceType> {
    changed(shape(name), |built| {
        built.offerings.retain(|offering| {
            let label = |key: &str| offering.label(key).unwrap().to_string();
            is_sold(&label(CAPACITY), &label(ZONE))
        });
    })
}

#[test]
fn a_pod_that_spreads_begins_where_the_fewest_can_be_bought() {
    let spreading = |world: World| world.judged(vec![pod("a").label("app", "x").spread(spread_over(ZONE, 1, &APP))]);
    assert_eq!(spreading(world(vec![pool("p")])).value("a", ZONE), "test-zone-3", "no spot there");
    let rare = sold("rare", |kind, zone| kind == "on-demand" || zone == "test-zone-1");
    assert_eq!(spreading(world(vec![pool("p").types(vec![rare])])).value("a", ZONE), "test-zone-2");
}

#[test]
fn a_pod_that_others_count_goes_where_the_most_can_be_bought() {
    let rare = || sold("rare", |kind, zone| kind == "on-demand" || zone == "test-zone-2");
    let counted = pod("counted").asks("cpu", 3000).label("app", "x");
    let shy = pod("shy").asks("cpu", 10).apart(near(ZONE, &APP));
    let answer = world(vec![pool("p").types(vec![rare()])]).judged(vec![counted, shy]);
    assert_eq!(answer.value("counted", ZONE), "test-zone-2");
    assert_ne!(answer.value("shy", ZONE), "test-zone-2");
}

#[test]
fn hosts_that_are_there_are_the_measure_where_no_new_one_can_be_had() {
    let there = |world: World, name: &str, count: usize| {
        world.node(name, &[], 8000).running(name, pods(name, count, |sketch| sketch.label("app", "x")))
    };
    let spreading = |count: usize| {
        pods("a", count, |sketch| sketch.asks("cpu", 10).label("app", "x").spread(spread_over(HOST, 1, &APP)))
    };
    for pools in [vec![], vec![pool("p").limit("nodes", 0)]] {
        let world = there(there(world(pools), "m", 1), "n", 1);
        let answer = world.judged(spreading(4));
        assert_eq!((answer.placed(), answer.skew("a", HOST)), (4, vec![2, 2]));
    }
    let uneven = there(there(world(vec![pool("p").limit("nodes", 0)]), "m", 2), "n", 0);
    let answer = uneven.judged(spreading(2));
    assert_eq!((answer.placed(), answer.node("a-000"), answer.node("a-001")), (2, "n", "n"));
}

/// Types of which the larger attaches fewer volumes.
fn opposed() -> Vec<Arc<InstanceType>> {
    let limited = |name: &str, cpu: i64, most: u32| {
        changed(shape(name).with("cpu", cpu), |built| {
            built.attach_limits = AttachLimits::from([("ebs".into(), most)]);
        })
    };
    vec![limited("holds-two", 4000, 2), limited("holds-one", 8000, 1)]
}

fn attaching(sketch: PodSketch, driver: &str, volumes: &[&str]) -> PodSketch {
    sketch.change(|pod| {
        let all = pod.wants.volumes.attached.entry(driver.into()).or_default();
        all.extend(volumes.iter().map(|volume| (*volume).into()));
    })
}

#[test]
fn a_claim_never_grows_out_of_the_machines_that_attach_its_volumes() {
    let world = world(vec![pool("p").types(opposed())]);
    let heavy = || attaching(pod("heavy").asks("cpu", 2000).priority(1), "ebs", &["u", "v"]);
    for joining in [
        pod("other").asks("cpu", 3000),
        attaching(pod("other").asks("cpu", 3000), "efs", &["w"]),
        attaching(pod("other").asks("cpu", 3000), "ebs", &["v"]),
    ] {
        let answer = world.judged(vec![heavy(), joining]);
        assert_eq!((answer.placed(), answer.claims()), (2, 2));
        assert_eq!(answer.types("heavy"), ["holds-two"]);
    }
    let answer = world.judged(vec![heavy(), attaching(pod("other").asks("cpu", 1000), "ebs", &["v"])]);
    assert_eq!((answer.claims(), answer.types("other")), (1, vec!["holds-two".to_owned()]));
    let answer = world.judged(vec![heavy(), attaching(pod("other").asks("cpu", 1000), "ebs", &["w"])]);
    assert_eq!(answer.claims(), 2, "three volumes are too many for any");
}

#[test]
fn a_claim_never_grows_into_machines_where_a_daemon_has_its_port() {
    let port = || HostPort { ip: "".into(), port: 80, protocol: Protocol::Tcp };
    let world = world(vec![pool("p").types(series(4))]).daemon("d", |daemon| {
        daemon.ports.push(port());
        daemon.selector.add("integer", req("Gt 2"));
    });
    let first = || pod("first").asks("cpu", 1500).priority(1).change(|pod| pod.wants.ports.push(port()));
    let answer = world.judged(vec![first()]);
    assert_eq!(answer.types("first"), ["fake-it-1"]);
    let answer = world.judged(vec![first(), pod("second").asks("cpu", 1000)]);
    assert_eq!((answer.claims(), answer.types("first")), (2, vec!["fake-it-1".to_owned()]));
    let answer = world.judged(vec![first(), pod("second").asks("cpu", 300)]);
    assert_eq!(answer.claims(), 1);
}

fn priced(name: &str, cpu: i64, dollars: f64) -> Arc<InstanceType> {
    changed(shape(name).with("cpu", 1000 * cpu).with("memory", 64 * GI).with("pods", 100), |built| {
        let price = Price::from_dollars(dollars).unwrap();
        built.offerings.iter_mut().for_each(|offering| offering.price = price);
    })
}

#[test]
fn what_is_sold_for_less_in_one_zone_is_bought_there_by_whoever_may() {
    let mixed = changed(shape("mixed"), |built| {
        for offering in &mut built.offerings {
            let is_cheap = offering.label(ZONE).is_some_and(|zone| **zone == *"test-zone-2");
            offering.price = Price::from_dollars(if is_cheap { 1.0 } else { 3.0 }).unwrap();
        }
    });
    let world = world(vec![pool("p").types(vec![mixed, priced("steady", 4, 2.0)])]);
    let cheapest = |zone: &str| {
        let answer = world.judged(vec![pod("a").asks("cpu", 1000).selects(ZONE, zone)]);
        (answer.types("a").swap_remove(0), answer.claim("a").price)
    };
    assert_eq!(cheapest("In test-zone-1 test-zone-2"), ("mixed".to_owned(), Price::from_dollars(1.0).unwrap()));
    assert_eq!(cheapest("In test-zone-1 test-zone-3"), ("steady".to_owned(), Price::from_dollars(2.0).unwrap()));
}

#[test]
fn with_very_many_domains_only_those_with_room_are_tried() {
    // Twenty hosts' worth of a label, of which only the last sort has enough room.
    let of = |number: i64| {
        changed(shape(&format!("t-{number:02}")).with("cpu", if number == 19 { 8000 } else { 2000 }), |built| {
            built.requirements.add("rack", req(&format!("In r-{number:02}")));
        })
    };
    let mut world = world(vec![pool("p").types((0..20).map(of).collect())]);
    world.snapshot.well_known =
        Arc::new(model::labels::WellKnown::with_provider(["size", "special", "integer", "rack"]));
    let spreading = |cpu: i64| pod("a").asks("cpu", cpu).label("app", "x").spread(spread_over("rack", 5, &APP));
    assert_eq!(world.judged(vec![spreading(6000)]).value("a", "rack"), "r-19");
    assert_eq!(world.judged(vec![spreading(1000)]).value("a", "rack"), "r-00");
    assert!(!world.judged(vec![spreading(9000)]).is_placed("a"));
}
