//! Tables that the reference's AWS provider carries as Go source: prices of one region, branch interfaces, bandwidths.
//!
//! They are generated and very regular, so lines are enough; a table that comes out empty has changed its shape, and that
//! is an error.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};

use super::HOME;
use super::dollars::Dollars;

/// The three files, as text.
pub(super) struct GoFiles {
    pub(super) pricing: String,
    pub(super) limits: String,
    pub(super) bandwidth: String,
}

pub(super) struct Tables {
    pub(super) on_demand: BTreeMap<String, Dollars>,
    /// Zero for a type that cannot have branch interfaces.
    pub(super) branch_interfaces: BTreeMap<String, u32>,
    pub(super) bandwidth_mbps: BTreeMap<String, u64>,
    /// The days on which the tables say they were made.
    pub(super) priced_on: String,
    pub(super) limited_on: String,
}

impl Tables {
    pub(super) fn read(files: &GoFiles) -> anyhow::Result<Self> {
        let tables = Self {
            on_demand: on_demand(&files.pricing),
            branch_interfaces: branch_interfaces(&files.limits),
            bandwidth_mbps: bandwidth(&files.bandwidth),
            priced_on: made_on(&files.pricing).context("the table of prices has no date")?,
            limited_on: made_on(&files.limits).context("the table of interfaces has no date")?,
        };
        ensure!(!tables.on_demand.is_empty(), "found no prices in the table for {HOME}");
        ensure!(!tables.branch_interfaces.is_empty(), "found no types in the table of interfaces");
        ensure!(!tables.bandwidth_mbps.is_empty(), "found no types in the table of bandwidths");
        Ok(tables)
    }
}

/// Several `"type": price,` on a line, inside the block of the region.
fn on_demand(text: &str) -> BTreeMap<String, Dollars> {
    let opening = format!("\"{HOME}\": {{");
    let block = text.lines().skip_while(|line| line.trim() != opening).skip(1).take_while(|line| line.trim() != "},");
    let entries = block.flat_map(|line| line.split(',')).filter_map(entry);
    entries.filter_map(|(name, price)| Some((name.to_owned(), Dollars::parse(price)?))).collect()
}

fn bandwidth(text: &str) -> BTreeMap<String, u64> {
    let entries = text.lines().filter_map(|line| entry(line.trim_end().trim_end_matches(',')));
    entries.filter_map(|(name, number)| Some((name.to_owned(), number.parse().ok()?))).collect()
}

/// `"name": value`, and nothing for comments.
fn entry(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.trim().strip_prefix('"')?.split_once("\":")?;
    Some((name, value.trim()))
}

/// A block per type, with one field per line.
fn branch_interfaces(text: &str) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    let mut current: Option<&str> = None;
    let mut is_trunking = false;
    for line in text.lines().map(str::trim) {
        if let Some((name, "{")) = entry(line) {
            current = Some(name);
            is_trunking = false;
        } else if let (Some(name), Some((field, value))) = (current, line.trim_end_matches(',').split_once(':')) {
            match field {
                "IsTrunkingCompatible" => is_trunking = value.trim() == "true",
                "BranchInterface" => {
                    let count = value.trim().parse().unwrap_or(0);
                    found.insert(name.to_owned(), if is_trunking { count } else { 0 });
                }
                _ => {}
            }
        }
    }
    found
}

/// The day after the words "generated at".
fn made_on(text: &str) -> Option<String> {
    let (_, after) = text.split_once("generated at ")?;
    let day = after.get(..10)?;
    let is_day = day.bytes().enumerate().all(|(place, letter)| match place {
        4 | 7 => letter == b'-',
        _ => letter.is_ascii_digit(),
    });
    is_day.then(|| day.to_owned())
}
