//! Conditions, and the rules by which a set of them sums up to `Ready`.
//!
//! Each kind names the conditions that its readiness depends on. The others are independent: they come and go without
//! touching the root. Everything here is a pure function of the object's metadata, the old list and `now`.
//!
//! ```text
//! dependents all True at this generation ──────────► Ready=True    (Ready)
//! some dependent False at this generation ─────────► Ready=False   (UnhealthyDependents)
//! otherwise (Unknown, or seen at an old generation) ► Ready=Unknown (ReconcilingDependents)
//! ```

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

pub const READY: &str = "Ready";
/// Says on a claim why somebody disrupts it.
pub const DISRUPTION_REASON: &str = "DisruptionReason";

const MOST_MESSAGE_BYTES: usize = 32768;

const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
const AWAITING_MESSAGE: &str = "object is awaiting reconciliation";
const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";
const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";

/// One fact about an object, with the reason for it and the time since when it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about.
    #[serde(rename = "type")]
    #[schemars(length(max = 316), extend("pattern" = schema::CONDITION_TYPE))]
    pub type_: String,
    pub status: ConditionStatus,
    /// The generation of the object that the condition was set for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// When `status` last changed.
    pub last_transition_time: Time,
    /// One word for programs.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub reason: String,
    /// A sentence for people.
    #[serde(default)]
    #[schemars(length(max = 32768))]
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl Condition {
    /// The schema of one list entry, before each kind says what it requires.
    pub(crate) fn json_schema_of_item(generator: &mut SchemaGenerator) -> Value {
        let mut item = generator.subschema_for::<Self>().to_value();
        for field in ["reason", "message"] {
            schema::edit(&mut item, &format!("/properties/{field}"), |property| {
                if let Some(property) = property.as_object_mut() {
                    property.remove("default");
                }
            });
        }
        item
    }

    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }
}

/// What a kind's readiness depends on.
#[derive(Clone, Copy, Debug)]
pub struct ConditionTypes {
    dependents: &'static [&'static str],
}

impl ConditionTypes {
    pub const NODE_CLAIM: Self = Self { dependents: &["Launched", "Registered", "Initialized"] };
    pub const NODE_POOL: Self = Self { dependents: &["ValidationSucceeded", "NodeClassReady"] };
    pub const NODE_OVERLAY: Self = Self { dependents: &["ValidationSucceeded"] };

    pub const fn new(dependents: &'static [&'static str]) -> Self {
        Self { dependents }
    }
}

/// Clearing a condition that `Ready` is computed from would leave `Ready` without a ground to stand on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("condition {0} cannot be cleared because Ready depends on it; set it to False or Unknown")]
pub struct ConditionError(String);

/// An object's condition list, open for reading and writing.
///
/// Opening it adds what is missing, so every dependent and the root can be read at once.
pub struct Conditions<'a> {
    types: ConditionTypes,
    list: &'a mut Vec<Condition>,
    generation: i64,
    created: Time,
    is_deleting: bool,
    now: Time,
}

impl<'a> Conditions<'a> {
    pub fn open(types: ConditionTypes, metadata: &ObjectMeta, list: &'a mut Vec<Condition>, now: Timestamp) -> Self {
        let now = Time(now);
        let mut conditions = Self {
            types,
            list,
            generation: metadata.generation.unwrap_or(0),
            created: metadata.creation_timestamp.clone().unwrap_or_else(|| now.clone()),
            is_deleting: metadata.deletion_timestamp.is_some(),
            now,
        };
        for type_ in std::iter::once(READY).chain(types.dependents.iter().copied()) {
            if conditions.get(type_).is_none() {
                conditions.set(type_, ConditionStatus::Unknown, AWAITING_RECONCILIATION, AWAITING_MESSAGE);
            }
        }
        conditions
    }

    pub fn get(&self, type_: &str) -> Option<&Condition> {
        self.list.iter().find(|condition| condition.type_ == type_)
    }

    pub fn is_true(&self, type_: &str) -> bool {
        self.get(type_).is_some_and(Condition::is_true)
    }

    /// Sets to True with the condition's own name as reason. Says whether anything changed.
    pub fn set_true(&mut self, type_: &str) -> bool {
        self.set(type_, ConditionStatus::True, type_, "")
    }

    /// Sets one condition and sums up the root again. Says whether anything changed.
    pub fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) -> bool {
        let old = self.get(type_);
        let last_transition_time = match old {
            Some(old) if old.status == status => old.last_transition_time.clone(),
            Some(_) => self.now.clone(),
            // A dependent has been waiting since the object was made; launch and registration timeouts count from there.
            None if type_ == READY || self.types.dependents.contains(&type_) => self.created.clone(),
            None => self.now.clone(),
        };
        let new = Condition {
            type_: type_.to_owned(),
            status,
            observed_generation: Some(self.generation),
            last_transition_time,
            reason: reason.to_owned(),
            message: cut(message).to_owned(),
        };
        if old == Some(&new) {
            return false;
        }
        self.list.retain(|condition| condition.type_ != type_);
        if self.is_deleting {
            // Nobody reconciles the other conditions any more; stale generations would look like pending work.
            for other in self.list.iter_mut() {
                other.observed_generation = Some(self.generation);
            }
        }
        self.list.push(new);
        self.sort();
        if type_ != READY {
            self.sum_up();
        }
        true
    }

    /// Removes an independent condition; the root stays as it is. Says whether it was there.
    pub fn clear(&mut self, type_: &str) -> Result<bool, ConditionError> {
        if type_ == READY || self.types.dependents.contains(&type_) {
            return Err(ConditionError(type_.to_owned()));
        }
        let before = self.list.len();
        self.list.retain(|condition| condition.type_ != type_);
        Ok(self.list.len() != before)
    }

    /// Oldest first, the root last: the order that people read in `kubectl describe`.
    fn sort(&mut self) {
        self.list.sort_by(|a, b| {
            (a.type_ == READY, &a.last_transition_time).cmp(&(b.type_ == READY, &b.last_transition_time))
        });
    }

    fn sum_up(&mut self) {
        let is_current = |condition: &Condition| condition.observed_generation == Some(self.generation);
        let mut unhealthy: Vec<&Condition> = self
            .list
            .iter()
            .filter(|c| self.types.dependents.contains(&c.type_.as_str()) && !(c.is_true() && is_current(c)))
            .collect();
        if unhealthy.is_empty() && self.types.dependents.iter().all(|type_| self.get(type_).is_some()) {
            self.set_true(READY);
            return;
        }
        unhealthy.sort_by(|a, b| b.last_transition_time.cmp(&a.last_transition_time));
        let message: Vec<String> = unhealthy.iter().map(|c| format!("{}={}", c.type_, c.status.as_str())).collect();
        let has_failed = unhealthy.iter().any(|c| c.status == ConditionStatus::False && is_current(c));
        let (status, reason) = if has_failed {
            (ConditionStatus::False, UNHEALTHY_DEPENDENTS)
        } else {
            (ConditionStatus::Unknown, RECONCILING_DEPENDENTS)
        };
        self.set(READY, status, reason, &message.join(", "));
    }
}

/// As much of a message as the schema lets through; a status that is too long would not be stored at all.
fn cut(message: &str) -> &str {
    &message[..message.floor_char_boundary(MOST_MESSAGE_BYTES)]
}

#[cfg(test)]
mod tests;
