//! How many nodes of each pool may leave now, and when that changes.

use std::collections::{BTreeMap, BTreeSet};

use model::budget::{Budgets, Reason, UNLIMITED};
use model::ids::{NodeName, PoolName};
use model::snapshot::Snapshot;
use model::time::Instant;

use super::Scene;

/// How far ahead the opening of a closed pool is looked for: windows that open and close daily, for a month.
const MOST_CHANGES_FOLLOWED: usize = 64;

/// What a pool's budgets allow for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    pub pool: PoolName,
    pub reason: Reason,
    /// The nodes that count: ours, initialized, and not ending already.
    pub nodes: u32,
    /// How many may be leaving, before those that are.
    pub allowed: u32,
    /// How many of the nodes are leaving or not ready, for whatever cause.
    pub consuming: u32,
    /// How many of those are not ready, and leaving for no cause at all.
    pub unready: u32,
    /// When a window of the pool's budgets begins or ends next.
    pub until: Option<Instant>,
    /// When time alone lets the next node leave, if nobody may now.
    pub opens: Option<Instant>,
}

impl Allowance {
    /// How many more may leave.
    pub fn left(&self) -> u32 {
        self.allowed.saturating_sub(self.consuming)
    }
}

/// What every pool allows for every reason that we disrupt for, in the order of pools.
pub fn allowances(scene: &Scene<'_>) -> Vec<Allowance> {
    let spoken_for: BTreeSet<&NodeName> = scene.under_way.iter().flat_map(|command| command.nodes()).collect();
    let counts = counts(scene.snapshot, &spoken_for);
    let now = scene.snapshot.now;
    let mut all = Vec::new();
    for (name, pool) in &scene.snapshot.pools {
        let Count { nodes, consuming, unready } = counts.get(name).copied().unwrap_or_default();
        for reason in [Reason::Empty, Reason::Drifted, Reason::Underutilized] {
            let allowed = pool.budgets.allowed_disruptions(reason, now, nodes);
            let until = next_change(&pool.budgets, reason, now);
            let opens = until.filter(|_| allowed <= consuming);
            let opens = opens.and_then(|first| opening(&pool.budgets, reason, first, (nodes, consuming)));
            all.push(Allowance { pool: name.clone(), reason, nodes, allowed, consuming, unready, until, opens });
        }
    }
    all
}

/// Nodes of a pool that count, those of them that use its budgets up, and those that do so only because they are not ready.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    nodes: u32,
    consuming: u32,
    unready: u32,
}

fn counts<'a>(snapshot: &'a Snapshot, spoken_for: &BTreeSet<&NodeName>) -> BTreeMap<&'a PoolName, Count> {
    let mut counts: BTreeMap<&PoolName, Count> = BTreeMap::new();
    for node in snapshot.nodes.values() {
        let Some((pool, tenure)) = node.pool.as_ref().zip(node.tenure.as_ref()) else { continue };
        if !node.is_initialized() || tenure.is_ending {
            continue;
        }
        let is_going = node.is_leaving || spoken_for.contains(&node.name);
        let count = counts.entry(pool).or_default();
        count.nodes += 1;
        count.consuming += u32::from(is_going || !tenure.is_ready);
        count.unready += u32::from(!is_going && !tenure.is_ready);
    }
    counts
}

/// When a window of a budget for this reason opens or closes next.
fn next_change(budgets: &Budgets, reason: Reason, now: Instant) -> Option<Instant> {
    let windows = budgets.usable().iter().filter(|budget| budget.applies_to(reason)).filter_map(|b| b.window.as_ref());
    windows.filter_map(|window| window.next_change(now)).min()
}

/// The first change of a window, from this one on, that lets more nodes go than are going.
fn opening(budgets: &Budgets, reason: Reason, first: Instant, (nodes, consuming): (u32, u32)) -> Option<Instant> {
    let changes = std::iter::successors(Some(first), |change| next_change(budgets, reason, *change));
    let mut changes = changes.take(MOST_CHANGES_FOLLOWED);
    changes.find(|change| budgets.allowed_disruptions(reason, *change, nodes) > consuming)
}

/// What is left of every pool's budgets while commands are being chosen.
#[derive(Clone, Debug)]
pub(super) struct Purse {
    left: BTreeMap<(PoolName, Reason), Allowance>,
    /// Nodes that were taken for any reason: they use up what the pool allows for every other.
    taken: BTreeMap<PoolName, u32>,
}

impl Purse {
    pub(super) fn new(allowances: &[Allowance]) -> Self {
        let left = allowances.iter().map(|one| ((one.pool.clone(), one.reason), one.clone())).collect();
        Self { left, taken: BTreeMap::new() }
    }

    /// How many more nodes of a pool may leave for a reason.
    pub(super) fn left(&self, pool: &PoolName, reason: Reason) -> u32 {
        let Some(allowance) = self.left.get(&(pool.clone(), reason)) else { return 0 };
        let taken = self.taken.get(pool).copied().unwrap_or(0);
        if allowance.allowed == UNLIMITED { UNLIMITED } else { allowance.left().saturating_sub(taken) }
    }

    pub(super) fn take(&mut self, pool: &PoolName) {
        *self.taken.entry(pool.clone()).or_default() += 1;
    }

    /// What stands in the way of one more.
    pub(super) fn blocking(&self, pool: &PoolName, reason: Reason) -> Option<model::disruption::Stay> {
        if self.left(pool, reason) > 0 {
            return None;
        }
        let allowance = self.left.get(&(pool.clone(), reason));
        Some(model::disruption::Stay::Budget {
            pool: pool.clone(),
            reason,
            allowed: allowance.map_or(0, |allowance| allowance.allowed),
            unready: allowance.map_or(0, |allowance| allowance.unready),
            until: allowance.and_then(|allowance| allowance.opens),
        })
    }
}
