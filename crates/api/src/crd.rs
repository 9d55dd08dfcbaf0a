//! The custom resource definitions, made from the types of this crate.
//!
//! What `dovetail crds` prints, what lies in `crds/`, and what the tests hold against the reference is this one value.
//! A provider's set is the core set with that provider's label rules, and its own kinds.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use crate::aws::{self, EC2NodeClass};
use crate::kwok::KWOKNodeClass;
use crate::legacy::{AWSNodeTemplate, Provisioner};
use crate::schema::edit;
use crate::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool, kwok};

/// Whose definitions: the cloud-neutral ones alone, or with a provider's kinds and rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrdSet {
    Core,
    Aws,
    Kwok,
}

impl CrdSet {
    pub const ALL: [Self; 3] = [Self::Core, Self::Aws, Self::Kwok];

    pub fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Aws => "aws",
            Self::Kwok => "kwok",
        }
    }
}

/// One definition, ready to be written or sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Crd {
    document: Value,
}

impl Crd {
    /// `<plural>.<group>`, the name of the object in the API server.
    pub fn name(&self) -> &str {
        self.document["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// `<group>_<plural>.yaml`, where controller tools look for it.
    pub fn file_name(&self) -> String {
        let names = &self.document["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!("{}_{}.yaml", text(&names["group"]), text(&names["names"]["plural"]))
    }

    /// Versions that the definition serves.
    pub fn versions(&self) -> Vec<&str> {
        self.document["spec"]["versions"].as_array().into_iter().flatten().filter_map(|v| v["name"].as_str()).collect()
    }

    /// Why this definition cannot replace the one that a cluster has, and what to do about it.
    ///
    /// An object that was last written in a version that we do not serve cannot be read through our definition. The release
    /// that knows the version must write it again first; only then may the version be forgotten.
    pub fn obstacle_over(&self, existing: &CustomResourceDefinition) -> Option<String> {
        let served = self.versions();
        let name = self.name();
        let stored = existing.status.as_ref().and_then(|status| status.stored_versions.clone()).unwrap_or_default();
        let stale: Vec<&str> = stored.iter().map(String::as_str).filter(|v| !served.contains(v)).collect();
        let storage =
            existing.spec.versions.iter().find(|version| version.storage).map(|version| version.name.as_str());
        match storage {
            Some(storage) if !served.contains(&storage) => Some(format!(
                "{name} stores its objects as {storage}, which is not served here; upgrade Karpenter to a release that stores {} \
                 (1.0 or newer), let it convert the objects, and run this again",
                served.join(", ")
            )),
            _ if stale.is_empty() => None,
            _ => {
                let scope = if existing.spec.scope == "Namespaced" { " --all-namespaces" } else { "" };
                let kept = served.join("\",\"");
                Some(format!(
                    "{name} may still hold objects stored as {}; while the release that serves it runs, store them again with \
                     `kubectl get {name}{scope} --output=json | kubectl replace --filename=-`, say that none is left with \
                     `kubectl patch crd {name} --subresource=status --type=merge \
                     --patch='{{\"status\":{{\"storedVersions\":[\"{kept}\"]}}}}'`, and run this again",
                    stale.join(", ")
                ))
            }
        }
    }

    pub fn to_value(&self) -> &Value {
        &self.document
    }

    pub fn to_yaml(&self) -> String {
        let body = serde_saphyr::to_string(&self.document).expect("a JSON tree is a YAML tree");
        format!("---\n{body}")
    }
}

/// All definitions of a set, in the order of their file names.
pub fn definitions(set: CrdSet) -> Vec<Crd> {
    let mut documents = vec![
        finished(CapacityBuffer::crd(), SpecIs::Required),
        finished(NodeClaim::crd(), SpecIs::Required),
        finished(NodeOverlay::crd(), SpecIs::Required),
        finished(NodePool::crd(), SpecIs::Required),
    ];
    match set {
        CrdSet::Core => {}
        CrdSet::Aws => {
            add_aws_label_rules(&mut documents);
            documents.push(finished(EC2NodeClass::crd(), SpecIs::Optional));
            documents.push(finished(AWSNodeTemplate::crd(), SpecIs::Optional));
            documents.push(finished(Provisioner::crd(), SpecIs::Optional));
        }
        CrdSet::Kwok => {
            add_kwok_label_rules(&mut documents);
            documents.push(born_ready(finished(KWOKNodeClass::crd(), SpecIs::Optional)));
        }
    }
    let mut definitions: Vec<Crd> = documents.into_iter().map(|document| Crd { document }).collect();
    definitions.sort_by_key(Crd::file_name);
    definitions
}

/// Every file of `crds/`, by its path from the repository's root.
pub fn files() -> BTreeMap<String, String> {
    CrdSet::ALL
        .into_iter()
        .flat_map(|set| definitions(set).into_iter().map(move |crd| (set, crd)))
        .map(|(set, crd)| (format!("crds/{}/{}", set.name(), crd.file_name()), crd.to_yaml()))
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SpecIs {
    Required,
    Optional,
}

/// Turns what the derive gives into what the reference's tools would have written.
fn finished(crd: CustomResourceDefinition, spec: SpecIs) -> Value {
    let mut document = serde_json::to_value(crd).expect("a definition is plain data");
    edit(&mut document, "/spec/names", |names| {
        names["listKind"] = format!("{}List", names["kind"].as_str().unwrap_or_default()).into();
    });
    edit(&mut document, "/spec/versions/0/schema/openAPIV3Schema", |schema| {
        *schema = tidied(std::mem::take(schema));
        add_type_and_object_meta(schema);
        for part in ["spec", "status"] {
            // The derive takes "may be missing" for "has a default"; the API server would then store an empty object.
            if let Some(part) = schema["properties"][part].as_object_mut() {
                part.remove("default");
            }
        }
        if let Some(root) = schema.as_object_mut() {
            root.remove("title");
            root.remove("required");
            if spec == SpecIs::Required {
                root.insert("required".into(), json!(["spec"]));
            }
        }
    });
    document
}

fn add_type_and_object_meta(schema: &mut Value) {
    edit(schema, "/properties", |properties| {
        properties["apiVersion"] = json!({
            "type": "string",
            "description": "The group and version that this object is written in.",
        });
        properties["kind"] = json!({"type": "string", "description": "The kind of this object."});
        properties["metadata"] = json!({"type": "object"});
    });
}

/// The reference has no nullable fields, spells out both types of a quantity, and writes whole numbers without a fraction.
fn tidied(schema: Value) -> Value {
    match schema {
        Value::Object(members) => {
            let mut members: Map<String, Value> = members
                .into_iter()
                .filter(|(name, value)| !(name == "nullable" && value.is_boolean()))
                .map(|(name, value)| (name, tidied(value)))
                .collect();
            // An optional choice is a choice all the same; "not chosen" is the absence of the field.
            if let Some(choices) = members.get_mut("enum").and_then(Value::as_array_mut) {
                choices.retain(|choice| !choice.is_null());
            }
            // The derive folds alternatives into their common part and leaves two empty ones here.
            if members.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
                members.insert("anyOf".into(), json!([{"type": "integer"}, {"type": "string"}]));
            }
            members.into()
        }
        Value::Array(items) => items.into_iter().map(tidied).collect(),
        Value::Number(number) => match number.as_f64() {
            #[expect(clippy::cast_possible_truncation, reason = "bounds of fields are small whole numbers")]
            Some(float) if number.is_f64() && float.fract() == 0.0 => json!(float as i64),
            _ => Value::Number(number),
        },
        other => other,
    }
}

/// A class of the simulated cloud has nothing to wait for.
fn born_ready(mut document: Value) -> Value {
    let status = serde_json::to_value(kwok::KWOKNodeClassStatus::default()).expect("a status is plain data");
    edit(&mut document, "/spec/versions/0/schema/openAPIV3Schema/properties/status", |schema| {
        schema["default"] = status
    });
    document
}

const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
const KEY_RULES: &str = "requirements/items/properties/key/x-kubernetes-validations";

fn add_aws_label_rules(documents: &mut [Value]) {
    let overlay_labels: Vec<&str> =
        aws::LABELS.into_iter().filter(|label| !aws::LAUNCH_LABELS.contains(label)).collect();
    for document in documents {
        match document["spec"]["names"]["kind"].as_str() {
            Some("NodePool") => {
                let labels = format!("{SPEC}/template/properties/metadata/properties/labels/x-kubernetes-validations");
                add_rule(document, &labels, map_rule(aws::DOMAIN, &aws::LABELS));
                let keys = format!("{SPEC}/template/properties/spec/properties/{KEY_RULES}");
                add_rule(document, &keys, key_rule(aws::DOMAIN, &aws::LABELS));
            }
            Some("NodeClaim") => {
                add_rule(document, &format!("{SPEC}/{KEY_RULES}"), key_rule(aws::DOMAIN, &aws::LABELS));
            }
            Some("NodeOverlay") => {
                add_rule(document, &format!("{SPEC}/{KEY_RULES}"), key_rule(aws::DOMAIN, &overlay_labels));
            }
            _ => {}
        }
    }
}

fn add_kwok_label_rules(documents: &mut [Value]) {
    for document in documents {
        let keys = match document["spec"]["names"]["kind"].as_str() {
            Some("NodePool") => format!("{SPEC}/template/properties/spec/properties/{KEY_RULES}"),
            Some("NodeClaim") => format!("{SPEC}/{KEY_RULES}"),
            _ => continue,
        };
        add_rule(document, &keys, key_rule(kwok::DOMAIN, &kwok::LABELS));
    }
}

fn add_rule(document: &mut Value, pointer: &str, rule: Value) {
    edit(document, pointer, |rules| {
        if let Some(rules) = rules.as_array_mut() {
            rules.push(rule);
        }
    });
}

/// Refuses a requirement on a key of the provider's domain that the provider does not know.
fn key_rule(domain: &str, known: &[&str]) -> Value {
    domain_rule(domain, &outside_or_known("self", domain, known))
}

/// The same for every key of a label map.
fn map_rule(domain: &str, known: &[&str]) -> Value {
    domain_rule(domain, &format!("self.all(x, {})", outside_or_known("x", domain, known)))
}

fn domain_rule(domain: &str, rule: &str) -> Value {
    json!({"message": format!("label domain \"{domain}\" is restricted"), "rule": rule})
}

fn outside_or_known(variable: &str, domain: &str, known: &[&str]) -> String {
    let known: Vec<String> = known.iter().map(|key| format!("\"{key}\"")).collect();
    format!("{variable} in [{}] || !{variable}.find(\"^([^/]+)\").endsWith(\"{domain}\")", known.join(", "))
}
