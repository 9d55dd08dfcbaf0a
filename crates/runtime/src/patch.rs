//! The difference between two documents as a JSON merge patch (RFC 7396), the one kind of patch that we send.

use serde_json::{Map, Value};

/// The smallest merge patch that turns `from` into `to`; `None` when they are equal already.
///
/// A merge patch cannot set a member to null, so a null in `to` counts as an absent member.
pub fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        return (from != to).then(|| to.clone());
    };
    let mut patch = Map::new();
    for (name, old_value) in old {
        let is_gone = new.get(name).is_none_or(Value::is_null);
        if is_gone && !old_value.is_null() {
            patch.insert(name.clone(), Value::Null);
        }
    }
    for (name, new_value) in new.iter().filter(|(_, value)| !value.is_null()) {
        let change = match old.get(name) {
            Some(old_value) => merge_patch(old_value, new_value),
            None => Some(new_value.clone()),
        };
        if let Some(change) = change {
            patch.insert(name.clone(), change);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// What an API server does with a merge patch.
    fn apply(target: &mut Value, patch: &Value) {
        let Value::Object(changes) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (name, change) in changes {
            if change.is_null() {
                target.as_object_mut().unwrap().remove(name);
            } else {
                apply(&mut target[name], change);
            }
        }
    }

    fn document() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..3_i64).prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn lists_are_replaced_and_members_removed_one_by_one() {
        let from = json!({"keep": 1, "list": [1, 2], "deep": {"gone": true, "same": "x"}});
        let to = json!({"keep": 1, "list": [2], "deep": {"same": "x", "new": null}});
        assert_eq!(merge_patch(&from, &to), Some(json!({"list": [2], "deep": {"gone": null}})));
        assert_eq!(merge_patch(&from, &from), None);
    }

    proptest! {
        #[test]
        fn the_patch_leads_from_one_document_to_the_other(from in document(), to in document()) {
            let mut changed = from.clone();
            if let Some(patch) = merge_patch(&from, &to) {
                apply(&mut changed, &patch);
            }
            prop_assert_eq!(changed, to);
        }
    }
}
