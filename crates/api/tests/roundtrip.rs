//! Whatever the schemas allow survives decoding and encoding: nothing is lost, nothing changes its meaning.
//!
//! The objects are drawn from the definitions themselves, so a field that the schema has and the type forgot is found.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use api::aws::EC2NodeClass;
use api::crd::{self, CrdSet};
use api::kwok::KWOKNodeClass;
use api::legacy::{AWSNodeTemplate, Provisioner};
use api::{CapacityBuffer, Duration, NodeClaim, NodeOverlay, NodePool, Quantity};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::string::string_regex;
use proptest::test_runner::{Config, TestRunner};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

#[test]
fn every_node_pool_survives_both_ways() {
    check::<NodePool>(CrdSet::Aws, "nodepools.karpenter.sh");
}

#[test]
fn every_node_claim_survives_both_ways() {
    check::<NodeClaim>(CrdSet::Aws, "nodeclaims.karpenter.sh");
}

#[test]
fn every_node_overlay_survives_both_ways() {
    check::<NodeOverlay>(CrdSet::Aws, "nodeoverlays.karpenter.sh");
}

#[test]
fn every_capacity_buffer_survives_both_ways() {
    check::<CapacityBuffer>(CrdSet::Aws, "capacitybuffers.autoscaling.x-k8s.io");
}

#[test]
fn every_ec2_node_class_survives_both_ways() {
    check::<EC2NodeClass>(CrdSet::Aws, "ec2nodeclasses.karpenter.k8s.aws");
}

#[test]
fn every_kwok_node_class_survives_both_ways() {
    check::<KWOKNodeClass>(CrdSet::Kwok, "kwoknodeclasses.karpenter.kwok.sh");
}

#[test]
fn every_provisioner_survives_both_ways() {
    check::<Provisioner>(CrdSet::Aws, "provisioners.karpenter.sh");
}

#[test]
fn every_aws_node_template_survives_both_ways() {
    check::<AWSNodeTemplate>(CrdSet::Aws, "awsnodetemplates.karpenter.k8s.aws");
}

#[test]
fn a_class_that_only_has_a_name_decodes() {
    let class: KWOKNodeClass = serde_json::from_value(json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
    }))
    .unwrap();
    assert_eq!(class, KWOKNodeClass::new("default", Default::default()));
}

#[test]
fn durations_and_quantities_come_back_as_the_reference_writes_them() {
    let wire = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
        "spec": {
            "limits": {"cpu": 1000, "memory": "1024Gi", "example.com/x": "1500m"},
            "disruption": {
                "consolidateAfter": "1h30m",
                "budgets": [{"nodes": "1", "schedule": "@daily", "duration": "8h"}],
            },
            "template": {"spec": {
                "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}, "requirements": [],
                "expireAfter": "720h", "terminationGracePeriod": "90m",
            }},
        },
    });
    let pool: NodePool = serde_json::from_value(wire).unwrap();
    let back = serde_json::to_value(&pool).unwrap();
    let at = |pointer: &str| back.pointer(pointer).cloned().unwrap_or_default();
    assert_eq!(at("/spec/limits"), json!({"cpu": "1k", "memory": "1Ti", "example.com/x": "1500m"}));
    assert_eq!(at("/spec/disruption/consolidateAfter"), json!("1h30m"));
    assert_eq!(at("/spec/disruption/budgets/0/duration"), json!("8h0m0s"));
    assert_eq!(at("/spec/template/spec/expireAfter"), json!("720h"));
    assert_eq!(at("/spec/template/spec/terminationGracePeriod"), json!("1h30m0s"));
}

/// Draws objects from the definition and sends them through the type.
fn check<K>(set: CrdSet, name: &str)
where
    K: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let definition = crd::definitions(set).into_iter().find(|crd| crd.name() == name).unwrap();
    let root = definition.to_value();
    let version = &root["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    let parts = (
        maybe(&schema["properties"]["spec"], is_required(schema, "spec")),
        maybe(&schema["properties"]["status"], false),
    );
    let header = json!({
        "apiVersion": format!("{}/{}", root["spec"]["group"].as_str().unwrap(), version["name"].as_str().unwrap()),
        "kind": root["spec"]["names"]["kind"],
        "metadata": {"name": "x"},
    });
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    runner
        .run(&parts, |(spec, status)| {
            let mut wire = header.clone();
            for (part, value) in [("spec", spec), ("status", status)] {
                if let Some(value) = value {
                    wire[part] = value;
                }
            }
            let decoded: K =
                serde_json::from_value(wire.clone()).map_err(|e| TestCaseError::fail(format!("{e}: {wire}")))?;
            let encoded = serde_json::to_value(&decoded).unwrap();
            prop_assert_eq!(lost("", &wire, &encoded), Vec::<String>::new());
            let again: K = serde_json::from_value(encoded).unwrap();
            prop_assert_eq!(again, decoded);
            Ok(())
        })
        .unwrap();
}

/// Paths whose value is gone or means something else after the round trip.
fn lost(path: &str, before: &Value, after: &Value) -> Vec<String> {
    match (before, after) {
        (Value::Object(members), _) => members
            .iter()
            .filter(|(_, value)| !is_empty(value))
            .flat_map(|(name, value)| lost(&format!("{path}/{name}"), value, &after[name]))
            .collect(),
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            items.iter().zip(others).enumerate().flat_map(|(i, (a, b))| lost(&format!("{path}/{i}"), a, b)).collect()
        }
        _ if means_the_same(before, after) => Vec::new(),
        _ => vec![format!("{path}: {before} became {after}")],
    }
}

/// An empty list or map may be left out where our types keep no difference: we never write a user's spec back, so no
/// rule that asks whether such a field is there can be tripped by us.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_empty),
        _ => false,
    }
}

fn means_the_same(before: &Value, after: &Value) -> bool {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (before, after) = (text(before), text(after));
    let same_duration = || Some(before.parse::<Duration>().ok()? == after.parse::<Duration>().ok()?);
    let same_quantity = || Some(before.parse::<Quantity>().ok()? == after.parse::<Quantity>().ok()?);
    before == after || same_duration() == Some(true) || same_quantity() == Some(true)
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|required| required.iter().any(|r| r == name))
}

fn maybe(schema: &Value, required: bool) -> BoxedStrategy<Option<Value>> {
    if schema.is_null() {
        return Just(None).boxed();
    }
    let present = any_of(schema).prop_map(Some);
    if required { present.boxed() } else { prop_oneof![1 => Just(None), 4 => present].boxed() }
}

/// A strategy for values that a schema allows.
fn any_of(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(choices) = schema["enum"].as_array() {
        return proptest::sample::select(choices.clone()).boxed();
    }
    if schema["x-kubernetes-int-or-string"] == json!(true) {
        return prop_oneof![(0..5000_i64).prop_map(Value::from), regex("[0-9]{1,4}(\\.[0-9]{1,3})?(Ki|Mi|Gi|m|k|M)?")]
            .boxed();
    }
    match schema["type"].as_str() {
        Some("object") => object(schema),
        Some("array") => {
            let most = schema["maxItems"].as_u64().unwrap_or(3).min(3) as usize;
            let least = schema["minItems"].as_u64().unwrap_or(0) as usize;
            vec(any_of(&schema["items"]), least..=most).prop_map(Value::from).boxed()
        }
        Some("integer") => {
            let least = schema["minimum"].as_i64().unwrap_or(-1000);
            let most = schema["maximum"].as_i64().unwrap_or(100_000);
            (least..=most).prop_map(Value::from).boxed()
        }
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        Some("string") => text(schema),
        other => panic!("no strategy for type {other:?}: {schema}"),
    }
}

fn object(schema: &Value) -> BoxedStrategy<Value> {
    if schema["x-kubernetes-preserve-unknown-fields"] == json!(true) {
        return Just(json!({"deep": {"er": [1, "two", {"three": null}]}, "maxPods": 5})).boxed();
    }
    if schema.get("additionalProperties").is_some() {
        let entry = (string_regex("[a-z]{1,8}(/[a-z]{1,8})?").unwrap(), any_of(&schema["additionalProperties"]));
        return vec(entry, 0..3).prop_map(|entries| Value::Object(entries.into_iter().collect())).boxed();
    }
    let empty = Map::new();
    let mut strategy = Just(Map::new()).boxed();
    for (name, property) in schema["properties"].as_object().unwrap_or(&empty) {
        let name = name.clone();
        strategy = (strategy, maybe(property, is_required(schema, &name)))
            .prop_map(move |(mut members, value)| {
                if let Some(value) = value {
                    members.insert(name.clone(), value);
                }
                members
            })
            .boxed();
    }
    strategy.prop_map(Value::from).boxed()
}

fn text(schema: &Value) -> BoxedStrategy<Value> {
    if schema["format"] == json!("date-time") {
        return regex("20[0-9]{2}-0[1-9]-[12][0-8]T[01][0-9]:[0-5][0-9]:[0-5][0-9]Z");
    }
    match schema["pattern"].as_str() {
        Some(pattern) => regex(&drawable(pattern)),
        None => regex("[ -~]{0,12}"),
    }
}

fn regex(pattern: &str) -> BoxedStrategy<Value> {
    string_regex(pattern).unwrap().prop_map(Value::from).boxed()
}

/// A pattern to draw from: without anchors, with ASCII classes, and with repetitions that end soon.
fn drawable(pattern: &str) -> String {
    let plain = pattern
        .replace("(^", "(")
        .replace("$)", ")")
        .replace("\\d", "[0-9]")
        .replace("\\s", " ")
        .replace(".+", "[0-9]{1,2}");
    let plain = plain.strip_prefix('^').unwrap_or(&plain);
    let plain = plain.strip_suffix('$').unwrap_or(plain);
    plain
        .replace("[0-9]+", "[0-9]{1,4}")
        .replace("]*", "]{0,4}")
        .replace(")*", "){0,2}")
        .replace(")+", "){1,2}")
        .replace("||", "|")
}
