//! A claim and its Nodes, as far as they decide the claim's next step.

use api::NodeClaim;
use api::conditions::{Condition, ConditionStatus};
use api::labels::{TERMINATION_FINALIZER, annotations, normalized};
use k8s_openapi::api::core::v1::Node;
use model::claim::{ClaimLife, Machine, NodeLife, Status, Verdict};
use model::ids::NodeName;
use model::labels::Labels;
use model::resources::Resources;
use model::time::Instant;

use super::resources::Amounts;
use super::{Lowered, Oddities, created, instant, resources, taints};

/// A claim with the Nodes that have its provider id. What is not on the wire is left open: whether the cloud has said that
/// the machine is gone, and when its shape was last checked.
pub fn life<'a>(claim: &NodeClaim, nodes: impl IntoIterator<Item = &'a Node>) -> Lowered<ClaimLife> {
    let mut oddities = Oddities::of("NodeClaim", &claim.metadata);
    let born = created(&claim.metadata);
    let status = claim.status.as_ref();
    let conditions = status.map(|status| &*status.conditions).unwrap_or_default();
    let verdict = |type_: &str| {
        let found = conditions.iter().find(|condition| condition.type_ == type_);
        // A condition that is not there yet has been waited for since the claim was made.
        found.map_or(Verdict { status: Status::Unknown, since: born }, of_condition)
    };
    let id = status.and_then(|status| status.provider_id.as_deref()).filter(|id| !id.is_empty());
    let value = ClaimLife {
        created: born,
        deleted: claim.metadata.deletion_timestamp.as_ref().map(instant),
        is_held: claim.metadata.finalizers.iter().flatten().any(|name| name == TERMINATION_FINALIZER),
        machine: if id.is_some() { Machine::Named } else { Machine::Unnamed },
        launched: verdict("Launched"),
        registered: verdict("Registered"),
        initialized: verdict("Initialized"),
        grace: claim.spec.termination_grace_period.map(api::Duration::to_std),
        deadline: deadline(claim, &mut oddities),
        expire_after: claim.spec.expire_after.value().map(api::Duration::to_std),
        startup_taints: taints::of_list(&claim.spec.startup_taints),
        requests: resources::of_list(&claim.spec.resources.requests),
        promised: status.map(|status| resources::of_list(&status.capacity)).unwrap_or_default(),
        nodes: nodes.into_iter().map(node_life).collect(),
        checked: None,
    };
    oddities.with(value)
}

/// What a claim is labelled with, by the stable spellings of keys: what its machine has become.
pub fn labels_of(claim: &NodeClaim) -> Labels {
    let labels = claim.metadata.labels.iter().flatten();
    labels.map(|(key, value)| (normalized(key).into(), value.as_str().into())).collect()
}

/// When a pod last came to the claim's node or left it.
pub fn last_pod_event(claim: &NodeClaim) -> Option<Instant> {
    claim.status.as_ref()?.last_pod_event_time.as_ref().map(instant)
}

/// When the claim's drain must be over. A text that is no time protects nobody and holds nothing up.
pub fn deadline_of(claim: &NodeClaim) -> Lowered<Option<Instant>> {
    let mut oddities = Oddities::of("NodeClaim", &claim.metadata);
    let value = deadline(claim, &mut oddities);
    oddities.with(value)
}

fn deadline(claim: &NodeClaim, oddities: &mut Oddities<'_>) -> Option<Instant> {
    let text = claim.metadata.annotations.as_ref()?.get(annotations::TERMINATION_TIMESTAMP)?;
    text.parse()
        .inspect_err(|_| {
            let field = format_args!("metadata.annotations[{}]", annotations::TERMINATION_TIMESTAMP);
            oddities
                .note(field, format_args!("{text:?} is not a time such as 2026-01-02T03:04:05Z; it sets no deadline"));
        })
        .ok()
}

pub fn of_condition(condition: &Condition) -> Verdict {
    let status = match condition.status {
        ConditionStatus::True => Status::True,
        ConditionStatus::False => Status::False,
        ConditionStatus::Unknown => Status::Unknown,
    };
    Verdict { status, since: instant(&condition.last_transition_time) }
}

/// Whether the kubelet says that the Node is ready; silence is no.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn node_life(node: &Node) -> NodeLife {
    let mut oddities = Oddities::of("Node", &node.metadata);
    let all = taints::of_node(node, &mut oddities);
    let status = node.status.as_ref();
    let mut amounts = |list, field: &str| -> Resources {
        Amounts::reported(list, format_args!("{field}"), &mut oddities).into_resources()
    };
    NodeLife {
        name: NodeName::from(node.metadata.name.as_deref().unwrap_or_default()),
        is_ready: is_ready(node),
        is_leaving: node.metadata.deletion_timestamp.is_some(),
        passing_taint: all.iter().find(|taint| taints::is_ephemeral(taint)).cloned(),
        taints: all,
        capacity: amounts(status.and_then(|status| status.capacity.as_ref()), "status.capacity"),
        allocatable: amounts(status.and_then(|status| status.allocatable.as_ref()), "status.allocatable"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(metadata: Value, status: Value) -> NodeClaim {
        let spec = json!({
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [], "terminationGracePeriod": "30s", "expireAfter": "1h",
            "startupTaints": [{"key": "cni", "effect": "NoExecute"}],
            "resources": {"requests": {"cpu": "100m", "nvidia.com/gpu": "0"}},
        });
        let wire = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": spec, "status": status});
        serde_json::from_value(wire).unwrap()
    }

    #[test]
    fn a_new_claim_has_waited_for_everything_since_it_was_made() {
        let wire = claim(json!({"name": "a", "creationTimestamp": "1970-01-01T00:01:40Z"}), json!({}));
        let life = life(&wire, []).value;
        let since = Instant::from_unix_seconds(100);
        let waiting = Verdict { status: Status::Unknown, since };
        assert_eq!((life.launched, life.registered, life.initialized), (waiting, waiting, waiting));
        assert_eq!((life.created, life.deleted, life.is_held), (since, None, false));
        assert_eq!((life.machine, life.grace.unwrap().as_secs()), (Machine::Unnamed, 30));
        assert_eq!(life.expire_after.unwrap().as_secs(), 3600);
        assert_eq!(life.requests, Resources::default().with("cpu", 100), "nobody asks for none");
        assert_eq!(life.startup_taints.len(), 1);
    }

    #[test]
    fn a_claim_that_is_ending_says_when_it_must_be_over() {
        let with = |text: &str| {
            let metadata = json!({
                "name": "a", "deletionTimestamp": "1970-01-01T00:01:40Z", "finalizers": ["karpenter.sh/termination"],
                "annotations": {"karpenter.sh/nodeclaim-termination-timestamp": text},
            });
            let conditions = json!([{
                "type": "Launched", "status": "True", "lastTransitionTime": "1970-01-01T00:00:07Z", "reason": "Launched",
            }]);
            life(&claim(metadata, json!({"providerID": "kwok://a", "conditions": conditions})), [])
        };
        let found = with("1970-01-01T00:02:00Z");
        assert_eq!(found.value.deadline, Some(Instant::from_unix_seconds(120)));
        assert_eq!(found.value.deleted, Some(Instant::from_unix_seconds(100)));
        assert!(found.value.is_held && found.value.machine == Machine::Named && found.oddities.is_empty());
        assert_eq!(found.value.launched, Verdict { status: Status::True, since: Instant::from_unix_seconds(7) });
        let odd = with("soon");
        assert_eq!((odd.value.deadline, odd.oddities.len()), (None, 1));
        assert!(odd.oddities[0].to_string().contains("nodeclaim-termination-timestamp]: \"soon\" is not a time"));
    }

    #[test]
    fn a_node_is_ready_when_it_says_so_and_its_passing_taints_are_told_apart() {
        let node = |ready: Value| -> Node {
            let status = json!({"conditions": ready, "allocatable": {"cpu": "2"}, "capacity": {"cpu": "4"}});
            let taints = json!([{"key": "a", "effect": "NoSchedule"}, {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]);
            serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"taints": taints}, "status": status}))
                .unwrap()
        };
        let found = node_life(&node(json!([{"type": "Ready", "status": "True"}])));
        assert!(found.is_ready && !found.is_leaving);
        assert_eq!(
            found.passing_taint.map(|taint| taint.to_string()).as_deref(),
            Some("karpenter.sh/unregistered:NoExecute")
        );
        assert_eq!(
            (found.taints.len(), found.capacity, found.allocatable),
            (2, Resources::default().with("cpu", 4000), Resources::default().with("cpu", 2000))
        );
        for silent in
            [json!([]), json!([{"type": "Ready", "status": "Unknown"}]), json!([{"type": "Disk", "status": "True"}])]
        {
            assert!(!is_ready(&node(silent)));
        }
    }
}
