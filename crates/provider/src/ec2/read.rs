//! From the text of the file to values. The file says in its own comments what its columns are.

use std::collections::BTreeMap;
use std::str::{FromStr, SplitAsciiWhitespace};

use model::price::Price;

use super::{Catalog, CatalogError, Row, Source, Zone};

/// What the file says about one type, wherever it is sold.
#[derive(Debug)]
pub(super) struct Shape<'a> {
    pub(super) arch: &'a str,
    pub(super) cpus: i64,
    pub(super) memory_mib: i64,
    pub(super) maker: &'a str,
    pub(super) clock_mhz: Option<i64>,
    /// `None` for bare metal.
    pub(super) hypervisor: Option<&'a str>,
    pub(super) has_on_demand: bool,
    pub(super) has_spot: bool,
    pub(super) interfaces: i64,
    pub(super) addresses_per_interface: i64,
    pub(super) branch_interfaces: Option<i64>,
    pub(super) efa_interfaces: i64,
    pub(super) network_mbps: Option<i64>,
    pub(super) ebs_mbps: Option<i64>,
    /// EBS attachments, the root volume included.
    pub(super) volumes: Option<u32>,
    pub(super) nvme_gb: Option<i64>,
    pub(super) encrypts_in_transit: bool,
    pub(super) has_enclaves: bool,
    pub(super) gpu: Option<Gpu<'a>>,
    pub(super) accelerator: Option<Accelerator<'a>>,
}

#[derive(Debug)]
pub(super) struct Gpu<'a> {
    pub(super) maker: &'a str,
    pub(super) name: &'a str,
    pub(super) count: i64,
    /// Of each one.
    pub(super) memory_mib: i64,
}

#[derive(Debug)]
pub(super) struct Accelerator<'a> {
    pub(super) maker: &'a str,
    pub(super) name: &'a str,
    pub(super) count: i64,
    /// Neuron cores of each one; `None` when it is no Neuron device.
    pub(super) cores: Option<i64>,
}

/// Which part of the file a line stands in.
enum Part<'a> {
    Header,
    Types,
    Region(&'a str),
}

impl<'a> Catalog<'a> {
    pub fn read(text: &'a str) -> Result<Self, CatalogError> {
        let mut catalog = Self { sources: Vec::new(), shapes: BTreeMap::new(), regions: BTreeMap::new() };
        let mut part = Part::Header;
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut fields = Fields { line: index + 1, rest: line.split_ascii_whitespace() };
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                part = match name.split_once(' ') {
                    None if name == "types" => Part::Types,
                    Some(("region", region)) => Part::Region(region),
                    _ => return Err(fields.wrong(format!("no part of the file is called {name:?}"))),
                };
                continue;
            }
            match part {
                Part::Header => catalog.sources.push(source(&mut fields, line)?),
                Part::Types => {
                    let name = fields.text("type")?;
                    catalog.shapes.insert(name, shape(&mut fields)?);
                }
                Part::Region(name) => catalog.read_region_line(name, &mut fields)?,
            }
        }
        Ok(catalog)
    }

    fn read_region_line(&mut self, region_name: &'a str, fields: &mut Fields<'a>) -> Result<(), CatalogError> {
        let region = self.regions.entry(region_name).or_default();
        let name = fields.text("type")?;
        if name == "zones" {
            region.zones = zones(region_name, fields)?;
            return Ok(());
        }
        let row = row(name, fields)?;
        if !self.shapes.contains_key(name) {
            return Err(fields.wrong(format!("type {name} is sold but not described")));
        }
        if let Some(letter) = row.zones.chars().find(|letter| !region.zones.contains_key(letter)) {
            return Err(fields.wrong(format!("{region_name} has no zone {letter:?}")));
        }
        region.rows.push(row);
        Ok(())
    }
}

fn source<'a>(fields: &mut Fields<'a>, line: &'a str) -> Result<Source<'a>, CatalogError> {
    match fields.text("source")? {
        "source" => {}
        other => {
            return Err(fields.wrong(format!("a line before the first part begins with {other:?}, not \"source\"")));
        }
    }
    let (package, version) = (fields.text("package")?, fields.text("version")?);
    let (licence, published) = (fields.text("licence")?, fields.text("day")?);
    // The rest is prose, so it is taken as it stands.
    let gives =
        line.splitn(6, ' ').nth(5).ok_or_else(|| fields.wrong("it does not say what the source gives".into()))?;
    Ok(Source { package, version, licence, published, gives })
}

fn shape<'a>(fields: &mut Fields<'a>) -> Result<Shape<'a>, CatalogError> {
    let arch = fields.text("architecture")?;
    let (cpus, memory_mib) = (fields.number("cpus")?, fields.number("memory")?);
    let maker = fields.text("maker")?;
    let (clock_mhz, hypervisor) = (fields.maybe_number("clock")?, fields.maybe_text("hypervisor")?);
    let sold = fields.text("ways to buy")?;
    let (interfaces, addresses_per_interface) = (fields.number("interfaces")?, fields.number("addresses")?);
    let (branch_interfaces, efa_interfaces) = (fields.maybe_number("branches")?, fields.number("EFA interfaces")?);
    let (network_mbps, ebs_mbps) = (fields.maybe_number("network bandwidth")?, fields.maybe_number("EBS bandwidth")?);
    let (volumes, nvme_gb) = (fields.maybe_number("volumes")?, fields.maybe_number("local disks")?);
    let traits = fields.text("traits")?;
    let shape = Shape {
        arch,
        cpus,
        memory_mib,
        maker,
        clock_mhz,
        hypervisor,
        has_on_demand: sold.contains('o'),
        has_spot: sold.contains('s'),
        interfaces,
        addresses_per_interface,
        branch_interfaces,
        efa_interfaces,
        network_mbps,
        ebs_mbps,
        volumes,
        nvme_gb,
        encrypts_in_transit: traits.contains('t'),
        has_enclaves: traits.contains('e'),
        gpu: fields
            .device("gpu")?
            .map(|(maker, name, count, memory)| {
                Ok(Gpu { maker, name, count, memory_mib: fields.parsed("memory of each gpu", memory)? })
            })
            .transpose()?,
        accelerator: fields
            .device("accelerator")?
            .map(|(maker, name, count, cores)| {
                let cores =
                    if cores == MISSING { None } else { Some(fields.parsed("cores of each accelerator", cores)?) };
                Ok(Accelerator { maker, name, count, cores })
            })
            .transpose()?,
    };
    fields.end()?;
    Ok(shape)
}

fn zones(region: &str, fields: &mut Fields<'_>) -> Result<BTreeMap<char, Zone>, CatalogError> {
    let mut zones = BTreeMap::new();
    while let Some(field) = fields.rest.next() {
        let (letter, id) = field.split_once('=').ok_or_else(|| fields.wrong(format!("{field:?} is no letter=id")))?;
        let letter: char = fields.parsed("zone letter", letter)?;
        let id = Some(id).filter(|id| *id != MISSING).map(Into::into);
        zones.insert(letter, Zone { name: format!("{region}{letter}").into(), id });
    }
    Ok(zones)
}

fn row<'a>(name: &'a str, fields: &mut Fields<'a>) -> Result<Row<'a>, CatalogError> {
    let zones = fields.text("zones")?;
    let row = Row { name, zones, on_demand: fields.price("on-demand price")?, spot: fields.price("spot price")? };
    fields.end()?;
    Ok(row)
}

/// What stands for a value that is missing or does not apply.
const MISSING: &str = "-";

/// The words of one line, taken one by one.
struct Fields<'a> {
    line: usize,
    rest: SplitAsciiWhitespace<'a>,
}

impl<'a> Fields<'a> {
    fn text(&mut self, what: &str) -> Result<&'a str, CatalogError> {
        self.rest.next().ok_or_else(|| self.wrong(format!("the line ends before the {what}")))
    }

    fn maybe_text(&mut self, what: &str) -> Result<Option<&'a str>, CatalogError> {
        Ok(Some(self.text(what)?).filter(|text| *text != MISSING))
    }

    fn number<T: FromStr>(&mut self, what: &str) -> Result<T, CatalogError> {
        let text = self.text(what)?;
        self.parsed(what, text)
    }

    fn maybe_number<T: FromStr>(&mut self, what: &str) -> Result<Option<T>, CatalogError> {
        self.maybe_text(what)?.map(|text| self.parsed(what, text)).transpose()
    }

    fn price(&mut self, what: &str) -> Result<Option<Price>, CatalogError> {
        let Some(text) = self.maybe_text(what)? else { return Ok(None) };
        let price = dollars(text).ok_or_else(|| self.wrong(format!("{what} {text:?} is no price")))?;
        Ok(Some(price))
    }

    /// `maker/name/count/…`, the last part as text.
    fn device(&mut self, what: &str) -> Result<Option<(&'a str, &'a str, i64, &'a str)>, CatalogError> {
        let Some(text) = self.maybe_text(what)? else { return Ok(None) };
        let mut parts = text.splitn(4, '/');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(maker), Some(name), Some(count), Some(last)) => {
                Ok(Some((maker, name, self.parsed(what, count)?, last)))
            }
            _ => Err(self.wrong(format!("{what} {text:?} has not four parts"))),
        }
    }

    fn parsed<T: FromStr>(&self, what: &str, text: &str) -> Result<T, CatalogError> {
        text.parse().map_err(|_| self.wrong(format!("{what} cannot be {text:?}")))
    }

    fn end(&mut self) -> Result<(), CatalogError> {
        self.rest.next().map_or(Ok(()), |extra| Err(self.wrong(format!("{extra:?} is one word too many"))))
    }

    fn wrong(&self, problem: String) -> CatalogError {
        CatalogError::Malformed { line: self.line, problem }
    }
}

/// Reads decimals exactly, down to the pico-dollar.
fn dollars(text: &str) -> Option<Price> {
    const PICO_DECIMALS: usize = 12;
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |part: &str| part.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || decimals.len() > PICO_DECIMALS || !is_number(whole) || !is_number(decimals) {
        return None;
    }
    let pico: i64 = format!("{whole}{decimals:0<PICO_DECIMALS$}").parse().ok()?;
    (pico > 0).then(|| Price::from_pico(pico))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# About.
source moto 5.2.5 Apache-2.0 2026-10-27 types, zones

[types]
m5.large amd64 2 8192 intel 3100 nitro os 3 10 9 0 750 4750 27 - - - -
x1.metal arm64 4 1024 aws - - o 5 50 - 8 25000 - - 950 te nvidia/l4/2/32768 aws/trainium/16/2
[region us-east-1]
zones a=use1-az1 b=-
m5.large ab 0.096 0.03168
x1.metal b - -
";

    #[test]
    fn every_column_is_read() {
        let catalog = Catalog::read(TEXT).unwrap();
        assert_eq!(
            catalog.sources(),
            [Source {
                package: "moto",
                version: "5.2.5",
                licence: "Apache-2.0",
                published: "2026-10-27",
                gives: "types, zones"
            }]
        );
        let metal = &catalog.shapes["x1.metal"];
        assert_eq!((metal.clock_mhz, metal.hypervisor, metal.branch_interfaces), (None, None, None));
        assert_eq!((metal.has_on_demand, metal.has_spot), (true, false));
        assert_eq!((metal.encrypts_in_transit, metal.has_enclaves), (true, true));
        assert_eq!(
            metal.gpu.as_ref().map(|gpu| (gpu.maker, gpu.name, gpu.count, gpu.memory_mib)),
            Some(("nvidia", "l4", 2, 32768))
        );
        assert_eq!(
            metal.accelerator.as_ref().map(|chip| (chip.name, chip.count, chip.cores)),
            Some(("trainium", 16, Some(2)))
        );
        let region = &catalog.regions["us-east-1"];
        assert_eq!(region.zones[&'b'], Zone { name: "us-east-1b".into(), id: None });
        assert_eq!(region.rows[0].on_demand, Some(Price::from_pico(96_000_000_000)));
        assert_eq!((region.rows[1].on_demand, region.rows[1].spot), (None, None));
    }

    #[test]
    fn prices_are_read_to_the_last_digit() {
        let check = |text: &str, pico: Option<i64>| assert_eq!(dollars(text), pico.map(Price::from_pico), "{text}");
        check("0.096", Some(96_000_000_000));
        check("407.68", Some(407_680_000_000_000));
        check("3", Some(3_000_000_000_000));
        check("0.000000000001", Some(1));
        for bad in ["0", "", ".5", "-1", "1e3", "0.0000000000001", "99999999999"] {
            check(bad, None);
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let check = |old: &str, new: &str, line: usize, problem: &str| {
            let error = Catalog::read(&TEXT.replace(old, new)).unwrap_err().to_string();
            assert!(error.contains(&format!("line {line} of")) && error.contains(problem), "{error}");
        };
        check("source moto", "moto", 2, "not \"source\"");
        check(" types, zones", "", 2, "does not say what");
        check("[types]", "[shapes]", 4, "no part of the file is called \"shapes\"");
        check("amd64 2 ", "amd64 two ", 5, "cpus cannot be \"two\"");
        check(" - - - -\n", " - - -\n", 5, "the line ends before the accelerator");
        check(" - - - -\n", " - - - - -\n", 5, "one word too many");
        check("nvidia/l4/2/32768", "nvidia/l4", 6, "has not four parts");
        check("b=-", "b", 8, "no letter=id");
        check("ab 0.096", "ac 0.096", 9, "has no zone 'c'");
        check("0.096", "free", 9, "on-demand price \"free\" is no price");
        check("x1.metal b", "x2.metal b", 10, "sold but not described");
    }
}
