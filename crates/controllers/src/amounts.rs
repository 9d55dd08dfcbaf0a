//! Amounts as the API writes them.

use api::{Quantity, ResourceList};
use model::resources::{Resource, Resources};

/// Every amount that is not zero.
pub(crate) fn to_wire(amounts: &Resources) -> ResourceList {
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
