//! What is told about nodes that leave on purpose, and about those that stay.

use api::{NodeClaim, NodePool};
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::Resource;
use model::budget::Reason;
use model::disruption::{Disruption, PoolScore, Stay, StayEvent};
use model::ids::NodeName;
use runtime::Note;

use super::{MINUTE, uid_of};

/// A machine as events refer to it: its Node and its claim, as far as they are there.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    node: Option<ObjectReference>,
    claim: Option<ObjectReference>,
}

impl Pair {
    pub fn new(node: Option<&Node>, claim: Option<&NodeClaim>) -> Self {
        Self { node: node.map(|node| node.object_ref(&())), claim: claim.map(|claim| claim.object_ref(&())) }
    }

    /// The same for both.
    fn notes(self, reason: &'static str, message: &str, dedupe: &[&str]) -> Vec<Note> {
        let both = self.node.into_iter().chain(self.claim);
        both.map(|regarding| note(regarding, reason, message.to_owned(), dedupe)).collect()
    }
}

fn note(regarding: ObjectReference, reason: &'static str, message: String, dedupe: &[&str]) -> Note {
    let dedupe: Vec<String> =
        std::iter::once(uid_of(&regarding)).chain(dedupe.iter().map(ToString::to_string)).collect();
    Note::normal(regarding, reason, message).dedupe(dedupe)
}

/// Why a node stays, where the reference has something to say about it.
pub fn staying(pair: Pair, stay: &Stay) -> Vec<Note> {
    let (Some(event), Some(message)) = (stay.event(), stay.event_text()) else { return Vec::new() };
    match event {
        StayEvent::DisruptionBlocked => pair.notes("DisruptionBlocked", &message, &[]),
        StayEvent::Unconsolidatable => {
            let notes = pair.notes("Unconsolidatable", &message, &[]);
            notes.into_iter().map(|note| note.dedupe_for(15 * MINUTE)).collect()
        }
    }
}

pub fn pool_blocked(pool: &NodePool, reason: Reason) -> Note {
    let message = format!("No allowed disruptions for disruption reason {reason} due to blocking budget");
    note(pool.object_ref(&()), "DisruptionBlocked", message, &[&reason.to_string()]).dedupe_for(MINUTE)
}

/// Nodes that are not ready count as going, and nobody would see why no other one goes. The reference is silent about it.
pub fn pool_used_up(pool: &NodePool, reason: Reason, unready: u32) -> Note {
    let message = format!(
        "The budget for disruption reason {reason} is used up; {unready} node(s) that are not ready count as going"
    );
    note(pool.object_ref(&()), "DisruptionBlocked", message, &[&reason.to_string(), "unready"]).dedupe_for(MINUTE)
}

pub fn launching(replacement: &NodeClaim, reason: Reason) -> Note {
    let reason = reason.to_string();
    note(replacement.object_ref(&()), "DisruptionLaunching", format!("Launching NodeClaim: {reason}"), &[&reason])
}

pub fn waiting_readiness(replacement: &NodeClaim) -> Note {
    let message = "Waiting on readiness to continue disruption".to_owned();
    note(replacement.object_ref(&()), "DisruptionWaitingReadiness", message, &[])
}

pub fn terminating(pair: Pair, reason: Reason) -> Vec<Note> {
    let reason = reason.to_string();
    let about = |regarding: ObjectReference, kind: &str| {
        note(regarding, "DisruptionTerminating", format!("Disrupting {kind}: {reason}"), &[&reason])
    };
    let node = pair.node.map(|node| about(node, "Node"));
    node.into_iter().chain(pair.claim.map(|claim| about(claim, "NodeClaim"))).collect()
}

pub fn consolidation_candidate(pair: Pair, command: &Disruption, node: &NodeName) -> Vec<Note> {
    let message = command.candidate_event(node);
    pair.notes("ConsolidationCandidate", &message, &[&message])
}

pub fn consolidation_rejected(pair: Pair, command: &Disruption, node: &NodeName, class: &str) -> Vec<Note> {
    let message = command.rejected_event(node, class);
    pair.notes("ConsolidationRejected", &message, &[&message])
}

/// A Balanced pool approves of a command of one node.
pub fn consolidation_approved(pair: Pair, score: &PoolScore) -> Vec<Note> {
    pair.notes("ConsolidationApproved", &score.approved_event(), &[])
}

/// The same for a command of several, which is told to the pool.
pub fn pool_approved(pool: &NodePool, score: &PoolScore) -> Note {
    note(pool.object_ref(&()), "ConsolidationApproved", score.approved_event(), &[])
}
