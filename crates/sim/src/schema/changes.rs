//! What was there before a change, and whether it still is. The API server forgives faults in what an update leaves as it was.

use serde_json::Value;

use super::node::{ListKind, Node};

/// What a field or an entry of a map was before.
pub(super) fn old_member<'a>(old: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    old?.as_object()?.get(name)
}

/// What an entry of a list was before. Only entries that are told apart by keys are known again.
pub(super) fn old_entry<'a>(list: &Node, entry: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
    let ListKind::Map(keys) = &list.list else { return None };
    let is_scalar = |value: &Value| value.is_string() || value.is_number() || value.is_boolean();
    let is_same = |candidate: &Value| {
        keys.iter().all(|key| match (entry.get(key), candidate.get(key)) {
            (Some(value), Some(other)) => is_scalar(value) && value == other,
            _ => false,
        })
    };
    old?.as_array()?.iter().find(|candidate| is_same(candidate))
}

/// Whether a value is what it was. Objects with fields that the schema does not know count as changed.
pub(super) fn is_unchanged(node: &Node, value: &Value, old: &Value) -> bool {
    match (value, old) {
        (Value::Object(fields), Value::Object(old_fields)) => {
            fields.len() == old_fields.len()
                && fields.iter().all(|(name, value)| match (node.member(name), old_fields.get(name)) {
                    (Some(member), Some(old)) => is_unchanged(member, value, old),
                    _ => false,
                })
        }
        (Value::Array(entries), Value::Array(old_entries)) => match (&node.list, &node.items) {
            (ListKind::Map(_), Some(items)) => {
                entries.len() == old_entries.len()
                    && entries.iter().all(|entry| {
                        old_entry(node, entry, Some(old)).is_some_and(|old| is_unchanged(items, entry, old))
                    })
            }
            _ => entries == old_entries,
        },
        _ => value == old,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node() -> Node {
        let schema = json!({"type": "object", "properties": {
            "plain": {"type": "array", "items": {"type": "string"}},
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
            }},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        Node::read(&schema, "").unwrap()
    }

    #[test]
    fn entries_with_keys_are_known_again_at_another_place() {
        let old = json!({"keyed": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]});
        assert!(is_unchanged(&node(), &json!({"keyed": [{"k": "b", "v": 2}, {"k": "a", "v": 1}]}), &old));
        assert!(!is_unchanged(&node(), &json!({"keyed": [{"k": "b", "v": 3}, {"k": "a", "v": 1}]}), &old));
        let keyed = &node().properties["keyed"].list;
        assert_eq!(*keyed, ListKind::Map(vec!["k".into()]));
        let found = old_entry(&node().properties["keyed"], &json!({"k": "b"}), Some(&old["keyed"])).cloned();
        assert_eq!(found, Some(json!({"k": "b", "v": 2})));
    }

    #[test]
    fn the_order_of_other_lists_matters() {
        let old = json!({"plain": ["a", "b"]});
        assert!(is_unchanged(&node(), &old, &old));
        assert!(!is_unchanged(&node(), &json!({"plain": ["b", "a"]}), &old));
        assert_eq!(old_entry(&node().properties["plain"], &json!("a"), Some(&old["plain"])), None);
    }

    #[test]
    fn what_the_schema_does_not_know_counts_as_changed() {
        let value = json!({"free": {"x": 1}});
        assert!(!is_unchanged(&node(), &value, &value));
        assert!(is_unchanged(&node(), &json!({"free": {}}), &json!({"free": {}})));
    }
}
