//! Demands that meet: requirements with preferences, volumes with terms, pools with types, passes with passes.

use model::pod::{Pod, Weighted};
use model::topology::SpreadMode;

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const CAPACITY: &str = "karpenter.sh/capacity-type";
const TYPE: &str = "node.kubernetes.io/instance-type";
const ARCH: &str = "kubernetes.io/arch";

fn prefers(sketch: PodSketch, entries: &[(&str, &str)]) -> PodSketch {
    let item = reqs(entries);
    sketch.change(|pod| pod.wants.preferred_nodes.push(Weighted { weight: 1, item }))
}

// 01/CON-08
#[test]
fn selectors_terms_and_preferences_combine() {
    let world = world(vec![pool("p").requires(ZONE, "In test-zone-1 test-zone-2")]);
    let sketch = pod("a")
        .selects(CAPACITY, "In spot on-demand")
        .change(|pod| pod.wants.terms = vec![reqs(&[(ZONE, "In test-zone-2 test-zone-3"), (ARCH, "In amd64")])]);
    let answer = world.solve(vec![prefers(sketch, &[(CAPACITY, "In spot")])]);
    assert_eq!(answer.value("a", ZONE), "test-zone-2");
    assert_eq!(answer.value("a", CAPACITY), "spot");
    assert!(!answer.types("a").contains(&"arm-instance-type".to_owned()));
}

// 01/CON-09
#[test]
fn custom_keys_of_kubernetes_domains_become_labels_too() {
    let world = world(vec![pool("p").requires("kubernetes.io/custom", "In x").requires("sub.k8s.io/part", "In y")]);
    let labels = world.solve(vec![pod("a")]).claim("a").labels.clone();
    assert_eq!(labels.get("kubernetes.io/custom").map(|value| &**value), Some("x"));
    assert_eq!(labels.get("sub.k8s.io/part").map(|value| &**value), Some("y"));
}

// 01/PRF-06
#[test]
fn a_preference_narrows_a_requirement_or_is_dropped() {
    let world = world(vec![pool("p")]);
    let wide = pod("a").selects(ZONE, "In test-zone-1 test-zone-2");
    assert_eq!(
        world.solve(vec![prefers(wide, &[(ZONE, "In test-zone-2 test-zone-3")])]).value("a", ZONE),
        "test-zone-2"
    );
    let wide = pod("a").selects(ZONE, "In test-zone-1 test-zone-2");
    assert_eq!(
        world.solve(vec![prefers(wide, &[(ZONE, "In test-zone-3")])]).value("a", ZONE),
        "test-zone-1 test-zone-2"
    );
}

// 01/PRF-10
#[test]
fn a_preference_that_nothing_meets_does_not_keep_pods_from_sharing() {
    for (key, text) in [(ZONE, "In nowhere"), (HOST, "In no-host")] {
        let answer = world(vec![pool("p")]).solve(vec![pod("a").asks("cpu", 100), prefers(pod("b"), &[(key, text)])]);
        assert_eq!((answer.placed(), answer.claims()), (2, 1), "{key}");
    }
}

// 01/PRF-12
#[test]
fn the_place_of_a_volume_holds_whatever_term_is_used() {
    let with_volume = |pod: &mut Pod| {
        pod.wants.volumes.alternatives = vec![reqs(&[(ZONE, "In test-zone-1")])];
        pod.wants.terms = vec![reqs(&[(ZONE, "In test-zone-2")]), reqs(&[(ARCH, "In amd64")])];
    };
    let answer = world(vec![pool("p")]).solve(vec![pod("a").change(with_volume)]);
    assert_eq!(answer.value("a", ZONE), "test-zone-1");
}

// 01/PRF-13
#[test]
fn preferred_company_gives_way_to_a_hard_spread() {
    let app = [("app", "x")];
    let sketch = |sketch: PodSketch| {
        let together = Weighted { weight: 1, item: near(ZONE, &app) };
        sketch
            .label("app", "x")
            .spread(spread_over(ZONE, 1, &app))
            .change(|pod| pod.wants.preferred_together.push(together))
    };
    let answer = world(vec![pool("p")]).solve(pods("a", 6, sketch));
    assert_eq!(answer.skew("a", ZONE), [2, 2, 2]);
}

// 01/PCK-03
#[test]
fn pools_and_labels_choose_types_and_contradictions_choose_none() {
    let arm = world(vec![pool("p").requires(ARCH, "In arm64")]);
    assert_eq!(arm.solve(vec![pod("a")]).types("a"), ["arm-instance-type"]);
    let any = world(vec![pool("p")]);
    assert_eq!(any.solve(vec![pod("a").selects("size", "In large")]).types("a"), ["arm-instance-type"]);
    let torn = pod("a").selects("size", "In large").selects(TYPE, "In small-instance-type");
    assert!(!any.solve(vec![torn]).is_placed("a"));
}

// 01/PCK-05
#[test]
fn the_first_type_is_the_cheapest_that_suits_whatever_is_asked() {
    for pool_asks in [vec![], vec![(ARCH, "In amd64")], vec![(CAPACITY, "In on-demand"), (ZONE, "In test-zone-3")]] {
        for pod_asks in [
            vec![],
            vec![(ZONE, "In test-zone-3")],
            vec![("kubernetes.io/os", "In windows"), (CAPACITY, "In on-demand")],
        ] {
            let sketch = pool_asks.iter().fold(pool("p"), |sketch, (key, text)| sketch.requires(key, text));
            let asking =
                pod_asks.iter().fold(pod("a").asks("cpu", 1000), |sketch, (key, text)| sketch.selects(key, text));
            let answer = world(vec![sketch]).solve(vec![asking]);
            assert_eq!(answer.types("a")[0], "small-instance-type", "{pool_asks:?} {pod_asks:?}");
        }
    }
    let impossible = pod("a").selects(CAPACITY, "In spot").selects(ZONE, "In test-zone-3");
    assert!(!world(vec![pool("p")]).solve(vec![impossible]).is_placed("a"), "spot is not sold there");
}

// 01/NPL-05
#[test]
fn a_second_pass_counts_what_the_first_asked_for() {
    let build = || world(vec![pool("p").types(vec![shape("four").build()]).limit("cpu", 4000)]);
    let first = build().solve(vec![pod("a").asks("cpu", 3000)]);
    assert_eq!(first.claims(), 1);
    let second = build().asked_for(&first).solve(vec![pod("a").asks("cpu", 3000), pod("b").asks("cpu", 3000)]);
    assert_eq!((second.placed(), second.claims()), (1, 0));
}

// 01/TSC-07
#[test]
fn a_domain_that_only_a_node_has_bounds_the_others() {
    let world = world(vec![pool("p").requires(ZONE, "In test-zone-1")]).node("far", &[(ZONE, "faraway")], 0);
    let answer = world.solve(pods("a", 5, |sketch| {
        sketch.asks("cpu", 10).label("app", "x").spread(spread_over(ZONE, 2, &[("app", "x")]))
    }));
    assert_eq!(answer.placed(), 2, "faraway stays at zero");
}

// 01/TSC-25
#[test]
fn a_soft_spread_over_hosts_gives_way_before_a_hard_one_over_zones() {
    let app = [("app", "x")];
    let sketch = |sketch: PodSketch| {
        let mut soft = spread_over(HOST, 1, &app);
        soft.mode = SpreadMode::ScheduleAnyway;
        sketch.label("app", "x").spread(soft).spread(spread_over(ZONE, 1, &app))
    };
    let answer = world(vec![pool("p").limit("nodes", 3)]).solve(pods("a", 6, sketch));
    assert_eq!(answer.skew("a", ZONE), [2, 2, 2]);
    assert_eq!(answer.claims(), 3);
}

#[test]
fn a_resource_that_one_offering_has_narrows_the_claim_to_it() {
    let mut special = model::instance::InstanceType::clone(&shape("special").build());
    let offering = &mut special.offerings[3];
    assert_eq!(offering.label(ZONE).map(|zone| &**zone), Some("test-zone-2"));
    offering.capacity_override = Some(model::resources::Resources::default().with("fake.com/nic", 2));
    let mut world = world(vec![pool("p").types(vec![std::sync::Arc::new(special)])]);
    let sketch = pod("a").asks("fake.com/nic", 1);
    world.snapshot.pods.insert(sketch.0.name.clone(), std::sync::Arc::new(sketch.0.clone()));
    let answer = world.solve(vec![sketch]);
    assert_eq!(
        (answer.value("a", ZONE), answer.value("a", CAPACITY)),
        ("test-zone-2".to_owned(), "on-demand".to_owned())
    );
    let verdict = judge::replay(&world.snapshot, &answer.plan);
    assert!(verdict.is_accepted(), "{verdict}");
}

// 01/DEL-01
#[test]
fn pods_of_a_leaving_node_get_a_place_elsewhere() {
    let moving = pod("a").asks("cpu", 3000);
    let mut world = world(vec![pool("p")]).node("old", &[], 4000).running("old", vec![pod("a").asks("cpu", 3000)]);
    let mut node = model::node::Node::clone(&world.snapshot.nodes[&"old".into()]);
    node.is_leaving = true;
    world.snapshot.nodes.insert("old".into(), std::sync::Arc::new(node));
    let answer = world.solve(vec![moving]);
    assert_eq!((answer.placed(), answer.claims()), (1, 1));
    assert!(answer.claim("a").requests.cpu_milli >= 3000);
}
