//! What a claim costs its pool, whichever way the machine is bought.

use std::sync::Arc;

use model::instance::{InstanceType, Offering, Reservation};
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE};
use model::price::Price;
use model::resources::Resources;

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

/// A type that is sold from one reservation and in no other way.
pub(crate) fn reserved(shape: Shape, id: &str, left: u32, pico: i64) -> Arc<InstanceType> {
    changed(shape, |built| {
        built.requirements.remove(CAPACITY_TYPE);
        built.requirements.add(CAPACITY_TYPE, req("In reserved"));
        built.offerings = vec![Offering {
            requirements: reqs(&[(CAPACITY_TYPE, "In reserved"), (ZONE, "In test-zone-1")]),
            price: Price::from_pico(pico),
            reservation: Some(Reservation { id: id.into(), left }),
            ..built.offerings[0].clone()
        }];
    })
}

#[test]
fn a_claim_is_charged_with_a_machine_that_it_can_list() {
    let x = reserved(shape("x"), "r1", 1, 1);
    let w = reserved(shape("w").with("cpu", 16_000), "r2", 2, 2);
    let z = shape("z").with("cpu", 16_000).build();
    let world = world(vec![pool("p").types(vec![x, w, z]).limit("cpu", 24_000)]);
    let mut all =
        pods("apart", 2, |sketch| sketch.label("app", "x").asks("cpu", 1000).apart(near(HOST, &[("app", "x")])));
    all.push(pod("c").asks("cpu", 10_000).selects(INSTANCE_TYPE, "In z"));
    let answer = world.judged(all);
    assert!(answer.plan.claims.iter().all(|claim| !claim.types.is_empty()));
    assert!(answer.is_placed("apart-000") && answer.is_placed("apart-001"));
}

#[test]
fn a_limit_counts_what_an_offering_really_brings() {
    let grown = changed(shape("four"), |built| {
        built.offerings.truncate(1);
        built.offerings[0].capacity_override = Some(Resources::default().with("cpu", 8000));
    });
    let world = world(vec![pool("p").types(vec![grown]).limit("cpu", 8000)]);
    let answer = world.judged(pods("a", 2, |sketch| sketch.asks("cpu", 7000)));
    assert_eq!(answer.placed(), 1);
    let unlaunched = world.asked_for(&answer);
    assert_eq!(unlaunched.judged(pods("b", 2, |sketch| sketch.asks("cpu", 7500))).placed(), 1, "on the one asked for");
}

#[test]
fn a_limit_counts_no_more_than_an_offering_really_brings() {
    let shrunk = changed(shape("sixteen").with("cpu", 16_000), |built| {
        built.offerings.truncate(1);
        built.offerings[0].capacity_override = Some(Resources::default().with("cpu", 4000));
    });
    let world = world(vec![pool("p").types(vec![shrunk]).limit("cpu", 8000)]);
    assert_eq!(world.judged(pods("a", 3, |sketch| sketch.asks("cpu", 3000))).placed(), 2);
}
