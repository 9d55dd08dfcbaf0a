//! The status that a pool should have, from everything that is known of it.

use api::NodePool;
use api::conditions::{ConditionStatus, ConditionTypes, Conditions};
use api::nodepool::NodePoolStatus;
use api::validate::Problem;
use cluster::store::{NodeClass, PoolUsage};
use jiff::Timestamp;

use super::readiness::Setting;
use super::{counter, health, readiness};

const VALID: &str = "ValidationSucceeded";
const CLASS_READY: &str = "NodeClassReady";

pub(super) struct Seen<'a> {
    pub(super) class: Option<&'a NodeClass>,
    pub(super) problems: &'a [Problem],
    /// What its machines have; nothing when it is not to be counted now.
    pub(super) usage: Option<&'a PoolUsage>,
    /// What registration health is to be; nothing leaves it as it is.
    pub(super) health: Option<Setting>,
}

pub(super) fn wanted(pool: &NodePool, seen: &Seen<'_>, now: Timestamp) -> NodePoolStatus {
    let mut status = pool.status.clone().unwrap_or_default();
    if let Some(usage) = seen.usage {
        status.resources = counter::resources(usage);
        status.nodes = usage.nodes;
    }
    let mut conditions = Conditions::open(ConditionTypes::NODE_POOL, &pool.metadata, &mut status.conditions, now);
    let texts: Vec<String> = seen.problems.iter().map(Problem::to_string).collect();
    if texts.is_empty() {
        conditions.set_true(VALID);
    } else {
        conditions.set(VALID, ConditionStatus::False, "NodePoolValidationFailed", &texts.join(", "));
    }
    let ready = readiness::of_class(pool, seen.class);
    conditions.set(CLASS_READY, ready.status, &ready.reason, &ready.message);
    if let Some(health) = &seen.health {
        conditions.set(health::CONDITION, health.status, &health.reason, &health.message);
    }
    if let Some(class) = seen.class {
        status.node_class_observed_generation = Some(class.generation);
    }
    status
}
