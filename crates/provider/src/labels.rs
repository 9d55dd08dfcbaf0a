//! Which kinds and which label keys belong to a provider.

use std::sync::Arc;

use api::labels::{LabelRules, node_class_label};
use api::nodepool::NodeClassReference;
use model::labels::WellKnown;

/// A kind of NodeClass, with all that it takes to read its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeClassKind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

impl NodeClassKind {
    /// Whether a pool or claim that refers to this class is served under this kind.
    pub fn is_of(&self, class: &NodeClassReference) -> bool {
        class.group == self.group && class.kind == self.kind
    }

    /// The label with the class's name that claims and nodes of this kind carry.
    pub fn label(&self) -> String {
        node_class_label(self.group, self.kind)
    }
}

/// The keys that a provider adds to those that every cloud has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelKeys {
    /// Every instance type of the provider answers for each of them.
    pub well_known: Vec<Arc<str>>,
    /// Domains in which users may set and require nothing but the well-known keys.
    pub domains: Vec<Arc<str>>,
    /// Keys that only machines out of a reservation have, the reservation's id among them.
    pub reserved_only: Vec<Arc<str>>,
}

impl LabelKeys {
    /// For planning.
    pub fn to_well_known(&self) -> WellKnown {
        WellKnown::with_provider(self.well_known.iter().map(|key| &**key))
    }

    /// For validation.
    pub fn to_rules(&self) -> LabelRules {
        let well_known: Vec<&str> = self.well_known.iter().map(|key| &**key).collect();
        let domains: Vec<&str> = self.domains.iter().map(|domain| &**domain).collect();
        LabelRules::with_provider(&well_known, &domains)
    }
}
