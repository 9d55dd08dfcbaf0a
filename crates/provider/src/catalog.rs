//! What a cloud sells, as one value.

use std::fmt;
use std::sync::Arc;

use model::ids::TypeName;
use model::instance::{CapacityType, InstanceType, Offering};
use model::labels::ZONE;

/// Every instance type that the pools of a class could get, by name.
#[derive(Clone, Debug)]
pub struct Catalog {
    pub version: CatalogVersion,
    pub types: Arc<[Arc<InstanceType>]>,
}

/// Two catalogues of one provider with equal versions are equal, whichever classes they were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CatalogVersion(pub u64);

/// One thing on sale: a type, in a zone, bought in one way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferingKey {
    pub type_name: TypeName,
    pub zone: Arc<str>,
    pub capacity_type: CapacityType,
}

impl OfferingKey {
    /// `None` for an offering that names no single zone and capacity type, which no provider should have.
    pub fn of(type_name: &TypeName, offering: &Offering) -> Option<Self> {
        let zone = offering.label(ZONE)?.clone();
        Some(Self { type_name: type_name.clone(), zone, capacity_type: offering.capacity_type()? })
    }
}

impl fmt::Display for OfferingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} in {}", self.capacity_type.as_str(), self.type_name, self.zone)
    }
}
