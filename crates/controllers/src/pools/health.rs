//! Whether a pool's machines become nodes: the last few outcomes, and the verdict on them.
//!
//! It informs and stops nothing. Outcomes are kept in memory; after a restart the condition on the pool stands in for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::conditions::{Condition, ConditionStatus};
use api::labels::NODE_POOL;
use api::{NodeClaim, NodePool};
use cluster::Duty;
use cluster::store::NodeClass;
use model::ids::{PoolName, Uid};

use super::readiness::Setting;
use crate::ctx::Ctx;

pub(crate) const CONDITION: &str = "NodeRegistrationHealthy";
const REMEMBERED: usize = 4;
/// Of so many remembered outcomes, that many failures make a pool unhealthy.
const FAILURES_MOST: usize = 2;

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Registered,
    Failed { reason: String, message: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Unknown,
    Healthy,
    Unhealthy,
}

/// The last outcomes of each pool, oldest first, by the pool's uid: a pool made again under its name starts afresh.
#[derive(Debug, Default)]
pub struct RegistrationHealth(Mutex<BTreeMap<Uid, VecDeque<Outcome>>>);

impl RegistrationHealth {
    pub fn of(&self, pool: &Uid) -> Health {
        judged(self.lock().get(pool).into_iter().flatten())
    }

    /// What it would be after this outcome.
    pub fn would_be(&self, pool: &Uid, outcome: &Outcome) -> Health {
        let rings = self.lock();
        let known = rings.get(pool).into_iter().flatten();
        let kept: Vec<&Outcome> = known.chain([outcome]).collect();
        judged(kept.into_iter().rev().take(REMEMBERED))
    }

    pub fn note(&self, pool: &Uid, outcome: Outcome) {
        let mut rings = self.lock();
        let ring = rings.entry(pool.clone()).or_default();
        if ring.len() == REMEMBERED {
            ring.pop_front();
        }
        ring.push_back(outcome);
    }

    /// Starts afresh from a verdict, with as few outcomes as bear it out.
    pub fn set(&self, pool: &Uid, health: Health) {
        let failed = || Outcome::Failed { reason: REASON_FAILED.to_owned(), message: MESSAGE_FAILED.to_owned() };
        let ring = match health {
            Health::Unknown => VecDeque::new(),
            Health::Healthy => VecDeque::from([Outcome::Registered]),
            Health::Unhealthy => VecDeque::from([failed(), failed()]),
        };
        self.lock().insert(pool.clone(), ring);
    }

    pub fn forget(&self, pool: &Uid) {
        self.lock().remove(pool);
    }

    fn newest(&self, pool: &Uid) -> Option<Outcome> {
        self.lock().get(pool).and_then(|ring| ring.back().cloned())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Uid, VecDeque<Outcome>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const REASON_FAILED: &str = "RegistrationFailed";
const MESSAGE_FAILED: &str = "Failed to register node";

fn judged<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Health {
    let (mut all, mut failures) = (0, 0);
    for outcome in outcomes {
        all += 1;
        failures += usize::from(*outcome != Outcome::Registered);
    }
    match (all, failures) {
        (0, _) => Health::Unknown,
        (_, failures) if failures >= FAILURES_MOST => Health::Unhealthy,
        _ => Health::Healthy,
    }
}

/// A claim's node has registered.
pub fn note_registered(ctx: &Ctx, claim: &NodeClaim) {
    note(ctx, claim, Outcome::Registered);
}

/// A claim was given up because it did not launch or its node did not register in time.
pub fn note_failed(ctx: &Ctx, claim: &NodeClaim) {
    let launched = claim.status.iter().flat_map(|status| &status.conditions).find(|it| it.type_ == "Launched");
    let outcome = match launched.filter(|launched| !launched.is_true()) {
        Some(Condition { reason, message, .. }) => Outcome::Failed { reason: reason.clone(), message: message.clone() },
        None => Outcome::Failed { reason: REASON_FAILED.to_owned(), message: MESSAGE_FAILED.to_owned() },
    };
    note(ctx, claim, outcome);
}

/// Only claims that the pool owns by uid count: the name may have been used again. A pool that is gone needs no verdict.
fn note(ctx: &Ctx, claim: &NodeClaim, outcome: Outcome) {
    let labels = claim.metadata.labels.as_ref();
    let Some(name) = labels.and_then(|labels| labels.get(NODE_POOL)).map(|name| PoolName::from(name.as_str())) else {
        return;
    };
    let Some(uid) = ctx.store().node_pool(&name).and_then(|pool| pool.metadata.uid.clone()) else { return };
    let mut owners = claim.metadata.owner_references.iter().flatten();
    if !owners.any(|owner| owner.kind == "NodePool" && owner.uid == uid) {
        return;
    }
    ctx.health.note(&Uid::from(uid.as_str()), outcome);
    ctx.wakers.wake(&Duty::Pool(name));
}

/// What the condition is to be; `None` leaves it as it is.
pub(super) fn verdict(health: &RegistrationHealth, pool: &NodePool, class: Option<&NodeClass>) -> Option<Setting> {
    let class = class?;
    let uid = Uid::from(pool.metadata.uid.as_deref().unwrap_or_default());
    let status = pool.status.as_ref();
    let condition = status.into_iter().flat_map(|status| &status.conditions).find(|it| it.type_ == CONDITION);
    let is_same_class = status.and_then(|status| status.node_class_observed_generation) == Some(class.generation);
    let is_same_pool = condition.is_some_and(|it| it.observed_generation == pool.metadata.generation);
    if condition.is_none() || !is_same_class || !is_same_pool {
        // What was learned was learned with other settings.
        health.set(&uid, Health::Unknown);
        let message = "no node of this pool has registered or failed to since the pool or its class changed";
        let reason = "AwaitingReconciliation".to_owned();
        return Some(Setting { status: ConditionStatus::Unknown, reason, message: message.to_owned() });
    }
    if health.of(&uid) == Health::Unknown {
        match condition.map(|it| it.status) {
            Some(ConditionStatus::True) => health.set(&uid, Health::Healthy),
            Some(ConditionStatus::False) => health.set(&uid, Health::Unhealthy),
            _ => {}
        }
        return None;
    }
    let is_false = condition.is_some_and(|it| it.status == ConditionStatus::False);
    match (health.of(&uid), health.newest(&uid)) {
        (Health::Unhealthy, Some(Outcome::Failed { reason, message })) if !is_false => {
            Some(Setting { status: ConditionStatus::False, reason, message })
        }
        (Health::Healthy, Some(Outcome::Registered)) => {
            Some(Setting { status: ConditionStatus::True, reason: CONDITION.to_owned(), message: String::new() })
        }
        _ => None,
    }
}
