//! Input that nobody means: a reason or a refusal, never a panic, an overflow or a hang.

use std::sync::Arc;

use model::instance::InstanceType;
use model::pod::Weighted;
use model::price::Price;
use model::resources::Resources;
use model::topology::{Namespaces, PodTerm, Selector};
use model::why::Obstacle;

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";

#[test]
fn absurd_requests_fit_nowhere_and_say_so() {
    let world = world(vec![pool("p")]).node("n", &[], 4000);
    let answer = world.solve(pods("a", 3, |sketch| sketch.asks("cpu", i64::MAX).asks("memory", i64::MAX)));
    assert_eq!(answer.placed(), 0);
    assert!(answer.plan.unplaced.iter().all(|unplaced| !unplaced.pools[0].1.is_empty()));
}

#[test]
fn a_negative_request_makes_no_room() {
    let world = world(vec![pool("p").types(vec![shape("four").build()])]);
    let odd = pod("odd").change(|pod| pod.requests = Resources::default().with("cpu", -100_000).with("pods", 1));
    let answer = world.solve(vec![odd, pod("a").asks("cpu", 3000), pod("b").asks("cpu", 3000)]);
    assert_eq!((answer.placed(), answer.claims()), (3, 2));
}

#[test]
fn ten_thousand_terms_are_tried_in_order() {
    let terms = |pod: &mut model::pod::Pod| {
        pod.wants.terms = (0..10_000).map(|i| reqs(&[(ZONE, &format!("In nowhere-{i}"))])).collect();
        pod.wants.terms.push(reqs(&[(ZONE, "In test-zone-2")]));
    };
    let answer = world(vec![pool("p")]).solve(vec![pod("a").change(terms)]);
    assert_eq!(answer.value("a", ZONE), "test-zone-2");
}

#[test]
fn ten_thousand_terms_about_other_pods_are_kept() {
    let away = |i: usize| near(ZONE, &[("app", &format!("{i}"))]);
    let shy = |pod: &mut model::pod::Pod| pod.wants.apart = (0..10_000).map(away).collect();
    let world = world(vec![pool("p")]).node("n", &[(ZONE, "test-zone-1")], 4000);
    let crowd = world.running("n", vec![pod("there").label("app", "7")]);
    assert_eq!(crowd.solve(vec![pod("a").change(shy)]).value("a", ZONE), "test-zone-2");
    let fond = |pod: &mut model::pod::Pod| pod.wants.together = (0..10_000).map(away).collect();
    let answer = crowd.solve(vec![pod("a").change(fond)]);
    assert_eq!(answer.plan.unplaced[0].pools[0].1, [Obstacle::Together { key: ZONE.into() }]);
}

#[test]
fn a_pod_that_contradicts_itself_is_told_which_label() {
    let torn = pod("a")
        .selects(ZONE, "In test-zone-1")
        .change(|pod| pod.wants.terms = vec![reqs(&[(ZONE, "In test-zone-2")])]);
    let answer = world(vec![pool("p")]).node("n", &[(ZONE, "test-zone-1")], 4000).solve(vec![torn]);
    let unplaced = &answer.plan.unplaced[0];
    for obstacles in [&unplaced.pools[0].1, &unplaced.nearest_node.as_ref().unwrap().1] {
        assert!(matches!(&obstacles[..], [Obstacle::Label(clash)] if **clash.key() == *ZONE), "{obstacles:?}");
    }
}

#[test]
fn selectors_that_select_nobody_or_everybody_are_taken_at_their_word() {
    let term = |selector: Selector| PodTerm { key: ZONE.into(), selector, namespaces: Namespaces::All };
    let world = || world(vec![pool("p").requires(ZONE, "In test-zone-1")]).node("n", &[(ZONE, "test-zone-1")], 0);
    let crowd = || world().running("n", vec![pod("there")]);
    let nobody = || term(Selector::Nothing);
    let everybody = || term(Selector::Matching(Default::default()));
    assert!(crowd().judged(vec![pod("a").apart(nobody())]).is_placed("a"));
    assert!(!crowd().judged(vec![pod("a").apart(everybody())]).is_placed("a"));
    assert!(!crowd().judged(vec![pod("a").together(nobody())]).is_placed("a"));
    assert!(crowd().judged(vec![pod("a").together(everybody())]).is_placed("a"));
}

#[test]
fn prices_below_nothing_are_nothing_and_the_dearest_do_not_overflow() {
    let of = |pico: i64| {
        let priced = changed(shape("four"), |built| {
            built.offerings.iter_mut().for_each(|offering| offering.price = Price::from_pico(pico));
        });
        world(vec![pool("p").types(vec![priced])]).judged(pods("a", 3, |sketch| sketch.asks("cpu", 3000)))
    };
    assert_eq!((of(-7).claims(), of(-7).plan.price()), (3, Price::ZERO));
    assert_eq!((of(i64::MAX).claims(), of(i64::MAX).plan.price()), (3, Price::MAX));
}

#[test]
fn nodes_with_absurd_amounts_take_what_fits_and_no_more() {
    let absurd = |cpu: i64| {
        let huge = Resources::default().with("cpu", cpu).with("memory", cpu).with("pods", cpu);
        world(Vec::new()).node("n", &[], 0).change_node("n", |node| node.allocatable = huge)
    };
    let big = || pods("a", 3, |sketch| sketch.asks("cpu", i64::MAX / 2));
    assert_eq!(absurd(i64::MAX).judged(big()).placed(), 2);
    assert_eq!(absurd(i64::MIN).judged(big()).placed(), 0);
}

#[test]
fn thousands_of_preferences_are_given_up_one_by_one() {
    let picky = |pod: &mut model::pod::Pod| {
        let preferred = |i: i32| Weighted { weight: i % 100, item: reqs(&[("custom", &format!("In v{i}"))]) };
        pod.wants.preferred_nodes = (0..2_000).map(preferred).collect();
    };
    assert!(world(vec![pool("p")]).solve(vec![pod("a").change(picky)]).is_placed("a"));
}

#[test]
fn types_without_offerings_and_pools_that_contradict_themselves_sell_nothing() {
    let mut bare = InstanceType::clone(&shape("bare").build());
    bare.offerings.clear();
    let nothing = world(vec![pool("p").types(vec![Arc::new(bare)])]).solve(vec![pod("a")]);
    let sold_out = [("p".into(), vec![Obstacle::NoInstanceType])];
    assert_eq!(nothing.plan.unplaced[0].pools, sold_out);
    let torn =
        world(vec![pool("p").requires(ZONE, "In test-zone-1").requires(ZONE, "In test-zone-2")]).solve(vec![pod("a")]);
    assert_eq!(torn.plan.unplaced[0].pools, sold_out);
}

#[test]
fn odd_spreads_and_selectors_are_survived() {
    let world = world(vec![pool("p")]);
    for (skew, least) in [(0, None), (-5, Some(-3)), (i32::MAX, Some(i32::MAX))] {
        let mut spread = spread_over(ZONE, skew, &[("app", "x")]);
        spread.min_domains = least;
        let answer = world.solve(pods("a", 3, |sketch| sketch.label("app", "x").spread(spread.clone())));
        assert_eq!(answer.placed(), 3, "{skew} {least:?}");
    }
    let everyone =
        PodTerm { key: ZONE.into(), selector: Selector::Matching(Default::default()), namespaces: Namespaces::All };
    let answer = world.solve(pods("a", 4, |sketch| sketch.apart(everyone.clone())));
    assert_eq!(answer.placed(), 3, "one in each zone");
}

#[test]
fn nothing_to_do_is_done_at_once() {
    let answer = world(Vec::new()).solve(Vec::new());
    assert_eq!((answer.placed(), answer.claims(), answer.plan.steps), (0, 0, 0));
}

#[test]
fn a_pod_that_is_asked_about_twice_is_placed_once() {
    let answer = world(vec![pool("p")]).solve(vec![pod("a"), pod("a")]);
    assert_eq!(answer.placed(), 1);
}
