//! The static drift hash: one number for everything about a NodePool that its nodes were made from.
//!
//! The reference hashes with a library of its own, and its numbers cannot be matched. So ours carries a version of its own:
//! claims that another controller stamped are stamped again, and never rolled. Decision 0008.

use serde_json::{Map, Value};

use std::collections::BTreeMap;

use crate::nodeclaim::NodeClaim;
use crate::nodepool::NodePoolSpec;

/// Goes into `karpenter.sh/nodepool-hash-version`. Change it whenever the same pool would hash differently.
pub const NODE_POOL_HASH_VERSION: &str = "dovetail-1";

/// A decimal number that changes when, and only when, nodes of the pool would be made differently.
///
/// The order of lists does not count, an empty field equals an absent one, and durations count by length. Requirements are
/// left out, because drift compares those by meaning.
pub fn node_pool_hash(pool: &NodePoolSpec) -> String {
    let mut template = pool.template.clone();
    // A taint without a value and one with an empty value are the same taint. An empty label value is a value.
    for taint in template.spec.taints.iter_mut().chain(&mut template.spec.startup_taints) {
        taint.value = taint.value.take().filter(|value| !value.is_empty());
    }
    let mut template = serde_json::to_value(&template).expect("a template is plain data");
    if let Some(spec) = template["spec"].as_object_mut() {
        spec.remove("requirements");
        spec.remove("expireAfter");
        if let Some(expire_after) = pool.template.spec.expire_after.value() {
            spec.insert("expireAfter".into(), expire_after.as_nanos().into());
        }
    }
    let canonical = canonical(template).unwrap_or_default();
    fnv1a(canonical.to_string().as_bytes()).to_string()
}

/// The hash of the template that a claim was made from, as far as the claim shows it: its spec, which nobody can change, and
/// of labels and annotations those that the template names. It is the pool's own hash unless the template was changed since.
///
/// A label that the template no longer has cannot be told from one that somebody else gave the claim, so it does not count.
pub fn node_claim_hash(claim: &NodeClaim, pool: &NodePoolSpec) -> String {
    let mut shown = pool.clone();
    let keep = |named: &mut BTreeMap<String, String>, held: Option<&BTreeMap<String, String>>| {
        *named = std::mem::take(named)
            .into_keys()
            .filter_map(|key| held.and_then(|held| held.get_key_value(&key)))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
    };
    let (metadata, spec) = (&mut shown.template.metadata, &mut shown.template.spec);
    keep(&mut metadata.labels, claim.metadata.labels.as_ref());
    keep(&mut metadata.annotations, claim.metadata.annotations.as_ref());
    spec.taints = claim.spec.taints.clone();
    spec.startup_taints = claim.spec.startup_taints.clone();
    spec.node_class_ref = claim.spec.node_class_ref.clone();
    spec.expire_after = claim.spec.expire_after.clone();
    spec.termination_grace_period = claim.spec.termination_grace_period;
    node_pool_hash(&shown)
}

/// The value without empty parts and with lists as sorted sets; `None` when nothing is left.
fn canonical(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(items) => {
            let mut items: Vec<String> = items.into_iter().filter_map(canonical).map(|item| item.to_string()).collect();
            items.sort();
            items.dedup();
            (!items.is_empty()).then(|| items.into())
        }
        Value::Object(members) => {
            let members: Map<String, Value> =
                members.into_iter().filter_map(|(name, value)| Some((name, canonical(value)?))).collect();
            (!members.is_empty()).then(|| members.into())
        }
        other => Some(other),
    }
}

/// FNV-1a: tiny, and the same on every machine and in every release, which std's hasher does not promise.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool() -> Value {
        json!({
            "template": {
                "metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                    "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
                    "taints": [
                        {"key": "a", "effect": "NoSchedule"},
                        {"key": "b", "effect": "NoExecute"},
                    ],
                    "startupTaints": [{"key": "c", "effect": "NoSchedule"}],
                    "expireAfter": "1h",
                    "terminationGracePeriod": "10m",
                },
            },
        })
    }

    /// The hash after setting the value at a JSON pointer.
    fn hash_with(pointer: &str, value: Value) -> String {
        let mut changed = pool();
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[member] = value;
        node_pool_hash(&serde_json::from_value(changed).unwrap())
    }

    fn original() -> String {
        node_pool_hash(&serde_json::from_value(pool()).unwrap())
    }

    // 01/API-24
    #[test]
    fn the_hash_changes_with_everything_that_a_node_is_made_from() {
        for (pointer, value) in [
            ("/template/metadata/labels", json!({"team": "b"})),
            ("/template/metadata/annotations", json!({"note": "y"})),
            ("/template/spec/taints", json!([{"key": "a", "effect": "NoSchedule"}])),
            ("/template/spec/startupTaints", json!([{"key": "d", "effect": "NoSchedule"}])),
            ("/template/spec/expireAfter", json!("2h")),
            ("/template/spec/expireAfter", json!("Never")),
            ("/template/spec/terminationGracePeriod", json!("11m")),
            (
                "/template/spec/nodeClassRef",
                json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "x"}),
            ),
        ] {
            assert_ne!(hash_with(pointer, value), original(), "{pointer}");
        }
    }

    // 01/API-24
    #[test]
    fn the_hash_ignores_what_running_nodes_do_not_depend_on() {
        for (pointer, value) in [
            ("/limits", json!({"cpu": "10"})),
            ("/weight", json!(10)),
            ("/disruption", json!({"consolidateAfter": "30s", "consolidationPolicy": "WhenEmpty"})),
            ("/template/spec/requirements", json!([])),
        ] {
            assert_eq!(hash_with(pointer, value), original(), "{pointer}");
        }
    }

    // 01/API-24
    #[test]
    fn the_hash_goes_by_meaning_and_not_by_spelling() {
        let reversed = json!([{"key": "b", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}]);
        assert_eq!(hash_with("/template/spec/taints", reversed), original());
        assert_eq!(hash_with("/template/spec/expireAfter", json!("60m")), original());
        let bare = |labels: Value| hash_with("/template/metadata", json!({"labels": labels}));
        assert_eq!(bare(json!({})), hash_with("/template/metadata", json!({})));
        assert_ne!(bare(json!({})), bare(json!({"gpu": ""})), "a label without a value is still a label");
        let empty_value = json!([{"key": "c", "value": "", "effect": "NoSchedule"}]);
        assert_eq!(hash_with("/template/spec/startupTaints", empty_value), original());
    }

    /// A claim as one would be made from the template.
    fn claim() -> Value {
        let template = pool()["template"].clone();
        let mut metadata = template["metadata"].clone();
        metadata["name"] = json!("a");
        metadata["labels"]["kubernetes.io/arch"] = json!("amd64");
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": template["spec"]})
    }

    fn shown_by(claim: Value) -> String {
        node_claim_hash(&serde_json::from_value(claim).unwrap(), &serde_json::from_value(pool()).unwrap())
    }

    // Spec 02, flaw 30
    #[test]
    fn a_claim_shows_whether_the_template_is_what_it_was_made_from() {
        assert_eq!(shown_by(claim()), original());
        for (pointer, value) in [
            ("/metadata/labels", json!({"team": "b"})),
            ("/metadata/labels", json!({})),
            ("/metadata/annotations", json!({"note": "y"})),
            ("/spec/taints", json!([{"key": "a", "effect": "NoSchedule"}])),
            ("/spec/startupTaints", json!([])),
            ("/spec/expireAfter", json!("2h")),
            ("/spec/terminationGracePeriod", json!("11m")),
            ("/spec/nodeClassRef/name", json!("x")),
        ] {
            let mut changed = claim();
            *changed.pointer_mut(pointer).unwrap() = value;
            assert_ne!(shown_by(changed), original(), "{pointer}");
        }
    }

    // Spec 02, flaw 30
    #[test]
    fn what_others_wrote_on_a_claim_and_how_it_is_spelled_shows_nothing() {
        let mut changed = claim();
        changed["metadata"]["labels"]["mine"] = json!("x");
        changed["metadata"]["annotations"]["karpenter.sh/nodepool-hash"] = json!("1");
        changed["spec"]["expireAfter"] = json!("60m");
        changed["spec"]["taints"].as_array_mut().unwrap().reverse();
        changed["spec"]["requirements"] = json!([]);
        assert_eq!(shown_by(changed), original());
    }

    #[test]
    fn the_hash_of_a_pool_never_changes_between_releases() {
        assert_eq!(
            original(),
            "13732156205240535142",
            "a change here rolls every node of every user: raise NODE_POOL_HASH_VERSION too"
        );
    }
}
