//! The readers on small inputs in the sources' own shapes, and the text that comes out.

use super::tables::GoFiles;
use super::zones::Offerings;
use super::*;

const PRICING: &str = r#"
// generated at 2026-07-06T14:20:29Z for us-east-1
var Prices = map[string]map[Type]float64{
	// us-east-1
	"us-east-1": {
		// m5 family
		"m5.large": 0.096000, "m5.metal": 4.608000,
		"free.large": 0.000000,
	},
	"elsewhere": {
		"m5.large": 9.000000,
	},
}
"#;

const LIMITS: &str = r#"
// This file was generated at 2026-05-18T17:08:55Z
type VPCLimits struct {
	BranchInterface         int
}
var Limits = map[string]*VPCLimits{
	"m5.large": {
		Interface:               3,
		IsTrunkingCompatible:    true,
		BranchInterface:         9,
		NetworkCards: []NetworkCard{
			{
				MaximumNetworkInterfaces: 3,
			},
		},
		Hypervisor:  "nitro",
	},
	"t3.small": {
		IsTrunkingCompatible:    false,
		BranchInterface:         5,
	},
}
"#;

const BANDWIDTH: &str =
    "\t\t// c1.medium has vague bandwidth information, bandwidth is Moderate\n\t\t\"m5.large\": 750,\n";

const TYPES: &str = r#"{
  "m5.large": {
    "Hypervisor": "nitro", "NitroEnclavesSupport": "unsupported", "SupportedUsageClasses": ["on-demand", "spot"],
    "SupportedVirtualizationTypes": ["hvm"], "MemoryInfo": {"SizeInMiB": 8192}, "VCpuInfo": {"DefaultVCpus": 2},
    "ProcessorInfo": {"Manufacturer": "Intel", "SupportedArchitectures": ["i386", "x86_64"], "SustainedClockSpeedInGhz": 3.1},
    "EbsInfo": {"EbsOptimizedSupport": "default", "EbsOptimizedInfo": {"MaximumBandwidthInMbps": 4750}, "MaximumEbsAttachments": 27},
    "NetworkInfo": {"DefaultNetworkCardIndex": 0, "EncryptionInTransitSupported": false, "Ipv4AddressesPerInterface": 10,
      "NetworkCards": [{"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 3, "BaselineBandwidthInGbps": 0.8}]}
  },
  "x1.metal": {
    "NitroEnclavesSupport": "supported", "SupportedUsageClasses": ["on-demand"], "SupportedVirtualizationTypes": ["hvm"],
    "MemoryInfo": {"SizeInMiB": 1024}, "VCpuInfo": {"DefaultVCpus": 4},
    "ProcessorInfo": {"Manufacturer": "AWS", "SupportedArchitectures": ["arm64"]},
    "EbsInfo": {"EbsOptimizedSupport": "supported", "EbsOptimizedInfo": {"MaximumBandwidthInMbps": 1}},
    "InstanceStorageInfo": {"TotalSizeInGB": 950, "NvmeSupport": "required"},
    "GpuInfo": {"Gpus": [{"Name": "RTX PRO 4500", "Manufacturer": "NVIDIA", "Count": 2, "MemoryInfo": {"SizeInMiB": 32768}}]},
    "NeuronInfo": {"NeuronDevices": [{"Name": "Trainium", "Count": 16, "CoreInfo": {"Count": 2}}]},
    "NetworkInfo": {"EncryptionInTransitSupported": true, "Ipv4AddressesPerInterface": 50, "EfaInfo": {"MaximumEfaInterfaces": 8},
      "NetworkCards": [{"NetworkCardIndex": 1, "MaximumNetworkInterfaces": 7, "BaselineBandwidthInGbps": 12.5},
        {"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 5, "BaselineBandwidthInGbps": 12.5}]}
  },
  "mac1.metal": {
    "NitroEnclavesSupport": "supported", "SupportedUsageClasses": ["on-demand"], "SupportedVirtualizationTypes": ["hvm"],
    "MemoryInfo": {"SizeInMiB": 1024}, "VCpuInfo": {"DefaultVCpus": 4}, "ProcessorInfo": {"SupportedArchitectures": ["x86_64_mac"]},
    "EbsInfo": {"EbsOptimizedSupport": "default"},
    "NetworkInfo": {"EncryptionInTransitSupported": true, "Ipv4AddressesPerInterface": 50, "NetworkCards": []}
  }
}"#;

const INSTANCES: &str = r#"[
  {"instance_type": "m5.large", "vCPU": 2, "pricing": {
    "us-east-1": {"linux": {"ondemand": "0.5", "spot_avg": "0.031680"}, "mswin": {"ondemand": "1"}},
    "eu-west-1": {"linux": {"ondemand": "0.107"}},
    "eu-west-3": {"rhel": {"ondemand": "0.2"}}}}
]"#;

fn packages_tables() -> Tables {
    let files = GoFiles { pricing: PRICING.into(), limits: LIMITS.into(), bandwidth: BANDWIDTH.into() };
    Tables::read(&files).unwrap()
}

fn offered(pairs: &[(&str, &str)]) -> String {
    let entries = pairs.iter().map(|(name, place)| format!(r#"{{"InstanceType": "{name}", "Location": "{place}"}}"#));
    format!("[{}]", entries.collect::<Vec<_>>().join(","))
}

#[test]
fn prices_are_spelled_one_way_and_zero_is_none() {
    let check = |text: &str, expected: Option<&str>| {
        assert_eq!(Dollars::parse(text).as_ref().map(Dollars::as_str), expected, "{text}");
    };
    check("0.096000", Some("0.096"));
    check("0032.7726", Some("32.7726"));
    check("16", Some("16"));
    check("16.000", Some("16"));
    for no_price in ["0", "0.000", "", "N/A", "-1", ".5", "1e3", "1.2.3", "0.0000000000001"] {
        check(no_price, None);
    }
}

#[test]
fn the_tables_of_the_reference_are_read_line_by_line() {
    let tables = packages_tables();
    let prices: Vec<(&str, &str)> = tables.on_demand.iter().map(|(name, price)| (&**name, price.as_str())).collect();
    assert_eq!(prices, [("m5.large", "0.096"), ("m5.metal", "4.608")]);
    assert_eq!(tables.branch_interfaces, BTreeMap::from([("m5.large".into(), 9), ("t3.small".into(), 0)]));
    assert_eq!(tables.bandwidth_mbps, BTreeMap::from([("m5.large".into(), 750)]));
    assert_eq!((&*tables.priced_on, &*tables.limited_on), ("2026-07-06", "2026-05-18"));
}

#[test]
fn a_table_that_changed_its_shape_is_an_error() {
    let check = |pricing: &str, limits: &str, bandwidth: &str, expected: &str| {
        let files = GoFiles { pricing: pricing.into(), limits: limits.into(), bandwidth: bandwidth.into() };
        let error = Tables::read(&files).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(&PRICING.replace("us-east-1\": {", "us-east-1\": map {"), LIMITS, BANDWIDTH, "found no prices");
    check(PRICING, "generated at 2026-05-18", BANDWIDTH, "found no types in the table of interfaces");
    check(PRICING, LIMITS, "", "found no types in the table of bandwidths");
    check(&PRICING.replace("generated at 2026", "made in 2026"), LIMITS, BANDWIDTH, "prices has no date");
}

#[test]
fn macos_machines_are_left_out_and_the_table_beats_the_cards() {
    let types = types::read(TYPES, &packages_tables()).unwrap();
    assert_eq!(types.keys().collect::<Vec<_>>(), ["m5.large", "x1.metal"]);
    assert_eq!(types["m5.large"].network_mbps, Some(750));
    assert_eq!(types["x1.metal"].network_mbps, Some(25000));
    assert_eq!(types["x1.metal"].interfaces, 5, "of the default card, wherever it is listed");
    assert_eq!(types["m5.large"].arch, "amd64");
}

#[test]
fn zones_pair_with_ids_that_have_the_same_types() {
    let offerings = Offerings {
        by_name: offered(&[("a", "us-east-1a"), ("b", "us-east-1b"), ("a", "us-east-1b"), ("c", "us-east-1c")]),
        by_id: offered(&[("a", "use1-az1"), ("b", "use1-az1"), ("a", "use1-az2"), ("d", "use1-az3")]),
    };
    let region = zones::read("us-east-1", &offerings).unwrap();
    let zones: Vec<_> = region.zones.iter().map(|zone| (zone.letter, zone.id.as_deref())).collect();
    assert_eq!(zones, [('a', Some("use1-az2")), ('b', Some("use1-az1")), ('c', None)]);
    assert_eq!(region.rows["a"].zones, "ab");

    let local = Offerings { by_name: offered(&[("a", "us-east-1-atl-1a")]), by_id: offered(&[]) };
    let error = zones::read("us-east-1", &local).err().unwrap();
    assert!(error.to_string().contains("is not us-east-1 and a letter"), "{error}");
}

#[test]
fn linux_prices_are_taken_and_missing_ones_stay_missing() {
    let prices = prices::read(INSTANCES).unwrap();
    let price = |region: &str| {
        let linux = prices["m5.large"].get(region)?;
        Some((linux.on_demand.as_ref().map(Dollars::as_str), linux.spot.as_ref().map(Dollars::as_str)))
    };
    assert_eq!(price("us-east-1"), Some((Some("0.5"), Some("0.03168"))));
    assert_eq!(price("eu-west-1"), Some((Some("0.107"), None)));
    assert_eq!(price("eu-west-3"), None);
}

#[test]
fn the_licence_text_of_the_data_is_carried_and_must_be_there() {
    let both = "Unlicense\n####\nCopyright (c) 2013 X\n\nPermission is hereby granted, free.\n";
    assert_eq!(fetch::mit_part(both).unwrap(), "Copyright (c) 2013 X\n\nPermission is hereby granted, free.");
    assert!(fetch::mit_part("all rights reserved").is_err());
}

#[test]
fn the_file_says_everything_in_columns() {
    let tables = packages_tables();
    let mut region = zones::read(
        "us-east-1",
        &Offerings {
            by_name: offered(&[("m5.large", "us-east-1a"), ("x1.metal", "us-east-1b")]),
            by_id: offered(&[("m5.large", "use1-az1")]),
        },
    )
    .unwrap();
    region.rows.get_mut("m5.large").unwrap().on_demand = Dollars::parse("0.096");
    region.rows.get_mut("m5.large").unwrap().spot = Dollars::parse("0.03168");
    let source =
        Source { package: "moto", version: "5", licence: "MIT", date: "2026-01-02".into(), gives: "all".into() };
    let catalog = Catalog {
        sources: vec![source],
        notices: vec!["Copyright X\n\nAs is.".into()],
        types: types::read(TYPES, &tables).unwrap(),
        regions: BTreeMap::from([("us-east-1".into(), region)]),
    };
    let text = write::text(&catalog);
    assert!(text.contains("\nsource moto 5 MIT 2026-01-02 all\n#\n# Copyright X\n#\n# As is.\n\n[types]\n"), "{text}");
    let facts: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        facts[1..],
        [
            "",
            "[types]",
            "m5.large amd64 2 8192 intel 3100 nitro os 3 10 9 0 750 4750 27 - - - -",
            "x1.metal arm64 4 1024 aws - - o 5 50 - 8 25000 - - 950 te nvidia/rtx-pro-4500/2/32768 aws/trainium/16/2",
            "",
            "[region us-east-1]",
            "zones a=use1-az1 b=-",
            "m5.large a 0.096 0.03168",
            "x1.metal b - -",
        ]
    );
    assert_eq!(first_difference(&text, &text), None);
    assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
    assert_eq!(first_difference("a\n", "a\nb\n"), Some(2));
}
