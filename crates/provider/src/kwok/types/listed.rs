//! A list of instance types that a user wrote, in the reference's JSON.

use std::collections::BTreeSet;

use api::labels::normalized;
use api::{Quantity, ResourceList};
use model::labels::{CAPACITY_TYPE, ZONE};
use model::price::Price;
use model::requirements::{Operator, Requirement, Requirements};
use serde::Deserialize;

use super::{Item, Offer};

/// As many pods as a kubelet takes when nobody says otherwise.
const DEFAULT_PODS: i64 = 110;

/// Why a list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TypesError {
    #[error("the list of instance types is not the JSON that was expected: an array of types with offerings")]
    Json(#[source] serde_json::Error),
    #[error("the list of instance types is empty; name at least one")]
    Empty,
    #[error("instance type {name:?}, number {number} of the list: {problem}")]
    Type { name: String, number: usize, problem: String },
}

// Go reads names of any case, so lists in the wild have both.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireType {
    #[serde(default, alias = "Name")]
    name: String,
    #[serde(default, alias = "Architecture")]
    architecture: String,
    #[serde(default, alias = "OperatingSystems")]
    operating_systems: Vec<String>,
    #[serde(default, alias = "Resources")]
    resources: ResourceList,
    #[serde(default, alias = "Offerings")]
    offerings: Vec<WireOffering>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WireOffering {
    #[serde(default, alias = "price")]
    price: f64,
    #[serde(default, alias = "reservationCapacity")]
    reservation_capacity: Option<u32>,
    #[serde(default, alias = "requirements")]
    requirements: Vec<WireRequirement>,
    /// Older lists name the zone and the capacity type directly.
    #[serde(default, alias = "zone")]
    zone: Option<String>,
    #[serde(default, alias = "capacityType")]
    capacity_type: Option<String>,
}

#[derive(Deserialize)]
struct WireRequirement {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

pub(super) fn read(text: &str) -> Result<Vec<Item>, TypesError> {
    let wire: Vec<WireType> = serde_json::from_str(text).map_err(TypesError::Json)?;
    if wire.is_empty() {
        return Err(TypesError::Empty);
    }
    let mut names = BTreeSet::new();
    let mut items = Vec::with_capacity(wire.len());
    for (index, wire) in wire.into_iter().enumerate() {
        let name = wire.name.clone();
        let problem = |problem: String| TypesError::Type { name: name.clone(), number: index + 1, problem };
        if !names.insert(wire.name.clone()) {
            return Err(problem("is in the list already; names are used once".to_owned()));
        }
        items.push(item(wire).map_err(problem)?);
    }
    Ok(items)
}

fn item(wire: WireType) -> Result<Item, String> {
    if wire.name.is_empty() || wire.architecture.is_empty() || wire.operating_systems.is_empty() {
        return Err("needs a name, an architecture and operatingSystems".to_owned());
    }
    if let Some(missing) = ["cpu", "memory"].into_iter().find(|resource| !wire.resources.contains_key(*resource)) {
        return Err(format!("resources lack {missing}"));
    }
    let mut resources = wire.resources;
    resources.entry("pods".to_owned()).or_insert_with(|| Quantity::from_units(DEFAULT_PODS));
    let offerings: Result<Vec<Offer>, String> = wire.offerings.into_iter().map(offer).collect();
    Ok(Item {
        name: wire.name,
        arch: wire.architecture,
        systems: wire.operating_systems,
        resources,
        offerings: offerings?,
    })
}

fn offer(wire: WireOffering) -> Result<Offer, String> {
    let mut requirements = Requirements::default();
    for named in [(ZONE, &wire.zone), (CAPACITY_TYPE, &wire.capacity_type)] {
        if let (key, Some(value)) = named {
            requirements.add(key, Requirement::value(value.as_str().into()));
        }
    }
    for wire in &wire.requirements {
        let operator = Operator::parse(&wire.operator)
            .ok_or_else(|| format!("an offering's requirement on {} has no operator {:?}", wire.key, wire.operator))?;
        let values = wire.values.iter().map(String::as_str);
        requirements.add(normalized(&wire.key), Requirement::new(operator, values));
    }
    for key in [ZONE, CAPACITY_TYPE] {
        let values = requirements.get(key).and_then(Requirement::listed).map_or(0, BTreeSet::len);
        if values != 1 {
            return Err(format!("an offering must require {key} In one value"));
        }
    }
    let price = Price::from_dollars(wire.price).map_err(|error| error.to_string())?;
    Ok(Offer { requirements, price, reserved: wire.reservation_capacity })
}
