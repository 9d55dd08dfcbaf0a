//! The documents of a recording: what the controllers knew, and what they decided.
//!
//! A recording is a text of JSON lines. The first is a [`Header`], every other one a [`Line`]: a moment, and what the memory of
//! the cluster was told or asked then, in order. Objects stand in it as they came over the wire; what has no wire form has a
//! document here. Whoever tells a fresh memory the same in the same order has the same memory (`cluster::record`).

mod disruption;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodTemplateSpec, TopologySpreadConstraint};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Duration;
use crate::catalog::{Allowed, Amounts, InstanceType, is_false};
use crate::hash::fnv1a;
use crate::labels::LabelRules;

pub use disruption::{
    Command, Disruption, DisruptionQuestion, Leaver, Method, MovedPod, Outcome, SecondLook, StaticCount, Staying, Worth,
};

/// The format. Whoever changes what a line means changes this.
pub const VERSION: &str = "dovetail.dev/recording/v1alpha1";

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Header {
    /// [`VERSION`].
    pub recording: String,
    pub origin: Origin,
    /// When the memory began, empty.
    pub since: String,
    pub settings: Settings,
}

/// Where a recording comes from, and how to have it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Origin {
    /// The version of the program.
    pub build: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// What the operator and the cloud chose for the whole process, as far as it decides what the memory holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    pub node_class_kinds: Vec<GroupKind>,
    pub label_rules: LabelRules,
    pub well_known: Vec<String>,
    pub policy: Policy,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default_spread: Vec<TopologySpreadConstraint>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_provisioners: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_topology_keys: Vec<String>,
    pub nomination: Duration,
    pub expected: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GroupKind {
    pub group: String,
    pub kind: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    pub respects_preferences: bool,
    pub min_values_strict: bool,
    pub uses_reservations: bool,
    pub max_types_per_claim: usize,
    /// In pico-dollars per hour.
    pub node_fee: i64,
}

/// Every line after the first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Line {
    /// A time in UTC as RFC 3339 writes it, to the nanosecond.
    pub at: String,
    pub event: Event,
}

/// What the memory was told or asked.
#[expect(clippy::large_enum_variant, reason = "events are written one by one and never kept in numbers")]
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Event {
    /// A list of a kind begins.
    Restarted {
        kind: String,
    },
    /// The state of an object, from a list, a watch or the answer to a write.
    Applied {
        kind: String,
        object: Box<RawValue>,
    },
    Deleted(Gone),
    /// The list of a kind is complete.
    Listed {
        kind: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<u64>,
    },
    /// The cluster does not serve the kind.
    Absent {
        kind: String,
    },
    /// Nobody waits for the kind.
    Excused {
        kind: String,
    },
    /// An object that could not be read, as far as it could be.
    Undecodable {
        object: Gone,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        problem: String,
    },
    /// What is on sale. Those who sell the same share one catalogue.
    Catalog {
        id: String,
        types: Vec<InstanceType>,
    },
    /// Which catalogue a pool buys from.
    Offered {
        pool: String,
        catalog: String,
    },
    /// What a buffer stands for.
    Resolved {
        buffer: Name,
        template: Option<BufferTemplate>,
    },
    /// A claim of ours, as the API server answered; no watch has shown it.
    Created {
        claim: Box<RawValue>,
    },
    /// A claim that we created is not there.
    Forgotten {
        claim: String,
    },
    /// Claims that are going to leave, and until when that holds unless it is renewed.
    Marked {
        claims: Vec<String>,
        until: String,
    },
    Unmarked {
        claims: Vec<String>,
    },
    /// A claim waits for its replacement.
    Replacing {
        claim: String,
        until: String,
    },
    Replaced {
        claim: String,
    },
    /// A pod was planned onto a machine.
    Nominated {
        pod: Name,
        place: String,
    },
    /// A pod of a node that leaves has a place to go to.
    Promised {
        pod: Name,
        place: String,
    },
    /// Permission to create nodes was asked for.
    Reserved {
        pool: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<i64>,
        wanted: i64,
    },
    Released {
        pool: String,
        count: i64,
    },
    /// How many pods of buffers fit on each node.
    Buffered {
        counts: BTreeMap<String, u32>,
    },
    /// Somebody wants disruption to look again.
    Disturbed,
    /// The world was looked at. What has run out by then is let go of.
    Looked {
        /// Who has something to decide on it; nobody, if it was just for looking.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<DecisionKind>,
    },
    /// A decision on the last look that was taken for its kind.
    Decided(Decision),
}

/// An object that is no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gone {
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Name {
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BufferTemplate {
    pub template: PodTemplateSpec,
    /// Whether it is a workload's, which may say how many replicas it has.
    #[serde(default, skip_serializing_if = "is_false")]
    pub of_workload: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// What can be decided. A new kind is a variant here and one of [`Choice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DecisionKind {
    Provisioning,
    Disruption,
    SecondLook,
}

/// What was decided, and on which question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decision {
    /// The same in logs, events and annotations.
    pub tick: String,
    /// Of the choice, so that two recordings can be compared without reading them.
    pub digest: String,
    pub choice: Choice,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Choice {
    Provisioning(Provisioning),
    Disruption(Disruption),
    SecondLook(Box<SecondLook>),
}

impl Choice {
    pub fn kind(&self) -> DecisionKind {
        match self {
            Self::Provisioning(_) => DecisionKind::Provisioning,
            Self::Disruption(_) => DecisionKind::Disruption,
            Self::SecondLook(_) => DecisionKind::SecondLook,
        }
    }
}

/// Where waiting pods go. Which pods were asked about follows from the look: all that needed a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provisioning {
    pub question: ProvisioningQuestion,
    /// The whole plan. While more pods are expected, only its ripe part is carried out; `created` lines show which.
    pub plan: Plan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProvisioningQuestion {
    pub pods: usize,
    pub expects_more: bool,
    /// Asking again with this gives the same plan.
    pub effort: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    pub placements: Vec<Placement>,
    pub claims: Vec<PlannedClaim>,
    /// Each list of instance types that claims name, once.
    pub type_lists: Vec<Vec<String>>,
    pub unplaced: Vec<Unplaced>,
    pub steps: u64,
}

/// Where a pod goes: to a node, or to a claim of the plan by its place there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    pub pod: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlannedClaim {
    pub pool: String,
    pub requirements: BTreeMap<String, Allowed>,
    /// Its place in the plan's lists.
    pub types: usize,
    pub pods: Vec<String>,
    pub requests: Amounts,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub min_values_relaxed: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub full: bool,
    /// In pico-dollars per hour.
    pub price: i64,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unplaced {
    pub pod: String,
    pub why: String,
}

impl Decision {
    pub fn new(tick: &str, choice: Choice) -> Self {
        let text = serde_json::to_string(&choice).expect("a choice is plain data");
        Self { tick: tick.to_owned(), digest: format!("{:016x}", fnv1a(text.as_bytes())), choice }
    }
}

/// What tells one catalogue from another.
pub fn catalog_id(types: &[InstanceType]) -> String {
    let text = serde_json::to_string(types).expect("a catalogue is plain data");
    format!("{:016x}", fnv1a(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_made_for_reading() {
        let line = Line {
            at: "2026-01-01T00:00:00Z".to_owned(),
            event: Event::Looked { to: Some(DecisionKind::Provisioning) },
        };
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(text, r#"{"at":"2026-01-01T00:00:00Z","event":{"looked":{"to":"provisioning"}}}"#);
        let object = RawValue::from_string(r#"{"spec":  {}}"#.to_owned()).unwrap();
        let line = Line { at: String::new(), event: Event::Applied { kind: "Pod".to_owned(), object } };
        let text = serde_json::to_string(&line).unwrap();
        let Event::Applied { object, .. } = serde_json::from_str::<Line>(&text).unwrap().event else {
            panic!("{text}")
        };
        assert_eq!(object.get(), r#"{"spec":  {}}"#, "an object stands there as it came");
    }

    #[test]
    fn a_digest_follows_from_the_choice_alone() {
        let choice = |steps: u64| {
            let question = ProvisioningQuestion { pods: 1, expects_more: false, effort: 9 };
            let (placements, claims, type_lists, unplaced) = (vec![], vec![], vec![], vec![]);
            let plan = Plan { placements, claims, type_lists, unplaced, steps };
            Choice::Provisioning(Provisioning { question, plan })
        };
        assert_eq!(Decision::new("a", choice(1)).digest, Decision::new("b", choice(1)).digest);
        assert_ne!(Decision::new("a", choice(1)).digest, Decision::new("a", choice(2)).digest);
        assert_eq!(choice(1).kind(), DecisionKind::Provisioning);
    }
}
