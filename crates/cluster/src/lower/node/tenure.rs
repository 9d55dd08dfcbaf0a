//! What a claim and its Node say about whether and when the machine may leave.

use api::NodeClaim;
use api::labels::annotations;
use k8s_openapi::api::core::v1;
use model::ids::NodeName;
use model::node::{Drifted, Tenure};
use model::pod::DoNotDisrupt;

use crate::lower::claim::{is_ready, of_condition};
use crate::lower::instant;
use crate::lower::pod::protection;

pub(super) fn tenure(claim: &NodeClaim, node: Option<&v1::Node>) -> Tenure {
    let status = claim.status.as_ref();
    let conditions = status.map(|status| &*status.conditions).unwrap_or_default();
    let said = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_ && condition.is_true());
    let since = |type_: &str| said(type_).map(|condition| of_condition(condition).since);
    Tenure {
        claim: NodeName::from(claim.metadata.name.as_deref().unwrap_or_default()),
        is_ready: node.is_some_and(is_ready),
        is_ending: said("InstanceTerminating").is_some(),
        do_not_disrupt: node.map_or(DoNotDisrupt::No, do_not_disrupt),
        initialized: since("Initialized"),
        consolidatable: since("Consolidatable"),
        drifted: said("Drifted").map(|condition| Drifted {
            since: of_condition(condition).since,
            reason: condition.reason.as_str().into(),
        }),
        last_pod_event: status.and_then(|status| status.last_pod_event_time.as_ref()).map(instant),
        grace: claim.spec.termination_grace_period.map(api::Duration::to_std),
        expire_after: claim.spec.expire_after.value().map(api::Duration::to_std),
    }
}

/// For good, or for a while since the Node joined. Anything else protects nothing: `false` is what people write to take it back.
/// The reference knows durations on pods only. Decision 0069.
fn do_not_disrupt(node: &v1::Node) -> DoNotDisrupt {
    let text = node.metadata.annotations.as_ref().and_then(|all| all.get(annotations::DO_NOT_DISRUPT));
    let found = text.and_then(|text| protection(text, node.metadata.creation_timestamp.as_ref()));
    found.unwrap_or(DoNotDisrupt::No)
}

#[cfg(test)]
mod tests {
    use model::time::Instant;
    use serde_json::{Value, json};

    use super::*;

    fn lower(conditions: Value, annotations: Value) -> Tenure {
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "a"},
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [], "terminationGracePeriod": "30s", "expireAfter": "1h",
            },
            "status": {"conditions": conditions, "lastPodEventTime": "1970-01-01T00:00:09Z"},
        });
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let node = json!({"metadata": {"name": "n", "annotations": annotations}, "status": ready});
        tenure(&serde_json::from_value(claim).unwrap(), Some(&serde_json::from_value(node).unwrap()))
    }

    fn condition(type_: &str, status: &str, second: u32) -> Value {
        let time = format!("1970-01-01T00:00:{second:02}Z");
        json!({"type": type_, "status": status, "reason": format!("{type_}Because"), "lastTransitionTime": time})
    }

    #[test]
    fn what_conditions_say_counts_while_they_are_true() {
        let names = ["Initialized", "Consolidatable", "Drifted", "InstanceTerminating"];
        let all = |status: &str| {
            let conditions = names.iter().zip(1..).map(|(name, second)| condition(name, status, second));
            lower(conditions.collect::<Vec<_>>().into(), json!({}))
        };
        let found = all("True");
        let at = |second: i64| Some(Instant::from_unix_seconds(second));
        assert_eq!((found.initialized, found.consolidatable, found.last_pod_event), (at(1), at(2), at(9)));
        let drifted = found.drifted.unwrap();
        assert_eq!((Some(drifted.since), &*drifted.reason), (at(3), "DriftedBecause"));
        assert!(found.is_ending && found.is_ready && found.claim == NodeName::from("a"));
        assert_eq!((found.grace.unwrap().as_secs(), found.expire_after.unwrap().as_secs()), (30, 3600));
        let found = all("False");
        assert_eq!((found.initialized, found.consolidatable, found.drifted), (None, None, None));
        assert!(!found.is_ending);
    }

    // 02/CA6 differs: 0069
    #[test]
    fn a_node_is_kept_by_the_annotation_true_and_by_no_other_word() {
        let kept = |text: &str| lower(json!([]), json!({"karpenter.sh/do-not-disrupt": text})).do_not_disrupt;
        assert_eq!(kept("true"), DoNotDisrupt::Always);
        assert_eq!(["false", "True", "", "-5m", "0s", "soon"].map(kept), [DoNotDisrupt::No; 6]);
    }

    // Spec 02, flaw 32
    #[test]
    fn a_node_is_kept_for_a_duration_since_it_joined() {
        let kept = |created: Value| {
            let metadata = json!({
                "name": "n", "creationTimestamp": created, "annotations": {"karpenter.sh/do-not-disrupt": "5m"},
            });
            do_not_disrupt(&serde_json::from_value(json!({"metadata": metadata})).unwrap())
        };
        assert_eq!(kept(json!("1970-01-01T00:01:00Z")), DoNotDisrupt::Until(Instant::from_unix_seconds(360)));
        assert_eq!(kept(Value::Null), DoNotDisrupt::Always, "its time has not begun to run out");
    }
}
