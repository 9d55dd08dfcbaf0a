//! The reference's series of made-up machines: the same shape in four hundred sizes.

use serde_json::json;

use super::draft::Draft;
use crate::bench::file::{OfferingEntry, RequirementEntry, TypeEntry};

pub(super) const ZONES: [&str; 3] = ["test-zone-1", "test-zone-2", "test-zone-3"];
pub(super) const REGION: &str = "test-region";
const TYPES: i64 = 400;
/// Zones with spot capacity; on-demand is everywhere.
const SPOT_ZONES: usize = 2;
const GIB: i64 = 1 << 30;

/// Label keys of the reference's made-up provider.
const SIZE: &str = "size";
const SPECIAL: &str = "special";
const INTEGER: &str = "integer";

pub(super) fn draft(name: &str) -> Draft {
    let types = (1..=TYPES).map(type_entry).collect();
    Draft::new(name, types, json!([])).with_labels([SIZE, SPECIAL, INTEGER].map(str::to_owned))
}

/// What a machine of so many cores has: cores, bytes of memory, places for pods.
pub(super) fn amounts(cores: i64) -> (i64, i64, i64) {
    (cores, 2 * cores * GIB, 10 * cores)
}

pub(super) fn type_name(cores: i64) -> String {
    format!("fake-it-{}", cores - 1)
}

/// Well-known labels that say more than where and how a machine is bought.
pub(super) fn labels(cores: i64) -> Vec<(&'static str, String)> {
    let is_large = cores > 4;
    let size = if is_large { "large" } else { "small" };
    let mut labels = vec![(SIZE, size.to_owned()), (INTEGER, cores.to_string())];
    if is_large {
        labels.push((SPECIAL, "optional".to_owned()));
    }
    labels
}

fn type_entry(cores: i64) -> TypeEntry {
    let (_, bytes, pods) = amounts(cores);
    let own = labels(cores);
    let of = |key: &str| own.iter().find(|(known, _)| *known == key).map(|(_, value)| vec![value.clone()]);
    let words = |values: &[&str]| Some(values.iter().map(|value| (*value).to_owned()).collect());
    let requirements = [
        ("node.kubernetes.io/instance-type", Some(vec![type_name(cores)])),
        ("kubernetes.io/arch", words(&["amd64"])),
        ("kubernetes.io/os", words(&["darwin", "linux", "windows"])),
        ("topology.kubernetes.io/zone", words(&ZONES)),
        ("karpenter.sh/capacity-type", words(&["on-demand", "spot"])),
        ("topology.kubernetes.io/region", words(&[REGION])),
        ("node.kubernetes.io/windows-build", None),
        (SIZE, of(SIZE)),
        (SPECIAL, of(SPECIAL)),
        (INTEGER, of(INTEGER)),
    ];
    let spot = ZONES[..SPOT_ZONES].iter().map(|zone| ("spot", *zone));
    let on_demand = ZONES.iter().map(|zone| ("on-demand", *zone));
    let offering = |(capacity_type, zone): (&str, &str)| OfferingEntry {
        zone: zone.to_owned(),
        capacity_type: capacity_type.to_owned(),
        price: price(cores, bytes),
        available: true,
        reservation_id: String::new(),
        reservation_capacity: None,
    };
    TypeEntry {
        name: type_name(cores),
        requirements: requirements.into_iter().map(|(key, values)| requirement(key, values)).collect(),
        capacity: [
            ("cpu".to_owned(), api::Quantity::from_units(cores)),
            ("memory".to_owned(), api::Quantity::from_bytes(bytes)),
            ("pods".to_owned(), api::Quantity::from_units(pods)),
        ]
        .into(),
        overhead: [
            ("cpu".to_owned(), api::Quantity::from_milli(100)),
            ("memory".to_owned(), api::Quantity::from_bytes(10 << 20)),
        ]
        .into(),
        offerings: spot.chain(on_demand).map(offering).collect(),
    }
}

/// A tenth of a dollar for each core and for each billion bytes, exactly.
fn price(cores: i64, bytes: i64) -> String {
    let parts = i128::from(cores) * 1_000_000_000 + i128::from(bytes);
    super::market::decimal(parts * 100)
}

pub(super) fn requirement(key: &str, values: Option<Vec<String>>) -> RequirementEntry {
    let operator = if values.is_some() { "In" } else { "DoesNotExist" };
    RequirementEntry {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.unwrap_or_default(),
        min_values: None,
    }
}
