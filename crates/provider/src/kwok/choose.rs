//! Which of the offerings that a claim allows it gets.

use std::sync::Arc;

use api::NodeClaim;
use api::labels::normalized;
use api::requirement::Operator as Wire;
use model::instance::{CapacityType, InstanceType, Offering};
use model::labels::{INSTANCE_TYPE, WellKnown};
use model::price::Price;
use model::requirements::{Operator, Requirement, Requirements, Undefined};
use model::resources::Resources;

use super::draw::hash;
use crate::quantities;
use crate::{OfferingKey, ProviderError};

/// What a claim asks for, read once.
pub(super) struct Wish {
    pub(super) requirements: Requirements,
    requests: Resources,
    /// Equal offerings are drawn with this, so that a repeated launch draws the same.
    dice: u64,
}

/// The machine that a claim gets.
#[derive(Clone, Copy)]
pub(super) struct Choice<'a> {
    pub(super) machine: &'a InstanceType,
    pub(super) offering: &'a Offering,
}

impl Choice<'_> {
    /// All that the machine has when it is bought this way.
    pub(super) fn capacity(&self) -> Resources {
        let mut capacity = self.machine.capacity.clone();
        for (axis, amount) in self.offering.capacity_override.iter().flat_map(Resources::amounts) {
            capacity.set(axis, amount);
        }
        capacity
    }
}

impl Wish {
    pub(super) fn of(claim: &NodeClaim, seed: u64) -> Self {
        let identity = claim.metadata.uid.as_deref().or(claim.metadata.name.as_deref()).unwrap_or_default();
        Self {
            requirements: requirements(claim),
            requests: quantities::to_model(&claim.spec.resources.requests),
            dice: hash(seed, identity),
        }
    }
}

/// The cheapest offering that suits, out of a reservation if there is one. Among equally cheap offerings of one type the claim's
/// dice decide, which spreads claims over zones.
///
/// `is_open` is asked for the offerings in this order until one is: a cloud learns what is sold out by trying.
pub(super) fn choose<'a>(
    types: &'a [Arc<InstanceType>],
    wish: &Wish,
    well_known: &WellKnown,
    mut is_open: impl FnMut(&OfferingKey) -> bool,
) -> Result<Choice<'a>, ProviderError> {
    // By price first: a claim may list hundreds of types, and mostly gets the first that it is asked about.
    let mut choices: Vec<Choice<'a>> = candidates(types, wish)
        .flat_map(|machine| machine.offerings.iter().map(move |offering| Choice { machine, offering }))
        .collect();
    choices.sort_by_cached_key(rank);
    let mut exhausted = Vec::new();
    for of_rank in choices.chunk_by(|a, b| rank(a) == rank(b)) {
        let equals: Vec<&Choice<'a>> = of_rank.iter().filter(|choice| suits(choice, wish, well_known)).collect();
        let Some(first) = wish.dice.checked_rem(equals.len() as u64) else { continue };
        for choice in equals.iter().cycle().skip(first as usize).take(equals.len()) {
            let Some(key) = OfferingKey::of(&choice.machine.name, choice.offering) else { continue };
            if is_left(choice.offering) && is_open(&key) {
                return Ok(**choice);
            }
            exhausted.push(key);
        }
    }
    let message = if exhausted.is_empty() {
        format!("no instance type satisfies {} and is large enough", wish.requirements)
    } else {
        "everything that the claim allows is sold out".to_owned()
    };
    Err(ProviderError::InsufficientCapacity { message, exhausted, source: None })
}

/// Whether the catalogue still shows something to sell.
fn is_left(offering: &Offering) -> bool {
    offering.is_available && offering.reservation.as_ref().is_none_or(|reservation| reservation.left > 0)
}

/// A planned claim lists a few names out of hundreds, so those are looked up.
fn candidates<'a>(types: &'a [Arc<InstanceType>], wish: &Wish) -> Box<dyn Iterator<Item = &'a InstanceType> + 'a> {
    match wish.requirements.get(INSTANCE_TYPE).and_then(Requirement::listed) {
        Some(names) => {
            let names: Vec<Arc<str>> = names.iter().cloned().collect();
            Box::new(names.into_iter().filter_map(|name| {
                let place = types.binary_search_by(|found| found.name.as_str().cmp(&name)).ok()?;
                Some(&*types[place])
            }))
        }
        None => Box::new(types.iter().map(|machine| &**machine)),
    }
}

fn suits(choice: &Choice<'_>, wish: &Wish, well_known: &WellKnown) -> bool {
    let undefined = Undefined::OpenIfWellKnown(well_known);
    wish.requirements.is_compatible(&choice.offering.requirements, undefined)
        && choice.machine.requirements.overlaps(&wish.requirements)
        && has_room(&choice.machine.allocatable_of(choice.offering), &wish.requests)
}

/// Other resources do not count: an overlay that the cloud does not know of may provide them.
fn has_room(allocatable: &Resources, requests: &Resources) -> bool {
    requests.cpu_milli <= allocatable.cpu_milli
        && requests.memory_bytes <= allocatable.memory_bytes
        && requests.disk_bytes <= allocatable.disk_bytes
        && requests.pods <= allocatable.pods
}

fn rank<'a>(choice: &Choice<'a>) -> (bool, Price, &'a str) {
    let is_reserved = choice.offering.capacity_type() == Some(CapacityType::Reserved);
    (!is_reserved, choice.offering.price, choice.machine.name.as_str())
}

fn requirements(claim: &NodeClaim) -> Requirements {
    let mut set = Requirements::default();
    for wire in &claim.spec.requirements {
        let operator = operator(wire.operator);
        let is_bound = matches!(operator, Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte);
        let values = wire.values.iter().map(String::as_str);
        let requirement = match is_bound && wire.values.len() != 1 {
            // A comparison with anything but one number matches nothing.
            true => Requirement::new(Operator::In, []),
            false => Requirement::new(operator, values),
        };
        set.add(normalized(&wire.key), requirement);
    }
    set
}

fn operator(wire: Wire) -> Operator {
    match wire {
        Wire::In => Operator::In,
        Wire::NotIn => Operator::NotIn,
        Wire::Exists => Operator::Exists,
        Wire::DoesNotExist => Operator::DoesNotExist,
        Wire::Gt => Operator::Gt,
        Wire::Lt => Operator::Lt,
        Wire::Gte => Operator::Gte,
        Wire::Lte => Operator::Lte,
    }
}
