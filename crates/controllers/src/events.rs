//! Everything that we tell people about their objects: one function per event.
//!
//! Reasons, texts and the times within which nothing is repeated are the reference's, because people search and alert on
//! them. What `model::why` has put into words already is taken as it comes.

pub mod disruption;
#[cfg(test)]
mod tests;

use std::time::Duration;

use api::{NodeClaim, NodePool};
use cluster::Undecodable;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::Resource;
use model::ids::{NodeName, PodName};
use model::pod::Pod;
use provider::InterruptionKind;
use runtime::{Note, Rate};

use crate::facts;

/// The component that says it; people filter by the reference's name.
pub const COMPONENT: &str = "karpenter";

const MINUTE: Duration = Duration::from_secs(60);
const NOMINATIONS: Rate = Rate { per_second: 5.0, burst: 10 };
/// Errors of clouds can be long, and an event may not be.
const MOST_ERROR_CHARS: usize = 300;
const MOST_NAMED: usize = 5;

/// Where a pod should go.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    Claim(&'a str),
    Node(&'a NodeName),
    /// A node, and the claim that it came from.
    Both {
        claim: &'a str,
        node: &'a NodeName,
    },
}

pub fn nominated(pod: &Pod, destination: Destination<'_>) -> Note {
    let place = match destination {
        Destination::Claim(claim) => format!("nodeclaim/{claim}"),
        Destination::Node(node) => format!("node/{node}"),
        Destination::Both { claim, node } => format!("nodeclaim/{claim}, node/{node}"),
    };
    Note::normal(of_pod(pod), "Nominated", format!("Pod should schedule on: {place}"))
        .dedupe([pod.uid.as_str()])
        .rate(NOMINATIONS)
}

/// The message is what `Unplaced::failed_scheduling` or `PodProblem::failed_scheduling` says.
pub fn failed_scheduling(pod: &Pod, message: String) -> Note {
    Note::warning(of_pod(pod), "FailedScheduling", message).dedupe([pod.uid.as_str()]).dedupe_for(5 * MINUTE)
}

/// What is to blame when a pool has no instance type left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filtered {
    ByRequirements,
    ByMinValues,
}

pub fn no_compatible_instance_types(pool: &NodePool, filtered: Filtered) -> Note {
    let because = match filtered {
        Filtered::ByRequirements => "",
        Filtered::ByMinValues => " due to minValues incompatibility",
    };
    let message = format!("NodePool requirements filtered out all compatible available instance types{because}");
    let regarding = pool.object_ref(&());
    let uid = uid_of(&regarding);
    Note::warning(regarding, "NoCompatibleInstanceTypes", message).dedupe([uid]).dedupe_for(MINUTE)
}

pub fn evicted(pod: &Pod, reason: &str) -> Note {
    Note::normal(of_pod(pod), "Evicted", format!("Evicted pod: {reason}")).dedupe([pod.name.to_string()])
}

/// What a pod is granted whose node must be gone by a certain time.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    pub node_ends: Timestamp,
    pub granted: Duration,
    pub wanted: Option<Duration>,
}

pub fn disrupted(pod: &Pod, deadline: Deadline) -> Note {
    let wanted = deadline.wanted.map_or_else(|| "unset".to_owned(), |wanted| wanted.as_secs().to_string());
    let message = format!(
        "Deleting the pod to accommodate the terminationTime {} of the node. The pod was granted {} seconds of grace-period of \
         its {wanted} terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt annotation.",
        rfc3339(deadline.node_ends),
        deadline.granted.as_secs(),
    );
    Note::normal(of_pod(pod), "Disrupted", message).dedupe([pod.name.to_string()])
}

pub fn failed_draining(node: &Node, why: &str) -> Note {
    let regarding = node.object_ref(&());
    let name = name_of(&regarding);
    Note::warning(regarding, "FailedDraining", format!("Failed to drain node, {why}")).dedupe([name])
}

/// Nobody can say whether this pod may go, so its node waits for somebody who can.
pub fn unreadable_pod(node: &Node, pod: &PodName) -> Note {
    let why = format!("a pod cannot be read, so nobody knows whether it may go (Pod={pod})");
    failed_draining(node, &why).dedupe([node.metadata.name.clone().unwrap_or_default(), pod.to_string()])
}

pub fn awaiting_volume_detachment(node: &Node, attachments: &[&str]) -> Note {
    let regarding = node.object_ref(&());
    let name = name_of(&regarding);
    let message = format!("Awaiting deletion of bound volumeattachments ({})", listed(attachments));
    Note::normal(regarding, "AwaitingVolumeDetachment", message).dedupe([name])
}

pub fn node_termination_grace_period_expiring(node: &Node, deadline: Timestamp) -> Note {
    termination_grace_period_expiring(node.object_ref(&()), deadline)
}

pub fn claim_termination_grace_period_expiring(claim: &NodeClaim, deadline: Timestamp) -> Note {
    termination_grace_period_expiring(claim.object_ref(&()), deadline)
}

fn termination_grace_period_expiring(regarding: ObjectReference, deadline: Timestamp) -> Note {
    let (name, message) = (name_of(&regarding), format!("All pods will be deleted by {}", rfc3339(deadline)));
    Note::warning(regarding, "TerminationGracePeriodExpiring", message).dedupe([name])
}

pub fn failed_consistency_check(claim: &NodeClaim, message: String) -> Note {
    let regarding = claim.object_ref(&());
    let dedupe = [uid_of(&regarding), message.clone()];
    Note::warning(regarding, "FailedConsistencyCheck", message).dedupe(dedupe)
}

pub fn insufficient_capacity(claim: &NodeClaim, error: &str) -> Note {
    let regarding = claim.object_ref(&());
    let error: String = error.chars().take(MOST_ERROR_CHARS).collect();
    let message = format!("NodeClaim {} event: {error}", name_of(&regarding));
    let uid = uid_of(&regarding);
    Note::warning(regarding, "InsufficientCapacityError", message).dedupe([uid])
}

/// The reference has this event and never sends it.
pub fn node_class_not_ready(claim: &NodeClaim, error: &str) -> Note {
    let regarding = claim.object_ref(&());
    let error: String = error.chars().take(MOST_ERROR_CHARS).collect();
    let message = format!("NodeClaim {} event: {error}", name_of(&regarding));
    let uid = uid_of(&regarding);
    Note::warning(regarding, "NodeClassNotReady", message).dedupe([uid])
}

/// The reference has no such event: it waits for ever.
pub fn initialization_timed_out(claim: &NodeClaim, waited: Duration, lacking: &str) -> Note {
    let regarding = claim.object_ref(&());
    let message =
        format!("Node was not ready for pods {} minutes after it registered: {lacking}", waited.as_secs() / 60);
    let uid = uid_of(&regarding);
    Note::warning(regarding, "InitializationTimedOut", message).dedupe([uid])
}

pub fn unregistered_taint_missing(claim: &NodeClaim) -> Note {
    let regarding = claim.object_ref(&());
    let message = "Missing karpenter.sh/unregistered taint which prevents registration related race conditions on \
                   Karpenter-managed nodes";
    let uid = uid_of(&regarding);
    Note::warning(regarding, "UnregisteredTaintMissing", message.to_owned()).dedupe([uid])
}

pub fn invalid_do_not_disrupt(pod: &Pod, problem: &str) -> Note {
    let message = format!("Invalid karpenter.sh/do-not-disrupt annotation: {problem}, ignoring annotation");
    Note::warning(of_pod(pod), "InvalidDoNotDisruptAnnotation", message).dedupe([pod.uid.as_str(), problem])
}

pub fn do_not_disrupt_until(pod: &Pod, end: Timestamp) -> Note {
    let end = rfc3339(end);
    let message = format!("The karpenter.sh/do-not-disrupt grace period will elapse at {end}");
    Note::normal(of_pod(pod), "DoNotDisruptUntil", message).dedupe([pod.uid.as_str(), &end])
}

pub fn do_not_disrupt_elapsed(pod: &Pod) -> Note {
    let message = "The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable";
    Note::normal(of_pod(pod), "DoNotDisruptGracePeriodElapsed", message.to_owned()).dedupe([pod.uid.as_str()])
}

/// Where so many nodes are broken that none is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epidemic {
    InPool,
    InCluster,
}

pub fn node_repair_blocked(regarding: ObjectReference, epidemic: Epidemic) -> Note {
    let message = match epidemic {
        Epidemic::InPool => "more than 20% nodes are unhealthy in the nodepool",
        // The reference's spelling, by which people search.
        Epidemic::InCluster => "more then 20% nodes are unhealthy in the cluster",
    };
    let uid = uid_of(&regarding);
    Note::warning(regarding, "NodeRepairBlocked", message.to_owned()).dedupe([uid]).dedupe_for(15 * MINUTE)
}

/// What the cloud said about a machine, to its claim or its Node.
pub fn interrupted(regarding: ObjectReference, kind: InterruptionKind) -> Note {
    let (reason, message) = match kind {
        InterruptionKind::SpotInterrupted => ("SpotInterrupted", "Spot interruption warning was triggered"),
        InterruptionKind::RebalanceRecommendation => {
            ("SpotRebalanceRecommendation", "Spot rebalance recommendation was triggered")
        }
        InterruptionKind::ScheduledChange | InterruptionKind::InstanceUnhealthy => {
            ("InstanceUnhealthy", "An unhealthy warning was triggered for the instance")
        }
        InterruptionKind::InstanceStopped => ("InstanceStopping", "Instance is stopping"),
        InterruptionKind::InstanceTerminated => ("InstanceTerminating", "Instance is terminating"),
        InterruptionKind::CapacityReservationInterrupted => (
            "CapacityReservationInstanceInterrupted",
            "Capacity reservation instance interruption warning was triggered",
        ),
    };
    let (uid, message) = (uid_of(&regarding), message.to_owned());
    let note = if kind.ends_machine() {
        Note::warning(regarding, reason, message)
    } else {
        Note::normal(regarding, reason, message)
    };
    note.dedupe([uid])
}

pub fn terminating_on_interruption(regarding: ObjectReference) -> Note {
    let kind = regarding.kind.clone().unwrap_or_default();
    let (uid, message) = (uid_of(&regarding), format!("Interruption triggered termination for the {kind}"));
    Note::warning(regarding, "TerminatingOnInterruption", message).dedupe([uid])
}

/// A condition that has left one status for another.
#[derive(Clone, Copy, Debug)]
pub struct ConditionChange<'a> {
    pub type_: &'a str,
    pub from: &'a str,
    pub to: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
}

pub fn condition_transitioned(regarding: ObjectReference, change: ConditionChange<'_>) -> Note {
    let ConditionChange { type_, from, to, reason, message } = change;
    let mut text = format!("Status condition transitioned, Type: {type_}, Status: {from} -> {to}, Reason: {reason}");
    if !message.is_empty() {
        text = format!("{text}, Message: {message}");
    }
    Note::normal(regarding, type_.to_owned(), text)
}

pub fn finalized(regarding: ObjectReference, finalizer: &str) -> Note {
    Note::normal(regarding, "Finalized", format!("Finalized {finalizer}"))
}

/// A part of a pool that stops some of its work until it is corrected. The reference only logs such things.
pub fn pool_problem(pool: &NodePool, reason: &'static str, message: String) -> Note {
    let regarding = pool.object_ref(&());
    let dedupe = [uid_of(&regarding), message.clone()];
    Note::warning(regarding, reason, message).dedupe(dedupe).dedupe_for(15 * MINUTE)
}

/// An object that cannot be read is skipped, and its owner is told.
pub fn undecodable(object: &Undecodable) -> Note {
    let regarding = ObjectReference {
        api_version: Some(facts::target(object.key.kind).resource.api_version),
        kind: Some(object.key.kind.to_string()),
        uid: object.uid.as_ref().map(ToString::to_string),
        name: Some(object.key.name.to_string()),
        namespace: Some(object.key.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
        ..ObjectReference::default()
    };
    let message = format!("This object is skipped because it cannot be read: {}", object.problem);
    Note::warning(regarding, "Undecodable", message).dedupe([object.key.to_string(), object.problem.to_string()])
}

/// A pod, as events refer to it.
pub fn of_pod(pod: &Pod) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.name.namespace.to_string()),
        name: Some(pod.name.name.to_string()),
        uid: Some(pod.uid.to_string()),
        ..ObjectReference::default()
    }
}

fn uid_of(regarding: &ObjectReference) -> String {
    regarding.uid.clone().unwrap_or_default()
}

fn name_of(regarding: &ObjectReference) -> String {
    regarding.name.clone().unwrap_or_default()
}

/// The first few, and how many more there are.
pub(crate) fn listed(names: &[&str]) -> String {
    let named = names[..names.len().min(MOST_NAMED)].join(", ");
    match names.len().saturating_sub(MOST_NAMED) {
        0 => named,
        more => format!("{named} and {more} other(s)"),
    }
}

/// As Kubernetes writes times: whole seconds, in UTC.
fn rfc3339(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}
