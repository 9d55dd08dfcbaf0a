//! What a fact means for others: whom to wake, what to tell people, what to measure.

use std::collections::BTreeSet;
use std::time::Duration;

use model::ids::{NodeName, PodName, PoolName, Uid};

use crate::lower::Oddity;

/// Work that somebody may have to do now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Duty {
    /// Somebody waits for a place. The id tells waiting ones apart, so that one of them does not hold a batch open.
    Provision(Uid),
    /// What a claim should do next may have changed.
    Claim(NodeName),
    /// The same for a Node of ours, whose pods count as part of it while it is leaving.
    Node(NodeName),
    Pool(PoolName),
    /// A pod came to the node or began to leave it.
    PodEvent(NodeName),
    Buffer(PodName),
    /// Overlays must be laid anew over what clouds offer.
    Overlays,
    /// Nodes may be worth less or more than before.
    Disrupt,
}

impl Duty {
    /// The claim that it is about, if it is about one.
    pub fn claim(&self) -> Option<NodeName> {
        match self {
            Self::Claim(name) => Some(name.clone()),
            _ => None,
        }
    }

    /// The Node that it is about, if it is about one.
    pub fn node(&self) -> Option<NodeName> {
        match self {
            Self::Node(name) => Some(name.clone()),
            _ => None,
        }
    }

    /// The pool that it is about, if it is about one.
    pub fn pool(&self) -> Option<PoolName> {
        match self {
            Self::Pool(name) => Some(name.clone()),
            _ => None,
        }
    }
}

/// What came of a fact. Usually nothing, and then it is nothing that takes up room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub wake: BTreeSet<Duty>,
    /// What could not be understood.
    pub oddities: Vec<Oddity>,
    pub milestones: Vec<Milestone>,
}

/// A pod has come a step further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Milestone {
    pub pod: PodName,
    pub step: Step,
    /// Since the pod was made.
    pub waited: Duration,
    /// Since we first knew a place for it.
    pub since_placed: Option<Duration>,
    /// The same, if its pool was known to bring nodes that work.
    pub since_placed_well: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Bound,
    Started,
}

impl Change {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn wake(&mut self, duty: Duty) {
        self.wake.insert(duty);
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.wake.extend(other.wake);
        self.oddities.extend(other.oddities);
        self.milestones.extend(other.milestones);
    }
}
