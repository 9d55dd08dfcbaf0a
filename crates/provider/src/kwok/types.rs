//! What the simulated cloud sells: a menu by formula, or one that a user wrote.

mod listed;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{Quantity, ResourceList};
use model::ids::ReservationId;
use model::instance::{CapacityType, InstanceType, Offering, Reservation};
use model::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, REGION, WINDOWS_BUILD, ZONE};
use model::price::Price;
use model::requirements::{Operator, Requirement, Requirements};
use model::resources::Resources;
use model::volume::AttachLimits;

use super::keys::{CPU, FAMILY, MEMORY, SIZE};
use crate::quantities;

pub use listed::TypesError;

const GIB: i64 = 1 << 30;
const MIB: i64 = 1 << 20;

const CPUS: [i64; 12] = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256];
/// Gibibytes per core, and the letter that a family gets for it.
const FAMILIES: [(i64, &str); 3] = [(2, "c"), (4, "s"), (8, "m")];
const SYSTEMS: [&str; 2] = ["linux", "windows"];
const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];
const ZONES: [&str; 4] = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];

/// A core costs two and a half cents an hour, a gigabyte (of ten to the ninth bytes) a tenth of a cent: one pico-dollar a byte.
const PICO_PER_CPU: i64 = 25_000_000_000;
const PICO_PER_BYTE: i64 = 1;
const SPOT_PARTS_PER_MILLION: i64 = 700_000;

/// Instance types, in the order of their names, and the keys that they all answer for beside everybody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Menu {
    pub(super) types: Vec<Arc<InstanceType>>,
    pub(super) well_known: BTreeSet<Arc<str>>,
}

impl Menu {
    /// The reference's own list: twelve sizes, three families, two systems, two architectures, four zones.
    pub fn generated() -> Self {
        let mut items = Vec::new();
        for cpus in CPUS {
            for (gib_per_cpu, family) in FAMILIES {
                for (system, arch) in SYSTEMS.iter().flat_map(|system| ARCHITECTURES.map(|arch| (system, arch))) {
                    let name = format!("{family}-{cpus}x-{arch}-{system}");
                    items.push(generated_item(
                        name,
                        Shape { cpus, memory_bytes: cpus * gib_per_cpu * GIB, arch, system },
                    ));
                }
            }
        }
        Self::of_items(items)
    }

    /// A list as the reference's `--instance-types-file-path` takes it.
    pub fn from_json(text: &str) -> Result<Self, TypesError> {
        listed::read(text).map(Self::of_items)
    }

    pub fn types(&self) -> &[Arc<InstanceType>] {
        &self.types
    }

    fn of_items(items: Vec<Item>) -> Self {
        let own = [SIZE, FAMILY, CPU, MEMORY].map(Arc::from);
        let offered = items.iter().flat_map(|item| &item.offerings).flat_map(|offer| offer.requirements.iter());
        let well_known: BTreeSet<Arc<str>> = own.into_iter().chain(offered.map(|(key, _)| key.clone())).collect();
        let mut types: Vec<Arc<InstanceType>> =
            items.into_iter().map(|item| Arc::new(item.into_type(&well_known))).collect();
        types.sort_by(|a, b| a.name.cmp(&b.name));
        Self { types, well_known }
    }
}

struct Shape<'a> {
    cpus: i64,
    memory_bytes: i64,
    arch: &'a str,
    system: &'a str,
}

fn generated_item(name: String, shape: Shape<'_>) -> Item {
    let on_demand = Price::from_pico(shape.cpus * PICO_PER_CPU + shape.memory_bytes * PICO_PER_BYTE);
    let spot = on_demand.scaled(SPOT_PARTS_PER_MILLION);
    let ways = [(CapacityType::Spot, spot), (CapacityType::OnDemand, on_demand)];
    let offerings = ZONES.iter().flat_map(|zone| ways.map(|way| (zone, way))).map(|(zone, (capacity_type, price))| {
        let requirements = Requirements::default()
            .with(ZONE, Requirement::value((*zone).into()))
            .with(CAPACITY_TYPE, Requirement::value(capacity_type.as_str().into()));
        Offer { requirements, price, reserved: None }
    });
    let resources = [
        ("cpu", Quantity::from_units(shape.cpus)),
        ("memory", Quantity::from_bytes(shape.memory_bytes)),
        ("pods", Quantity::from_units((shape.cpus * 16).min(1024))),
        ("ephemeral-storage", Quantity::from_bytes(20 * GIB)),
    ];
    Item {
        name,
        arch: shape.arch.to_owned(),
        systems: vec![shape.system.to_owned()],
        resources: resources.map(|(name, quantity)| (name.to_owned(), quantity)).into(),
        offerings: offerings.collect(),
    }
}

/// One type as a list tells it.
struct Item {
    name: String,
    arch: String,
    systems: Vec<String>,
    resources: ResourceList,
    offerings: Vec<Offer>,
}

/// One way to buy it. The zone and the capacity type are among the requirements.
struct Offer {
    requirements: Requirements,
    price: Price,
    /// How many machines a reservation holds.
    reserved: Option<u32>,
}

impl Item {
    fn into_type(self, well_known: &BTreeSet<Arc<str>>) -> InstanceType {
        let text = |resource: &str| self.resources.get(resource).map(ToString::to_string).unwrap_or_default();
        let cpu = text("cpu");
        let mut requirements: Requirements = [
            (INSTANCE_TYPE, is(&self.name)),
            (ARCH, is(&self.arch)),
            (OS, Requirement::new(Operator::In, self.systems.iter().map(String::as_str))),
            (REGION, Requirement::does_not_exist()),
            (WINDOWS_BUILD, Requirement::does_not_exist()),
            (SIZE, is(size(&self.name).unwrap_or(&cpu))),
            (FAMILY, is(family(&self.name))),
            (CPU, is(&cpu)),
            (MEMORY, is(&text("memory"))),
        ]
        .into_iter()
        .map(|(key, requirement)| (Arc::from(key), requirement))
        .collect();
        let offered = offered_values(&self.offerings);
        for key in well_known.iter().map(|key| &**key).chain([ZONE, CAPACITY_TYPE]) {
            if requirements.get(key).is_none() {
                let values = offered.get(key).into_iter().flatten().map(|value| &**value);
                let is_offered = offered.contains_key(key);
                let absent = Requirement::does_not_exist;
                requirements.add(key, if is_offered { Requirement::new(Operator::In, values) } else { absent() });
            }
        }
        let offerings = self.offerings.into_iter().map(|offer| offer.into_offering(&self.name, well_known));
        InstanceType {
            offerings: offerings.collect(),
            requirements,
            capacity: quantities::to_model(&self.resources),
            overhead: Resources::default().with("cpu", 100).with("memory", 10 * MIB),
            attach_limits: AttachLimits::new(),
            has_capacity_overlay: false,
            name: self.name.into(),
        }
    }
}

impl Offer {
    fn into_offering(mut self, type_name: &str, well_known: &BTreeSet<Arc<str>>) -> Offering {
        // A key of other offerings must not count as open on this one.
        let foreign = well_known.iter().filter(|key| ![SIZE, FAMILY, CPU, MEMORY].contains(&&***key));
        for key in foreign {
            if self.requirements.get(key).is_none() {
                self.requirements.add(key.clone(), Requirement::does_not_exist());
            }
        }
        let mut offering = Offering {
            requirements: self.requirements,
            price: self.price,
            is_available: true,
            reservation: None,
            capacity_override: None,
            overhead_override: None,
            has_price_overlay: false,
        };
        if offering.capacity_type() == Some(CapacityType::Reserved) {
            let zone = offering.label(ZONE).map(|zone| &**zone).unwrap_or_default();
            let id = ReservationId::from(format!("{type_name}/{zone}"));
            offering.reservation = Some(Reservation { id, left: self.reserved.unwrap_or(0) });
        }
        offering
    }
}

/// The values that offerings list, by key.
fn offered_values(offerings: &[Offer]) -> BTreeMap<&str, BTreeSet<Arc<str>>> {
    let mut offered: BTreeMap<&str, BTreeSet<Arc<str>>> = BTreeMap::new();
    for (key, requirement) in offerings.iter().flat_map(|offer| offer.requirements.iter()) {
        if let Some(values) = requirement.listed() {
            offered.entry(key).or_default().extend(values.iter().cloned());
        }
    }
    offered
}

fn is(value: &str) -> Requirement {
    Requirement::value(value.into())
}

/// The size that a name in the manner of EC2 ends with, such as `2xlarge` of `m5.2xlarge`.
fn size(name: &str) -> Option<&str> {
    const WORDS: [&str; 6] = ["nano", "micro", "small", "medium", "large", "metal"];
    let (family, size) = name.split_once('.')?;
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_known = WORDS.contains(&size)
        || size.strip_suffix("xlarge").is_some_and(|count| count.chars().all(|digit| digit.is_ascii_digit()));
    (!family.is_empty() && family.chars().all(is_word) && is_known).then_some(size)
}

/// What stands before the first dot or dash; without one, the first letter.
fn family(name: &str) -> &str {
    match name.find(['.', '-']) {
        Some(end) => &name[..end],
        None => name.chars().next().map_or("", |letter| &name[..letter.len_utf8()]),
    }
}
