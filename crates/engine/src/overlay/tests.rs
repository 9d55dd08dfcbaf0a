pub(crate) mod fixture;
mod laws;

use model::ids::ReservationId;
use model::instance::Reservation;
use model::labels::{WINDOWS_BUILD, ZONE};
use model::requirements::Requirement;
use model::resources::Resources;

use super::*;
use fixture::{
    DOLLAR, RESERVATION, apply_to, corrections, given, machine, overlay, pool, priced, reqs, usual_types, verdicts,
};

fn check(overlays: &[Overlay], expected_corrections: &[&str], expected_verdicts: &[&str]) {
    let overlaid = apply_to(&usual_types(), overlays);
    assert_eq!(corrections(&overlaid), expected_corrections);
    assert_eq!(verdicts(&overlaid), expected_verdicts);
}

// 01/OVL-01
#[test]
fn a_price_is_corrected_by_type_zone_capacity_type_pool_and_template_label() {
    let one = "type=big zone=b capacity=spot pool=web";
    check(&[priced("x", 0, one, 3)], &["web big spot b 3"], &["x: Applied"]);
    check(
        &[priced("x", 0, "team=web zone=a capacity!=spot arch=arm64", 2)],
        &["web arm on-demand a 2"],
        &["x: Applied"],
    );
    check(
        &[priced("x", 0, "team type!=big zone=a", 2)],
        &["batch arm spot a 2", "batch arm on-demand a 2", "web arm spot a 2", "web arm on-demand a 2"],
        &["x: Applied"],
    );
}

// 01/OVL-01
#[test]
fn what_matches_nothing_or_sets_nothing_changes_nothing() {
    for wanted in ["type=tiny", "zone=c", "!team", "unheard-of", "pool=other", "arch=arm64 type=big", "zone=a zone=b"] {
        check(&[priced("x", 0, wanted, 3)], &[], &["x: Idle"]);
        check(&[given("x", 0, wanted, ("fuse", 3))], &[], &["x: Idle"]);
    }
    check(&[overlay("x", 0, "type=big")], &[], &["x: Idle"]);
    assert!(apply(&[], &[], &WellKnown::default()).types.is_empty());
}

// 01/OVL-01
#[test]
fn a_type_without_a_matching_offering_or_without_a_well_known_key_is_not_touched() {
    let mut sparse = machine("big", "amd64");
    sparse.offerings.retain(|of| of.requirements != reqs("capacity=spot zone=b"));
    let types = [Arc::new(sparse)];
    for wanted in ["capacity=spot zone=b", WINDOWS_BUILD] {
        let overlaid = apply_to(&types, &[given("x", 0, wanted, ("fuse", 1)), priced("y", 0, wanted, 2)]);
        assert_eq!(verdicts(&overlaid), ["x: Idle", "y: Idle"]);
        assert!(overlaid.types.values().flatten().all(|kind| Arc::ptr_eq(kind, &types[0])));
    }
}

#[test]
fn a_template_label_narrows_what_a_type_can_be() {
    let mut labelled = pool("web");
    labelled.template.labels.insert(ZONE.into(), "a".into());
    let pools = [PoolTypes { pool: &labelled, types: usual_types() }];
    let of = |wanted| apply(&[priced("x", 0, wanted, 3).into()], &pools, &WellKnown::default());
    assert_eq!(verdicts(&of("zone=b")), ["x: Idle"]);
    assert_eq!(corrections(&of("zone=a type=big capacity=spot")), ["web big spot a 3"]);
}

#[test]
fn an_offerings_own_key_is_open_to_overlays_only_if_well_known() {
    let mut reserved = machine("big", "amd64");
    reserved.offerings.truncate(1);
    reserved.offerings[0].requirements.add(RESERVATION, Requirement::value("r1".into()));
    let types = [Arc::new(reserved)];
    assert_eq!(verdicts(&apply_to(&types, &[priced("x", 0, "type=big", 3)])), ["x: Applied"]);
    let web = pool("web");
    let pools = [PoolTypes { pool: &web, types: types.to_vec() }];
    let overlaid = apply(&[priced("x", 0, "type=big", 3).into()], &pools, &WellKnown::default());
    assert_eq!(verdicts(&overlaid), ["x: Idle"]);
}

// 01/PCK-17
#[test]
fn a_changed_price_is_exact_and_never_below_nothing() {
    use PriceChange::{Add, AddParts, Replace};
    let check = |change, pico| assert_eq!(changed(Price::from_pico(DOLLAR), change).pico(), pico, "{change:?}");
    check(AddParts { per_million: -100_000 }, DOLLAR / 10 * 9);
    check(AddParts { per_million: 100_000 }, DOLLAR / 10 * 11);
    check(AddParts { per_million: -1_000_000 }, 0);
    check(AddParts { per_million: -2_000_000 }, 0);
    check(AddParts { per_million: i64::MIN }, 0);
    check(AddParts { per_million: i64::MAX }, i64::MAX);
    check(AddParts { per_million: 0 }, DOLLAR);
    check(Add { pico: 5 }, DOLLAR + 5);
    check(Add { pico: -5 }, DOLLAR - 5);
    check(Add { pico: -2 * DOLLAR }, 0);
    check(Add { pico: i64::MAX }, i64::MAX);
    check(Replace { pico: 7 }, 7);
    check(Replace { pico: -7 }, 0);
    let unchanged = apply_to(&usual_types(), &[given("x", 0, "type=big", ("fuse", 1))]);
    assert!(unchanged.types.values().flatten().flat_map(|kind| &kind.offerings).all(|of| of.price.pico() == DOLLAR));
}

// 01/OVL-02
#[test]
fn of_two_equal_weights_on_one_price_the_earlier_name_loses_even_with_the_same_value() {
    let sentence = "a: overlay b of the same weight already sets the price of big (karpenter.sh/capacity-type In [spot], \
                    topology.kubernetes.io/zone In [b]) in pool web";
    for dollars in [3, 4] {
        let both = [
            priced("a", 5, "type=big pool=web zone=b capacity=spot", dollars),
            priced("b", 5, "type=big capacity=spot pool=web", 3),
        ];
        check(&both, &["web big spot a 3", "web big spot b 3"], &[sentence, "b: Applied"]);
    }
}

// 01/OVL-02
#[test]
fn of_two_equal_weights_on_one_resource_of_a_type_the_earlier_name_loses() {
    // A type has one capacity for all zones, so that different zones do not keep the two apart.
    let both = [
        given("a", 0, "type=big pool=web zone=a", ("fuse", 1)),
        given("b", 0, "type=big pool=web zone=b", ("fuse", 1)),
    ];
    let sentence = "a: overlay b of the same weight already sets fuse of big in pool web";
    check(&both, &["web big fuse 1"], &[sentence, "b: Applied"]);
}

// 01/OVL-02
#[test]
fn a_third_overlay_between_two_does_not_hide_their_conflict() {
    let three = [
        given("a", 0, "type=big pool=web", ("fuse", 1)),
        given("b", 0, "type=big pool=web", ("kvm", 2)),
        given("c", 0, "type=big pool=web", ("fuse", 3)),
    ];
    let sentence = "a: overlay c of the same weight already sets fuse of big in pool web";
    check(&three, &["web big fuse 3", "web big kvm 2"], &[sentence, "b: Applied", "c: Applied"]);
}

// 01/OVL-02
#[test]
fn equals_conflict_even_where_a_heavier_one_sets_the_price() {
    let one = "type=big pool=web capacity=spot zone=a";
    let three = [priced("a", 1, one, 1), priced("b", 1, one, 2), priced("c", 9, one, 3)];
    let overlaid = apply_to(&usual_types(), &three);
    assert!(matches!(&overlaid.verdicts["a"], Verdict::Conflict(conflict) if &*conflict.with == "b"));
    assert_eq!(overlaid.verdicts["b"], Verdict::Outweighed);
    assert_eq!(corrections(&overlaid), ["web big spot a 3"]);
}

// 01/OVL-02
#[test]
fn different_weights_disjoint_demands_and_different_resources_never_conflict() {
    let applied = ["a: Applied", "b: Applied"];
    let spot_a =
        |name, weight, zone: &str| priced(name, weight, &format!("type=big pool=web capacity=spot zone={zone}"), 2);
    check(&[spot_a("a", 1, "a"), spot_a("b", 1, "b")], &["web big spot a 2", "web big spot b 2"], &applied);
    check(&[spot_a("a", 1, "a"), spot_a("b", 2, "a")], &["web big spot a 2"], &["a: Outweighed", "b: Applied"]);
    let fuse = |name, wanted, resource| given(name, 1, wanted, (resource, 1));
    let both = [fuse("a", "type=big pool=web", "fuse"), fuse("b", "type=big pool=web", "kvm")];
    check(&both, &["web big fuse 1", "web big kvm 1"], &applied);
    let both = [fuse("a", "type=big pool=web", "fuse"), fuse("b", "type=big pool=batch", "fuse")];
    check(&both, &["batch big fuse 1", "web big fuse 1"], &applied);
    check(
        &[spot_a("a", 1, "a"), fuse("b", "type=big pool=web", "fuse")],
        &["web big spot a 2", "web big fuse 1"],
        &applied,
    );
}

// 01/OVL-03
#[test]
fn an_overlay_in_conflict_applies_to_no_type_and_no_pool() {
    let wide = Overlay { capacity: Resources::default().with("fuse", 1), ..priced("a", 0, "", 9) };
    let overlaid = apply_to(&usual_types(), &[wide, priced("b", 0, "type=big pool=web capacity=spot zone=b", 3)]);
    assert_eq!(corrections(&overlaid), ["web big spot b 3"]);
    assert!(matches!(&overlaid.verdicts["a"], Verdict::Conflict(_)));
}

// 01/OVL-03
#[test]
fn an_overlay_in_conflict_stands_in_nobodys_way() {
    let chain = [
        priced("a", 0, "type=arm pool=web zone=a capacity=spot", 1),
        priced("b", 0, "pool=web zone=a capacity=spot", 2),
        priced("c", 0, "type=big pool=web zone=a capacity=spot", 3),
    ];
    let overlaid = apply_to(&usual_types(), &chain);
    assert_eq!(corrections(&overlaid), ["web arm spot a 1", "web big spot a 3"]);
}

// 01/OVL-04
#[test]
fn the_heaviest_sets_each_price_alone_and_lighter_ones_fill_the_gaps() {
    let tenth_more = PriceChange::AddParts { per_million: 100_000 };
    let lighter = Overlay { price: Some(tenth_more), ..overlay("z", 1, "type=big pool=web capacity=spot") };
    let both = [lighter, priced("a", 2, "type=big pool=web capacity=spot zone=b", 3)];
    check(&both, &["web big spot a 1.1", "web big spot b 3"], &["a: Applied", "z: Applied"]);
}

// 01/OVL-04
#[test]
fn the_heaviest_sets_each_resource_and_prices_come_from_others() {
    let mut heavy = given("a", 7, "type=big pool=web zone=b", ("fuse", 1));
    heavy.capacity = heavy.capacity.with("kvm", 2);
    let mut light = given("z", 1, "type=big pool=web", ("fuse", 9));
    light.capacity = light.capacity.with("gpu", 4);
    let price = priced("p", 1, "type=big pool=web capacity=spot zone=a", 5);
    let expected = ["web big spot a 5", "web big fuse 1", "web big gpu 4", "web big kvm 2"];
    check(&[light, heavy, price], &expected, &["a: Applied", "p: Applied", "z: Applied"]);
}

// Spec 02, flaw 27: what an overlay does not correct is not lost.
#[test]
fn reservations_overrides_and_all_else_survive_a_correction() {
    let mut source = machine("big", "amd64");
    source.attach_limits.insert("ebs".into(), 7);
    source.offerings[1].reservation = Some(Reservation { id: ReservationId::from("r1"), left: 3 });
    source.offerings[1].capacity_override = Some(Resources::default().with("cpu", 3000));
    source.offerings[1].overhead_override = Some(Resources::default().with("cpu", 50));
    let overlays = [priced("x", 0, "zone=b", 2), given("y", 0, "zone=b", ("fuse", 1))];
    let mut expected = source.clone();
    expected.capacity = expected.capacity.with("fuse", 1);
    expected.has_capacity_overlay = true;
    for position in [1, 3] {
        expected.offerings[position].price = Price::from_pico(2 * DOLLAR);
        expected.offerings[position].has_price_overlay = true;
    }
    let overlaid = apply_to(&[source.into()], &overlays);
    assert_eq!(*overlaid.types[&"web".into()][0], expected);
}

// 01/OVL-06
#[test]
fn a_corrected_type_gains_no_label_of_its_pool_or_overlay() {
    let sources = usual_types();
    let overlaid = apply_to(&sources, &[priced("x", 0, "team pool=web zone=a unheard-of!=1", 2)]);
    assert_eq!(overlaid.verdicts["x"], Verdict::Applied);
    for (kind, source) in overlaid.types[&"web".into()].iter().zip(&sources) {
        assert_eq!(kind.requirements, source.requirements);
    }
}

#[test]
fn pools_share_what_is_not_corrected_and_what_is_corrected_alike() {
    let sources = usual_types();
    let overlaid = apply_to(&sources, &[priced("x", 0, "type=big", 2)]);
    let [batch, web] = ["batch", "web"].map(|name| &overlaid.types[&name.into()]);
    assert!(Arc::ptr_eq(&batch[0], &sources[0]) && Arc::ptr_eq(&web[0], &sources[0]));
    assert!(Arc::ptr_eq(&batch[1], &web[1]) && !Arc::ptr_eq(&web[1], &sources[1]));
    let overlaid = apply_to(&sources, &[priced("x", 0, "type=big pool=web", 2)]);
    assert!(Arc::ptr_eq(&overlaid.types[&"batch".into()][1], &sources[1]));
}
