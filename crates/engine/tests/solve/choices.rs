//! Small choices that decide what a claim can still become.

use std::sync::Arc;

use model::instance::InstanceType;
use model::pod::{HostPort, Protocol};
use model::price::Price;
use model::taints::{Effect, Taint};
use model::topology::Policy;
use model::volume::AttachLimits;
use model::why::Obstacle;

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
    let alone = world(vec![pool("p").types(vec![rare()])]).judged(vec![pod("shy").apart(near(ZONE, &APP))]);
    assert_eq!(alone.value("shy", ZONE), "test-zone-2", "who keeps away from others does not spread");
}

#[test]
fn who_is_counted_by_choosy_spreads_settles_whether_it_counts() {
    let choosy = pod("choosy").asks("cpu", 3000).label("app", "x").selects(CAPACITY, "In spot");
    let counted = pod("counted").asks("cpu", 3500).label("app", "x");
    let answer = world(vec![pool("p")]).judged(vec![choosy.spread(spread_over(ZONE, 1, &APP)), counted]);
    assert_eq!((answer.placed(), answer.claims()), (2, 2));
    assert_eq!(answer.value("counted", CAPACITY), "spot");
    let plain = world(vec![pool("p")]).judged(vec![pod("counted").asks("cpu", 3500).label("app", "x")]);
    assert_eq!(plain.value("counted", CAPACITY), "on-demand spot");
    let by_host = pod("choosy").asks("cpu", 3000).label("app", "x").selects(CAPACITY, "In spot");
    let by_host = by_host.spread(spread_over(HOST, 1, &APP));
    let answer = world(vec![pool("p")]).judged(vec![by_host, pod("counted").asks("cpu", 3500).label("app", "x")]);
    assert_eq!(answer.value("counted", CAPACITY), "on-demand spot", "a host is a host whatever its labels");
}

#[test]
fn a_claim_that_narrows_finds_its_machine_on_the_new_ladder() {
    let of = |number: i64| {
        let shape = shape(&format!("t-{number}")).with("cpu", 1000 * number).with("memory", 8 * GI).with("pods", 50);
        changed(shape, |built| {
            built
                .offerings
                .retain(|offering| number >= 3 || offering.label(ZONE).is_some_and(|zone| **zone != *"test-zone-3"));
        })
    };
    let world = world(vec![pool("p").types((1..=4).map(of).collect())]);
    let first = pod("first").asks("cpu", 2500).priority(1);
    let answer = world.judged(vec![first, pod("second").asks("cpu", 300).selects(ZONE, "In test-zone-3")]);
    assert_eq!((answer.claims(), answer.types("first")), (1, vec!["t-3".to_owned(), "t-4".to_owned()]));
}

#[test]
fn machines_without_room_for_a_daemon_are_no_choice_even_for_who_asks_for_nothing_of_it() {
    let world = world(vec![pool("p").types(series(3))])
        .daemon("d", |daemon| daemon.requests = daemon.requests.clone().with("cpu", 2500));
    let answer = world.solve(vec![pod("a").asks("memory", MI)]);
    assert_eq!(answer.types("a"), ["fake-it-2"]);
    assert!(!world.solve(vec![pod("a").asks("cpu", 600)]).is_placed("a"));
    assert_eq!(world.solve(vec![pod("a").asks("cpu", 400)]).types("a"), ["fake-it-2"]);
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
    let one_more = there(world(vec![pool("p").limit("nodes", 1)]), "m", 0).judged(spreading(4));
    assert_eq!((one_more.placed(), one_more.claims(), one_more.skew("a", HOST)), (4, 1, vec![2, 2]));
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

#[test]
fn hosts_that_are_there_for_sure_are_counted_against_a_minimum_of_domains() {
    let spreading = |count: usize, least: i32| {
        pods("a", count, move |sketch| {
            let spread = model::topology::Spread { min_domains: Some(least), ..spread_over(HOST, 1, &APP) };
            sketch.asks("cpu", 10).label("app", "x").spread(spread)
        })
    };
    let there = |world: World, name: &str| world.node(name, &[], 8000).running(name, vec![pod(name).label("app", "x")]);
    let placed = |least: i32| there(there(world(Vec::new()), "m"), "n").judged(spreading(2, least)).placed();
    assert_eq!([1, 2, 3].map(placed), [2, 2, 0]);
    let with_claim =
        |least: i32| world(vec![pool("p").limit("nodes", 1)]).node("m", &[], 8000).judged(spreading(4, least)).placed();
    assert_eq!([2, 3].map(with_claim), [4, 2]);
}

#[test]
fn claims_whose_labels_are_settled_later_are_counted_against_a_minimum_of_domains() {
    // Both machines are asked for before it is clear whether they are of the architecture that the spread is about.
    let types = vec![shape("amd").build(), shape("arm").arch("arm64").build()];
    let mut all = pods("early", 2, |sketch| sketch.asks("cpu", 3000).priority(1));
    all.extend(pods("a", 4, |sketch| {
        let spread = model::topology::Spread { min_domains: Some(2), ..spread_over(HOST, 1, &APP) };
        sketch.asks("cpu", 10).label("app", "x").selects("kubernetes.io/arch", "In amd64").spread(spread)
    }));
    let answer = world(vec![pool("p").types(types).limit("nodes", 2)]).judged(all);
    assert_eq!((answer.placed(), answer.skew("a", HOST)), (6, vec![2, 2]));
}

#[test]
fn a_spread_that_ignores_node_selectors_counts_pods_where_its_own_could_not_be() {
    let skew = |policy: Policy| {
        let base = world(vec![pool("p")]).node("old", &[(ZONE, "test-zone-1"), (CAPACITY, "on-demand")], 0);
        let base = base.running("old", pods("there", 2, |sketch| sketch.label("app", "x")));
        let spread = || model::topology::Spread { node_affinity: policy, ..spread_over(ZONE, 1, &APP) };
        let spot = |sketch: PodSketch| sketch.label("app", "x").selects(CAPACITY, "In spot").spread(spread());
        base.judged(pods("a", 2, spot)).skew("a", ZONE)
    };
    assert_eq!((skew(Policy::Honor), skew(Policy::Ignore)), (vec![1, 1], vec![2]));
}

/// What a pod is told about the only pool, or nothing when it is placed.
fn told(answer: &Answer, name: &str) -> Vec<Obstacle> {
    let reason = answer.plan.unplaced.iter().find(|unplaced| *unplaced.pod.name == *name);
    reason.map_or(Vec::new(), |reason| reason.pools[0].1.clone())
}

#[test]
fn no_new_host_comes_where_pods_were_spread_over_the_hosts_that_are_there() {
    let pool = || pool("p").taint("keep", Effect::NoSchedule);
    let with = |count: usize| {
        let world = world(vec![pool()]).node("m", &[], 1000).node("n", &[], 1000);
        let mut all = pods("a", count, |sketch| {
            sketch.asks("cpu", 10).label("app", "x").priority(1).spread(spread_over(HOST, 1, &APP))
        });
        all.push(pod("late").asks("cpu", 2000).tolerates("keep"));
        world.judged(all)
    };
    let even = with(2);
    assert_eq!((even.placed(), even.claims()), (3, 1), "an empty host makes no difference");
    let full = with(4);
    assert_eq!((full.placed(), told(&full, "late")), (4, vec![Obstacle::NewDomain { key: HOST.into() }]));
}

#[test]
fn no_new_zone_comes_where_pods_were_spread_without_it() {
    let pools = || {
        let near = pool("p").weight(1).requires(ZONE, "In test-zone-1 test-zone-2");
        vec![near, pool("q").requires(ZONE, "In test-zone-3").taint("keep", Effect::NoSchedule)]
    };
    let with = |count: usize| {
        let mut all = pods("a", count, |sketch| {
            sketch.asks("cpu", 10).label("app", "x").priority(1).spread(spread_over(ZONE, 1, &APP))
        });
        all.push(pod("late").tolerates("keep").selects(ZONE, "In test-zone-3"));
        world(pools()).judged(all)
    };
    assert_eq!(with(2).placed(), 3);
    let full = with(4);
    let reason = full.plan.unplaced.iter().find(|unplaced| *unplaced.pod.name == *"late").unwrap();
    assert_eq!(reason.pools[1].1, [Obstacle::NewDomain { key: ZONE.into() }]);
}

#[test]
fn a_hostname_is_open_on_a_machine_to_come_and_never_promised() {
    let world = world(vec![pool("p")]);
    for text in ["Exists", "NotIn n"] {
        let answer = world.judged(vec![pod("a").selects(HOST, text)]);
        assert!(answer.claim("a").requirements.get(HOST).is_none() && answer.claim("a").labels.is_empty(), "{text}");
    }
    assert!(!world.judged(vec![pod("a").selects(HOST, "DoesNotExist").selects("size", "In none")]).is_placed("a"));
}

#[test]
fn a_soft_taint_on_a_node_alone_is_put_up_with() {
    let soft = Taint::new("busy", "", Effect::PreferNoSchedule);
    let world = world(Vec::new()).node("n", &[], 1000).change_node("n", |node| node.taints.push(soft));
    assert_eq!(world.judged(vec![pod("a").asks("cpu", 100)]).node("a"), "n");
}

#[test]
fn what_is_reserved_decides_whether_a_minimum_of_types_is_met() {
    let reserved = |name: &str| {
        changed(shape(name), |built| {
            let mut way = built.offerings[0].clone();
            way.requirements = reqs(&[(CAPACITY, "In reserved"), (ZONE, "In test-zone-1")]);
            way.reservation = Some(model::instance::Reservation { id: "r-1".into(), left: 1 });
            way.price = Price::from_pico(1);
            built.offerings.push(way);
            built.requirements.remove(CAPACITY);
            built.requirements.add(CAPACITY, req("In reserved spot on-demand"));
        })
    };
    let pool = |types: Vec<Arc<InstanceType>>| {
        pool("p").types(types).min_values("node.kubernetes.io/instance-type", "Exists", 2)
    };
    let two = world(vec![pool(vec![reserved("a"), reserved("b"), shape("c").build()])]).judged(vec![pod("x")]);
    assert_eq!(two.types("x"), ["a", "b"]);
    let one = world(vec![pool(vec![reserved("a"), shape("b").build(), shape("c").build()])]).judged(vec![pod("x")]);
    assert!(!one.is_placed("x"), "only one type can be had from the reservation");
}

#[test]
fn the_smallest_machine_for_a_pod_is_itself_a_machine_to_fill() {
    // Pods that spread are not packed anew, so the first choice stands: two small machines cost less than a large one.
    let small = shape("small").with("cpu", 1100).with("memory", GI).build();
    let large = shape("large").with("cpu", 2200).with("memory", 4 * GI).build();
    let spread = || spread_over("topology.kubernetes.io/zone", 5, &[("app", "web")]);
    let web = pods("a", 2, |sketch| sketch.asks("cpu", 1000).label("app", "web").spread(spread()));
    let answer = world(vec![pool("p").types(vec![small, large])]).solve(web);
    assert_eq!(answer.claims(), 2);
}
