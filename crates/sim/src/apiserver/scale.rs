//! The scale subresource: how many of something there are, and how many there shall be.

use serde_json::{Value, json};

use super::denial::{Cause, Denial};
use super::meta;
use crate::kinds::Kind;

const SPEC_PATH: &str = ".spec.replicas";

/// The scale of an object.
pub(super) fn read(kind: Kind, object: &Value) -> Result<Value, Denial> {
    if kind.is_custom() && object["spec"]["replicas"].is_null() {
        let message = format!("Internal error occurred: the spec replicas field {SPEC_PATH:?} does not exist");
        return Err(Denial::internal(message));
    }
    Ok(for_change(kind, object))
}

/// The same, also where nothing says yet how many there shall be.
pub(super) fn for_change(kind: Kind, object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {
            "name": metadata["name"], "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {},
        "status": {"replicas": object["status"][status_member(kind)].as_i64().unwrap_or(0)},
    });
    meta::set(&mut scale, "namespace", metadata["namespace"].clone());
    meta::put_member(&mut scale["spec"], "replicas", object["spec"]["replicas"].clone());
    let selector = if kind.is_custom() { String::new() } else { selector_text(&object["spec"]["selector"]) };
    if !selector.is_empty() {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

/// The object with the number that a scale asks for.
pub(super) fn apply(kind: Kind, object: &Value, scale: &Value) -> Result<Value, Denial> {
    let name = meta::name(object);
    if meta::name(scale) != name {
        let message =
            format!("the name of the object ({}) does not match the name on the URL ({name})", meta::name(scale));
        return Err(Denial::bad_request(message));
    }
    let wanted = match &scale["spec"]["replicas"] {
        Value::Null if kind.is_custom() => {
            return Err(Denial::bad_request(format!("the spec replicas field {SPEC_PATH:?} cannot be empty")));
        }
        // Left out means none, as in the type of the API.
        Value::Null => 0,
        number => {
            number.as_i64().ok_or_else(|| Denial::bad_request(format!("spec.replicas is no number: {number}")))?
        }
    };
    if wanted < 0 {
        let cause = Cause::invalid("spec.replicas", &wanted.into(), "must be greater than or equal to 0");
        return Err(Denial::invalid_as("Scale.autoscaling", name, &[cause]));
    }
    let mut object = object.clone();
    object["spec"]["replicas"] = wanted.into();
    match meta::version(scale) {
        "" => {}
        version => object["metadata"]["resourceVersion"] = version.into(),
    }
    match meta::uid(scale) {
        "" => {}
        uid => object["metadata"]["uid"] = uid.into(),
    }
    Ok(object)
}

fn status_member(kind: Kind) -> &'static str {
    if kind == Kind::NodePool { "nodes" } else { "replicas" }
}

/// A selector as text: labels first, in the order of their keys.
fn selector_text(selector: &Value) -> String {
    let labels = &selector["matchLabels"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut rules: Vec<(String, String)> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), format!("{key}={}", text(value))))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = text(&expression["key"]);
        let mut values: Vec<String> = expression["values"].as_array().into_iter().flatten().map(text).collect();
        values.sort();
        let values = values.join(",");
        let rule = match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.clone(),
            _ => format!("!{key}"),
        };
        rules.push((key, rule));
    }
    rules.sort();
    rules.into_iter().map(|(_, rule)| rule).collect::<Vec<_>>().join(",")
}
