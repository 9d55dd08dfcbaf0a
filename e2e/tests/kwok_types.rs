//! The simulated cloud's types by formula, beside the list that the reference's kwok provider carries.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;

use e2e::reference::{self, Module};
use model::instance::InstanceType;
use model::price::Price;
use model::resources::Resource;
use provider::kwok::types::Menu;
use serde_json::Value;

fn texts() -> [String; 2] {
    let wanted = [(Module::Karpenter, "kwok/cloudprovider"), (Module::Karpenter, "kwok/examples")];
    let folders = reference::folders(&wanted).unwrap();
    [
        std::fs::read_to_string(folders[0].join("instance_types.json")).unwrap(),
        std::fs::read_to_string(folders[1].join("aws_instance_types.json")).unwrap(),
    ]
}

#[test]
fn the_generated_types_are_the_references() {
    let [text, _] = texts();
    let theirs: Vec<Value> = serde_json::from_str(&text).unwrap();
    let menu = Menu::generated();
    let ours: BTreeMap<&str, &InstanceType> =
        menu.types().iter().map(|machine| (machine.name.as_str(), &**machine)).collect();
    assert_eq!((theirs.len(), ours.len()), (144, 144));
    for theirs in &theirs {
        let name = theirs["name"].as_str().unwrap();
        let ours = ours.get(name).unwrap_or_else(|| panic!("we do not sell {name}"));
        compare(theirs, ours);
    }
    // What a user's list means, is what the formula makes.
    assert_eq!(Menu::from_json(&text).unwrap(), menu);
}

/// Everything that the list says about a type.
fn compare(theirs: &Value, ours: &InstanceType) {
    let name = &ours.name;
    let values = |key: &str| -> Vec<String> {
        ours.requirements.get(key).unwrap().listed().unwrap().iter().map(ToString::to_string).collect()
    };
    assert_eq!(values("kubernetes.io/arch"), [theirs["architecture"].as_str().unwrap()], "{name}");
    let systems: Vec<&str> =
        theirs["operatingSystems"].as_array().unwrap().iter().map(|s| s.as_str().unwrap()).collect();
    assert_eq!(values("kubernetes.io/os"), systems, "{name}");
    let resources = theirs["resources"].as_object().unwrap();
    assert_eq!(resources.len(), ours.capacity.amounts().count(), "{name}");
    for (resource, quantity) in resources {
        let quantity: api::Quantity = quantity.as_str().unwrap().parse().unwrap();
        let axis = Resource::from_name(resource);
        let amount = if axis == Resource::Cpu { quantity.milli() } else { quantity.units() };
        assert_eq!(ours.capacity.get(&axis), amount, "{resource} of {name}");
    }
    assert_eq!(values("karpenter.kwok.sh/instance-memory"), [resources["memory"].as_str().unwrap()], "{name}");
    let offered = |offering: &Value, key: &str| -> String {
        let requirements = offering["Requirements"].as_array().unwrap();
        requirements.iter().find(|r| r["key"] == key).unwrap()["values"][0].as_str().unwrap().to_owned()
    };
    let keys = ["topology.kubernetes.io/zone", "karpenter.sh/capacity-type"];
    let mut expected: Vec<(String, String, Price)> = theirs["offerings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|offering| {
            assert_eq!(offering["Available"], true);
            let price = Price::from_dollars(offering["Price"].as_f64().unwrap()).unwrap();
            (offered(offering, keys[0]), offered(offering, keys[1]), price)
        })
        .collect();
    let label = |offering: &model::instance::Offering, key: &str| offering.label(key).unwrap().to_string();
    let mut found: Vec<(String, String, Price)> = ours
        .offerings
        .iter()
        .map(|offering| (label(offering, keys[0]), label(offering, keys[1]), offering.price))
        .collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "{name}");
}

/// The list as a whole has the same name for Linux and for Windows, which leaves open what a claim for it gets; we refuse that.
#[test]
fn every_type_of_the_references_large_example_can_be_sold() {
    let [_, text] = texts();
    let theirs: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(theirs.len() > 500);
    for one in &theirs {
        let menu = Menu::from_json(&Value::from(vec![one.clone()]).to_string()).unwrap();
        assert_eq!(menu.types()[0].offerings.len(), one["offerings"].as_array().unwrap().len());
    }
    assert!(Menu::from_json(&text).unwrap_err().to_string().contains("names are used once"));
}
