//! Catalogues between the model's shape and that of recordings.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::catalog::{self, Allowed, Amounts};
use model::instance::{InstanceType, Offering, Reservation};
use model::price::Price;
use model::requirements::{Operator, Requirement, Requirements};
use model::resources::{Resource, Resources};

pub(super) fn write(types: &[Arc<InstanceType>]) -> Vec<catalog::InstanceType> {
    types.iter().map(|machine| write_type(machine)).collect()
}

pub(super) fn read(types: Vec<catalog::InstanceType>) -> Vec<Arc<InstanceType>> {
    types.into_iter().map(read_type).map(Arc::new).collect()
}

fn write_type(machine: &InstanceType) -> catalog::InstanceType {
    catalog::InstanceType {
        name: machine.name.to_string(),
        requirements: write_requirements(&machine.requirements),
        capacity: write_amounts(&machine.capacity),
        overhead: write_amounts(&machine.overhead),
        offerings: machine.offerings.iter().map(write_offering).collect(),
        attach_limits: machine.attach_limits.iter().map(|(driver, limit)| (driver.to_string(), *limit)).collect(),
        has_capacity_overlay: machine.has_capacity_overlay,
    }
}

fn read_type(machine: catalog::InstanceType) -> InstanceType {
    InstanceType {
        name: machine.name.into(),
        requirements: read_requirements(&machine.requirements),
        capacity: read_amounts(&machine.capacity),
        overhead: read_amounts(&machine.overhead),
        offerings: machine.offerings.into_iter().map(read_offering).collect(),
        attach_limits: machine.attach_limits.into_iter().map(|(driver, limit)| (driver.into(), limit)).collect(),
        has_capacity_overlay: machine.has_capacity_overlay,
    }
}

fn write_offering(offering: &Offering) -> catalog::Offering {
    let reservation = offering.reservation.as_ref();
    catalog::Offering {
        requirements: write_requirements(&offering.requirements),
        price: offering.price.pico(),
        available: offering.is_available,
        reservation: reservation.map(|held| catalog::Reservation { id: held.id.to_string(), left: held.left }),
        capacity_override: offering.capacity_override.as_ref().map(write_amounts),
        overhead_override: offering.overhead_override.as_ref().map(write_amounts),
        has_price_overlay: offering.has_price_overlay,
    }
}

fn read_offering(offering: catalog::Offering) -> Offering {
    Offering {
        requirements: read_requirements(&offering.requirements),
        price: Price::from_pico(offering.price),
        is_available: offering.available,
        reservation: offering.reservation.map(|held| Reservation { id: held.id.into(), left: held.left }),
        capacity_override: offering.capacity_override.as_ref().map(read_amounts),
        overhead_override: offering.overhead_override.as_ref().map(read_amounts),
        has_price_overlay: offering.has_price_overlay,
    }
}

pub(super) fn write_amounts(amounts: &Resources) -> Amounts {
    amounts.amounts().map(|(resource, amount)| (resource.name().to_owned(), amount)).collect()
}

pub(super) fn read_amounts(amounts: &Amounts) -> Resources {
    let mut all = Resources::default();
    for (name, amount) in amounts {
        all.set(Resource::from_name(name), *amount);
    }
    all
}

pub(super) fn write_requirements(requirements: &Requirements) -> BTreeMap<String, Allowed> {
    requirements.iter().map(|(key, requirement)| (key.to_string(), write_requirement(requirement))).collect()
}

pub(super) fn read_requirements(requirements: &BTreeMap<String, Allowed>) -> Requirements {
    let mut all = Requirements::default();
    for (key, allowed) in requirements {
        all.add(key.as_str(), read_requirement(allowed));
    }
    all
}

fn write_requirement(requirement: &Requirement) -> Allowed {
    let values = requirement.listed().or(requirement.excluded()).into_iter().flatten();
    let (at_least, at_most) = requirement.bounds();
    Allowed {
        values: values.map(ToString::to_string).collect(),
        all_but: requirement.excluded().is_some(),
        at_least,
        at_most,
        or_absent: requirement.allows_absent(),
        min_values: requirement.min_values,
    }
}

/// A requirement is what its operators leave together; so it is put together from them again.
fn read_requirement(allowed: &Allowed) -> Requirement {
    let values = allowed.values.iter().map(String::as_str);
    let mut requirement = match (allowed.all_but, allowed.or_absent) {
        (true, true) => Requirement::new(Operator::NotIn, values),
        (true, false) => Requirement::new(Operator::NotIn, values).intersection(&Requirement::exists()),
        (false, true) => Requirement::does_not_exist(),
        (false, false) => Requirement::new(Operator::In, values),
    };
    for (operator, bound) in [(Operator::Gte, allowed.at_least), (Operator::Lte, allowed.at_most)] {
        if let Some(bound) = bound {
            requirement = requirement.intersection(&Requirement::new(operator, [bound.to_string().as_str()]));
        }
    }
    requirement.with_min_values(allowed.min_values)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn operator() -> impl Strategy<Value = Requirement> {
        let values = proptest::collection::vec(0_i64..6, 0..4);
        (0..Operator::ALL.len(), values).prop_map(|(operator, values)| {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            Requirement::new(Operator::ALL[operator], values.iter().map(String::as_str))
        })
    }

    proptest! {
        #[test]
        fn every_requirement_that_operators_can_make_is_read_as_it_was_written(
            parts in proptest::collection::vec(operator(), 1..4),
            min_values in proptest::option::of(1_u32..5),
        ) {
            let all = parts.iter().skip(1).fold(parts[0].clone(), |all, part| all.intersection(part));
            let all = all.with_min_values(min_values);
            prop_assert_eq!(read_requirement(&write_requirement(&all)), all);
        }
    }

    #[test]
    fn a_machine_is_read_as_it_was_written() {
        let zone = |name: &str| Requirements::default().with("zone", Requirement::value(name.into()));
        let amounts = Resources::default().with("cpu", 4000).with("memory", 1 << 34).with("vendor.example/gpu", 2);
        let offering = Offering {
            requirements: zone("a"),
            price: Price::from_pico(123_456_789_012),
            is_available: true,
            reservation: Some(Reservation { id: "r".into(), left: 4 }),
            capacity_override: Some(amounts.clone()),
            overhead_override: Some(Resources::default()),
            has_price_overlay: true,
        };
        let machine = InstanceType {
            name: "large".into(),
            requirements: zone("a"),
            capacity: amounts.clone(),
            overhead: Resources::default().with("memory", 1 << 28),
            offerings: vec![offering],
            attach_limits: [("ebs".into(), 27)].into(),
            has_capacity_overlay: true,
        };
        let types = vec![Arc::new(machine)];
        assert_eq!(read(write(&types)), types);
    }
}
