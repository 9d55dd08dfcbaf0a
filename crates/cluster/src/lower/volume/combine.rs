//! Places that suit several volumes at once.

use model::requirements::Requirements;

/// Most places that a pod's volumes can have together. Real pods have a handful.
const MOST_PLACES: usize = 128;
/// Most places of one volume that are looked at.
const MOST_PLACES_OF_ONE: usize = 1024;
/// Most comparisons for one pod; after them only the first place of each further volume is looked at.
const MOST_STEPS: usize = 100_000;
/// How many places are carried on once the steps have run out.
const FEW_PLACES: usize = 16;

pub(super) struct Combined {
    pub(super) alternatives: Vec<Requirements>,
    /// Whether there were too many, and some were left out. What is left is still true.
    pub(super) is_cut: bool,
}

/// One place of each volume, in every combination that can be true at once, in order.
///
/// When no combination can, one contradiction stays: the pod fits nowhere, and the reason can be named.
pub(super) fn all_of(volumes: Vec<Vec<Requirements>>) -> Combined {
    let mut steps = 0;
    let mut is_cut = false;
    let mut seen: Vec<Vec<Requirements>> = Vec::new();
    let mut together = vec![Requirements::default()];
    for mut places in volumes {
        // A second volume of the same class adds nothing: both can be wherever one can.
        if places.is_empty() || seen.contains(&places) {
            continue;
        }
        if seen.len() < FEW_PLACES {
            seen.push(places.clone());
        }
        let (most, most_of_one) = if steps < MOST_STEPS { (MOST_PLACES, MOST_PLACES_OF_ONE) } else { (FEW_PLACES, 1) };
        is_cut |= together.len() > most || places.len() > most_of_one;
        together.truncate(most);
        places.truncate(most_of_one);
        steps += together.len() * places.len();
        let joined = joined(&together, &places);
        is_cut |= joined.is_cut;
        together = joined.alternatives;
    }
    // Nothing was asked: anywhere, which is not the same as one place without demands.
    if seen.is_empty() {
        together.clear();
    }
    Combined { alternatives: together, is_cut }
}

fn joined(together: &[Requirements], places: &[Requirements]) -> Combined {
    let mut alternatives: Vec<Requirements> = Vec::new();
    let pairs = together.iter().flat_map(|one| places.iter().map(move |other| (one, other)));
    for (one, other) in pairs.clone().filter(|(one, other)| one.overlaps(other)) {
        let both = one.intersection(other);
        if alternatives.contains(&both) {
            continue;
        }
        if alternatives.len() >= MOST_PLACES {
            return Combined { alternatives, is_cut: true };
        }
        alternatives.push(both);
    }
    if alternatives.is_empty() {
        alternatives.extend(pairs.take(1).map(|(one, other)| one.intersection(other)));
    }
    Combined { alternatives, is_cut: false }
}
