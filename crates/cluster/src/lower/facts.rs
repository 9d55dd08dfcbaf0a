//! What else is known of a pod: nothing that decides where it may run, but what those who drain nodes and those who
//! count must know.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::resources::Resources;
use model::time::Instant;

use super::spread::Controller;
use super::{created, instant, pod, resources};

const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// Facts beside the model's pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodFacts {
    /// The DaemonSet that it belongs to, or else its controller.
    pub owner: Option<Arc<Controller>>,
    /// When it must have ended, once it was told to: the API server has added its grace period already.
    pub ends_by: Option<Instant>,
    pub grace: Option<Duration>,
    /// Whether its priority class makes it one of the last to leave a node.
    pub is_critical: bool,
    /// Whether none of its containers has started yet.
    pub is_pending: bool,
    /// What its containers may use at most, where they say so. Nobody decides by it; it is told in metrics.
    pub limits: Option<Box<Resources>>,
}

/// The moments that waiting times are measured between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moments {
    pub created: Instant,
    /// When the scheduler found a node for it.
    pub bound: Option<Instant>,
    /// When it was ready; unset while it is not.
    pub ready: Option<Instant>,
}

pub fn facts(wire: &Pod) -> PodFacts {
    let spec = wire.spec.as_ref();
    let class = spec.and_then(|spec| spec.priority_class_name.as_deref());
    let grace = spec.and_then(|spec| u64::try_from(spec.termination_grace_period_seconds?).ok());
    PodFacts {
        owner: owner(&wire.metadata).map(Arc::new),
        ends_by: wire.metadata.deletion_timestamp.as_ref().map(instant),
        grace: grace.map(Duration::from_secs),
        is_critical: class.is_some_and(|class| CRITICAL.contains(&class)),
        is_pending: wire.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Pending"),
        limits: resources::limits_of_pod(wire).map(Box::new),
    }
}

fn owner(metadata: &ObjectMeta) -> Option<Controller> {
    let mut owners = metadata.owner_references.iter().flatten();
    let set = owners.find(|owner| owner.api_version == "apps/v1" && owner.kind == "DaemonSet");
    match set {
        Some(set) => Some(Controller {
            api_version: set.api_version.as_str().into(),
            kind: set.kind.as_str().into(),
            name: set.name.as_str().into(),
        }),
        None => Controller::of(metadata),
    }
}

pub fn moments(wire: &Pod) -> Moments {
    let since = |type_: &str| {
        let condition = pod::condition(wire, type_).filter(|condition| condition.status == "True")?;
        condition.last_transition_time.as_ref().map(instant)
    };
    Moments { created: created(&wire.metadata), bound: since("PodScheduled"), ready: since("Ready") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(metadata: Value, spec: Value, status: Value) -> Pod {
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    #[test]
    fn what_a_drain_must_know_is_kept() {
        let wire = read(
            json!({
                "deletionTimestamp": "1970-01-01T00:01:40Z",
                "annotations": {"controller.kubernetes.io/pod-deletion-cost": "-7"},
                "ownerReferences": [
                    {"apiVersion": "example.com/v1", "kind": "Boss", "name": "b", "uid": "1", "controller": true},
                    {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "2"},
                ],
            }),
            json!({"containers": [], "terminationGracePeriodSeconds": 30, "priorityClassName": "system-node-critical"}),
            json!({"phase": "Pending"}),
        );
        let facts = facts(&wire);
        assert_eq!(facts.ends_by, Some(Instant::from_unix_seconds(100)));
        assert_eq!(facts.grace, Some(Duration::from_secs(30)));
        assert!(facts.is_critical && facts.is_pending);
        assert_eq!(facts.owner.map(|owner| owner.name.clone()).as_deref(), Some("agent"));
    }

    #[test]
    fn odd_numbers_and_silence_count_as_nothing() {
        let wire = read(
            json!({"annotations": {"controller.kubernetes.io/pod-deletion-cost": "NaN"}}),
            json!({"containers": [], "terminationGracePeriodSeconds": -1, "priorityClassName": "high"}),
            json!({"phase": "Running"}),
        );
        assert_eq!(facts(&wire), PodFacts::default());
        assert_eq!(facts(&Pod::default()), PodFacts::default());
    }

    #[test]
    fn moments_count_only_while_their_condition_holds() {
        let condition = |type_: &str, status: &str, second: u32| json!({"type": type_, "status": status, "lastTransitionTime": format!("1970-01-01T00:00:{second:02}Z")});
        let status = json!({"conditions": [condition("PodScheduled", "True", 5), condition("Ready", "False", 9)]});
        let wire = read(json!({"creationTimestamp": "1970-01-01T00:00:01Z"}), json!({"containers": []}), status);
        let at = Instant::from_unix_seconds;
        assert_eq!(moments(&wire), Moments { created: at(1), bound: Some(at(5)), ready: None });
    }
}
