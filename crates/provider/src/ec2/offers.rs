//! The ways to buy a type in a region.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::instance::{CapacityType, Offering};
use model::labels::{CAPACITY_TYPE, ZONE};
use model::price::Price;
use model::requirements::{Requirement, Requirements};

use super::keys::ZONE_ID;
use super::read::Shape;
use super::{Row, Zone};

/// How far the spot price of a zone may be from the average, in millionths.
const SPREAD_PER_MILLION: u64 = 100_000;

/// First-generation Arm machines do not boot AL2023, so nobody gets one.
const NO_AL2023: &str = "a1.";

/// A region's zones with the labels of everything that is sold there: many types share them.
pub(super) struct Seller<'a> {
    zones: &'a BTreeMap<char, Zone>,
    labels: BTreeMap<(char, CapacityType), Requirements>,
}

impl<'a> Seller<'a> {
    pub(super) fn new(zones: &'a BTreeMap<char, Zone>) -> Self {
        let mut labels = BTreeMap::new();
        for capacity_type in [CapacityType::Spot, CapacityType::OnDemand] {
            let word: Arc<str> = capacity_type.as_str().into();
            for (letter, zone) in zones {
                let mut requirements = Requirements::default()
                    .with(ZONE, Requirement::value(zone.name.clone()))
                    .with(CAPACITY_TYPE, Requirement::value(word.clone()));
                if let Some(id) = &zone.id {
                    requirements.add(ZONE_ID, Requirement::value(id.clone()));
                }
                labels.insert((*letter, capacity_type), requirements);
            }
        }
        Self { zones, labels }
    }

    pub(super) fn zones_of(&self, row: &Row<'_>) -> Vec<&'a Zone> {
        row.zones.chars().filter_map(|letter| self.zones.get(&letter)).collect()
    }

    /// The ways that have a price.
    pub(super) fn sold(&self, row: &Row<'_>, shape: &Shape<'_>) -> Vec<CapacityType> {
        ways(row, shape).filter(|(_, price)| price.is_some()).map(|(capacity_type, _)| capacity_type).collect()
    }

    /// One offering per zone and way that has a price, spot before on-demand.
    pub(super) fn offerings(&self, row: &Row<'_>, shape: &Shape<'_>) -> Vec<Offering> {
        let priced = ways(row, shape).filter_map(|(capacity_type, price)| Some((capacity_type, price?)));
        let offerings = priced.flat_map(|(capacity_type, price)| {
            row.zones.chars().filter_map(move |letter| {
                let zone = self.zones.get(&letter)?;
                Some(Offering {
                    requirements: self.labels.get(&(letter, capacity_type))?.clone(),
                    price: match capacity_type {
                        CapacityType::Spot => price.scaled(spot_parts_per_million(row.name, &zone.name)),
                        CapacityType::OnDemand | CapacityType::Reserved => price,
                    },
                    is_available: !row.name.starts_with(NO_AL2023),
                    reservation: None,
                    capacity_override: None,
                    overhead_override: None,
                    has_price_overlay: false,
                })
            })
        });
        offerings.collect()
    }
}

/// The ways in which EC2 sells a type, each with its price in the region if that is known.
pub(super) fn ways(row: &Row<'_>, shape: &Shape<'_>) -> impl Iterator<Item = (CapacityType, Option<Price>)> {
    let ways =
        [(shape.has_spot, CapacityType::Spot, row.spot), (shape.has_on_demand, CapacityType::OnDemand, row.on_demand)];
    ways.into_iter().filter(|(is_sold, ..)| *is_sold).map(|(_, capacity_type, price)| (capacity_type, price))
}

/// Sources know one spot price per region, the market has one per zone. A hash stands in for the market: the same on every
/// machine, different for every type and zone, at most a tenth away from the average.
fn spot_parts_per_million(type_name: &str, zone: &str) -> i64 {
    let shift = hash(zone, type_name) % (2 * SPREAD_PER_MILLION + 1);
    1_000_000 - SPREAD_PER_MILLION as i64 + shift as i64
}

/// FNV-1a over both words, with a last stir: without it, names that differ in their last letter stay close.
fn hash(first: &str, second: &str) -> u64 {
    let letters = first.bytes().chain([b'/']).chain(second.bytes());
    let sum = letters
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, letter| (hash ^ u64::from(letter)).wrapping_mul(0x0000_0100_0000_01b3));
    let stirred = (sum ^ (sum >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    stirred ^ (stirred >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spot_prices_spread_over_a_tenth_both_ways_and_never_change() {
        let zones = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"];
        let parts: Vec<i64> = (0..1000)
            .flat_map(|number| zones.map(|zone| spot_parts_per_million(&format!("m{number}.large"), zone)))
            .collect();
        assert!(parts.iter().all(|parts| (900_000..=1_100_000).contains(parts)));
        let tenths: Vec<usize> =
            (0..10).map(|tenth| parts.iter().filter(|parts| (**parts - 900_000) / 20_001 == tenth).count()).collect();
        assert!(tenths.iter().all(|count| (300..500).contains(count)), "{tenths:?}");
        assert_eq!(spot_parts_per_million("m5.large", "us-east-1a"), 930_638);
    }
}
