//! What a search for nodes that can be had for less depends on, and a memory of the last one. Decision 0081.
//!
//! Most changes of a cluster have nothing to do with the nodes that may leave and those that may take their pods: a pod comes to a
//! node that has yet to settle, a machine starts, one that is leaving is gone. So a search is a function of its ground and of nothing
//! else, and the same ground is not searched twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::eviction::{EvictionCost, is_currently_reschedulable};
use model::ids::{NodeName, PoolName};
use model::pod::Pod;
use model::pool::Limits;
use model::price::Price;
use model::snapshot::Snapshot;

use super::imagine::Imagined;
use super::search::{Found, search};
use crate::solve::Catalogue;

/// A node that may leave to save money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) node: NodeName,
    pub(super) pool: PoolName,
    pub(super) price: Price,
    /// What its pods lose by being moved, the node's own share not counted.
    pub(super) cost: EvictionCost,
    /// The same with the node's own share, and whenever they were moved last.
    pub(super) trouble: EvictionCost,
    /// Its kind, by everything about it but its pods; nodes of one kind with the same pods fare alike.
    pub(super) kind: Vec<String>,
    pub(super) company: Company,
}

/// With whom a node may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// Alone or with others.
    Any,
    /// Only with others: alone even its deletion would not be worth the disturbance.
    Needed,
}

/// Everything that is searched.
#[derive(Debug)]
pub(super) struct Ground {
    /// Without nodes that neither take pods nor give them away, where that can make no difference.
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) sources: Arc<[Source]>,
    /// Pods of the sources that would move, in the order of names.
    pub(super) movable: Vec<Arc<Pod>>,
    /// Machines that take nobody.
    pub(super) closed: BTreeSet<NodeName>,
    /// How many nodes of each pool may leave; no more than are asked about.
    pub(super) allowed: BTreeMap<PoolName, u32>,
    pub(super) payback: Duration,
}

impl Ground {
    /// `allowed` says how many nodes of a pool may leave.
    pub(super) fn new(
        imagined: &Imagined,
        sources: Vec<Source>,
        allowed: impl Fn(&PoolName) -> u32,
        payback: Duration,
    ) -> Self {
        let mut counts: BTreeMap<PoolName, u32> = BTreeMap::new();
        sources.iter().for_each(|source| *counts.entry(source.pool.clone()).or_default() += 1);
        counts.iter_mut().for_each(|(pool, count)| *count = allowed(pool).min(*count));
        let names: BTreeSet<&NodeName> = sources.iter().map(|source| &source.node).collect();
        let is_source = |pod: &Pod| pod.node.as_ref().is_some_and(|node| names.contains(node));
        let (world, budgets) = (&imagined.snapshot, &imagined.snapshot.disruption_budgets);
        let may_move = |pod: &&Arc<Pod>| is_source(pod) && is_currently_reschedulable(pod, budgets, world.now);
        let movable = world.pods.values().filter(may_move).cloned().collect();
        let mut closed = imagined.closed_to_savers();
        let mut snapshot = world.clone();
        if !closed.iter().all(|node| names.contains(node)) && !are_bound_together(world, &imagined.catalogue) {
            snapshot = Arc::new(without(world, |node| closed.contains(node) && !names.contains(node)));
            closed.retain(|node| names.contains(node));
        }
        let (catalogue, sources) = (imagined.catalogue.clone(), sources.into());
        Self { snapshot, catalogue, sources, movable, closed, allowed: counts, payback }
    }

    /// Whether the same would be found on another ground.
    fn is_like(&self, other: &Self) -> bool {
        let Self { snapshot, catalogue, sources, movable, closed, allowed, payback } = self;
        Arc::ptr_eq(catalogue, &other.catalogue)
            && (sources, closed) == (&other.sources, &other.closed)
            && (allowed, payback) == (&other.allowed, &other.payback)
            && are_same(movable.iter(), other.movable.iter())
            && looks_like(snapshot, &other.snapshot)
    }
}

/// Whether nodes that neither take pods nor give them away may matter to others all the same: because pods mind where others are,
/// or because limits and reservations count what such nodes have.
fn are_bound_together(snapshot: &Snapshot, catalogue: &Catalogue) -> bool {
    let minds = |pod: &Arc<Pod>| {
        let wants = &pod.wants;
        let is_choosy = !wants.preferred_together.is_empty() || !wants.preferred_apart.is_empty();
        is_choosy || !wants.spread.is_empty() || !wants.together.is_empty() || !wants.apart.is_empty()
    };
    let is_limited = |limits: &Limits| limits.nodes.is_some() || !limits.resources.is_empty();
    catalogue.has_reservations()
        || snapshot.pools.values().any(|pool| is_limited(&pool.limits))
        || snapshot.pods.values().any(minds)
}

/// A snapshot without some nodes, and without whoever is on none of the others.
fn without(snapshot: &Snapshot, is_left_out: impl Fn(&NodeName) -> bool) -> Snapshot {
    let stays = |node: &&NodeName| !is_left_out(node);
    let nodes: BTreeMap<_, _> = snapshot
        .nodes
        .iter()
        .filter(|(name, _)| stays(name))
        .map(|(name, node)| (name.clone(), node.clone()))
        .collect();
    let is_there = |pod: &Pod| pod.node.as_ref().is_some_and(|node| nodes.contains_key(node));
    let pods = snapshot.pods.iter().filter(|(_, pod)| is_there(pod));
    let pods = pods.map(|(name, pod)| (name.clone(), pod.clone())).collect();
    Snapshot {
        now: snapshot.now,
        policy: snapshot.policy,
        well_known: snapshot.well_known.clone(),
        pools: snapshot.pools.clone(),
        pods,
        daemons: snapshot.daemons.clone(),
        disruption_budgets: snapshot.disruption_budgets.clone(),
        stopped: snapshot.stopped.clone(),
        nodes,
    }
}

/// Whether two worlds are the same to whoever looks for places in them. The time is of no concern there, and budgets have been asked.
fn looks_like(one: &Snapshot, other: &Snapshot) -> bool {
    let Snapshot { now: _, policy, well_known, pools, nodes, pods, daemons, disruption_budgets: _, stopped: _ } = one;
    *policy == other.policy
        && are_same([well_known].into_iter(), [&other.well_known].into_iter())
        && are_same(pools.values(), other.pools.values())
        && are_same(daemons.values(), other.daemons.values())
        && are_same(nodes.values(), other.nodes.values())
        && are_same(pods.values(), other.pods.values())
}

/// Whether two lists hold equal values. What has not changed since is mostly the same value in memory.
fn are_same<'v, T: PartialEq + 'v>(
    mut one: impl ExactSizeIterator<Item = &'v Arc<T>>,
    mut other: impl ExactSizeIterator<Item = &'v Arc<T>>,
) -> bool {
    one.len() == other.len() && one.by_ref().zip(other.by_ref()).all(|(a, b)| Arc::ptr_eq(a, b) || a == b)
}

/// What is kept from one decision to the next. It saves time and changes no answer.
#[derive(Debug, Default)]
pub struct Memory {
    /// What was on sale, in numbers.
    catalogue: Option<Arc<Catalogue>>,
    searched: Option<(Ground, Arc<Found>)>,
    spared: u64,
}

impl Memory {
    /// What the pools of a snapshot can buy.
    pub(super) fn catalogue(&mut self, snapshot: &Snapshot) -> Arc<Catalogue> {
        let kept = self.catalogue.take().filter(|kept| kept.is_of(snapshot));
        self.catalogue.insert(kept.unwrap_or_else(|| Arc::new(Catalogue::of(snapshot)))).clone()
    }

    /// How many searches were not made because the one before was of the same ground.
    pub fn searches_spared(&self) -> u64 {
        self.spared
    }

    /// What is found on a ground.
    pub(super) fn search(&mut self, ground: Ground, threads: usize) -> Arc<Found> {
        if let Some((_, found)) = self.searched.as_ref().filter(|(last, _)| last.is_like(&ground)) {
            self.spared += 1;
            return found.clone();
        }
        let found = Arc::new(search(&ground, threads));
        self.searched = Some((ground, found.clone()));
        found
    }
}
