//! When a toleration meets a taint.

use model::taints::canonical_integer;
use serde_json::Value;

use super::each;

pub(crate) fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = toleration["key"].as_str().unwrap_or_default();
    let effect = toleration["effect"].as_str().unwrap_or_default();
    if !effect.is_empty() && taint["effect"] != effect || !key.is_empty() && taint["key"] != key {
        return false;
    }
    match toleration["operator"].as_str().unwrap_or("Equal") {
        "Exists" => true,
        "Equal" | "" => text(&toleration["value"]) == text(&taint["value"]),
        operator @ ("Gt" | "Lt") => {
            let numbers = canonical_integer(&text(&taint["value"])).zip(canonical_integer(&text(&toleration["value"])));
            numbers.is_some_and(|(value, bound)| if operator == "Gt" { value > bound } else { value < bound })
        }
        _ => false,
    }
}

/// Whether any toleration of a list meets the taint.
pub(crate) fn is_tolerated(taint: &Value, tolerations: &Value) -> bool {
    each(tolerations).any(|toleration| tolerates(toleration, taint))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_toleration_meets_what_it_names_and_what_it_leaves_open() {
        let taint = json!({"key": "a", "value": "1", "effect": "NoExecute"});
        for (toleration, expected) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "a", "operator": "Exists"}), true),
            (json!({"key": "a", "value": "1"}), true),
            (json!({"key": "a", "value": "2"}), false),
            (json!({"key": "b", "operator": "Exists"}), false),
            (json!({"key": "a", "operator": "Exists", "effect": "NoSchedule"}), false),
            (json!({"key": "a", "operator": "Gt", "value": "0"}), true),
            (json!({"key": "a", "operator": "Lt", "value": "1"}), false),
        ] {
            assert_eq!(tolerates(&toleration, &taint), expected, "{toleration}");
        }
    }
}
