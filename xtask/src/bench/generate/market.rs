//! Everything that EC2 sells in us-east-1, from the provider's catalogue.

use anyhow::Context;
use model::instance::{CapacityType, InstanceType, Offering};
use model::labels::{CAPACITY_TYPE, ZONE};
use model::requirements::{Operator, Requirement};
use model::resources::{Resource, Resources};
use serde_json::json;

use super::draft::Draft;
use crate::bench::file::{OfferingEntry, RequirementEntry, TypeEntry};

const REGION: &str = "us-east-1";

/// Which ways of buying the pool allows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sold {
    Everything,
    OnDemand,
    /// What the pool of `scenarios/openb.yaml` allows.
    ToOpenb,
    /// What many a pool says: on demand, the three common categories from the sixth generation on, none larger than this.
    Common {
        cores_max: u32,
    },
}

pub(super) fn draft(name: &str, sold: Sold) -> anyhow::Result<Draft> {
    let types = provider::ec2::catalog().types(REGION).context("reading the EC2 catalogue")?;
    // What nobody can buy is left out: its labels would have to allow no zone at all.
    let entries = types.iter().filter(|kind| kind.offerings.iter().any(|offering| offering.is_available));
    let requirements = match sold {
        Sold::Everything => json!([{"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand", "spot"]}]),
        Sold::OnDemand => json!([{"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]),
        Sold::ToOpenb => json!([
            {"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        ]),
        Sold::Common { cores_max } => json!([
            {"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
            {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
            {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["5"]},
            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": [(cores_max + 1).to_string()]},
        ]),
    };
    let labels = provider::ec2::WELL_KNOWN.into_iter().filter(|key| is_written(key)).map(str::to_owned);
    Ok(Draft::new(name, entries.map(|kind| type_entry(kind)).collect(), requirements).with_labels(labels))
}

/// The file's offerings have no label beside zone and capacity type, so the zone's other name would stay open for ever.
fn is_written(key: &str) -> bool {
    key != provider::ec2::ZONE_ID
}

fn type_entry(kind: &InstanceType) -> TypeEntry {
    let sold: Vec<&Offering> = kind.offerings.iter().filter(|offering| offering.is_available).collect();
    let keys = kind.requirements.iter().filter(|(key, _)| is_written(key));
    let requirements = keys.map(|(key, requirement)| match &**key {
        // Zones and ways to buy are those that are really there.
        ZONE => of_offerings(key, &sold),
        CAPACITY_TYPE => of_offerings(key, &sold),
        key => entry(key, requirement),
    });
    TypeEntry {
        name: kind.name.to_string(),
        requirements: requirements.collect(),
        capacity: amounts(&kind.capacity),
        overhead: amounts(&kind.overhead),
        offerings: sold.iter().map(|offering| offering_entry(offering)).collect(),
    }
}

fn of_offerings(key: &str, offerings: &[&Offering]) -> RequirementEntry {
    let values: std::collections::BTreeSet<String> =
        offerings.iter().filter_map(|offering| Some(offering.label(key)?.to_string())).collect();
    super::series::requirement(key, Some(values.into_iter().collect()))
}

fn entry(key: &str, requirement: &Requirement) -> RequirementEntry {
    let listed = requirement.listed().map(|values| values.iter().map(|value| value.to_string()).collect::<Vec<_>>());
    match requirement.operator() {
        Operator::In => super::series::requirement(key, listed),
        _ => super::series::requirement(key, None),
    }
}

fn offering_entry(offering: &Offering) -> OfferingEntry {
    let zone = offering.label(ZONE).map(|zone| zone.to_string()).unwrap_or_default();
    let capacity_type = offering.capacity_type().map_or("", CapacityType::as_str);
    OfferingEntry {
        zone,
        capacity_type: capacity_type.to_owned(),
        price: decimal(i128::from(offering.price.pico())),
        available: offering.is_available,
        reservation_id: String::new(),
        reservation_capacity: None,
    }
}

fn amounts(resources: &Resources) -> api::ResourceList {
    let quantity = |resource: &Resource, amount: i64| match resource {
        Resource::Cpu => api::Quantity::from_milli(amount),
        Resource::Memory | Resource::Disk => api::Quantity::from_bytes(amount),
        Resource::Pods | Resource::Extended(_) => api::Quantity::from_units(amount),
    };
    resources.amounts().map(|(resource, amount)| (resource.name().to_owned(), quantity(&resource, amount))).collect()
}

/// Pico-dollars as a decimal without needless zeros.
pub(super) fn decimal(pico: i128) -> String {
    const PLACES: i128 = 1_000_000_000_000;
    let text = format!("{}.{:012}", pico / PLACES, pico % PLACES);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
