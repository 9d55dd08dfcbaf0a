//! Linux prices by type and region, as `ec2-instances-info` lists them.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Deserialize;

use super::dollars::Dollars;

/// What one type costs in one region.
pub(super) struct Linux {
    pub(super) on_demand: Option<Dollars>,
    pub(super) spot: Option<Dollars>,
}

/// By type, then by region.
pub(super) type Prices = BTreeMap<String, BTreeMap<String, Linux>>;

#[derive(Deserialize)]
struct Listed {
    instance_type: String,
    pricing: BTreeMap<String, Systems>,
}

#[derive(Deserialize)]
struct Systems {
    linux: Option<Listing>,
}

#[derive(Deserialize)]
struct Listing {
    ondemand: Option<String>,
    spot_avg: Option<String>,
}

pub(super) fn read(json: &str) -> anyhow::Result<Prices> {
    let listed: Vec<Listed> = serde_json::from_str(json).context("reading the list of prices")?;
    let price = |text: Option<String>| text.and_then(|text| Dollars::parse(&text));
    let prices = listed.into_iter().map(|listed| {
        let by_region = listed.pricing.into_iter().filter_map(|(region, systems)| {
            let linux = systems.linux?;
            Some((region, Linux { on_demand: price(linux.ondemand), spot: price(linux.spot_avg) }))
        });
        (listed.instance_type, by_region.collect())
    });
    Ok(prices.collect())
}
