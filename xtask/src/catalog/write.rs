//! The text of the file. Equal catalogues give equal bytes.

use std::fmt::{Display, Write};

use super::types::{Accelerator, Gpu, Shape};
use super::{Catalog, Region, Row};

const ABOUT: &str = "\
# What EC2 sells, as far as public packages tell. Written by `cargo xtask catalog`; not edited by hand.
#
# A hyphen stands for what is missing or does not apply. A price that is missing is unknown, not zero: nobody may buy that way.
# Prices are dollars per hour for Linux in shared tenancy. Spot prices are one average per type and region; whoever reads this file
# spreads them over the zones, by at most a tenth, with a hash of type and zone.
";

const ABOUT_TYPES: &str = "\
# sold: o on demand, s spot. interfaces: of the default network card. volumes: EBS attachments, the root volume included.
# traits: t encrypts in transit, e has enclaves. gpu: maker/name/count/MiB each. accelerator: maker/name/count/Neuron cores each.
# type arch cpus memory-MiB maker clock-MHz hypervisor sold interfaces addresses-each branches efa network-Mbps ebs-Mbps volumes \
nvme-GB traits gpu accelerator
";

const ABOUT_REGIONS: &str = "\
# Each region: its zones as letter=id, as one account sees them, then
# type zones on-demand spot
";

pub(super) fn text(catalog: &Catalog) -> String {
    let mut text = ABOUT.to_owned();
    line(&mut text, "#\n# source package version licence published what it gives");
    for source in &catalog.sources {
        let (package, version) = (source.package, source.version);
        let (licence, date, gives) = (source.licence, &source.date, &source.gives);
        line(&mut text, format_args!("source {package} {version} {licence} {date} {gives}"));
    }
    for notice in &catalog.notices {
        line(&mut text, "#");
        notice.lines().for_each(|words| line(&mut text, format!("# {words}").trim_end()));
    }
    line(&mut text, "\n[types]");
    text.push_str(ABOUT_TYPES);
    for (name, shape) in &catalog.types {
        line(&mut text, format_args!("{name} {}", shape_columns(shape).join(" ")));
    }
    text.push('\n');
    text.push_str(ABOUT_REGIONS);
    for (name, region) in &catalog.regions {
        write_region(&mut text, name, region);
    }
    text
}

fn write_region(text: &mut String, name: &str, region: &Region) {
    line(text, format_args!("[region {name}]"));
    let zones = region.zones.iter().map(|zone| format!("{}={}", zone.letter, or_missing(zone.id.as_ref())));
    line(text, format_args!("zones {}", zones.collect::<Vec<_>>().join(" ")));
    for (name, Row { zones, on_demand, spot }) in &region.rows {
        let price = |price: &Option<super::Dollars>| or_missing(price.as_ref().map(super::Dollars::as_str));
        line(text, format_args!("{name} {zones} {} {}", price(on_demand), price(spot)));
    }
}

fn shape_columns(shape: &Shape) -> Vec<String> {
    let letters = |flags: [(bool, &str); 2]| -> String {
        let letters: String = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter).collect();
        if letters.is_empty() { "-".to_owned() } else { letters }
    };
    vec![
        shape.arch.to_owned(),
        shape.cpus.to_string(),
        shape.memory_mib.to_string(),
        shape.maker.clone(),
        or_missing(shape.clock_mhz),
        or_missing(shape.hypervisor.as_ref()),
        letters([(shape.has_on_demand, "o"), (shape.has_spot, "s")]),
        shape.interfaces.to_string(),
        shape.addresses_per_interface.to_string(),
        or_missing(shape.branch_interfaces),
        shape.efa_interfaces.to_string(),
        or_missing(shape.network_mbps),
        or_missing(shape.ebs_mbps),
        or_missing(shape.volumes),
        or_missing(shape.nvme_gb),
        letters([(shape.encrypts_in_transit, "t"), (shape.has_enclaves, "e")]),
        or_missing(
            shape
                .gpu
                .as_ref()
                .map(|Gpu { maker, name, count, memory_mib }| format!("{maker}/{name}/{count}/{memory_mib}")),
        ),
        or_missing(
            shape.accelerator.as_ref().map(|Accelerator { maker, name, count, cores }| {
                format!("{maker}/{name}/{count}/{}", or_missing(*cores))
            }),
        ),
    ]
}

fn or_missing(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn line(text: &mut String, words: impl Display) {
    writeln!(text, "{words}").expect("writing to a string cannot fail");
}
