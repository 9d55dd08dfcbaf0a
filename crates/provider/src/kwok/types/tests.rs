use model::resources::Resource;

use super::*;

fn find<'a>(menu: &'a Menu, name: &str) -> &'a InstanceType {
    menu.types().iter().find(|found| found.name.as_str() == name).unwrap_or_else(|| panic!("no {name}"))
}

fn label(found: &InstanceType, key: &str) -> String {
    let values = found.requirements.get(key).unwrap().listed().unwrap();
    values.iter().map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_generated_menu_has_every_combination_once() {
    let menu = Menu::generated();
    assert_eq!(menu.types().len(), 144);
    assert!(menu.types().is_sorted_by(|a, b| a.name < b.name));
    let small = find(&menu, "c-1x-amd64-linux");
    assert_eq!(small.offerings.len(), 8);
    let prices: BTreeSet<i64> = small.offerings.iter().map(|offering| offering.price.pico()).collect();
    assert_eq!(prices, BTreeSet::from([19_003_238_554, 27_147_483_648]));
    assert_eq!((small.capacity.cpu_milli, small.capacity.pods), (1000, 16));
    assert_eq!(small.allocatable().cpu_milli, 900);
    assert_eq!(small.allocatable().memory_bytes, 2 * GIB - 10 * MIB);
    let large = find(&menu, "m-256x-arm64-windows");
    assert_eq!((large.capacity.pods, large.capacity.memory_bytes), (1024, 2048 * GIB));
    let labels = [SIZE, FAMILY, CPU, MEMORY, OS, ARCH].map(|key| label(large, key));
    assert_eq!(labels, ["256", "m", "256", "2Ti", "windows", "arm64"]);
}

#[test]
fn every_type_answers_for_every_well_known_key() {
    let reserved = r#"[
        {"name": "a.large", "architecture": "amd64", "operatingSystems": ["linux"], "resources": {"cpu": "2", "memory": "8Gi"},
         "offerings": [
            {"Price": 0.1, "Requirements": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
                {"key": "example.com/block", "operator": "In", "values": ["one"]}], "ReservationCapacity": 3},
            {"price": 0.2, "zone": "z", "capacityType": "spot"}]},
        {"name": "b", "architecture": "arm64", "operatingSystems": ["linux"], "resources": {"cpu": "1", "memory": "1Gi"}, "offerings": []}
    ]"#;
    let menu = Menu::from_json(reserved).unwrap();
    for found in menu.types() {
        for key in menu.well_known.iter().map(|key| &**key).chain([ZONE, CAPACITY_TYPE, REGION, WINDOWS_BUILD]) {
            assert!(found.requirements.get(key).is_some(), "{key} on {}", found.name);
        }
    }
    let first = find(&menu, "a.large");
    assert_eq!(first.capacity.get(&Resource::Pods), 110);
    assert_eq!(label(first, SIZE), "large");
    let [reserved, spot] = &first.offerings[..] else { panic!("{:?}", first.offerings) };
    assert_eq!(reserved.reservation.as_ref().unwrap().left, 3);
    assert_eq!(reserved.label("example.com/block").unwrap().as_ref(), "one");
    assert!(spot.requirements.get("example.com/block").unwrap().allows_absent());
    assert!(find(&menu, "b").requirements.get("example.com/block").unwrap().allows_absent());
}

#[test]
fn sizes_and_families_are_read_from_names() {
    for (name, expected_size, expected_family) in [
        ("m5.2xlarge", Some("2xlarge"), "m5"),
        ("m5.xlarge", Some("xlarge"), "m5"),
        ("m5.metal", Some("metal"), "m5"),
        ("m5.metal-24xl", None, "m5"),
        ("c7i-flex.large", None, "c7i"),
        ("n2-standard-4", None, "n2"),
        ("Standard_D2s_v5", None, "S"),
        ("", None, ""),
    ] {
        assert_eq!((size(name), family(name)), (expected_size, expected_family), "{name}");
    }
}

#[test]
fn a_list_that_makes_no_sense_is_refused_with_the_type_and_the_problem() {
    let with = |members: &str| {
        format!(
            r#"[{{"name": "a", "architecture": "amd64", "operatingSystems": ["linux"], "resources": {{"cpu": "1", "memory": "1Gi"}}, {members}}}]"#
        )
    };
    for (text, expected) in [
        ("{}", "not the JSON"),
        ("[]", "empty"),
        (r#"[{"name": "a"}]"#, "architecture"),
        (
            r#"[{"name": "a", "architecture": "amd64", "operatingSystems": ["linux"], "resources": {"cpu": "1"}}]"#,
            "lack memory",
        ),
        (&with(r#""offerings": [{"Price": 1}]"#), "must require topology.kubernetes.io/zone"),
        (&with(r#""offerings": [{"Price": -1, "zone": "a", "capacityType": "spot"}]"#), "negative"),
        (
            &with(
                r#""offerings": [{"zone": "a", "capacityType": "spot", "Requirements": [{"key": "k", "operator": "Is"}]}]"#,
            ),
            "Is",
        ),
    ] {
        let error = Menu::from_json(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
