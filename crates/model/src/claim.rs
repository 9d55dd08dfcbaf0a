//! A claim's life, as far as it decides what the claim needs next.

use std::time::Duration;

use crate::ids::NodeName;
use crate::resources::Resources;
use crate::taints::Taint;
use crate::time::Instant;

/// Everything about one claim and its Nodes that its next step depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimLife {
    pub created: Instant,
    /// When somebody asked for its end.
    pub deleted: Option<Instant>,
    /// Whether our finalizer holds it, so that it cannot vanish before its machine.
    pub is_held: bool,
    pub machine: Machine,
    pub launched: Verdict,
    pub registered: Verdict,
    pub initialized: Verdict,
    /// How long its node may drain.
    pub grace: Option<Duration>,
    /// When the drain must be over; any actor may have written it.
    pub deadline: Option<Instant>,
    /// How long it may live at most.
    pub expire_after: Option<Duration>,
    pub startup_taints: Vec<Taint>,
    /// What the pods that it was made for ask of it.
    pub requests: Resources,
    /// All it is expected to have, as the cloud promised.
    pub promised: Resources,
    /// The Nodes that say they are its machine; more than one is a fault in the cluster.
    pub nodes: Vec<NodeLife>,
    /// When its node's shape was last compared with what was promised.
    pub checked: Option<Instant>,
}

/// What is known of a claim's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// The claim names none. The cloud may have one all the same: the reply to a launch can be lost.
    Unnamed,
    Named,
    /// The cloud has said that it is no more.
    Gone,
}

/// What a condition says, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub status: Status,
    pub since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    True,
    False,
    Unknown,
}

/// A Node of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLife {
    pub name: NodeName,
    pub is_ready: bool,
    pub is_leaving: bool,
    pub taints: Vec<Taint>,
    /// The first of its taints that a starting node is known to lose by itself.
    pub passing_taint: Option<Taint>,
    pub capacity: Resources,
    pub allocatable: Resources,
}

impl Verdict {
    pub fn is_true(self) -> bool {
        self.status == Status::True
    }

    pub fn is_unknown(self) -> bool {
        self.status == Status::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_true_false_or_open() {
        let said = |status: Status| {
            let verdict = Verdict { status, since: Instant::from_unix_seconds(0) };
            (verdict.is_true(), verdict.is_unknown())
        };
        assert_eq!(
            [Status::True, Status::False, Status::Unknown].map(said),
            [(true, false), (false, false), (false, true)]
        );
    }
}
