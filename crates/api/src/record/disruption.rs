//! Decisions on nodes that leave on purpose.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Placement, PlannedClaim};
use crate::Duration;

/// Which nodes leave, and why the others stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Disruption {
    pub question: DisruptionQuestion,
    /// Those that need a second look have another decision each, later.
    pub commands: Vec<Command>,
    pub staying: Vec<Staying>,
    /// When time alone may change the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_again: Option<String>,
}

/// What became of a command while it waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecondLook {
    pub question: DisruptionQuestion,
    pub command: Command,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Outcome {
    /// The nodes that go after all; none when the command no longer holds.
    pub leaving: Vec<String>,
    /// The class of reasons for which it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejection: Option<String>,
    pub staying: Vec<Staying>,
}

/// What was asked, as far as it does not follow from the look: which pods wait is in it, what was decided before is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DisruptionQuestion {
    pub spot_to_spot: bool,
    pub payback: Duration,
    pub pod_move_cooldown: Duration,
    /// How far ahead nodes were foreseen to settle. Recordings from before that was done do not say.
    #[serde(default)]
    pub foresight: Duration,
    /// Commands that wait for their second look, and those that are being carried out.
    pub under_way: Vec<Command>,
    /// Nodes that pods are about to come to.
    pub nominated: Vec<String>,
    /// Pods that came in the place of some that were moved.
    pub moved: BTreeMap<String, MovedPod>,
    /// Pools that are left alone, and until when.
    pub paused: BTreeMap<String, String>,
    pub static_pools: BTreeMap<String, StaticCount>,
}

/// When a pod came, and how often whoever stood in its place had been moved by then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MovedPod {
    pub when: String,
    pub times: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticCount {
    pub active: i64,
    pub replacing: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Command {
    pub method: Method,
    pub leaving: Vec<Leaver>,
    pub replacements: Vec<PlannedClaim>,
    /// Each list of instance types that replacements name, once.
    pub type_lists: Vec<Vec<String>>,
    pub moves: Vec<Placement>,
    pub worth: Worth,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Method {
    Emptiness,
    StaticDrift,
    Drift,
    MultiConsolidation,
    SingleConsolidation,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Leaver {
    pub node: String,
    pub claim: String,
    pub pool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_type: Option<String>,
    /// In pico-dollars per hour.
    pub price: i64,
    pub pods: Vec<String>,
    /// In the parts that eviction costs are counted in.
    pub cost: i64,
}

/// Prices are in pico-dollars per hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Worth {
    pub before: i64,
    pub after: i64,
    pub after_at_most: i64,
    pub evicted: usize,
    pub cost: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pays_back_after: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Staying {
    pub node: String,
    pub why: String,
}
