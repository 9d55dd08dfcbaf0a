//! What becomes of an object before it is checked: what nobody knows is dropped, what has a default and is missing is filled in.

use serde_json::{Map, Value};

use super::node::Node;

/// Fields of the object itself that no schema describes.
const OWN_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

const METADATA_FIELDS: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Brings a whole object into shape.
pub(super) fn complete_object(node: &Node, object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.retain(|name, value| METADATA_FIELDS.contains(&name.as_str()) && !value.is_null());
    }
    complete_fields(node, fields, |name| OWN_FIELDS.contains(&name));
}

fn complete(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => complete_fields(node, fields, |_| false),
        Value::Array(entries) => {
            let Some(items) = node.items.as_deref() else { return };
            for entry in entries {
                // Without a default a null stays, and the check of its type refuses it.
                if let (Value::Null, false, Some(default)) = (&*entry, items.is_nullable, &items.default) {
                    *entry = default.clone();
                }
                complete(items, entry);
            }
        }
        _ => {}
    }
}

fn complete_fields(node: &Node, fields: &mut Map<String, Value>, is_left_alone: fn(&str) -> bool) {
    for (name, property) in &node.properties {
        let Some(default) = &property.default else { continue };
        let is_missing = fields.get(name).is_none_or(|value| value.is_null() && !property.is_nullable);
        if is_missing {
            fields.insert(name.clone(), default.clone());
        }
    }
    fields.retain(|name, value| {
        if is_left_alone(name) {
            return true;
        }
        let Some(member) = node.member(name) else { return node.keeps_unknown_fields };
        if value.is_null() && !member.is_nullable {
            let Some(default) = &member.default else { return false };
            *value = default.clone();
        }
        complete(member, value);
        true
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn completed(mut object: Value) -> Value {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "properties": {
                "budget": {"type": "object", "default": {"after": "0s"}, "properties": {
                    "after": {"type": "string"},
                    "nodes": {"type": "string", "default": "10%"},
                }},
                "plain": {"type": "string"},
                "perhaps": {"type": "string", "nullable": true, "default": "x"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                    "known": {"type": "object"},
                }},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}},
            },
        }}});
        complete_object(&Node::read(&schema, "").unwrap(), &mut object);
        object
    }

    #[test]
    fn a_default_is_filled_in_and_gets_the_defaults_within() {
        assert_eq!(
            completed(json!({"spec": {}}))["spec"],
            json!({"budget": {"after": "0s", "nodes": "10%"}, "perhaps": "x"})
        );
        let entries = completed(json!({"spec": {"list": [{}, {"a": 2}]}}));
        assert_eq!(entries["spec"]["list"], json!([{"a": 1}, {"a": 2}]));
        assert_eq!(completed(json!({})), json!({}));
    }

    #[test]
    fn a_null_becomes_the_default_or_nothing_unless_it_is_allowed() {
        let spec =
            json!({"budget": null, "plain": null, "perhaps": null, "map": {"a": null, "b": "c"}, "list": [null]});
        let expected = json!({
            "budget": {"after": "0s", "nodes": "10%"}, "perhaps": null, "map": {"b": "c"}, "list": [null],
        });
        assert_eq!(completed(json!({"spec": spec}))["spec"], expected);
    }

    #[test]
    fn unknown_fields_are_dropped_where_they_are_not_kept() {
        let object = json!({
            "kind": "K", "apiVersion": "v1", "surprise": 1,
            "metadata": {"name": "n", "surprise": 2, "uid": null, "labels": {"a": "b"}},
            "spec": {"perhaps": "y", "budget": {"after": "1s", "nodes": "1", "x": 1},
                "surprise": [], "free": {"what": {"ever": 1}, "known": {"x": 1}}, "map": {"any": "z"}},
        });
        let expected = json!({
            "kind": "K", "apiVersion": "v1", "metadata": {"name": "n", "labels": {"a": "b"}},
            "spec": {"perhaps": "y", "budget": {"after": "1s", "nodes": "1"},
                "free": {"what": {"ever": 1}, "known": {}}, "map": {"any": "z"}},
        });
        assert_eq!(completed(object), expected);
    }
}
