//! Who may leave, and for everyone else what keeps them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::disruption::{Method, Stay};
use model::eviction::{Blocked, Blocking, EvictionCost, blocked, is_reschedulable};
use model::ids::{NodeName, PodName};
use model::instance::{CapacityType, InstanceType};
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ZONE};
use model::node::{Node, Tenure};
use model::pod::{Life, Pod};
use model::pool::{ConsolidationPolicy, Pool};
use model::price::Price;
use model::snapshot::Snapshot;

use super::Scene;

/// A node that may leave.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    pub node: &'a Node,
    pub tenure: &'a Tenure,
    pub pool: &'a Pool,
    /// Unknown when its label names none that the pool is offered.
    pub instance_type: Option<&'a InstanceType>,
    pub capacity_type: Option<CapacityType>,
    pub zone: Option<&'a Arc<str>>,
    /// What it costs: its type, in its zone and bought as it was. Zero when nobody knows.
    pub price: Price,
    /// Pods that will want another place.
    pub pods: Vec<&'a Pod>,
    /// What it costs them, and one for the node itself.
    pub cost: EvictionCost,
}

/// Who may leave by a method, and who may not.
#[derive(Clone, Debug, Default)]
pub struct Candidates<'a> {
    pub may_leave: Vec<Candidate<'a>>,
    pub staying: Vec<(NodeName, Stay)>,
}

impl Candidate<'_> {
    /// Nobody on it would mind.
    pub fn is_empty(&self) -> bool {
        self.cost <= EvictionCost::COMMON
    }
}

/// Who stands where, and what those say who may not be disturbed. Every method asks for it.
pub(super) struct PodsByNode<'a> {
    pods: BTreeMap<&'a NodeName, Vec<&'a Pod>>,
    kept: BTreeMap<&'a NodeName, Stay>,
}

impl<'a> PodsByNode<'a> {
    pub(super) fn on(&self, node: &NodeName) -> &[&'a Pod] {
        self.pods.get(node).map(Vec::as_slice).unwrap_or_default()
    }
}

pub(super) fn pods_by_node(snapshot: &Snapshot) -> PodsByNode<'_> {
    let mut pods: BTreeMap<&NodeName, Vec<&Pod>> = BTreeMap::new();
    for pod in snapshot.pods.values().filter(|pod| pod.life != Life::Terminal) {
        if let Some(node) = &pod.node {
            pods.entry(node).or_default().push(pod);
        }
    }
    let ours = snapshot.nodes.values().filter(|node| node.tenure.is_some());
    let kept = ours.filter_map(|node| {
        let pods = pods.get(&node.name)?;
        let asked = pods.iter().find_map(|pod| kept_by_itself(snapshot, pod));
        let stay = asked.or_else(|| pods.iter().find_map(|pod| kept_by_budgets(snapshot, pod)))?;
        Some((&node.name, stay))
    });
    PodsByNode { kept: kept.collect(), pods }
}

/// Who may leave by this method, in the order of names.
pub fn candidates<'a>(scene: &Scene<'a>, method: Method) -> Candidates<'a> {
    candidates_among(scene, &pods_by_node(scene.snapshot), method)
}

pub(super) fn candidates_among<'a>(scene: &Scene<'a>, pods: &PodsByNode<'a>, method: Method) -> Candidates<'a> {
    let mut found = Candidates::default();
    let spoken_for = SpokenFor::new(scene);
    for node in scene.snapshot.nodes.values() {
        let verdict = candidate(scene, &spoken_for, node, pods, method).and_then(|candidate| {
            let stay = kept_by_method(scene, &candidate, method);
            stay.map_or(Ok(candidate), Err)
        });
        match verdict {
            Ok(candidate) => found.may_leave.push(candidate),
            Err(stay) => found.staying.push((node.name.clone(), stay)),
        }
    }
    found
}

/// Nodes of commands that were decided before: those that leave, and those that take their pods.
struct SpokenFor<'s> {
    leaving: BTreeSet<&'s NodeName>,
    taking: BTreeSet<&'s NodeName>,
}

impl<'s> SpokenFor<'s> {
    fn new(scene: &Scene<'s>) -> Self {
        let commands = || scene.under_way.iter().copied();
        Self {
            leaving: commands().flat_map(|command| command.nodes()).collect(),
            taking: commands().flat_map(|command| command.destinations()).collect(),
        }
    }
}

/// A node as a candidate of any method of this kind, or the first thing that keeps it.
fn candidate<'a>(
    scene: &Scene<'a>,
    spoken_for: &SpokenFor<'_>,
    node: &'a Node,
    pods: &PodsByNode<'a>,
    method: Method,
) -> Result<Candidate<'a>, Stay> {
    let snapshot = scene.snapshot;
    if spoken_for.leaving.contains(&node.name) {
        return Err(Stay::UnderWay);
    }
    let tenure = node.tenure.as_ref().ok_or(Stay::NotOurs)?;
    if !node.has_node() {
        return Err(Stay::NoNode);
    }
    if !node.is_initialized() {
        return Err(Stay::NotInitialized);
    }
    if node.is_leaving {
        return Err(Stay::Leaving);
    }
    let is_nominated = |name: &NodeName| scene.nominated.contains(name) || spoken_for.taking.contains(name);
    if is_nominated(&node.name) || is_nominated(&tenure.claim) {
        return Err(Stay::Nominated);
    }
    if let Some(note) = &snapshot.stopped {
        return Err(Stay::Stopped { note: note.clone() });
    }
    if tenure.do_not_disrupt.holds(snapshot.now) {
        return Err(Stay::DoNotDisrupt { until: tenure.do_not_disrupt.until() });
    }
    let name = node.labels.get(NODE_POOL).ok_or(Stay::NoPoolLabel)?;
    let pool = snapshot.pools.get(&(&**name).into()).filter(|pool| !pool.instance_types.is_empty());
    let pool: &'a Pool = pool.ok_or_else(|| Stay::NoPool((&**name).into()))?;
    if method.is_graceful() || tenure.grace.is_none() {
        pods.kept.get(&node.name).cloned().map_or(Ok(()), Err)?;
    }
    let instance_type = node.labels.get(INSTANCE_TYPE).and_then(|name| pool.instance_type(name)).map(|found| &**found);
    let pods: Vec<&Pod> = pods.on(&node.name).iter().copied().filter(|pod| is_reschedulable(pod)).collect();
    let cost = pods.iter().map(|pod| EvictionCost::of(pod).floored()).sum::<EvictionCost>() + EvictionCost::COMMON;
    Ok(Candidate {
        node,
        tenure,
        pool,
        price: instance_type.map_or(Price::ZERO, |instance_type| price_of(node, instance_type)),
        instance_type,
        capacity_type: node.labels.get(CAPACITY_TYPE).and_then(|name| CapacityType::parse(name)),
        zone: node.labels.get(ZONE),
        pods,
        cost,
    })
}

/// What a pod says that may not be disturbed.
fn kept_by_itself(snapshot: &Snapshot, pod: &Pod) -> Option<Stay> {
    let until = pod.do_not_disrupt.until();
    let is_protected = pod.life == Life::Active && pod.is_protected(snapshot.now);
    is_protected.then(|| Stay::PodDoNotDisrupt { pod: pod.name.clone(), until })
}

/// What the PodDisruptionBudgets over a pod say.
fn kept_by_budgets(snapshot: &Snapshot, pod: &Pod) -> Option<Stay> {
    let name = |budget: &model::snapshot::PodBudget| PodName {
        namespace: budget.namespace.clone(),
        name: budget.name.clone(),
    };
    let pod_name = pod.name.clone();
    Some(match blocked(pod, &snapshot.disruption_budgets, Blocking::Now, snapshot.now)? {
        Blocked::By(budget) => {
            Stay::PodBudget { pod: pod_name, budget: name(&budget), is_for_good: budget.blocks_always }
        }
        Blocked::BySeveral(budgets) => {
            Stay::SeveralPodBudgets { pod: pod_name, budgets: budgets.iter().map(|budget| name(budget)).collect() }
        }
    })
}

/// What a node's offering costs, whether it is on sale or not.
pub(super) fn price_of(node: &Node, instance_type: &InstanceType) -> Price {
    let label = |key: &str| node.labels.get(key);
    let (zone, capacity_type) = (label(ZONE), label(CAPACITY_TYPE));
    let is_its_own = |offering: &&model::instance::Offering| {
        zone.is_some() && offering.label(ZONE) == zone && offering.label(CAPACITY_TYPE) == capacity_type
    };
    let own = instance_type.offerings.iter().filter(is_its_own);
    // Of several reservations in one zone, the node's own, where its labels tell.
    let fits = |offering: &&model::instance::Offering| {
        offering.requirements.iter().all(|(key, asked)| node.labels.get(key).is_none_or(|value| asked.has(value)))
    };
    let best = own.clone().find(fits).or_else(|| own.clone().next());
    best.map_or(Price::ZERO, |offering| offering.price)
}

/// What keeps a candidate from being one of this method.
fn kept_by_method(scene: &Scene<'_>, candidate: &Candidate<'_>, method: Method) -> Option<Stay> {
    match method {
        Method::StaticDrift => {
            (!candidate.pool.is_static() || candidate.tenure.drifted.is_none()).then_some(Stay::Wanted)
        }
        Method::Drift => (candidate.pool.is_static() || candidate.tenure.drifted.is_none()).then_some(Stay::Wanted),
        Method::Emptiness => kept_from_emptiness(scene, candidate),
        Method::MultiConsolidation | Method::SingleConsolidation => kept_from_consolidation(scene, candidate),
    }
}

fn kept_from_emptiness(scene: &Scene<'_>, candidate: &Candidate<'_>) -> Option<Stay> {
    let pool = candidate.pool;
    if pool.is_static() {
        return Some(Stay::Wanted);
    }
    if pool.consolidation.after.is_none() {
        return Some(Stay::ConsolidationDisabled(pool.name.clone()));
    }
    if !candidate.is_empty() {
        return Some(Stay::Wanted);
    }
    not_consolidatable(scene, candidate)
}

fn kept_from_consolidation(scene: &Scene<'_>, candidate: &Candidate<'_>) -> Option<Stay> {
    let pool = candidate.pool;
    if pool.is_static() {
        return Some(Stay::Wanted);
    }
    if candidate.instance_type.is_none() {
        let label = candidate.node.labels.get(INSTANCE_TYPE);
        return Some(label.map_or(Stay::NoTypeLabel, |name| Stay::UnknownType((&**name).into())));
    }
    for label in [CAPACITY_TYPE, ZONE] {
        if !candidate.node.labels.contains_key(label) {
            return Some(Stay::MissingLabel(label));
        }
    }
    if pool.consolidation.after.is_none() {
        return Some(Stay::ConsolidationDisabled(pool.name.clone()));
    }
    if candidate.is_empty() {
        return Some(Stay::Wanted);
    }
    if pool.consolidation.policy == ConsolidationPolicy::WhenEmpty {
        return Some(Stay::OnlyWhenEmpty(pool.name.clone()));
    }
    not_consolidatable(scene, candidate)
}

/// The condition decides; the times only say how long it will take, and whether that is soon enough.
fn not_consolidatable(scene: &Scene<'_>, candidate: &Candidate<'_>) -> Option<Stay> {
    if candidate.tenure.consolidatable.is_some() {
        return None;
    }
    candidate.pool.consolidation.after?;
    let until = candidate.tenure.settles_at(candidate.pool).filter(|until| *until > scene.snapshot.now);
    let is_soon = until.is_some_and(|until| until <= scene.settled_by);
    (!is_soon).then_some(Stay::NotConsolidatable { until })
}
