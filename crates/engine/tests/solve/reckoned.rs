//! What counts, as kube-scheduler reckons: domains, labels and company on machines that are there or to come.

use model::pod::Weighted;
use model::topology::{PodTerm, Selector};

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const RACK: &str = "example.com/rack";
const APP: [(&str, &str); 1] = [("app", "x")];

fn spread_pods(count: usize) -> Vec<PodSketch> {
    pods("a", count, |sketch| sketch.asks("cpu", 10).label("app", "x").spread(spread_over(ZONE, 1, &APP)))
}

/// A pod that comes first and fills a machine of its own, whose zone nobody settles.
fn filler() -> PodSketch {
    pod("filler").asks("cpu", 3900).priority(9)
}

fn fours() -> PoolSketch {
    pool("p").types(vec![shape("four").with("pods", 100).build()])
}

#[test]
fn an_open_claim_is_no_domain_where_nothing_is_sold() {
    let sold_out = changed(shape("four").with("pods", 100), |built| {
        let third = built.offerings.iter_mut().filter(|way| **way.label(ZONE).unwrap() == *"test-zone-3");
        third.for_each(|way| way.is_available = false);
    });
    let named = pool("p").requires(ZONE, "In test-zone-1 test-zone-2 test-zone-3").types(vec![sold_out]);
    let answer = world(vec![named]).judged(spread_pods(3).into_iter().chain([filler()]).collect());
    assert_eq!(answer.skew("a", ZONE), [1, 2]);
}

#[test]
fn a_zone_that_somebody_merely_names_is_no_domain() {
    let dreamer = pod("dreamer").asks("cpu", 10).change(|pod| {
        pod.wants.preferred_nodes.push(Weighted { weight: 1, item: reqs(&[(ZONE, "In nowhere")]) });
    });
    let answer = world(vec![fours()]).judged(spread_pods(4).into_iter().chain([filler(), dreamer]).collect());
    assert_eq!(answer.skew("a", ZONE), [1, 1, 2]);
}

#[test]
fn an_open_claim_is_no_domain_where_its_node_would_not_count() {
    let choosy = spread_pods(3).into_iter().map(|sketch| sketch.selects(ZONE, "In test-zone-1 test-zone-2"));
    let answer = world(vec![fours()]).judged(choosy.chain([filler()]).collect());
    assert_eq!(answer.skew("a", ZONE), [1, 2]);
}

#[test]
fn a_node_that_lacks_the_label_of_another_spread_counts_for_none() {
    let counted = || pod("a").asks("cpu", 100).label("app", "x").spread(spread_over(ZONE, 1, &APP));
    let both = || counted().spread(spread_over(RACK, 5, &APP));
    let racks = |room: i64| {
        world(Vec::new())
            .node("n1", &[(ZONE, "a"), (RACK, "r1")], 4000)
            .node("n2", &[(ZONE, "b")], 0)
            .node("n3", &[(ZONE, "b"), (RACK, "r2")], room)
            .running("n1", vec![pod("there-1").label("app", "x")])
            .running("n2", vec![pod("there-2").label("app", "x")])
    };
    assert!(!racks(0).judged(vec![both()]).is_placed("a"), "b has nobody on a node with a rack");
    assert_eq!(racks(0).judged(vec![counted()]).node("a"), "n1");
    assert_eq!(racks(4000).judged(vec![both()]).node("a"), "n3");
}

#[test]
fn machines_to_come_without_the_label_of_another_spread_open_no_domain() {
    let spread = |sketch: PodSketch| {
        let sketch = sketch.asks("cpu", 100).label("app", "x");
        sketch.spread(spread_over(ZONE, 1, &APP)).spread(spread_over(RACK, 9, &APP))
    };
    let racked = pool("p").label(RACK, "r1").requires(ZONE, "In test-zone-1 test-zone-2");
    let answer = world(vec![racked, pool("q")]).judged(pods("a", 4, spread));
    assert_eq!(answer.skew("a", ZONE), [2, 2]);
}

#[test]
fn company_that_stands_in_no_domain_keeps_nobody_from_being_the_first() {
    let fond = |sketch: PodSketch| sketch.label("app", "x").asks("cpu", 10).together(near(ZONE, &APP));
    let world = world(vec![pool("p")]).node("bare", &[], 0).running("bare", vec![pod("there").label("app", "x")]);
    let answer = world.judged(pods("a", 3, fond));
    assert_eq!(answer.skew("a", ZONE), [3]);
}

#[test]
fn company_in_a_domain_of_any_of_its_labels_is_company() {
    let both = pod("a").label("app", "x").together(near(ZONE, &APP)).together(near(RACK, &APP));
    let world = world(vec![pool("p").label(RACK, "r1")])
        .node("half", &[(RACK, "r7")], 0)
        .running("half", vec![pod("there").label("app", "x")]);
    assert!(!world.judged(vec![both]).is_placed("a"), "there is company in r7, so nobody is the first");
}

#[test]
fn a_spread_that_selects_everybody_counts_nobody() {
    let mut everybody = spread_over(ZONE, 1, &APP);
    everybody.selector = Selector::Matching(Default::default());
    let world = world(Vec::new())
        .node("n1", &[(ZONE, "a")], 4000)
        .node("n2", &[(ZONE, "b")], 0)
        .running("n1", pods("there", 3, |sketch| sketch));
    let answer = world.judged(vec![pod("a").asks("cpu", 100).spread(everybody)]);
    assert_eq!(answer.node("a"), "n1");
    let apart = PodTerm { selector: Selector::Matching(Default::default()), ..near(ZONE, &APP) };
    assert!(!world.judged(vec![pod("a").asks("cpu", 100).apart(apart)]).is_placed("a"), "distance knows everybody");
}

#[test]
fn ten_thousand_terms_beside_a_spread_are_tried_in_order() {
    let terms = |pod: &mut model::pod::Pod| {
        pod.wants.terms = (0..10_000).map(|i| reqs(&[(ZONE, &format!("In nowhere-{i}"))])).collect();
        pod.wants.terms.push(reqs(&[(ZONE, "In test-zone-2")]));
    };
    let spread = spread_over(ZONE, 1, &APP);
    let answer = world(vec![pool("p")]).solve(vec![pod("a").label("app", "x").spread(spread).change(terms)]);
    assert_eq!(answer.value("a", ZONE), "test-zone-2");
}

#[test]
fn nobody_gets_a_machine_for_a_number_that_no_label_can_have() {
    let world = || world(vec![pool("p").requires("k", "NotIn 0")]);
    let below = |bound: &str| pod("a").selects("k", &format!("Lt {bound}"));
    assert_eq!(world().judged(vec![below("1")]).claims(), 0);
    assert_eq!(world().judged(vec![below("2")]).claim("a").labels.get("k").unwrap().as_ref(), "1");
}
