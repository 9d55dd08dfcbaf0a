//! Conditions in a status.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{each, stamp};

pub(crate) fn condition<'a>(object: &'a Value, of_type: &str) -> Option<&'a Value> {
    each(&object["status"]["conditions"]).find(|condition| condition["type"] == of_type)
}

pub(crate) fn has_condition(object: &Value, of_type: &str, status: &str) -> bool {
    condition(object, of_type).is_some_and(|condition| condition["status"] == status)
}

/// Whether a pod or a node says that it is ready.
pub(crate) fn is_ready(object: &Value) -> bool {
    has_condition(object, "Ready", "True")
}

/// An object's conditions with some of them set. `said` holds type, status, reason and message; an empty reason or message is left
/// out. The time of a transition moves only when the status does; a condition that says the same as before stays as it is.
pub(crate) fn conditions_with(object: &Value, now: Timestamp, said: &[[&str; 4]]) -> Value {
    let mut all: Vec<Value> = each(&object["status"]["conditions"]).cloned().collect();
    for [of_type, status, reason, message] in said {
        let place = all.iter().position(|condition| condition["type"] == *of_type);
        let before = place.map(|place| &all[place]);
        let is_turned = before.is_none_or(|before| before["status"] != *status);
        let since = match before {
            Some(before) if !is_turned => before["lastTransitionTime"].clone(),
            _ => Value::String(stamp(now)),
        };
        let mut condition = json!({"type": of_type, "status": status, "lastTransitionTime": since});
        for (key, text) in [("reason", reason), ("message", message)] {
            if !text.is_empty() {
                condition[key] = Value::String((*text).to_owned());
            }
        }
        match place {
            Some(place) => all[place] = condition,
            None => all.push(condition),
        }
    }
    Value::Array(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transition_is_dated_only_when_the_status_turns() {
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
        let old = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let object = json!({"status": {"conditions": [old]}});
        let same = conditions_with(&object, now, &[["Ready", "True", "Fine", ""]]);
        assert_eq!(same[0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert_eq!(same[0]["reason"], "Fine");
        let turned = conditions_with(&object, now, &[["Ready", "False", "", ""], ["New", "True", "", "m"]]);
        assert_eq!(turned[0]["lastTransitionTime"], "2026-01-01T00:00:10Z");
        assert_eq!((&turned[1]["type"], &turned[1]["message"]), (&json!("New"), &json!("m")));
    }
}
