//! Lists whose entries must differ: sets, and lists that are told apart by keys.

use serde_json::{Map, Value};

use super::error::{FieldError, FieldErrorKind};
use super::node::{ListKind, Node};
use super::path::Path;

/// Reports every entry that is there for the second time.
pub(super) fn check(node: &Node, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !node.leads_to_unique_lists {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (node.properties.get(name), node.entries.as_deref()) {
                    (Some(property), _) => check(property, value, &path.field(name), errors),
                    (None, Some(entries)) => check(entries, value, &path.key(name), errors),
                    (None, None) => {}
                }
            }
        }
        Value::Array(entries) => {
            check_list(node, entries, path, errors);
            let Some(items) = node.items.as_deref() else { return };
            for (index, entry) in entries.iter().enumerate() {
                check(items, entry, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

fn check_list(node: &Node, entries: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let keys: Vec<Value> = match &node.list {
        ListKind::Atomic => return,
        ListKind::Set => entries.to_vec(),
        ListKind::Map(names) => {
            let stray = entries.iter().position(|entry| !entry.is_null() && !entry.is_object());
            if let Some(index) = stray {
                let detail = "must be an object for an array of list-type map";
                let field = path.index(index).bracketed_field();
                errors.push(FieldError::with_value(FieldErrorKind::Invalid, field, &entries[index], detail));
                return;
            }
            entries.iter().map(|entry| key_of(entry, names)).collect()
        }
    };
    for (index, key) in keys.iter().enumerate() {
        // A third one is not reported again.
        if keys[..index].iter().filter(|earlier| *earlier == key).count() == 1 {
            let field = path.index(index).bracketed_field();
            errors.push(FieldError::with_value(FieldErrorKind::Duplicate, field, key, ""));
        }
    }
}

fn key_of(entry: &Value, names: &[String]) -> Value {
    let fields = names.iter().filter_map(|name| Some((name.clone(), entry.get(name)?.clone())));
    Value::Object(fields.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(value: Value) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "maps": {"type": "object", "additionalProperties": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                "items": {"type": "object", "properties": {"type": {"type": "string"}}},
            }},
        }});
        let mut errors = Vec::new();
        check(&Node::read(&schema, "").unwrap(), &value, &Path::Root, &mut errors);
        errors.iter().map(FieldError::to_string).collect()
    }

    #[test]
    fn an_entry_that_comes_again_is_reported_once() {
        assert_eq!(errors(json!({"set": ["a", "b", "a", "a"]})), ["set[2]: Duplicate value: \"a\""]);
        assert_eq!(
            errors(json!({"maps": {"x": [{"type": "A", "n": 1}, {"type": "A", "n": 2}, {"type": "B"}]}})),
            ["maps[x][1]: Duplicate value: {\"type\":\"A\"}"]
        );
        assert_eq!(errors(json!({"maps": {"x": [{"type": "A"}, {}]}})), [""; 0]);
    }
}
