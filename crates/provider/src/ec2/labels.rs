//! What the labels of a type's nodes can be.

use std::sync::Arc;

use model::instance::CapacityType;
use model::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, REGION, WINDOWS_BUILD, ZONE};
use model::requirements::{Operator, Requirement, Requirements};

use super::Zone;
use super::keys::{
    ACCELERATOR_COUNT, ACCELERATOR_MAKER, ACCELERATOR_NAME, CATEGORY, CPU, CPU_CLOCK, CPU_MAKER, EBS_BANDWIDTH,
    ENCRYPTION, FAMILY, FLEX, GENERATION, GPU_COUNT, GPU_MAKER, GPU_MEMORY, GPU_NAME, HYPERVISOR, LOCAL_NVME, MEMORY,
    NETWORK_BANDWIDTH, NITRO_SANDBOX, PLACEMENT_GROUP, PLACEMENT_PARTITION, RESERVATION_ID, RESERVATION_INTERRUPTIBLE,
    RESERVATION_TYPE, SIZE, TENANCY, ZONE_ID,
};
use super::read::Shape;

/// Where and how a type is sold.
pub(super) struct Place<'a> {
    pub(super) region: &'a str,
    pub(super) zones: Vec<&'a Zone>,
    pub(super) sold: Vec<CapacityType>,
}

pub(super) fn requirements(name: &str, shape: &Shape<'_>, place: &Place<'_>) -> Requirements {
    let name = Name::of(name);
    let zone_ids: Vec<&str> = place.zones.iter().filter_map(|zone| zone.id.as_deref()).collect();
    let gpu = shape.gpu.as_ref();
    let accelerator = shape.accelerator.as_ref();
    let entries = [
        (INSTANCE_TYPE, is(name.whole)),
        (ARCH, is(shape.arch)),
        (OS, is("linux")),
        (WINDOWS_BUILD, Requirement::does_not_exist()),
        (REGION, is(place.region)),
        (ZONE, one_of(place.zones.iter().map(|zone| &*zone.name))),
        (ZONE_ID, if zone_ids.is_empty() { Requirement::does_not_exist() } else { one_of(zone_ids) }),
        (CAPACITY_TYPE, one_of(place.sold.iter().map(|capacity_type| capacity_type.as_str()))),
        (CATEGORY, is(name.category)),
        (FAMILY, is(name.family)),
        (GENERATION, maybe(name.generation)),
        (SIZE, is(name.size)),
        (FLEX, is_true(name.family.contains("-flex"))),
        (CPU, number(Some(shape.cpus))),
        (CPU_MAKER, is(shape.maker)),
        (CPU_CLOCK, number(shape.clock_mhz)),
        (MEMORY, number(Some(shape.memory_mib))),
        (EBS_BANDWIDTH, number(shape.ebs_mbps)),
        (NETWORK_BANDWIDTH, number(shape.network_mbps)),
        (LOCAL_NVME, number(shape.nvme_gb)),
        (GPU_NAME, maybe(gpu.map(|gpu| gpu.name))),
        (GPU_MAKER, maybe(gpu.map(|gpu| gpu.maker))),
        (GPU_COUNT, number(gpu.map(|gpu| gpu.count))),
        (GPU_MEMORY, number(gpu.map(|gpu| gpu.memory_mib))),
        (ACCELERATOR_NAME, maybe(accelerator.map(|accelerator| accelerator.name))),
        (ACCELERATOR_MAKER, maybe(accelerator.map(|accelerator| accelerator.maker))),
        (ACCELERATOR_COUNT, number(accelerator.map(|accelerator| accelerator.count))),
        // Bare metal has the label, with nothing in it.
        (HYPERVISOR, is(shape.hypervisor.unwrap_or_default())),
        (ENCRYPTION, is_true(shape.encrypts_in_transit)),
        (NITRO_SANDBOX, is_true(shape.has_enclaves)),
        (TENANCY, one_of(["default", "dedicated"])),
        (RESERVATION_ID, Requirement::does_not_exist()),
        (RESERVATION_TYPE, Requirement::does_not_exist()),
        (RESERVATION_INTERRUPTIBLE, Requirement::does_not_exist()),
        (PLACEMENT_GROUP, Requirement::does_not_exist()),
        (PLACEMENT_PARTITION, Requirement::does_not_exist()),
    ];
    entries.into_iter().map(|(key, requirement)| (Arc::from(key), requirement)).collect()
}

fn is(value: &str) -> Requirement {
    Requirement::value(value.into())
}

fn is_true(flag: bool) -> Requirement {
    is(if flag { "true" } else { "false" })
}

fn maybe(value: Option<&str>) -> Requirement {
    value.map_or_else(Requirement::does_not_exist, is)
}

fn number(value: Option<i64>) -> Requirement {
    maybe(value.map(|value| value.to_string()).as_deref())
}

fn one_of<'a>(values: impl IntoIterator<Item = &'a str>) -> Requirement {
    Requirement::new(Operator::In, values)
}

/// What a type's name says: `m5.large`, `c7i-flex.xlarge`, `u-6tb1.112xlarge`.
#[derive(Debug, PartialEq, Eq)]
struct Name<'a> {
    whole: &'a str,
    family: &'a str,
    size: &'a str,
    category: &'a str,
    generation: Option<&'a str>,
}

impl<'a> Name<'a> {
    fn of(whole: &'a str) -> Self {
        let (family, size) = whole.split_once('.').unwrap_or((whole, ""));
        let (category, rest) = split_while(family, |letter| letter.is_ascii_lowercase());
        // In `u-6tb1` the first number is the memory and the second one the generation.
        let rest = rest.strip_prefix('-').and_then(|rest| Some(rest.split_once("tb")?.1)).unwrap_or(rest);
        let (generation, _) = split_while(rest, |letter| letter.is_ascii_digit());
        let generation = Some(generation).filter(|generation| !generation.is_empty());
        Self { whole, family, size, category, generation }
    }
}

fn split_while(text: &str, is_part: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|letter| !is_part(letter)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_category_generation_family_and_size() {
        let check = |whole: &str, category: &str, generation: &str, family: &str, size: &str| {
            let generation = Some(generation).filter(|generation| !generation.is_empty());
            assert_eq!(Name::of(whole), Name { whole, family, size, category, generation });
        };
        check("m5.large", "m", "5", "m5", "large");
        check("c7i-flex.xlarge", "c", "7", "c7i-flex", "xlarge");
        check("u-6tb1.112xlarge", "u", "1", "u-6tb1", "112xlarge");
        check("u7in-24tb.224xlarge", "u", "7", "u7in-24tb", "224xlarge");
        check("p6-b200.48xlarge", "p", "6", "p6-b200", "48xlarge");
        check("trn1n.32xlarge", "trn", "1", "trn1n", "32xlarge");
        check("hpc7g.4xlarge", "hpc", "7", "hpc7g", "4xlarge");
        check("odd", "odd", "", "odd", "");
    }
}
