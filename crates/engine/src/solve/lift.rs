//! Constraints that are set aside for a moment, to find out which of them stand in the way.

use std::collections::BTreeSet;

use super::topology::GroupId;
use super::words::Key;

/// One constraint that can be set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Constraint {
    Taints,
    Label(Key),
    Places,
    Resource(usize),
    Offerings,
    Ports,
    Attachments,
    Rule(usize),
    /// Pods of this group that want this one far away.
    Unwanted(GroupId),
    /// Domains that seated pods were judged without.
    Domains,
    Limits,
    MinValues,
}

/// The constraints that are set aside; usually none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lift(BTreeSet<Constraint>);

impl Lift {
    pub(crate) fn of(constraints: &[Constraint]) -> Self {
        Self(constraints.iter().copied().collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, constraint: Constraint) -> bool {
        self.0.contains(&constraint)
    }
}
