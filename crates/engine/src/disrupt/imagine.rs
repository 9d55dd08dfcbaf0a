//! The world in which a decision is made: commands that were decided before are carried out, and pods that wait have the
//! places that they will get anyway. What a disruption costs is what comes on top of that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use model::disruption::{Disruption, Unready};
use model::eviction::is_currently_reschedulable;
use model::ids::{NodeName, PodName};
use model::node::{Node, Progress};
use model::plan::{Plan, PlannedClaim, Target};
use model::pod::Pod;
use model::resources::Resources;
use model::snapshot::Snapshot;
use model::time::Instant;
use model::volume::AttachLimits;

use super::Scene;
use super::settling::node_settles_at;
use crate::solve::scatter::{self, LeftOver};
use crate::solve::{Catalogue, Question, solve_with};

/// A node that is not initialized after this time is not waited for. In the reference it would block consolidation until it
/// expires.
const HOPED_FOR: Duration = Duration::from_secs(15 * 60);

/// Stands before the names of machines that exist in plans only. No Node can be called so.
const PLANNED: &str = "planned/";

pub(super) struct Imagined {
    /// Everybody has a place here, or is not here.
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) catalogue: Arc<Catalogue>,
    /// Pods that wait and would go to a node that is there.
    pub(super) awaited: BTreeMap<NodeName, Vec<PodName>>,
    /// The same for pods that stand for the room of buffers.
    pub(super) buffered: BTreeSet<NodeName>,
    /// When the first of the nodes that are still starting will have been waited for long enough.
    pub(super) hoped_until: Option<Instant>,
    /// Machines that exist in plans only, and only for the pods that they were planned for.
    pub(super) closed: BTreeSet<NodeName>,
    /// Nodes that have been quiet for long enough by then take pods that are moved to save money.
    settled_by: Instant,
    /// Who stands where.
    on_node: BTreeMap<NodeName, BTreeSet<PodName>>,
    planned: usize,
    /// How many plans were made.
    pub(super) plans: u64,
}

/// Whether machines that are to come take pods of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arriving {
    /// They are only for the pods that they were planned for.
    Closed,
    Open,
}

/// Which nodes take pods that are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking<'a> {
    /// All that are there.
    All,
    /// All but these.
    AllBut(&'a BTreeSet<NodeName>),
    /// Only those that are settled: where pods came or went lately, nobody is moved to save money.
    Settled,
}

impl Imagined {
    pub(super) fn new(scene: &Scene<'_>, catalogue: &Arc<Catalogue>) -> Self {
        let mut imagined = Self {
            snapshot: Arc::new(scene.snapshot.clone()),
            catalogue: catalogue.clone(),
            awaited: BTreeMap::new(),
            buffered: BTreeSet::new(),
            hoped_until: None,
            closed: BTreeSet::new(),
            settled_by: scene.settled_by,
            on_node: BTreeMap::new(),
            planned: 0,
            plans: 0,
        };
        let mut on_node: BTreeMap<&NodeName, Vec<&PodName>> = BTreeMap::new();
        for pod in scene.snapshot.pods.values() {
            if let Some(node) = &pod.node {
                on_node.entry(node).or_default().push(&pod.name);
            }
        }
        let owned = |(node, pods): (&NodeName, Vec<&PodName>)| (node.clone(), pods.into_iter().cloned().collect());
        imagined.on_node = on_node.into_iter().map(owned).collect();
        for command in &scene.under_way {
            imagined.foresee(command);
        }
        imagined.place_who_waits(scene);
        imagined.close_the_hopeless();
        imagined
    }

    /// A command that waits for its second look is taken to be carried out. One that was begun already shows: its nodes are
    /// leaving, its replacements are there.
    fn foresee(&mut self, command: &Disruption) {
        let is_begun = |name: &NodeName| self.snapshot.nodes.get(name).is_none_or(|node| node.is_leaving);
        if command.nodes().all(is_begun) {
            return;
        }
        let nodes: Vec<NodeName> = command.nodes().cloned().collect();
        let plan = Plan { placements: command.moves.clone(), claims: command.replacements.clone(), ..Plan::default() };
        self.carry_out(&nodes, &plan, Arriving::Closed);
    }

    /// Pods that wait, and those on nodes that are leaving: they will find places with or without us.
    fn place_who_waits(&mut self, scene: &Scene<'_>) {
        let leaving = self.snapshot.nodes.values().filter(|node| node.is_leaving);
        let displaced = leaving.flat_map(|node| self.movable(&node.name)).map(|pod| pod.name.clone());
        let displaced: BTreeSet<PodName> = displaced.collect();
        if scene.pending.is_empty() && displaced.is_empty() {
            return;
        }
        let snapshot = self.snapshot.clone();
        let displaced = displaced.iter().filter_map(|name| snapshot.pods.get(name)).map(|pod| &**pod);
        let pods: Vec<&Pod> = scene.pending.iter().copied().chain(displaced).collect();
        let (closed, promised) = (self.closed.clone(), scene.promised.clone());
        let question = Question { closed, promised, ..Question::about(pods.clone()) };
        let plan = solve_with(&self.catalogue, &snapshot, &question, &AtomicBool::new(false));
        self.plans += 1;
        let places: BTreeMap<&PodName, &NodeName> = plan.placements.iter().filter_map(on_node).collect();
        for pod in pods {
            let Some(node) = places.get(&pod.name) else {
                // It gets a node of its own, or none; it takes nobody's place.
                self.stand(&pod.name, None);
                continue;
            };
            if pod.is_virtual {
                self.buffered.insert((*node).clone());
            } else {
                self.awaited.entry((*node).clone()).or_default().push(pod.name.clone());
            }
            let pods = &mut Arc::make_mut(&mut self.snapshot).pods;
            pods.entry(pod.name.clone()).or_insert_with(|| Arc::new(pod.clone()));
            self.stand(&pod.name, Some(node));
        }
    }

    fn close_the_hopeless(&mut self) {
        let now = self.snapshot.now;
        let nodes = &mut Arc::make_mut(&mut self.snapshot).nodes;
        for node in nodes.values_mut().filter(|node| !node.is_initialized()) {
            let is_planned = node.name.as_str().starts_with(PLANNED);
            if now.since(node.created) > HOPED_FOR {
                close(node);
            } else if !is_planned {
                // Whoever looks then finds more than the time gone by.
                let until = node.created.plus(HOPED_FOR + Duration::from_secs(1));
                self.hoped_until = self.hoped_until.into_iter().chain([until]).min();
            }
        }
    }

    /// A node that was to take pods who wait leaves, and they go elsewhere: where to, or the first of them if somebody would
    /// find no place that is there and ready.
    pub(super) fn relieve(&mut self, node: &NodeName) -> Result<Vec<(PodName, Target)>, PodName> {
        let pods = self.awaited.get(node).cloned().unwrap_or_default();
        let mut plan = Plan::default();
        if let Some(first) = pods.first() {
            plan = self.plan(&pods, &BTreeSet::from([node.clone()]), Taking::All);
            if !plan.claims.is_empty() || !plan.unplaced.is_empty() || self.unready(&plan).is_some() {
                return Err(first.clone());
            }
        }
        self.carry_out(std::slice::from_ref(node), &plan, Arriving::Closed);
        self.awaited.remove(node);
        for (pod, node) in plan.placements.iter().filter_map(on_node) {
            self.awaited.entry(node.clone()).or_default().push(pod.clone());
        }
        Ok(plan.placements)
    }

    /// Who takes nobody that is moved to save money: nodes that are not settled, and machines that are closed to everybody.
    pub(super) fn closed_to_savers(&self) -> BTreeSet<NodeName> {
        let is_unsettled = |node: &&Arc<Node>| {
            node_settles_at(&self.snapshot, node).is_some_and(|settles_at| settles_at > self.settled_by)
        };
        let unsettled = self.snapshot.nodes.values().filter(is_unsettled).map(|node| node.name.clone());
        unsettled.chain(self.closed.iter().cloned()).collect()
    }

    /// Where these pods would go if these nodes left.
    pub(super) fn plan(&mut self, pods: &[PodName], without: &BTreeSet<NodeName>, taking: Taking<'_>) -> Plan {
        let closed = match taking {
            Taking::All => self.closed.clone(),
            Taking::AllBut(others) => self.closed.union(others).cloned().collect(),
            Taking::Settled => self.closed_to_savers(),
        };
        let snapshot = &self.snapshot;
        let pods = pods.iter().filter_map(|name| snapshot.pods.get(name)).map(|pod| &**pod).collect();
        let question = Question { without: without.clone(), closed, ..Question::about(pods) };
        self.plans += 1;
        solve_with(&self.catalogue, snapshot, &question, &AtomicBool::new(false))
    }

    /// Who would be left over if these nodes left, these machines came instead, and the scheduler put every pod where most is left,
    /// whatever was planned.
    pub(super) fn left_over(
        &mut self,
        pods: &[PodName],
        without: &BTreeSet<NodeName>,
        claims: &[PlannedClaim],
    ) -> Option<LeftOver> {
        // Most decisions move nobody, and need no world to say that nobody is left over.
        if pods.is_empty() {
            return None;
        }
        let mut with_claims = None;
        let first = self.planned;
        for claim in claims {
            let node = self.machine_to_come(claim);
            let snapshot = with_claims.get_or_insert_with(|| Snapshot::clone(&self.snapshot));
            snapshot.nodes.insert(node.name.clone(), Arc::new(node));
        }
        self.planned = first;
        let pods = pods.iter().filter_map(|name| self.snapshot.pods.get(name)).map(|pod| &**pod).collect();
        let (without, closed) = (without.clone(), self.closed.clone());
        let question = Question { without, closed, ..Question::about(pods) };
        self.plans += 1;
        scatter::left_over(with_claims.as_ref().unwrap_or(&self.snapshot), &self.catalogue, &question)
    }

    /// A pod that a plan counts on a machine for that is not ready. Those that are planned only come with the plan.
    pub(super) fn unready(&self, plan: &Plan) -> Option<Unready> {
        let is_planned = |node: &Node| node.name.as_str().starts_with(PLANNED);
        let is_unready = |(_, name): &(&PodName, &NodeName)| {
            self.snapshot.nodes.get(*name).is_some_and(|node| !node.is_initialized() && !is_planned(node))
        };
        let used = plan.placements.iter().filter_map(on_node);
        let first = used.filter(is_unready).min_by_key(|(pod, node)| (*node, *pod));
        first.map(|(pod, node)| self.unready_for(pod, node))
    }

    /// A pod, and the machine that is not ready for it.
    pub(super) fn unready_for(&self, pod: &PodName, name: &NodeName) -> Unready {
        let machine = self.snapshot.nodes.get(name);
        Unready {
            pod: pod.clone(),
            claim: machine.and_then(|machine| machine.tenure.as_ref()).map(|tenure| tenure.claim.clone()),
            node: machine.filter(|machine| machine.has_node()).map(|machine| machine.name.clone()),
        }
    }

    /// These nodes leave, their pods go where a plan says, and machines that it asks for are on their way.
    pub(super) fn carry_out(&mut self, nodes: &[NodeName], plan: &Plan, arriving: Arriving) {
        let first = self.planned;
        for claim in &plan.claims {
            let node = self.machine_to_come(claim);
            if arriving == Arriving::Closed {
                self.closed.insert(node.name.clone());
            }
            Arc::make_mut(&mut self.snapshot).nodes.insert(node.name.clone(), Arc::new(node));
        }
        let places: BTreeMap<&PodName, NodeName> = plan
            .placements
            .iter()
            .map(|(pod, target)| match target {
                Target::Node(node) => (pod, node.clone()),
                Target::Claim(number) => (pod, planned_name(first + number)),
            })
            .collect();
        let displaced: Vec<PodName> = nodes.iter().filter_map(|node| self.on_node.remove(node)).flatten().collect();
        displaced.iter().for_each(|name| self.stand(name, places.get(name)));
        let all = &mut Arc::make_mut(&mut self.snapshot).nodes;
        nodes.iter().for_each(|name| drop(all.remove(name)));
    }

    /// A pod stands somewhere else from now on, or is no part of this world any more.
    fn stand(&mut self, name: &PodName, place: Option<&NodeName>) {
        let pods = &mut Arc::make_mut(&mut self.snapshot).pods;
        let Some(pod) = pods.get_mut(name) else { return };
        if let Some(others) = pod.node.as_ref().and_then(|node| self.on_node.get_mut(node)) {
            others.remove(name);
        }
        match place {
            None => drop(pods.remove(name)),
            Some(place) => {
                Arc::make_mut(pod).node = Some(place.clone());
                self.on_node.entry(place.clone()).or_default().insert(name.clone());
            }
        }
    }

    /// Pods of a node that would move, in the order of names.
    pub(super) fn movable(&self, node: &NodeName) -> impl Iterator<Item = &Pod> {
        let snapshot = &self.snapshot;
        let pods = self.on_node.get(node).into_iter().flatten().filter_map(|name| snapshot.pods.get(name));
        let may_move = |pod: &&Pod| is_currently_reschedulable(pod, &snapshot.disruption_budgets, snapshot.now);
        pods.map(|pod| &**pod).filter(may_move)
    }

    fn machine_to_come(&mut self, claim: &PlannedClaim) -> Node {
        let name = planned_name(self.planned);
        self.planned += 1;
        let pool = self.snapshot.pools.get(&claim.pool);
        let types = pool.into_iter().flat_map(|pool| &pool.instance_types);
        let types = types.filter(|offered| claim.types.contains(&offered.name)).cloned().collect();
        let mut labels = claim.labels.clone();
        labels.extend(pool.iter().flat_map(|pool| pool.template.labels.clone()));
        Node {
            name,
            pool: Some(claim.pool.clone()),
            labels,
            taints: pool.map(|pool| pool.template.taints.clone()).unwrap_or_default(),
            capacity: Resources::default(),
            allocatable: Resources::default(),
            attach_limits: AttachLimits::new(),
            progress: Progress::Unlaunched { types, requirements: claim.requirements.clone() },
            is_leaving: false,
            created: self.snapshot.now,
            tenure: None,
        }
    }
}

fn planned_name(number: usize) -> NodeName {
    NodeName::from(format!("{PLANNED}{number:06}"))
}

/// A node that has nothing to give takes nobody, and all else that it is it stays.
fn close(node: &mut Arc<Node>) {
    Arc::make_mut(node).allocatable = Resources::default();
    if let Progress::Unlaunched { types, .. } = &mut Arc::make_mut(node).progress {
        types.clear();
    }
}

fn on_node((pod, target): &(PodName, Target)) -> Option<(&PodName, &NodeName)> {
    match target {
        Target::Node(node) => Some((pod, node)),
        Target::Claim(_) => None,
    }
}
