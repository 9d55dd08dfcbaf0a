//! Our definitions beside the reference's own, schema by schema. Descriptions do not count; every other difference must be
//! on the list below, with the decision that explains it.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use api::crd::{CrdSet, definitions};
use e2e::reference::{self, Module};
use serde_json::Value;

/// Where the reference keeps its definitions, and which of our sets each folder is held against.
const FOLDERS: [(CrdSet, Module, &str); 6] = [
    (CrdSet::Core, Module::Karpenter, "pkg/apis/crds"),
    (CrdSet::Kwok, Module::Karpenter, "kwok/charts/crds"),
    (CrdSet::Kwok, Module::Karpenter, "kwok/apis/crds"),
    (CrdSet::Aws, Module::KarpenterAws, "pkg/apis/crds"),
    (CrdSet::Aws, Module::LegacyCore, "pkg/apis/crds"),
    (CrdSet::Aws, Module::LegacyAws, "pkg/apis/crds"),
];

/// Kinds of the reference that users never wrote.
const NOT_OURS: [&str; 1] = ["machines.karpenter.sh"];

/// A difference that we want: set, definition, beginning of the place, decision record.
const ALLOWED: [(CrdSet, &str, &str, &str); 6] = [
    (CrdSet::Aws, "nodepools.karpenter.sh", "spec.disruption.budgets[].reasons[] enum", "0006"),
    (CrdSet::Aws, "nodepools.karpenter.sh", "spec.disruption.consolidateAfter default", "0006"),
    (CrdSet::Aws, "nodepools.karpenter.sh", "spec.disruption required", "0006"),
    (CrdSet::Aws, "nodepools.karpenter.sh", "spec.template.metadata.labels x-kubernetes-validations", "0006"),
    (CrdSet::Aws, "ec2nodeclasses.karpenter.k8s.aws", "spec.blockDeviceMappings[].ebs.volumeSize pattern", "0007"),
    (CrdSet::Aws, "ec2nodeclasses.karpenter.k8s.aws", "spec.kubelet", "0009"),
];

#[test]
fn every_definition_equals_the_references_but_for_what_a_decision_explains() {
    let folders = reference::folders(&FOLDERS.map(|(_, module, folder)| (module, folder))).unwrap();
    let mut compared = BTreeSet::new();
    let mut unexplained = Vec::new();
    let mut explained = BTreeSet::new();
    for ((set, _, _), folder) in FOLDERS.iter().zip(folders) {
        let ours: BTreeMap<String, Value> =
            definitions(*set).iter().map(|crd| (crd.name().to_owned(), crd.to_value().clone())).collect();
        for theirs in read_definitions(&folder) {
            let name = theirs["metadata"]["name"].as_str().unwrap().to_owned();
            if NOT_OURS.contains(&name.as_str()) {
                continue;
            }
            let ours = ours.get(&name).unwrap_or_else(|| panic!("the set {} lacks {name}", set.name()));
            for difference in differences(&theirs, ours) {
                let place =
                    ALLOWED.iter().position(|(s, n, at, _)| s == set && *n == name && difference.starts_with(at));
                match place {
                    Some(index) => drop(explained.insert(index)),
                    None => unexplained.push(format!("{} {name} {difference}", set.name())),
                }
            }
            compared.insert((set.name(), name));
        }
    }
    assert!(unexplained.is_empty(), "differences that no decision explains:\n{}", unexplained.join("\n"));
    assert_eq!(explained.len(), ALLOWED.len(), "the list allows a difference that is not there; it used {explained:?}");
    let all = CrdSet::ALL
        .into_iter()
        .flat_map(|set| definitions(set).into_iter().map(move |crd| (set.name(), crd.name().to_owned())));
    assert_eq!(compared, all.collect(), "a definition of ours was not compared");
}

#[test]
fn every_allowed_difference_names_a_decision_that_exists() {
    let records = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/decisions");
    let names: Vec<String> =
        std::fs::read_dir(records).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    for (_, _, place, decision) in ALLOWED {
        assert!(names.iter().any(|name| name.starts_with(decision)), "{place}: there is no decision {decision}");
    }
}

fn read_definitions(folder: &PathBuf) -> Vec<Value> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let texts = paths.iter().map(|path| std::fs::read_to_string(path).unwrap());
    texts.map(|text| serde_saphyr::from_str(&text).unwrap()).collect()
}

/// Every place where two definitions differ: path, keyword, and both values.
fn differences(theirs: &Value, ours: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let without_schema = |definition: &Value| {
        let mut rest = definition["spec"].clone();
        rest["versions"][0]["schema"] = Value::Null;
        for column in rest["versions"][0]["additionalPrinterColumns"].as_array_mut().into_iter().flatten() {
            column.as_object_mut().unwrap().remove("description");
        }
        rest
    };
    compare_values("definition", &without_schema(theirs), &without_schema(ours), &mut found);
    let schema = |definition: &Value| definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    compare_schemas("", &schema(theirs), &schema(ours), &mut found);
    found
}

fn compare_schemas(path: &str, theirs: &Value, ours: &Value, found: &mut Vec<String>) {
    let names = |a: &Value, b: &Value| -> BTreeSet<String> {
        [a, b].into_iter().filter_map(Value::as_object).flat_map(|members| members.keys().cloned()).collect()
    };
    for keyword in names(theirs, ours) {
        let (theirs, ours) = (&theirs[&keyword], &ours[&keyword]);
        match keyword.as_str() {
            "description" => {}
            "properties" => {
                for name in names(theirs, ours) {
                    let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    match (theirs.get(&name), ours.get(&name)) {
                        (Some(theirs), Some(ours)) => compare_schemas(&below, theirs, ours, found),
                        (theirs, _) => found.push(format!(
                            "{below} exists only in {}",
                            if theirs.is_some() { "theirs" } else { "ours" }
                        )),
                    }
                }
            }
            "items" => compare_schemas(&format!("{path}[]"), theirs, ours, found),
            "additionalProperties" if theirs.is_object() && ours.is_object() => {
                compare_schemas(&format!("{path}[*]"), theirs, ours, found);
            }
            // What is a set is compared as one.
            "enum" | "required" => compare_values(&format!("{path} {keyword}"), &sorted(theirs), &sorted(ours), found),
            _ => compare_values(&format!("{path} {keyword}"), theirs, ours, found),
        }
    }
}

fn compare_values(place: &str, theirs: &Value, ours: &Value, found: &mut Vec<String>) {
    if theirs != ours {
        found.push(format!("{place}: theirs {theirs}, ours {ours}"));
    }
}

fn sorted(value: &Value) -> Value {
    let mut items = value.as_array().cloned().unwrap_or_default();
    items.sort_by_key(Value::to_string);
    items.into()
}
