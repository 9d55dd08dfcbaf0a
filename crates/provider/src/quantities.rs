//! Between the wire's quantities and the model's numbers.

use api::{Quantity, ResourceList};
use model::resources::{Resource, Resources};

/// What a list of quantities comes to.
pub(crate) fn to_model(list: &ResourceList) -> Resources {
    let mut amounts = Resources::default();
    for (name, quantity) in list {
        let axis = Resource::from_name(name);
        let amount = if axis == Resource::Cpu { quantity.milli() } else { quantity.units() };
        amounts.set(axis, amount);
    }
    amounts
}

/// Every amount that is not zero, as the API writes it.
pub fn to_wire(amounts: &Resources) -> ResourceList {
    let entries = amounts.amounts().map(|(axis, amount)| {
        let quantity = match &axis {
            Resource::Cpu => Quantity::from_milli(amount),
            Resource::Memory | Resource::Disk => Quantity::from_bytes(amount),
            Resource::Extended(name) if name.as_str().starts_with("hugepages-") => Quantity::from_bytes(amount),
            Resource::Pods | Resource::Extended(_) => Quantity::from_units(amount),
        };
        (axis.name().to_owned(), quantity)
    });
    entries.collect()
}
