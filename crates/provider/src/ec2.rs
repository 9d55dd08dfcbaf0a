//! What EC2 sells, without asking EC2: the file `data/ec2.txt`, which `cargo xtask catalog` gathers from public packages.
//!
//! It serves simulations, tests and plans. Types come as a fresh node class would see them: Linux on AL2023, kubelet defaults,
//! no reservations, no placement group. Decision 0017.

mod amounts;
mod keys;
mod labels;
mod offers;
mod read;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use model::ids::TypeName;
use model::instance::{CapacityType, InstanceType};
use model::price::Price;
use model::volume::AttachLimits;

pub(crate) use keys::{
    ACCELERATOR_COUNT, GPU_COUNT, RESERVATION_ID, RESERVATION_INTERRUPTIBLE, RESERVATION_TYPE, TENANCY,
};
pub use keys::{WELL_KNOWN, ZONE_ID};
use read::Shape;

const TEXT: &str = include_str!("../data/ec2.txt");

/// The driver that counts EBS volumes.
const EBS_DRIVER: &str = "ebs.csi.aws.com";

/// The built-in catalogue, read when it is first asked for.
pub fn catalog() -> &'static Catalog<'static> {
    static CATALOG: LazyLock<Catalog<'static>> =
        LazyLock::new(|| Catalog::read(TEXT).expect("the file is generated, and a test reads all of it"));
    &CATALOG
}

/// A file of EC2 facts, read.
#[derive(Debug)]
pub struct Catalog<'a> {
    sources: Vec<Source<'a>>,
    shapes: BTreeMap<&'a str, Shape<'a>>,
    regions: BTreeMap<&'a str, Region<'a>>,
}

/// A package that facts were taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    pub package: &'a str,
    pub version: &'a str,
    pub licence: &'a str,
    /// The day it was published, as year, month and day.
    pub published: &'a str,
    pub gives: &'a str,
}

/// A zone of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    pub name: Arc<str>,
    /// Which id belongs to which name differs between accounts; this is one account's view.
    pub id: Option<Arc<str>>,
}

/// A way to buy a type that EC2 has, and for which no source names a price. There is no offering for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPrice {
    pub type_name: TypeName,
    pub capacity_type: CapacityType,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    #[error("EC2 region {wanted:?} is not in the catalogue; it knows {known}")]
    UnknownRegion { wanted: String, known: String },
    #[error("line {line} of the EC2 catalogue: {problem}")]
    Malformed { line: usize, problem: String },
}

#[derive(Debug, Default)]
struct Region<'a> {
    /// By the letter that stands after the region's name.
    zones: BTreeMap<char, Zone>,
    /// In the order of type names.
    rows: Vec<Row<'a>>,
}

/// One type in one region.
#[derive(Debug)]
struct Row<'a> {
    name: &'a str,
    zones: &'a str,
    on_demand: Option<Price>,
    /// An average over the region's zones.
    spot: Option<Price>,
}

impl<'a> Catalog<'a> {
    /// Where the facts come from, and under which licences.
    pub fn sources(&self) -> &[Source<'a>] {
        &self.sources
    }

    /// The regions that have prices, in order.
    pub fn regions(&self) -> impl Iterator<Item = &'a str> {
        self.regions.keys().copied()
    }

    pub fn zones(&self, region: &str) -> Result<impl Iterator<Item = &Zone>, CatalogError> {
        Ok(self.region(region)?.zones.values())
    }

    /// Every type that some zone of the region has, by name. One that cannot be bought for want of a price is listed without
    /// offerings, and its capacity type label allows no value.
    pub fn types(&self, region: &str) -> Result<Vec<Arc<InstanceType>>, CatalogError> {
        let found = self.region(region)?;
        let seller = offers::Seller::new(&found.zones);
        let rows = found.rows.iter().filter_map(|row| Some((row, self.shapes.get(row.name)?)));
        Ok(rows.map(|(row, shape)| Arc::new(instance_type(region, &seller, row, shape))).collect())
    }

    /// What the region's types lack prices for.
    pub fn missing_prices(&self, region: &str) -> Result<Vec<MissingPrice>, CatalogError> {
        let rows = self.region(region)?.rows.iter().filter_map(|row| Some((row, self.shapes.get(row.name)?)));
        let missing = rows.flat_map(|(row, shape)| {
            let unpriced = offers::ways(row, shape).filter(|(_, price)| price.is_none());
            unpriced.map(|(capacity_type, _)| MissingPrice { type_name: row.name.into(), capacity_type })
        });
        Ok(missing.collect())
    }

    fn region(&self, wanted: &str) -> Result<&Region<'a>, CatalogError> {
        self.regions.get(wanted).ok_or_else(|| CatalogError::UnknownRegion {
            wanted: wanted.to_owned(),
            known: self.regions().collect::<Vec<_>>().join(", "),
        })
    }
}

fn instance_type(region: &str, seller: &offers::Seller<'_>, row: &Row<'_>, shape: &Shape<'_>) -> InstanceType {
    let place = labels::Place { region, zones: seller.zones_of(row), sold: seller.sold(row, shape) };
    InstanceType {
        name: row.name.into(),
        requirements: labels::requirements(row.name, shape, &place),
        capacity: amounts::capacity(shape),
        overhead: amounts::overhead(shape),
        offerings: seller.offerings(row, shape),
        attach_limits: attach_limits(shape),
        has_capacity_overlay: false,
    }
}

/// The root volume takes one place. Some types also count network interfaces, which nobody knows beforehand, so this is the most
/// that a node can hold and perhaps more than it will.
fn attach_limits(shape: &Shape<'_>) -> AttachLimits {
    shape.volumes.map(|volumes| (EBS_DRIVER.into(), volumes.saturating_sub(1))).into_iter().collect()
}
