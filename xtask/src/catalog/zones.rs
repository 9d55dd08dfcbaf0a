//! Which zones of a region have which types, and the zones' ids.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use serde::Deserialize;

use super::{Region, Row};

/// One region's lists of type and place: by the zones' names and by their ids.
pub(super) struct Offerings {
    pub(super) by_name: String,
    pub(super) by_id: String,
}

pub(super) struct Zone {
    /// What stands after the region's name.
    pub(super) letter: char,
    /// `None` when no id has exactly the types of this zone.
    pub(super) id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Offered {
    instance_type: String,
    location: String,
}

/// The region with its rows, which have no prices yet.
pub(super) fn read(region: &str, offerings: &Offerings) -> anyhow::Result<Region> {
    let by_name = types_by_place(&offerings.by_name).with_context(|| format!("reading the zones of {region}"))?;
    let by_id = types_by_place(&offerings.by_id).with_context(|| format!("reading the zone ids of {region}"))?;
    let mut result = Region::default();
    let mut ids = by_id;
    for (zone, types) in &by_name {
        let mut letters = zone.strip_prefix(region).unwrap_or_default().chars();
        let (Some(letter), None) = (letters.next(), letters.next()) else {
            bail!("zone {zone} is not {region} and a letter");
        };
        // Which letter stands for which id differs between accounts. Here it is the pairing of the account that the lists
        // were drawn up with: equal types, equal zone.
        let id = ids.iter().find(|(_, others)| *others == types).map(|(id, _)| id.clone());
        if let Some(id) = &id {
            ids.remove(id);
        }
        result.zones.push(Zone { letter, id });
        for type_name in types {
            let row = result.rows.entry(type_name.clone());
            row.or_insert_with(|| Row { zones: String::new(), on_demand: None, spot: None }).zones.push(letter);
        }
    }
    Ok(result)
}

fn types_by_place(json: &str) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let offered: Vec<Offered> = serde_json::from_str(json)?;
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for offer in offered {
        places.entry(offer.location).or_default().insert(offer.instance_type);
    }
    Ok(places)
}
