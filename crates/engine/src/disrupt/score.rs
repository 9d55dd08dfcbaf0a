//! Whether what a command saves is worth what it disturbs, as pools with the policy Balanced see it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use model::disruption::{Leaver, PoolScore, Share, Verdict};
use model::eviction::{EvictionCost, is_reschedulable};
use model::ids::PoolName;
use model::labels::INSTANCE_TYPE;
use model::pool::ConsolidationPolicy;
use model::price::Price;
use model::snapshot::Snapshot;

use super::candidates::{PodsByNode, price_of};

/// A saving must be at least one part in so many of what it disturbs. The smallest whole number with which a replacement in a
/// uniform pool can pass; chains of replacements are bounded by it.
pub(super) const K: i128 = 2;

/// What all nodes of a pool cost, and what it would cost to disturb all of them: one measure for those who may leave and those
/// who may not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) price_pico: i128,
    pub(super) cost: EvictionCost,
}

/// The totals of all pools, of one moment.
pub(super) fn totals(snapshot: &Snapshot, pods: &PodsByNode<'_>) -> BTreeMap<PoolName, Totals> {
    let mut totals: BTreeMap<PoolName, Totals> = BTreeMap::new();
    for node in snapshot.nodes.values().filter(|node| node.tenure.is_some()) {
        let Some(pool) = node.pool.as_ref().and_then(|name| snapshot.pools.get(name)) else { continue };
        let total = totals.entry(pool.name.clone()).or_default();
        let offered = node.labels.get(INSTANCE_TYPE).and_then(|name| pool.instance_type(name));
        total.price_pico += offered.map_or(0, |offered| i128::from(price_of(node, offered).pico()));
        let on_node = pods.on(&node.name).iter().filter(|pod| is_reschedulable(pod));
        total.cost = total.cost + EvictionCost::COMMON + on_node.map(|pod| EvictionCost::of(pod).floored()).sum();
    }
    totals
}

/// How each pool that loses nodes scores a command. Pools of other policies approve unseen.
pub(super) fn scores(
    snapshot: &Snapshot,
    totals: &BTreeMap<PoolName, Totals>,
    leaving: &[Leaver],
    after: Price,
) -> Vec<PoolScore> {
    let mut by_pool: BTreeMap<&PoolName, (i128, EvictionCost)> = BTreeMap::new();
    for leaver in leaving {
        let entry = by_pool.entry(&leaver.pool).or_default();
        *entry = (entry.0 + i128::from(leaver.price.pico()), entry.1 + leaver.cost);
    }
    let before: i128 = by_pool.values().map(|(price, _)| price).sum();
    let saved = before - i128::from(after.pico());
    let score = |(name, (price, cost)): (&PoolName, (i128, EvictionCost))| {
        let policy = snapshot.pools.get(name).map_or(ConsolidationPolicy::WhenEmpty, |pool| pool.consolidation.policy);
        // Each pool's part of the saving is its part of what leaves, to a pico-dollar.
        let share = if before > 0 { saved * price / before } else { 0 };
        score(name, policy, (share, cost), totals.get(name).copied().unwrap_or_default(), K)
    };
    by_pool.into_iter().map(score).collect()
}

/// One pool's score of a saving and what it disturbs.
pub(super) fn score(
    pool: &PoolName,
    policy: ConsolidationPolicy,
    (saved, cost): (i128, EvictionCost),
    totals: Totals,
    k: i128,
) -> PoolScore {
    let (cost, all) = (i128::from(cost.parts()), i128::from(totals.cost.parts()));
    let is_known = totals.price_pico > 0 && all > 0;
    let approves = is_known && saved > 0 && k * saved * all >= totals.price_pico * cost;
    let is_asked = policy == ConsolidationPolicy::Balanced;
    PoolScore {
        pool: pool.clone(),
        policy,
        savings: is_known.then_some(Share { part: saved, whole: totals.price_pico }),
        disruption: is_known.then_some(Share { part: cost, whole: all }),
        verdict: if approves || !is_asked { Verdict::Approved } else { Verdict::Rejected },
    }
}
