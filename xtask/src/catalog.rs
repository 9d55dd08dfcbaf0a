//! `cargo xtask catalog`: what EC2 sells, gathered from packages of the public registries into one text file.
//!
//! This file only joins the parts: `fetch` runs the package managers, `types`, `zones`, `tables` and `prices` read what they
//! bring, `write` prints. Everything but `fetch` is a plain function from text to values. Decision 0017.

mod dollars;
mod fetch;
mod prices;
mod tables;
mod types;
mod write;
mod zones;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, ensure};

use dollars::Dollars;
use fetch::Packages;
use tables::Tables;
use types::Shape;
use zones::Zone;

const FILE: &str = "crates/provider/data/ec2.txt";
/// The region whose on-demand prices have a newer source than all others.
const HOME: &str = "us-east-1";

/// What to do with the generated text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Write,
    /// Compare it with the committed file and change nothing.
    Check,
}

/// Needs the package registries, so no other target runs it.
pub fn run(root: &Path, mode: Mode) -> anyhow::Result<ExitCode> {
    let text = write::text(&gather(&fetch::fetch()?)?);
    let path = root.join(FILE);
    let mut out = std::io::stdout().lock();
    match mode {
        Mode::Write => {
            std::fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
            writeln!(out, "catalog: wrote {FILE}, {} bytes", text.len()).context("writing the report")?;
            Ok(ExitCode::SUCCESS)
        }
        Mode::Check => {
            let present = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            let difference = first_difference(&present, &text);
            match difference {
                None => writeln!(out, "catalog: {FILE} is what the packages say"),
                Some(line) => {
                    writeln!(out, "{FILE}:{line}: differs from what the packages say: run cargo xtask catalog")
                }
            }
            .context("writing the report")?;
            Ok(if difference.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

/// Everything that the file says.
struct Catalog {
    sources: Vec<Source>,
    /// Texts that the licences ask us to carry along.
    notices: Vec<String>,
    types: BTreeMap<String, Shape>,
    regions: BTreeMap<String, Region>,
}

/// A package that facts were taken from.
struct Source {
    package: &'static str,
    version: &'static str,
    licence: &'static str,
    /// The day it was published.
    date: String,
    gives: String,
}

#[derive(Default)]
struct Region {
    zones: Vec<Zone>,
    rows: BTreeMap<String, Row>,
}

/// One type in one region. A price that no source names stays `None`.
struct Row {
    /// The letters of the zones that have it.
    zones: String,
    on_demand: Option<Dollars>,
    /// The source's average over zones.
    spot: Option<Dollars>,
}

fn gather(packages: &Packages) -> anyhow::Result<Catalog> {
    let tables = Tables::read(&packages.tables)?;
    let types = types::read(&packages.instance_types, &tables)?;
    let prices = prices::read(&packages.instances)?;
    let mut regions = BTreeMap::new();
    for (name, offerings) in &packages.offerings {
        let mut region = zones::read(name, offerings)?;
        region.rows.retain(|type_name, _| types.contains_key(type_name));
        for (type_name, row) in &mut region.rows {
            let linux = prices.get(type_name).and_then(|by_region| by_region.get(name));
            row.spot = linux.and_then(|linux| linux.spot.clone());
            row.on_demand = match name.as_str() {
                HOME => tables.on_demand.get(type_name).cloned(),
                _ => linux.and_then(|linux| linux.on_demand.clone()),
            };
        }
        // A region without a single price would have nothing for sale.
        if region.rows.values().any(|row| row.on_demand.is_some() || row.spot.is_some()) {
            regions.insert(name.clone(), region);
        }
    }
    ensure!(regions.contains_key(HOME), "the packages know nothing about {HOME}");
    Ok(Catalog { sources: packages.sources(&tables), notices: packages.notices.clone(), types, regions })
}

/// The first line, counted from one, in which two texts differ.
fn first_difference(left: &str, right: &str) -> Option<usize> {
    if left == right {
        return None;
    }
    let same = left.lines().zip(right.lines()).take_while(|(left, right)| left == right).count();
    Some(same + 1)
}

#[cfg(test)]
mod tests;
