//! What a cloud sells: machine shapes, and ways to buy them.

use std::sync::Arc;

use crate::ids::{ReservationId, TypeName};
use crate::labels;
use crate::price::Price;
use crate::requirements::Requirements;
use crate::resources::{Resource, Resources};
use crate::volume::AttachLimits;

/// A machine shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceType {
    pub name: TypeName,
    /// What its nodes' labels can be. Every well-known key is here; one that does not apply is `DoesNotExist`.
    pub requirements: Requirements,
    pub capacity: Resources,
    /// What the system keeps for itself: kubelet, operating system, eviction threshold.
    pub overhead: Resources,
    pub offerings: Vec<Offering>,
    /// How many volumes a node of this type can hold, where the cloud says so.
    pub attach_limits: AttachLimits,
    /// Whether a NodeOverlay changed its capacity.
    pub has_capacity_overlay: bool,
}

/// One way to buy an instance type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offering {
    /// Zone and capacity type at least; also the reservation's id label where there is one.
    pub requirements: Requirements,
    pub price: Price,
    pub is_available: bool,
    /// A reservation and how many machines are left in it.
    pub reservation: Option<Reservation>,
    /// Amounts that differ from the type's own when bought this way.
    pub capacity_override: Option<Resources>,
    pub overhead_override: Option<Resources>,
    /// Whether a NodeOverlay changed its price.
    pub has_price_overlay: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub id: ReservationId,
    pub left: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CapacityType {
    Reserved,
    Spot,
    OnDemand,
}

impl CapacityType {
    pub const ALL: [Self; 3] = [Self::Reserved, Self::Spot, Self::OnDemand];

    /// Reads the label's value.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|capacity_type| capacity_type.as_str() == text)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        }
    }
}

impl Offering {
    /// The only value of a label that the offering has, if it has one.
    pub fn label(&self, key: &str) -> Option<&Arc<str>> {
        let values = self.requirements.get(key)?.listed()?;
        if values.len() == 1 { values.iter().next() } else { None }
    }

    /// Whether it gives other amounts than its type says.
    pub fn has_own_amounts(&self) -> bool {
        self.capacity_override.is_some() || self.overhead_override.is_some()
    }

    pub fn capacity_type(&self) -> Option<CapacityType> {
        self.label(labels::CAPACITY_TYPE).and_then(|name| CapacityType::parse(name))
    }
}

impl InstanceType {
    /// What pods can have on a machine bought without overrides.
    pub fn allocatable(&self) -> Resources {
        allocatable(&self.capacity, &self.overhead)
    }

    /// What a machine bought this way has: overrides replace single amounts.
    pub fn capacity_of(&self, offering: &Offering) -> Resources {
        overridden(&self.capacity, offering.capacity_override.as_ref())
    }

    /// What pods can have on a machine bought this way.
    pub fn allocatable_of(&self, offering: &Offering) -> Resources {
        allocatable(&self.capacity_of(offering), &overridden(&self.overhead, offering.overhead_override.as_ref()))
    }
}

/// Capacity less overhead. Huge pages come out of memory, which cannot fall below nothing.
fn allocatable(capacity: &Resources, overhead: &Resources) -> Resources {
    let mut left = capacity.minus(overhead);
    let huge_pages: i64 = capacity
        .amounts()
        .filter(|(axis, _)| axis.name().starts_with("hugepages-"))
        .fold(0, |sum: i64, (_, amount)| sum.saturating_add(amount));
    if huge_pages > 0 {
        left.memory_bytes = left.memory_bytes.saturating_sub(huge_pages).max(0);
    }
    left
}

fn overridden(base: &Resources, changes: Option<&Resources>) -> Resources {
    let mut result = base.clone();
    for (axis, amount) in changes.into_iter().flat_map(Resources::amounts) {
        let axis: Resource = axis;
        result.set(axis, amount);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(capacity: Resources) -> InstanceType {
        InstanceType {
            name: "m".into(),
            requirements: Requirements::default(),
            capacity,
            overhead: Resources::default().with("memory", 10),
            offerings: Vec::new(),
            attach_limits: AttachLimits::new(),
            has_capacity_overlay: false,
        }
    }

    fn offering(key: &str, text: &[&str]) -> Offering {
        let requirement =
            crate::requirements::Requirement::new(crate::requirements::Operator::In, text.iter().copied());
        Offering {
            requirements: Requirements::default().with(key, requirement),
            price: Price::ZERO,
            is_available: true,
            reservation: None,
            capacity_override: None,
            overhead_override: None,
            has_price_overlay: false,
        }
    }

    #[test]
    fn a_label_of_an_offering_is_its_only_value() {
        assert_eq!(offering("a", &["x"]).label("a").map(|value| &**value), Some("x"));
        assert_eq!(offering("a", &["x", "y"]).label("a"), None);
        assert_eq!(offering("a", &["x"]).label("b"), None);
        for kind in [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand] {
            assert_eq!(offering(labels::CAPACITY_TYPE, &[kind.as_str()]).capacity_type(), Some(kind));
        }
        assert_eq!(CapacityType::OnDemand.as_str(), "on-demand");
        assert_eq!(offering(labels::CAPACITY_TYPE, &["other"]).capacity_type(), None);
    }

    #[test]
    fn overrides_of_an_offering_replace_single_amounts() {
        let type_of = machine(Resources::default().with("memory", 100).with("cpu", 8));
        let mut special = offering("a", &["x"]);
        special.capacity_override = Some(Resources::default().with("cpu", 16).with("nic", 1));
        special.overhead_override = Some(Resources::default().with("memory", 30));
        let expected = Resources::default().with("memory", 70).with("cpu", 16).with("nic", 1);
        assert_eq!(type_of.allocatable_of(&special), expected);
        assert_eq!(type_of.allocatable_of(&offering("a", &["x"])), type_of.allocatable());
        assert_eq!(type_of.allocatable(), Resources::default().with("memory", 90).with("cpu", 8));
    }

    // 01/PCK-14
    #[test]
    fn huge_pages_come_out_of_memory_down_to_nothing() {
        let base = Resources::default().with("memory", 100);
        assert_eq!(machine(base.clone()).allocatable().memory_bytes, 90);
        assert_eq!(machine(base.clone().with("hugepages-2Mi", 30)).allocatable().memory_bytes, 60);
        assert_eq!(machine(base.with("hugepages-2Mi", 60).with("hugepages-1Gi", 60)).allocatable().memory_bytes, 0);
    }
}
