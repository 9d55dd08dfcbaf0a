//! Who may be moved: plain questions to a pod and the PodDisruptionBudgets over it, and what a move costs.

#[cfg(test)]
mod tests;

use std::ops::Add;
use std::sync::Arc;

use crate::pod::{Life, Owner, Pod, Readiness};
use crate::snapshot::PodBudget;
use crate::time::Instant;

/// What it costs to move a pod, in parts of a common pod's cost. Whole numbers, so that sums are exact and ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvictionCost(i64);

/// The parts of a common pod's cost.
const ONE: i64 = 1 << 27;

impl EvictionCost {
    pub const ZERO: Self = Self(0);
    /// Of a pod of which nobody has said anything.
    pub const COMMON: Self = Self(ONE);

    /// Of one pod: raised and lowered by its deletion cost and its priority, within bounds.
    pub fn of(pod: &Pod) -> Self {
        let parts = ONE.saturating_add(pod.deletion_cost).saturating_add(4 * i64::from(pod.priority));
        Self(parts.clamp(-10 * ONE, 10 * ONE))
    }

    /// Nobody is glad to be moved: what is below nothing is nothing.
    #[must_use]
    pub fn floored(self) -> Self {
        Self(self.0.max(0))
    }

    #[must_use]
    pub fn times(self, factor: i64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    pub fn parts(self) -> i64 {
        self.0
    }

    pub fn from_parts(parts: i64) -> Self {
        Self(parts)
    }

    /// For people, metrics and scores.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / ONE as f64
    }
}

impl Add for EvictionCost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl std::iter::Sum for EvictionCost {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::ZERO, Self::add)
    }
}

/// How much of a budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// It lets nobody go now.
    Now,
    /// Its own terms never let anybody go.
    Always,
}

/// Why budgets keep a pod where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    By(Arc<PodBudget>),
    /// The API server refuses to choose between several.
    BySeveral(Vec<Arc<PodBudget>>),
}

/// Whether the pod will want another place when its node goes. A StatefulSet makes the same pod again only after the old
/// one has ended, so one that is ending counts as the one to come.
pub fn is_reschedulable(pod: &Pod) -> bool {
    let will_be_there = pod.life == Life::Active || (pod.life == Life::Terminating && pod.owner == Owner::StatefulSet);
    will_be_there && !belongs_to_node(pod)
}

/// Whether the pod would move now. One that cannot be evicted stays where it is, and room for it would stand empty.
pub fn is_currently_reschedulable(pod: &Pod, budgets: &[Arc<PodBudget>], now: Instant) -> bool {
    let is_protected = pod.life == Life::Active && pod.is_protected(now);
    is_reschedulable(pod) && !is_protected && blocked(pod, budgets, Blocking::Always, now).is_none()
}

/// Whether the pod would leave by eviction.
pub fn is_evictable(pod: &Pod, now: Instant) -> bool {
    pod.life == Life::Active && !pod.tolerates_disruption() && pod.owner != Owner::Node && !pod.is_protected(now)
}

/// Whether budgets keep a pod from being evicted. Two budgets for one pod always do.
pub fn blocked(pod: &Pod, budgets: &[Arc<PodBudget>], blocking: Blocking, now: Instant) -> Option<Blocked> {
    if !is_evictable(pod, now) {
        return None;
    }
    let mut matching = budgets.iter().filter(|budget| is_over(budget, pod));
    let first = matching.next()?;
    let mut others: Vec<Arc<PodBudget>> = matching.cloned().collect();
    if !others.is_empty() {
        others.insert(0, first.clone());
        return Some(Blocked::BySeveral(others));
    }
    let lets_nobody_go = match blocking {
        Blocking::Now => first.disruptions_allowed <= 0,
        Blocking::Always => first.blocks_always,
    };
    (lets_nobody_go && !is_let_go(first, pod)).then(|| Blocked::By(first.clone()))
}

/// Whether evicting the pod now takes one of the disruptions that a budget allows.
pub fn is_charged_to(budget: &PodBudget, pod: &Pod, now: Instant) -> bool {
    is_over(budget, pod) && is_evictable(pod, now) && !is_let_go(budget, pod)
}

/// A pod that is not ready may leave whatever the budget has left, if the budget says so.
fn is_let_go(budget: &PodBudget, pod: &Pod) -> bool {
    budget.lets_unhealthy_go && pod.is_ready == Readiness::NotReady
}

/// Whether a budget is over a pod.
pub fn is_over(budget: &PodBudget, pod: &Pod) -> bool {
    budget.namespace == *pod.namespace() && budget.selector.selects(&pod.labels)
}

/// Comes and goes with its node.
pub fn belongs_to_node(pod: &Pod) -> bool {
    matches!(pod.owner, Owner::DaemonSet | Owner::Node)
}
