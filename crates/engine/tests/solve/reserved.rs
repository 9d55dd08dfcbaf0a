use std::sync::Arc;

use model::instance::{InstanceType, Offering, Reservation};
use model::pod::Weighted;
use model::price::Price;
use model::why::Obstacle;

use crate::fixture::*;

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// The type with a reservation in zone 1, paid for already.
fn with_reservation(instance_type: &Arc<InstanceType>, id: &str, left: u32) -> Arc<InstanceType> {
    let mut changed = InstanceType::clone(instance_type);
    changed.requirements = reqs(&[]);
    for (key, requirement) in instance_type.requirements.iter() {
        if &**key != "karpenter.sh/capacity-type" {
            changed.requirements.add(key.clone(), requirement.clone());
        }
    }
    changed.requirements.add("karpenter.sh/capacity-type", req("In spot on-demand reserved"));
    changed.offerings.push(Offering {
        requirements: reqs(&[("karpenter.sh/capacity-type", "In reserved"), (ZONE, "In test-zone-1")]),
        price: Price::from_pico(1),
        is_available: true,
        reservation: Some(Reservation { id: id.into(), left }),
        capacity_override: None,
        overhead_override: None,
        has_price_overlay: false,
    });
    Arc::new(changed)
}

fn exclusive(count: usize) -> Vec<PodSketch> {
    pods("a", count, |sketch| sketch.label("app", "x").apart(near(HOST, &[("app", "x")])))
}

// 01/RSV-01
#[test]
fn a_claim_holds_every_reservation_it_might_use_and_others_wait() {
    let small = with_reservation(&shape("small").with("cpu", 2000).build(), "r-small", 1);
    let large = with_reservation(&shape("large").build(), "r-large", 1);
    let world = world(vec![pool("p").types(vec![small, large])]);
    let answer = world.solve(exclusive(3));
    assert_eq!((answer.placed(), answer.claims()), (1, 1));
    let claim = &answer.plan.claims[0];
    assert_eq!(claim.reservations, ["r-large".into(), "r-small".into()]);
    assert_eq!(claim.requirements.get("karpenter.sh/capacity-type"), Some(&req("In reserved")));
    assert!(answer.plan.unplaced.iter().all(|unplaced| unplaced.general.contains(&Obstacle::Reserved)));
}

// 01/RSV-02
#[test]
fn a_reservation_that_two_pools_share_counts_once_and_two_reservations_twice() {
    let shared = || vec![with_reservation(&shape("only").build(), "r-1", 1)];
    let both = world(vec![pool("p").types(shared()), pool("q").types(shared())]);
    assert_eq!(both.solve(exclusive(2)).placed(), 1);
    let own = |id: &str| vec![with_reservation(&shape("only").build(), id, 1)];
    let separate = world(vec![pool("p").types(own("r-1")), pool("q").types(own("r-2"))]);
    let pods = vec![
        pod("a").label("app", "x").apart(near(HOST, &[("app", "x")])).selects("karpenter.sh/nodepool", "In p"),
        pod("b").label("app", "x").apart(near(HOST, &[("app", "x")])).selects("karpenter.sh/nodepool", "In q"),
    ];
    assert_eq!(separate.solve(pods).placed(), 2);
}

// 01/RSV-03
#[test]
fn two_reservations_of_one_type_serve_two_pods_in_the_first_pass() {
    let both = with_reservation(&with_reservation(&shape("only").build(), "r-1", 1), "r-2", 2);
    let answer = world(vec![pool("p").types(vec![both])]).solve(exclusive(4));
    assert_eq!(answer.placed(), 2);
}

// 01/RSV-04
#[test]
fn a_lighter_pool_is_not_used_while_a_heavier_one_has_reservations_pending() {
    let reserved = vec![with_reservation(&shape("only").build(), "r-1", 1)];
    let waiting = world(vec![pool("heavy").weight(50).types(reserved), pool("light")]);
    let answer = waiting.solve(exclusive(2));
    assert_eq!(answer.placed(), 1);
    assert_eq!(answer.plan.claims[0].pool.as_str(), "heavy");
    let used_up = vec![with_reservation(&shape("only").build(), "r-1", 0)];
    let after = world(vec![pool("heavy").weight(50).types(used_up), pool("light")]).solve(exclusive(2));
    assert_eq!(after.placed(), 2);
    assert!(after.plan.claims.iter().all(|claim| claim.pool.as_str() == "heavy" && claim.reservations.is_empty()));
}

// 01/RSV-05
#[test]
fn waiting_for_a_reservation_gives_up_no_preference() {
    let reserved = vec![with_reservation(&shape("only").build(), "r-1", 1)];
    let preferred = |sketch: PodSketch| {
        let zone = Weighted { weight: 1, item: reqs(&[(ZONE, "In test-zone-1")]) };
        sketch.label("app", "x").apart(near(HOST, &[("app", "x")])).change(|pod| pod.wants.preferred_nodes.push(zone))
    };
    let answer = world(vec![pool("p").types(reserved)]).solve(pods("a", 2, preferred));
    assert_eq!(answer.placed(), 1, "the second pod could go to another zone, but waits");
}

// 01/RSV-06
#[test]
fn several_pods_share_one_reserved_machine() {
    let reserved = vec![with_reservation(&shape("only").build(), "r-1", 1)];
    let answer = world(vec![pool("p").types(reserved)]).solve(pods("a", 3, |sketch| sketch.asks("cpu", 500)));
    assert_eq!((answer.placed(), answer.claims()), (3, 1));
    assert_eq!(answer.plan.claims[0].reservations, ["r-1".into()]);
}

#[test]
fn reservations_are_left_alone_when_they_are_switched_off() {
    let mut world = world(vec![pool("p").types(vec![with_reservation(&shape("only").build(), "r-1", 1)])]);
    world.snapshot.policy.uses_reservations = false;
    let answer = world.solve(exclusive(2));
    assert_eq!(answer.placed(), 2);
    assert!(answer.plan.claims.iter().all(|claim| claim.reservations.is_empty()));
}
