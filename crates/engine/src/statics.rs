//! Pools that keep a number of nodes: how many are missing, and which go when there are too many.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use model::eviction::{EvictionCost, belongs_to_node};
use model::ids::NodeName;
use model::pod::Pod;
use model::time::Instant;

/// A pool's claims, and how many it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    pub replicas: i64,
    pub active: i64,
    /// To go as soon as their replacements are there. Each stands for one node, itself or the one to come.
    pub replacing: i64,
}

/// How many nodes are to be made.
pub fn missing(census: Census) -> i64 {
    // The reference leaves out those that are being replaced, so their pool grows too far and shrinks again.
    census.replicas.saturating_sub(census.active).saturating_sub(census.replacing).max(0)
}

/// How many nodes are to go.
pub fn surplus(census: Census) -> i64 {
    census.active.saturating_sub(census.replicas).max(0)
}

/// A node that may have to go, with what decides how much that would hurt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub claim: NodeName,
    /// Whether the cloud has said which machine it is.
    pub is_launched: bool,
    /// Everybody on it that has not ended and was not told to.
    pub pods: Vec<Arc<Pod>>,
    pub created: Instant,
    pub expire_after: Option<Duration>,
}

/// The claims that go, least harmful first: those without a machine, then empty nodes, then by what their pods are worth for
/// the rest of their node's life, and those with protected pods last.
pub fn leavers(candidates: &[Candidate], count: i64, now: Instant) -> Vec<NodeName> {
    let mut ranked: Vec<(Harm, &NodeName)> =
        candidates.iter().map(|candidate| (Harm::of(candidate, now), &candidate.claim)).collect();
    ranked.sort();
    let count = usize::try_from(count).unwrap_or(0);
    ranked.into_iter().take(count).map(|(_, name)| name.clone()).collect()
}

/// In the order of what hurts least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Harm {
    Unlaunched,
    Empty,
    /// Eviction cost over what is left of the node's life.
    Pods(i128),
    Protected(i128),
}

impl Harm {
    fn of(candidate: &Candidate, now: Instant) -> Self {
        let pods = &candidate.pods;
        let is_protected = pods.iter().any(|pod| pod.is_protected(now));
        if !candidate.is_launched {
            return Self::Unlaunched;
        }
        if pods.iter().all(|pod| belongs_to_node(pod)) && !is_protected {
            return Self::Empty;
        }
        let moved = pods.iter().filter(|pod| !belongs_to_node(pod));
        let cost: EvictionCost = moved.map(|pod| EvictionCost::of(pod)).sum();
        let cost = for_the_rest(i128::from(cost.parts()), candidate, now);
        if is_protected { Self::Protected(cost) } else { Self::Pods(cost) }
    }
}

/// The part of an amount that falls on what is left of a node's life: it would have to go soon in any case.
fn for_the_rest(amount: i128, candidate: &Candidate, now: Instant) -> i128 {
    let Some(whole) = candidate.expire_after.filter(|whole| !whole.is_zero()) else { return amount };
    let left = whole.saturating_sub(now.since(candidate.created));
    // Sums of eviction costs have some forty bits and times some seventy, so nothing is lost.
    let [left, whole] = [left, whole].map(|time| i128::try_from(time.as_millis().max(1)).unwrap_or(i128::MAX));
    amount.saturating_mul(left) / whole
}
