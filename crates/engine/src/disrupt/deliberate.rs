//! A decision in the making: what has been chosen so far, and what that leaves for the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::budget::Reason;
use model::disruption::{Disruption, Leaver, Method, Moved, PoolScore, Stay, Staying, Worth};
use model::eviction::{EvictionCost, is_charged_to};
use model::ids::{NodeName, PodName, PoolName};
use model::plan::{Plan, Target};
use model::pod::Pod;
use model::price::Price;
use model::snapshot::{PodBudget, Snapshot};
use model::time::Instant;

use super::budgets::{Allowance, Purse, allowances};
use super::candidates::{Candidate, PodsByNode, candidates_among, pods_by_node};
use super::imagine::{Arriving, Imagined};
use super::score::{Totals, totals};
use super::worth::{cost_pico, pays_back_after};
use super::{Decision, Effort, Rules, Scene, replace};
use crate::solve::Catalogue;

/// What nobody is known to wait for is looked at no sooner again.
const UNHURRIED: Duration = Duration::from_secs(5 * 60);

pub(super) struct Deliberation<'s, 'a> {
    pub(super) scene: &'s Scene<'a>,
    pub(super) rules: &'s Rules,
    pub(super) pods: PodsByNode<'a>,
    pub(super) imagined: Imagined,
    pub(super) purse: Purse,
    pub(super) ledger: Ledger,
    pub(super) totals: BTreeMap<PoolName, Totals>,
    pub(super) effort: Effort,
    pub(super) scores: Vec<PoolScore>,
    allowances: Vec<Allowance>,
    eligible: Vec<(Method, usize)>,
    reasons: BTreeMap<NodeName, Vec<Stay>>,
    commands: Vec<Disruption>,
    /// Nodes that leave, and nodes that take pods from them.
    busy: BTreeSet<NodeName>,
    /// Nodes that were asked whether they can be had for less.
    weighed: Vec<NodeName>,
}

impl<'s, 'a> Deliberation<'s, 'a> {
    pub(super) fn new(scene: &'s Scene<'a>, rules: &'s Rules, catalogue: &Arc<Catalogue>) -> Self {
        let allowances = allowances(scene);
        let pods = pods_by_node(scene.snapshot);
        Self {
            scene,
            rules,
            imagined: Imagined::new(scene, catalogue),
            purse: Purse::new(&allowances),
            ledger: Ledger::new(scene),
            totals: totals(scene.snapshot, &pods),
            pods,
            effort: Effort::default(),
            scores: Vec::new(),
            allowances,
            eligible: Vec::new(),
            reasons: BTreeMap::new(),
            commands: Vec::new(),
            busy: BTreeSet::new(),
            weighed: Vec::new(),
        }
    }

    /// Candidates of a method whom nobody has chosen yet; everyone else gets a reason.
    pub(super) fn candidates(&mut self, method: Method) -> Vec<Candidate<'a>> {
        self.candidates_and_others(method).0
    }

    /// The same, and the reasons of everyone else.
    pub(super) fn candidates_and_others(&mut self, method: Method) -> (Vec<Candidate<'a>>, Vec<(NodeName, Stay)>) {
        let found = candidates_among(self.scene, &self.pods, method);
        found.staying.iter().for_each(|(node, stay)| self.stays(node, stay.clone()));
        self.eligible.push((method, found.may_leave.len()));
        let (busy, free): (Vec<_>, Vec<_>) =
            found.may_leave.into_iter().partition(|candidate| self.busy.contains(&candidate.node.name));
        busy.iter().for_each(|candidate| self.stays(&candidate.node.name, Stay::OthersFirst));
        (free, found.staying)
    }

    pub(super) fn stays(&mut self, node: &NodeName, stay: Stay) {
        self.reasons.entry(node.clone()).or_default().push(stay);
    }

    pub(super) fn has_reason(&self, node: &NodeName) -> bool {
        let reasons = self.reasons.get(node).into_iter().flatten();
        self.busy.contains(node) || reasons.into_iter().any(|stay| *stay != Stay::Wanted)
    }

    /// A method that chooses from the same nodes as the one before.
    pub(super) fn note_eligible(&mut self, method: Method) {
        let count = self.eligible.last().map_or(0, |(_, count)| *count);
        self.eligible.push((method, count));
    }

    pub(super) fn is_busy(&self, node: &NodeName) -> bool {
        self.busy.contains(node)
    }

    /// These were asked whether they can be had for less.
    pub(super) fn weigh(&mut self, nodes: impl IntoIterator<Item = NodeName>) {
        self.weighed.extend(nodes);
    }

    /// What stands in the way of one more node of its pool.
    pub(super) fn over_budget(&self, candidate: &Candidate<'_>, reason: Reason) -> Option<Stay> {
        self.purse.blocking(&candidate.pool.name, reason)
    }

    /// Pods that a node would have to give away, those included that are on their way to it.
    pub(super) fn pods_to_move(&self, node: &NodeName) -> Vec<PodName> {
        self.imagined.movable(node).map(|pod| pod.name.clone()).collect()
    }

    /// Makes a command of candidates and a plan, and the world as it will be then.
    pub(super) fn commit(&mut self, method: Method, leaving: &[&Candidate<'_>], plan: Plan, scores: Vec<PoolScore>) {
        let leavers: Vec<Leaver> = leaving.iter().map(|candidate| leaver(candidate)).collect();
        let nodes: Vec<NodeName> = leavers.iter().map(|leaver| leaver.node.clone()).collect();
        for leaver in &leavers {
            self.purse.take(&leaver.pool);
            self.ledger.take(self.scene.snapshot, leaver);
        }
        self.imagined.carry_out(&nodes, &plan, Arriving::Closed);
        self.busy.extend(nodes);
        let on_node = |(_, target): &(PodName, Target)| match target {
            Target::Node(node) => Some(node.clone()),
            Target::Claim(_) => None,
        };
        self.busy.extend(plan.placements.iter().filter_map(on_node));
        let worth = self.worth(method, &leavers, &plan, scores);
        self.commands.push(Disruption {
            method,
            leaving: leavers,
            replacements: plan.claims,
            moves: plan.placements,
            worth,
        });
    }

    fn worth(&self, method: Method, leavers: &[Leaver], plan: &Plan, scores: Vec<PoolScore>) -> Worth {
        let sum = |prices: &mut dyn Iterator<Item = Price>| prices.fold(Price::ZERO, Price::plus);
        let before = sum(&mut leavers.iter().map(|leaver| leaver.price));
        let after = sum(&mut plan.claims.iter().map(|claim| claim.price));
        let cost = self.evicted_cost(leavers);
        let saved = before.pico().saturating_sub(after.pico());
        let is_about_money = matches!(method, Method::MultiConsolidation | Method::SingleConsolidation);
        let payback = is_about_money.then(|| pays_back_after(cost_pico(cost, after), saved)).flatten();
        Worth {
            before,
            after,
            after_at_most: replace::at_most(self.scene.snapshot, &plan.claims),
            evicted: leavers.iter().map(|leaver| leaver.pods.len()).sum(),
            cost,
            pays_back_after: payback,
            scores,
        }
    }

    /// What it costs all pods of leavers to be evicted.
    pub(super) fn evicted_cost(&self, leavers: &[Leaver]) -> EvictionCost {
        let pods = leavers.iter().flat_map(|leaver| &leaver.pods);
        pods.filter_map(|name| self.scene.snapshot.pods.get(name)).map(|pod| self.cost_of(pod)).sum()
    }

    /// What it costs a pod to be evicted: more, the shorter it has stood where it was moved to.
    pub(super) fn cost_of(&self, pod: &Pod) -> EvictionCost {
        let dearer = |moved: &Moved| moved.dearer(self.scene.snapshot.now, self.rules.payback);
        EvictionCost::of(pod).floored().times(self.scene.moved.get(&pod.name).map_or(1, dearer))
    }

    /// When moving the pods of a node again costs less than now, if some of them were moved lately.
    fn pays_sooner_at(&self, node: &NodeName) -> Option<Instant> {
        let moved = self.pods.on(node).iter().filter_map(|pod| self.scene.moved.get(&pod.name));
        let cheaper = moved.filter_map(|moved| moved.half_as_dear_at(self.scene.snapshot.now, self.rules.payback));
        cheaper.min()
    }

    pub(super) fn decision(mut self) -> Decision {
        let all_reasons = std::mem::take(&mut self.reasons);
        let leaving: BTreeSet<&NodeName> = self.commands.iter().flat_map(Disruption::nodes).collect();
        let now = self.scene.snapshot.now;
        // Nodes are chosen so long before they have settled.
        let ahead = self.scene.settled_by.since(now);
        let until = |node: &NodeName, stay: &Stay| match stay {
            Stay::NotConsolidatable { until } => until.map(|until| until.minus(ahead)),
            Stay::PaysBackLate { .. } | Stay::TooTight { .. } => self.pays_sooner_at(node),
            stay => stay.until(),
        };
        let mut staying = Vec::new();
        let mut look_again = None;
        for (node, mut reasons) in all_reasons {
            let soon = reasons.iter().filter_map(|stay| until(&node, stay)).filter(|until| *until > now).min();
            look_again = look_again.into_iter().chain(soon).min();
            // Whom nothing asks to leave is not kept by that, as long as there is anything else to say.
            reasons.dedup();
            if reasons.iter().any(|stay| *stay != Stay::Wanted) {
                reasons.retain(|stay| *stay != Stay::Wanted);
            }
            let easiest = reasons.iter().min_by_key(|stay| stay.hardness()).cloned();
            let first = reasons.into_iter().next();
            if let Some((first, easiest)) = first.zip(easiest).filter(|_| !leaving.contains(&node)) {
                staying.push(Staying { node, first, easiest });
            }
        }
        // What pods cost that were moved lately may be behind any reason, where several leave together or a machine is only just cheaper.
        let weighed = self.weighed.iter().filter(|node| !leaving.contains(node));
        let cheaper = weighed.filter_map(|node| self.pays_sooner_at(node)).map(|at| at.max(now.plus(UNHURRIED)));
        let windows = self.allowances.iter().filter_map(|allowance| allowance.until);
        let awaited = windows.chain(self.imagined.hoped_until).filter(|until| *until > now).chain(cheaper);
        look_again = look_again.into_iter().chain(awaited).min();
        self.effort.plans = self.imagined.plans;
        Decision {
            commands: self.commands,
            staying,
            allowances: self.allowances,
            eligible: self.eligible,
            scores: self.scores,
            look_again,
            effort: self.effort,
        }
    }
}

pub(super) fn leaver(candidate: &Candidate<'_>) -> Leaver {
    Leaver {
        node: candidate.node.name.clone(),
        claim: candidate.tenure.claim.clone(),
        pool: candidate.pool.name.clone(),
        instance_type: candidate.instance_type.map(|offered| offered.name.clone()),
        capacity_type: candidate.capacity_type,
        price: candidate.price,
        pods: candidate.pods.iter().map(|pod| pod.name.clone()).collect(),
        cost: candidate.cost,
    }
}

/// How many evictions each PodDisruptionBudget has left for this decision. Pods of nodes that are leaving already count: they
/// will ask for theirs. One command may ask a budget for more than it has, its pods then leave one after the other; but no
/// second one joins that queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    left: BTreeMap<PodName, (Arc<PodBudget>, i64)>,
}

impl Ledger {
    fn new(scene: &Scene<'_>) -> Self {
        let name = |budget: &PodBudget| PodName { namespace: budget.namespace.clone(), name: budget.name.clone() };
        let budgets = scene.snapshot.disruption_budgets.iter();
        let left = budgets.map(|budget| (name(budget), (budget.clone(), i64::from(budget.disruptions_allowed))));
        let mut ledger = Self { left: left.collect() };
        if ledger.left.is_empty() {
            return ledger;
        }
        let spoken_for: BTreeSet<&NodeName> = scene.under_way.iter().flat_map(|command| command.nodes()).collect();
        for pod in scene.snapshot.pods.values() {
            let Some(node) = pod.node.as_ref().and_then(|node| scene.snapshot.nodes.get(node)) else { continue };
            if (node.is_leaving && node.tenure.is_some()) || spoken_for.contains(&node.name) {
                ledger.charge(scene.snapshot, pod);
            }
        }
        ledger
    }

    /// A budget that has nothing left for a pod of these.
    pub(super) fn exhausted(&self, snapshot: &Snapshot, pods: &[PodName]) -> Option<PodName> {
        let pods = || pods.iter().filter_map(|name| snapshot.pods.get(name));
        let is_used_up = |(name, (budget, left)): (&PodName, &(Arc<PodBudget>, i64))| {
            let asks = |pod: &Arc<Pod>| is_charged_to(budget, pod, snapshot.now);
            (*left <= 0 && pods().any(asks)).then(|| name.clone())
        };
        self.left.iter().find_map(is_used_up)
    }

    fn take(&mut self, snapshot: &Snapshot, leaver: &Leaver) {
        if self.left.is_empty() {
            return;
        }
        for pod in leaver.pods.iter().filter_map(|name| snapshot.pods.get(name)) {
            self.charge(snapshot, pod);
        }
    }

    fn charge(&mut self, snapshot: &Snapshot, pod: &Pod) {
        let charged = self.left.values_mut().filter(|(budget, _)| is_charged_to(budget, pod, snapshot.now));
        charged.for_each(|(_, left)| *left -= 1);
    }
}
