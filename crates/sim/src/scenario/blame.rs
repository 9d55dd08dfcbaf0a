//! Which line of a manifest a refusal is about.

use std::sync::Arc;

use serde_json::Value;

use super::act::Manifest;
use crate::apiserver::Refusal;

/// Parts that say which object it is. Without them another one would be judged.
const IDENTITY: [&str; 4] = ["apiVersion", "kind", "metadata.name", "metadata.namespace"];

/// The line of the field that the refusal names. If it names none, that of the smallest part without which the complaint would not be
/// made; `again` says what would come of the manifest then.
pub(super) fn line(
    manifest: &Manifest,
    refusal: &Refusal,
    again: impl Fn(&Value) -> Result<Arc<Value>, Refusal>,
) -> u64 {
    if missing_namespace(refusal).is_some() {
        return manifest.source.line_of("metadata.namespace");
    }
    if let Some(field) = field(&refusal.message) {
        return manifest.source.line_of(field);
    }
    let mut parts = Vec::new();
    list_parts(&manifest.value, &Place::default(), &mut parts);
    parts.retain(|part| !IDENTITY.contains(&part.path.as_str()));
    // The deepest first; of equals the one that stands first.
    parts.sort_by_key(|part| std::cmp::Reverse(part.pointer.matches('/').count()));
    let is_to_blame = |part: &&Place| {
        let mut rest = manifest.value.clone();
        remove(&mut rest, &part.pointer);
        again(&rest).err().is_none_or(|other| complaint(&other.message) != complaint(&refusal.message))
    };
    parts.iter().find(is_to_blame).map_or(manifest.source.line, |part| manifest.source.line_of(&part.path))
}

/// The namespace that is not there, if that is what is said.
pub(super) fn missing_namespace(refusal: &Refusal) -> Option<&str> {
    let (name, _) = refusal.message.strip_prefix("namespaces \"")?.split_once('"')?;
    Some(name)
}

/// The first field that a refusal names, as in `NodePool.karpenter.sh "a" is invalid: [spec.weight: Invalid value: …`.
fn field(message: &str) -> Option<&str> {
    let (_, causes) = message.split_once(" is invalid: ")?;
    let (field, _) = causes.trim_start_matches('[').split_once(": ")?;
    // A patch that cannot be read is quoted as a whole.
    (field != "patch").then_some(field)
}

/// What is said without what it is said of.
fn complaint(message: &str) -> &str {
    let marks = [" is forbidden: ", " cannot be handled as a ", "}\": "];
    marks.iter().find_map(|mark| message.rsplit_once(mark)).map_or(message, |(_, complaint)| complaint)
}

/// A part of a value, as manifests and as JSON pointers name it.
#[derive(Default)]
struct Place {
    path: String,
    pointer: String,
}

fn list_parts(value: &Value, place: &Place, parts: &mut Vec<Place>) {
    let Place { path, pointer } = place;
    let children: Vec<(Place, &Value)> = match value {
        Value::Object(members) => members
            .iter()
            .map(|(key, child)| {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let escaped = key.replace('~', "~0").replace('/', "~1");
                (Place { path, pointer: format!("{pointer}/{escaped}") }, child)
            })
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(number, child)| {
                let place = Place { path: format!("{path}[{number}]"), pointer: format!("{pointer}/{number}") };
                (place, child)
            })
            .collect(),
        _ => Vec::new(),
    };
    for (place, child) in children {
        list_parts(child, &place, parts);
        parts.push(place);
    }
}

fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, last)) = pointer.rsplit_once('/') else { return };
    match value.pointer_mut(parent) {
        Some(Value::Object(members)) => drop(members.remove(&last.replace("~1", "/").replace("~0", "~"))),
        Some(Value::Array(items)) => {
            if let Some(number) = last.parse::<usize>().ok().filter(|number| *number < items.len()) {
                items.remove(number);
            }
        }
        _ => {}
    }
}
