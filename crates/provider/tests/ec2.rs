//! The shipped catalogue, held against what is known about EC2.

use std::sync::Arc;

use model::instance::{CapacityType, InstanceType};
use model::labels::{CAPACITY_TYPE, NODE_POOL, WellKnown, ZONE};
use model::price::Price;
use model::requirements::Requirement;
use model::resources::{Resource, Resources};
use provider::ec2::{CatalogError, WELL_KNOWN, ZONE_ID, catalog};

const MIB: i64 = 1 << 20;
/// A newer source, an older source, few types: the others are like one of these, and reading all takes seconds unoptimised.
const SOME_REGIONS: [&str; 3] = ["us-east-1", "eu-west-1", "me-south-1"];

fn types(region: &str) -> Vec<Arc<InstanceType>> {
    catalog().types(region).expect("the region is in the catalogue")
}

fn find<'a>(types: &'a [Arc<InstanceType>], name: &str) -> &'a InstanceType {
    let place = types.binary_search_by(|found| found.name.as_str().cmp(name));
    place.map(|place| &*types[place]).unwrap_or_else(|_| panic!("no {name}"))
}

/// The value that every node of the type has for a label of EC2's domain; `None` when the label cannot be there.
fn label(found: &InstanceType, key: &str) -> Option<String> {
    let requirement = found.requirements.get(&format!("karpenter.k8s.aws/{key}")).expect("every type has the label");
    let values = requirement.listed().expect("types list values");
    assert!(values.len() <= 1 && requirement.allows_absent() == values.is_empty(), "{key} of {}", found.name);
    values.iter().next().map(|value| value.to_string())
}

fn prices(found: &InstanceType, capacity_type: CapacityType) -> Vec<Price> {
    let offerings = found.offerings.iter().filter(|offering| offering.capacity_type() == Some(capacity_type));
    offerings.map(|offering| offering.price).collect()
}

#[test]
fn known_types_have_their_cores_memory_pods_and_prices() {
    let types = types("us-east-1");
    let check = |name: &str, cpus: i64, advertised_mib: &str, pods: i64, dollars: f64| {
        let found = find(&types, name);
        assert_eq!(found.capacity.cpu_milli, cpus * 1000, "cpus of {name}");
        assert_eq!(label(found, "instance-memory").as_deref(), Some(advertised_mib), "memory of {name}");
        assert_eq!(found.capacity.pods, pods, "pods of {name}");
        let prices = prices(found, CapacityType::OnDemand);
        assert!(!prices.is_empty(), "{name} is for sale");
        assert!(prices.iter().all(|price| *price == Price::from_dollars(dollars).unwrap()), "{name}: {prices:?}");
    };
    check("t3.small", 2, "2048", 11, 0.0208);
    check("m5.large", 2, "8192", 29, 0.096);
    check("c6g.xlarge", 4, "8192", 58, 0.136);
    check("g5.xlarge", 4, "16384", 58, 1.006);
    check("p3dn.24xlarge", 96, "786432", 737, 31.212);
    check("u-6tb1.56xlarge", 224, "6291456", 737, 46.40391);
    check("inf2.48xlarge", 192, "786432", 737, 12.98127);
}

/// The worked values of our description of the reference, in mebibytes and thousandths of a core.
#[test]
fn what_pods_can_have_is_what_the_reference_computes() {
    let types = types("us-east-1");
    let check = |name: &str, capacity_mib: i64, allocatable_mib: i64, allocatable_milli: i64| {
        let found = find(&types, name);
        assert_eq!(found.capacity.memory_bytes, capacity_mib * MIB, "capacity of {name}");
        let allocatable = found.allocatable();
        assert_eq!(allocatable.memory_bytes, allocatable_mib * MIB, "memory of {name}");
        assert_eq!(allocatable.cpu_milli, allocatable_milli, "cpu of {name}");
        assert_eq!(allocatable.disk_bytes, 17 << 30, "disk of {name}");
    };
    check("t4g.nano", 414, 15, 1930);
    check("t3.micro", 947, 548, 1930);
    check("t3.medium", 3788, 3246, 1930);
    check("m5.large", 7577, 6903, 1930);
    check("m6g.large", 7518, 6844, 1930);
    check("m5.xlarge", 15155, 14162, 3920);
    check("c5.9xlarge", 68198, 65269, 35840);
    check("m5.24xlarge", 363_724, 355_262, 95690);
}

#[test]
fn labels_tell_what_a_machine_is() {
    let types = types("us-east-1");
    let check = |name: &str, expected: &[(&str, Option<&str>)]| {
        for (key, value) in expected {
            assert_eq!(label(find(&types, name), key).as_deref(), *value, "{key} of {name}");
        }
    };
    check(
        "g5.xlarge",
        &[
            ("instance-category", Some("g")),
            ("instance-generation", Some("5")),
            ("instance-family", Some("g5")),
            ("instance-size", Some("xlarge")),
            ("instance-cpu-manufacturer", Some("amd")),
            ("instance-gpu-name", Some("a10g")),
            ("instance-gpu-manufacturer", Some("nvidia")),
            ("instance-gpu-count", Some("1")),
            ("instance-gpu-memory", Some("22888")),
            ("instance-local-nvme", Some("250")),
            ("instance-hypervisor", Some("nitro")),
            ("instance-encryption-in-transit-supported", Some("true")),
            ("instance-network-bandwidth", Some("2500")),
            ("instance-ebs-bandwidth", Some("3500")),
            ("instance-accelerator-name", None),
            ("instance-capability-flex", Some("false")),
            ("capacity-reservation-id", None),
            ("placement-group-id", None),
        ],
    );
    check(
        "m5.metal",
        &[("instance-hypervisor", Some("")), ("instance-gpu-count", None), ("instance-local-nvme", None)],
    );
    check("c7i-flex.large", &[("instance-capability-flex", Some("true")), ("instance-generation", Some("7"))]);
    check("u-6tb1.56xlarge", &[("instance-category", Some("u")), ("instance-generation", Some("1"))]);
    check("m1.small", &[("instance-cpu-sustained-clock-speed-mhz", None)]);
    check("m5.large", &[("instance-cpu-sustained-clock-speed-mhz", Some("3100")), ("nitro-sandbox", Some("false"))]);
    check(
        "inf2.48xlarge",
        &[
            ("instance-accelerator-name", Some("inferentia2")),
            ("instance-accelerator-manufacturer", Some("aws")),
            ("instance-accelerator-count", Some("12")),
        ],
    );
}

#[test]
fn devices_are_resources() {
    let types = types("us-east-1");
    let check = |name: &str, expected: &[(&str, i64)]| {
        let extended = |(axis, _): &(Resource, i64)| matches!(axis, Resource::Extended(_));
        let found: Vec<(Resource, i64)> = find(&types, name).capacity.amounts().filter(extended).collect();
        let expected: Resources = expected.iter().fold(Resources::default(), |sum, (axis, n)| sum.with(axis, *n));
        assert_eq!(found, expected.amounts().collect::<Vec<_>>(), "{name}");
    };
    check("t3.small", &[]);
    check("m5.large", &[("vpc.amazonaws.com/pod-eni", 9)]);
    check("p4d.24xlarge", &[("nvidia.com/gpu", 8), ("vpc.amazonaws.com/efa", 4), ("vpc.amazonaws.com/pod-eni", 62)]);
    check(
        "inf2.48xlarge",
        &[("aws.amazon.com/neuron", 12), ("aws.amazon.com/neuroncore", 24), ("vpc.amazonaws.com/pod-eni", 107)],
    );
    assert_eq!(find(&types, "m5.large").attach_limits.get(&"ebs.csi.aws.com".into()), Some(&26));
}

#[test]
fn every_type_answers_for_every_well_known_label() {
    let well_known = WellKnown::with_provider(WELL_KNOWN);
    for region in SOME_REGIONS {
        for found in types(region) {
            let keys: Vec<&str> = found.requirements.iter().map(|(key, _)| &**key).collect();
            // The pool's name comes from the pool.
            let expected: Vec<&str> = well_known.iter().map(|key| &**key).filter(|key| *key != NODE_POOL).collect();
            assert_eq!(keys, expected, "{} in {region}", found.name);
            for key in ["instance-category", "instance-generation", "instance-size", "instance-network-bandwidth"] {
                assert!(label(&found, key).is_some_and(|value| !value.is_empty()), "{key} of {}", found.name);
            }
        }
    }
}

#[test]
fn every_type_has_room_for_pods() {
    for found in types("us-east-1") {
        let allocatable = found.allocatable();
        assert!(allocatable.amounts().all(|(_, amount)| amount > 0), "{}: {allocatable:?}", found.name);
        assert!(allocatable.pods > 0 && allocatable.cpu_milli > 0 && allocatable.memory_bytes > 0, "{}", found.name);
    }
}

#[test]
fn each_way_to_buy_has_one_offering_per_zone_and_a_positive_price() {
    for region in catalog().regions() {
        for found in types(region) {
            let zones = found.requirements.get(ZONE).and_then(Requirement::listed).unwrap();
            let sold = found.requirements.get(CAPACITY_TYPE).and_then(Requirement::listed).unwrap();
            let mut bought: Vec<(&str, &str)> = (found.offerings.iter())
                .map(|offering| (&**offering.label(CAPACITY_TYPE).unwrap(), &**offering.label(ZONE).unwrap()))
                .collect();
            bought.sort_unstable();
            let expected: Vec<(&str, &str)> =
                sold.iter().flat_map(|way| zones.iter().map(move |zone| (&**way, &**zone))).collect();
            assert_eq!(bought, expected, "{} in {region}", found.name);
            assert!(!zones.is_empty(), "{} in {region}", found.name);
            for offering in &found.offerings {
                assert!(offering.price > Price::ZERO, "{} in {region}", found.name);
                assert!(found.requirements.overlaps(&offering.requirements), "{} in {region}", found.name);
                assert_eq!(offering.is_available, !found.name.as_str().starts_with("a1."), "{}", found.name);
            }
        }
    }
}

#[test]
fn spot_stays_within_a_tenth_of_its_average_and_differs_between_zones() {
    let types = types("us-east-1");
    let spot = prices(find(&types, "m5.large"), CapacityType::Spot);
    // The source's average for m5.large.
    let average = Price::from_dollars(0.03168).unwrap();
    assert!(spot.len() > 3 && spot.iter().all(|price| is_within_a_tenth(*price, average)), "{spot:?}");
    assert!(spot.iter().any(|price| *price != spot[0]), "{spot:?}");
    for found in &types {
        // Any two prices that are within a tenth of one average are within this of each other.
        let prices = prices(found, CapacityType::Spot);
        let (Some(least), Some(most)) = (prices.iter().min(), prices.iter().max()) else { continue };
        assert!(most.pico() * 9 <= least.pico() * 11 + 20, "{}: {prices:?}", found.name);
    }
}

fn is_within_a_tenth(price: Price, average: Price) -> bool {
    (price.pico() - average.pico()).abs() * 10 <= average.pico()
}

#[test]
fn spot_is_nearly_always_cheaper() {
    for region in SOME_REGIONS {
        let mut dearer = 0;
        let mut all = 0;
        for found in types(region) {
            let on_demand = prices(&found, CapacityType::OnDemand).into_iter().min();
            let spot = prices(&found, CapacityType::Spot).into_iter().min();
            if let (Some(on_demand), Some(spot)) = (on_demand, spot) {
                all += 1;
                dearer += usize::from(spot >= on_demand);
            }
        }
        assert!(all > 100 && dearer * 50 < all, "{region}: {dearer} of {all}");
    }
}

#[test]
fn a_missing_price_is_named_and_nothing_is_sold_that_way() {
    let catalog = catalog();
    for region in SOME_REGIONS {
        let types = types(region);
        for missing in catalog.missing_prices(region).unwrap() {
            let found = find(&types, missing.type_name.as_str());
            assert!(prices(found, missing.capacity_type).is_empty(), "{} in {region}", found.name);
            let sold = found.requirements.get(CAPACITY_TYPE).unwrap();
            assert!(!sold.has(missing.capacity_type.as_str()), "{} in {region}", found.name);
        }
    }
    // Too new for the sources of prices, and sold to nobody.
    let types = types("us-east-1");
    let unpriced = find(&types, "r9g.large");
    assert_eq!(unpriced.offerings, []);
    assert!(unpriced.requirements.get(CAPACITY_TYPE).unwrap().is_contradiction());
    // Its on-demand price is known; the source of spot prices is older than the type.
    let half = find(&types, "c9g.large");
    assert!(!prices(half, CapacityType::OnDemand).is_empty() && prices(half, CapacityType::Spot).is_empty());
    // A type that EC2 does not sell on spot lacks nothing.
    let names = catalog.missing_prices("us-east-1").unwrap();
    assert!(!names.iter().any(|missing| missing.type_name.as_str() == "hpc7g.4xlarge"), "{names:?}");
}

#[test]
fn a_region_that_is_not_there_is_refused_with_those_that_are() {
    let error = catalog().types("us-east-9").unwrap_err();
    assert!(matches!(&error, CatalogError::UnknownRegion { wanted, .. } if wanted == "us-east-9"));
    let text = error.to_string();
    for piece in ["\"us-east-9\"", "us-east-1, us-east-2", "eu-central-1"] {
        assert!(text.contains(piece), "{text}");
    }
    assert!(catalog().zones("").is_err() && catalog().missing_prices("us-east-1a").is_err());
}

#[test]
fn zones_have_names_and_ids() {
    let zones: Vec<_> = catalog().zones("us-east-1").unwrap().collect();
    let names: Vec<&str> = zones.iter().map(|zone| &*zone.name).collect();
    assert_eq!(names, ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d", "us-east-1e", "us-east-1f"]);
    assert!(zones.iter().all(|zone| zone.id.as_ref().is_some_and(|id| id.starts_with("use1-az"))), "{zones:?}");
    let types = types("us-east-1");
    let offering = &find(&types, "m5.large").offerings[0];
    assert!(offering.label(ZONE_ID).is_some_and(|id| id.starts_with("use1-az")));
}

#[test]
fn the_header_names_every_source_with_licence_and_day() {
    let sources = catalog().sources();
    let named: Vec<(&str, &str)> = sources.iter().map(|source| (source.package, source.licence)).collect();
    assert_eq!(
        named,
        [
            ("moto", "Apache-2.0"),
            ("github.com/aws/karpenter-provider-aws", "Apache-2.0"),
            ("github.com/cristim/ec2-instances-info", "MIT"),
        ]
    );
    for source in sources {
        let parts: Vec<u32> = source.published.split('-').map(|part| part.parse().unwrap()).collect();
        assert!(matches!(parts[..], [2025..=2100, 1..=12, 1..=31]), "{source:?}");
        assert!(!source.version.is_empty() && !source.gives.is_empty(), "{source:?}");
    }
    let text = include_str!("../data/ec2.txt");
    assert!(text.contains("# Permission is hereby granted, free of charge"), "the MIT licence asks for its text");
}

#[test]
fn types_come_in_the_order_of_their_names_and_always_the_same() {
    let first = types("eu-west-1");
    assert!(first.is_sorted_by(|left, right| left.name < right.name));
    assert_eq!(first, types("eu-west-1"));
    assert!(types("us-east-1").len() > 1300);
}
