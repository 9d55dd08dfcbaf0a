//! Which step a claim takes next.
//!
//! ```text
//! (new) ─Adopt─▶ held ─Launch─▶ launched ─Register─▶ registered ─Initialize─▶ initialized ─Check, every ten minutes─┐
//!                 │                │                     │                        ▲  └──────────────────────────────┘
//!                 └─── GiveUp ─────┴─────────────────────┘ when it takes too long │
//!                                                                   Expire ◀──────┴── at any time, when it is too old
//! deleted: SetDeadline ─▶ DeleteNodes ─▶ wait for the Nodes ─▶ Terminate ─▶ Release
//! ```
//!
//! Every step may be repeated: whoever crashes in the middle of one is told to take it again.

mod collect;
mod setbacks;
mod shape;
#[cfg(test)]
mod tests;
mod text;

use std::time::Duration;

use model::claim::{ClaimLife, Machine, NodeLife};
use model::ids::NodeName;
use model::resources::Resource;
use model::taints::Taint;
use model::time::Instant;

pub use collect::{Owned, is_lost, orphans};
pub use setbacks::Setbacks;
pub use shape::{CHECK_EVERY, Shortfall, shortfalls};
pub use text::Said;

/// How long a claim may take for what is not in our hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    pub launch: Duration,
    pub registration: Duration,
    /// From registration until all is there that pods need; nothing when that is waited for as long as it takes.
    pub initialization: Option<Duration>,
}

impl Default for Patience {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        Self { launch: minutes(5), registration: minutes(15), initialization: None }
    }
}

/// The next thing for one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Hold it with our finalizer, before a machine exists that could be forgotten.
    Adopt,
    Launch,
    Register {
        node: NodeName,
    },
    Initialize {
        node: NodeName,
    },
    /// Compare the node's shape with what was promised.
    Check {
        node: NodeName,
    },
    /// Nothing can be done until the world changes; at `until` something is due in any case.
    Wait {
        why: Waiting,
        until: Option<Instant>,
    },
    /// All is well until then.
    Settled {
        until: Option<Instant>,
    },
    /// Delete the claim: what it waits for does not come.
    GiveUp(Overdue),
    /// Delete the claim: it is as old as it may be.
    Expire,
    /// Write down when the drain must be over.
    SetDeadline(Instant),
    DeleteNodes(Vec<NodeName>),
    /// Ask the cloud to end the machine, or whether there is one.
    Terminate,
    /// Let go of the claim: nothing of it is left.
    Release,
    /// It is deleted and not ours to hold any more.
    Gone,
}

/// What a claim waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Somebody said that it was not launched, and will have to say why.
    Launch,
    Registration(Lacking),
    Initialization(Lacking),
    /// A claim that is ending outlives its Nodes.
    NodesGone(Vec<NodeName>),
}

/// What is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lacking {
    Node,
    /// Several Nodes say that they are the machine; nobody knows which of them is right.
    OneNode(Vec<NodeName>),
    Readiness,
    StartupTaintRemoved(Taint),
    PassingTaintRemoved(Taint),
    Resource(Resource),
}

/// What did not happen in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    Launch,
    Registration,
    Initialization,
}

/// How long a claim has for what comes next, and what it is given up for then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub due: Instant,
    pub overdue: Overdue,
}

/// What a claim needs next.
pub fn next_step(life: &ClaimLife, patience: Patience, now: Instant) -> Step {
    if let Some(deleted) = life.deleted {
        return next_ending_step(life, deleted);
    }
    let expiry = expiry(life);
    if !life.is_held {
        return Step::Adopt;
    }
    if expiry.is_some_and(|expiry| now >= expiry) {
        return Step::Expire;
    }
    let soonest = |due: Option<Instant>| due.into_iter().chain(expiry).min();
    if let Some(limit) = limit(life, patience) {
        return next_step_to_registration(life, patience, limit, now).unwrap_or_else(|why| {
            if now >= limit.due {
                return Step::GiveUp(limit.overdue);
            }
            Step::Wait { why, until: soonest(Some(limit.due)) }
        });
    }
    if life.initialized.is_unknown() {
        let due = patience.initialization.and_then(|time| life.registered.since.checked_plus(time));
        return match initialize(life) {
            Ok(node) => Step::Initialize { node },
            Err(_) if due.is_some_and(|due| now >= due) => Step::GiveUp(Overdue::Initialization),
            Err(lacking) => Step::Wait { why: Waiting::Initialization(lacking), until: soonest(due) },
        };
    }
    match (shape::next_check(life), &*life.nodes) {
        (Some(check), [node]) if now >= check => Step::Check { node: node.name.clone() },
        (check, _) => Step::Settled { until: soonest(check) },
    }
}

/// When a claim is as old as it may be.
pub fn expiry(life: &ClaimLife) -> Option<Instant> {
    life.expire_after.and_then(|age| life.created.checked_plus(age))
}

/// Until when a claim has time for what comes next; nothing once its node has registered.
///
/// What can be tried is tried first, also when its time is over: a controller that was away for long must not drop claims
/// that it has not looked at. So whoever tried in vain asks here whether to give up.
pub fn limit(life: &ClaimLife, patience: Patience) -> Option<Limit> {
    if life.deleted.is_some() || !life.is_held || (life.launched.is_true() && life.registered.is_true()) {
        return None;
    }
    let (since, time, overdue) = if life.launched.is_true() {
        (life.registered.since, patience.registration, Overdue::Registration)
    } else {
        (life.launched.since, patience.launch, Overdue::Launch)
    };
    Some(Limit { due: since.plus(time), overdue })
}

/// What can be tried, or else what is waited for.
fn next_step_to_registration(
    life: &ClaimLife,
    patience: Patience,
    limit: Limit,
    now: Instant,
) -> Result<Step, Waiting> {
    if limit.overdue == Overdue::Launch {
        // A machine that is launched later than this is given up as soon as it is there.
        let is_in_vain = now >= life.registered.since.plus(patience.registration.max(patience.launch));
        return if life.launched.is_unknown() && !is_in_vain { Ok(Step::Launch) } else { Err(Waiting::Launch) };
    }
    match only_node(life).map(|node| node.name.clone()) {
        Ok(node) if life.registered.is_unknown() => Ok(Step::Register { node }),
        Ok(node) => Err(Waiting::Registration(Lacking::OneNode(vec![node]))),
        Err(lacking) => Err(Waiting::Registration(lacking)),
    }
}

fn next_ending_step(life: &ClaimLife, deleted: Instant) -> Step {
    if !life.is_held {
        return Step::Gone;
    }
    if let (Some(grace), None) = (life.grace, life.deadline) {
        return Step::SetDeadline(deleted.plus(grace));
    }
    // A Node that never registered has no pods of anybody's but those that tolerate everything; its machine's end is its end.
    if life.registered.is_true() {
        let names =
            |nodes: &mut dyn Iterator<Item = &NodeLife>| nodes.map(|node| node.name.clone()).collect::<Vec<_>>();
        let staying = names(&mut life.nodes.iter().filter(|node| !node.is_leaving));
        if !staying.is_empty() {
            return Step::DeleteNodes(staying);
        }
        if !life.nodes.is_empty() {
            return Step::Wait { why: Waiting::NodesGone(names(&mut life.nodes.iter())), until: None };
        }
    }
    if life.machine == Machine::Gone { Step::Release } else { Step::Terminate }
}

fn only_node(life: &ClaimLife) -> Result<&NodeLife, Lacking> {
    match &*life.nodes {
        [] => Err(Lacking::Node),
        [node] => Ok(node),
        several => Err(Lacking::OneNode(several.iter().map(|node| node.name.clone()).collect())),
    }
}

/// What a node must have shed and shown before pods are sent to it.
fn initialize(life: &ClaimLife) -> Result<NodeName, Lacking> {
    let node = only_node(life)?;
    if !node.is_ready {
        return Err(Lacking::Readiness);
    }
    let is_on_node = |taint: &&Taint| node.taints.iter().any(|other| other.is_same(taint));
    if let Some(taint) = life.startup_taints.iter().find(is_on_node) {
        return Err(Lacking::StartupTaintRemoved(taint.clone()));
    }
    if let Some(taint) = &node.passing_taint {
        return Err(Lacking::PassingTaintRemoved(taint.clone()));
    }
    // Only whether it is there: the amounts are the cloud's promise, and `Check` compares those.
    let is_missing = |resource: &Resource| node.allocatable.get(resource) == 0;
    match life.requests.amounts().map(|(resource, _)| resource).find(is_missing) {
        Some(resource) => Err(Lacking::Resource(resource)),
        None => Ok(node.name.clone()),
    }
}
