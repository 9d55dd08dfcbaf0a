//! What holds for any overlays.

use std::sync::Arc;

use model::instance::InstanceType;
use model::overlay::{Overlay, PriceChange};
use model::resources::Resources;
use proptest::prelude::*;

use super::fixture::{apply_to, machine, overlay, usual_types};
use crate::overlay::Verdict;

const DEMANDS: [&str; 9] =
    ["", "type=big", "zone=a", "zone=b", "capacity=spot", "pool=web", "team=batch", "arch!=arm64 zone=a", "zone=c"];

fn any_overlays() -> impl Strategy<Value = Vec<Overlay>> {
    let change = prop_oneof![
        (0..3_i64).prop_map(|pico| PriceChange::Replace { pico }),
        (-2..3_i64).prop_map(|pico| PriceChange::Add { pico }),
        any::<i64>().prop_map(|per_million| PriceChange::AddParts { per_million }),
    ];
    let (demand, resource) = (proptest::sample::select(&DEMANDS[..]), proptest::sample::select(&["fuse", "kvm"][..]));
    let one = (0..3_i32, demand, proptest::option::of(change), proptest::option::of(resource), 1..4_i64);
    proptest::collection::vec(one, 0..6).prop_map(|drawn| {
        let named = drawn.into_iter().zip(["a", "b", "c", "d", "e", "f"]);
        named
            .map(|((weight, demand, price, resource, amount), name)| {
                let capacity = resource.map(|resource| Resources::default().with(resource, amount)).unwrap_or_default();
                Overlay { price, capacity, ..overlay(name, weight, demand) }
            })
            .collect()
    })
}

fn shuffled_overlays() -> impl Strategy<Value = (Vec<Overlay>, Vec<Overlay>)> {
    any_overlays().prop_flat_map(|overlays| (Just(overlays.clone()), Just(overlays).prop_shuffle()))
}

proptest! {
    // 01/OVL-01
    #[test]
    fn without_overlays_every_type_is_the_clouds_own(names in proptest::collection::vec("[a-e]", 0..5)) {
        let sources: Vec<Arc<InstanceType>> = names.iter().map(|name| Arc::new(machine(name, "amd64"))).collect();
        let overlaid = apply_to(&sources, &[]);
        prop_assert_eq!(overlaid.types.len(), 2);
        for types in overlaid.types.values() {
            prop_assert_eq!(types.len(), sources.len());
            prop_assert!(types.iter().zip(&sources).all(|(kind, source)| Arc::ptr_eq(kind, source)));
        }
    }

    #[test]
    fn the_order_in_which_overlays_are_listed_changes_nothing((listed, shuffled) in shuffled_overlays()) {
        prop_assert_eq!(apply_to(&usual_types(), &listed), apply_to(&usual_types(), &shuffled));
    }

    // 01/OVL-03
    #[test]
    fn without_those_in_conflict_the_types_are_the_same(overlays in any_overlays()) {
        let all = apply_to(&usual_types(), &overlays);
        let is_in_conflict = |of: &Overlay| matches!(all.verdicts[&of.name], Verdict::Conflict(_));
        let kept: Vec<Overlay> = overlays.iter().filter(|of| !is_in_conflict(of)).cloned().collect();
        let without = apply_to(&usual_types(), &kept);
        prop_assert_eq!(&without.types, &all.types);
        prop_assert!(kept.iter().all(|of| without.verdicts[&of.name] == all.verdicts[&of.name]));
    }

    #[test]
    fn a_type_is_new_just_when_a_flag_says_so(overlays in any_overlays()) {
        let sources = usual_types();
        for types in apply_to(&sources, &overlays).types.values() {
            for (kind, source) in types.iter().zip(&sources) {
                let is_flagged = kind.has_capacity_overlay || kind.offerings.iter().any(|of| of.has_price_overlay);
                prop_assert_eq!(is_flagged, !Arc::ptr_eq(kind, source));
            }
        }
    }
}
