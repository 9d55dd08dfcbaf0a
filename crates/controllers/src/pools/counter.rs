//! What a pool's machines have together, as its status says it.

use api::ResourceList;
use api::quantity::Quantity;
use cluster::store::PoolUsage;
use model::resources::{Resource, Resources};

/// Every base resource is named, also when there is none of it, so that people see a zero and not a gap.
pub(super) fn resources(usage: &PoolUsage) -> ResourceList {
    let base = [Resource::Cpu, Resource::Memory, Resource::Disk, Resource::Pods];
    let extended = usage.capacity.amounts().map(|(resource, _)| resource);
    let extended = extended.filter(|resource| matches!(resource, Resource::Extended(_)));
    let mut list: ResourceList = base
        .into_iter()
        .chain(extended)
        .map(|resource| (resource.name().to_owned(), quantity(&resource, &usage.capacity)))
        .collect();
    list.insert("nodes".to_owned(), Quantity::from_units(usage.nodes));
    list
}

fn quantity(resource: &Resource, amounts: &Resources) -> Quantity {
    let amount = amounts.get(resource);
    match resource {
        Resource::Cpu => Quantity::from_milli(amount),
        Resource::Memory | Resource::Disk if amount != 0 => Quantity::from_bytes(amount),
        _ => Quantity::from_units(amount),
    }
}
