//! How objects are read and what is written into many of them: names, owners, times, conditions, selectors, tolerations.
//!
//! Objects stay JSON. Indexing a `Value` by a key that is not there gives `Null`, so reading needs no checks.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apiserver::At;

pub(crate) use amounts::{quantity, sum_of_pod};
pub(crate) use conditions::{condition, conditions_with, has_condition, is_ready};
pub(crate) use selector::{Requirement, Selector, Wanted, matches_node_terms};
pub(crate) use taints::{is_tolerated, tolerates};

mod amounts;
mod conditions;
mod selector;
mod taints;

pub(crate) fn at(object: &Value) -> At {
    At::of(object)
}

pub(crate) fn at_in(namespace: &str, name: &str) -> At {
    At::new(namespace, name)
}

/// Where an object of the whole cluster lies.
pub(crate) fn at_cluster(name: &str) -> At {
    at_in("", name)
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(crate) fn namespace(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or_default()
}

pub(crate) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

pub(crate) fn labels(object: &Value) -> &Value {
    &object["metadata"]["labels"]
}

pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

/// The elements of a list; none when it is missing.
pub(crate) fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

pub(crate) fn integer(value: &Value, otherwise: i64) -> i64 {
    value.as_i64().unwrap_or(otherwise)
}

/// The node that a pod is bound to.
pub(crate) fn node_of(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty())
}

pub(crate) fn phase(object: &Value) -> &str {
    object["status"]["phase"].as_str().unwrap_or_default()
}

/// Whether a pod has ended, well or not.
pub(crate) fn is_terminal(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// The owner that controls an object.
pub(crate) fn controller(object: &Value) -> Option<&Value> {
    each(&object["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true)
}

pub(crate) fn controller_uid(object: &Value) -> Option<&str> {
    controller(object)?["uid"].as_str()
}

/// A reference to the owner that controls what it is written into.
pub(crate) fn owner_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The moment as the API writes it: whole seconds.
pub(crate) fn stamp(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

pub(crate) fn moment(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

pub(crate) fn created(object: &Value) -> Timestamp {
    moment(&object["metadata"]["creationTimestamp"]).unwrap_or(Timestamp::UNIX_EPOCH)
}

pub(crate) fn after_seconds(moment: Timestamp, seconds: i64) -> Timestamp {
    moment.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// The seconds that an annotation gives.
pub(crate) fn seconds_in_annotation(object: &Value, key: &str) -> Option<i64> {
    annotation(object, key)?.parse().ok().filter(|seconds| *seconds >= 0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Up,
    Down,
}

/// A number, or a percentage of a total.
pub(crate) fn scaled(value: &Value, total: i64, rounding: Rounding) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let product = percent * total;
    Some(match rounding {
        Rounding::Up => (product + 99).div_euclid(100),
        Rounding::Down => product.div_euclid(100),
    })
}

/// FNV-1a in 32 bits, which is what Kubernetes hashes templates with.
pub(crate) fn hash32(text: &str) -> u32 {
    text.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// FNV-1a in 64 bits.
pub(crate) fn hash64(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// The hash of a pod template as it stands in labels and names: digits spelled in letters that form no words. The real one hashes
/// another spelling of the template, so the letters differ, but not what they say.
pub(crate) fn template_hash(template: &Value, collisions: i64) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let salt = if collisions > 0 { collisions.to_string() } else { String::new() };
    let digits = hash32(&format!("{template}{salt}")).to_string();
    digits.bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

/// A shared text, so that many keys cost one.
pub(crate) fn shared(text: &str) -> Arc<str> {
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_the_way_they_are_told() {
        for (value, total, up, down) in [
            (json!("25%"), 3, Some(1), Some(0)),
            (json!("50%"), 4, Some(2), Some(2)),
            (json!("100%"), 7, Some(7), Some(7)),
            (json!(2), 9, Some(2), Some(2)),
            (json!("x"), 9, None, None),
            (Value::Null, 9, None, None),
        ] {
            assert_eq!(
                (scaled(&value, total, Rounding::Up), scaled(&value, total, Rounding::Down)),
                (up, down),
                "{value}"
            );
        }
    }

    #[test]
    fn moments_lose_their_fractions_on_the_wire() {
        let moment: Timestamp = "2026-01-01T00:00:05.75Z".parse().unwrap();
        assert_eq!(stamp(moment), "2026-01-01T00:00:05Z");
        assert_eq!(after_seconds(moment, 60).to_string(), "2026-01-01T00:01:05.75Z");
    }

    #[test]
    fn only_one_owner_controls() {
        let owners = json!([{"uid": "a"}, {"uid": "b", "controller": true}]);
        let object = json!({"metadata": {"ownerReferences": owners}});
        assert_eq!(controller_uid(&object), Some("b"));
        assert_eq!(controller_uid(&json!({"metadata": {"ownerReferences": [{"uid": "a"}]}})), None);
    }
}
