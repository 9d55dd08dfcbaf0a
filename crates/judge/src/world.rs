//! A cluster of real nodes, as kube-scheduler sees it once every machine that was asked for has come.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ids::{NodeName, PodName, PoolName};
use model::labels::{HOSTNAME, Labels};
use model::node::Progress;
use model::plan::{Plan, PlannedClaim};
use model::pod::{HostPort, Life, Owner, Pod};
use model::resources::Resources;
use model::snapshot::{Daemon, Snapshot};
use model::taints::{Effect, Taint};
use model::volume::AttachLimits;

use crate::crowd::Crowd;
use crate::daemons;
use crate::machine::{Machine, Order, machines};
use crate::shelf::Shelf;
use crate::violation::Violation;

/// Nodes with their pods. It changes by [`bind`] and by nothing else.
#[derive(Clone, Debug)]
pub struct World {
    nodes: BTreeMap<NodeName, Node>,
    /// The node that each claim of the plan became; `None` where no machine exists for it.
    claims: Vec<Option<NodeName>>,
    daemons: Vec<Arc<Daemon>>,
    /// Where each pod stands.
    places: BTreeMap<PodName, NodeName>,
    crowd: Crowd,
}

/// A node that pods can be bound to.
#[derive(Clone, Debug)]
pub struct Node {
    pub name: NodeName,
    pub pool: Option<PoolName>,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub capacity: Resources,
    pub allocatable: Resources,
    pub attach_limits: AttachLimits,
    /// Takes no new pods, but those that it has still count.
    pub is_leaving: bool,
    pods: BTreeMap<PodName, Arc<Pod>>,
    used: Resources,
    /// What daemons that are expected here and have not come will take.
    reserved: Resources,
    /// Ports that expected daemons will take. Only known for machines that have not come: a daemon pod that runs brings
    /// its own, and which of several daemons is still missing the model does not say.
    daemon_ports: Vec<HostPort>,
}

/// What a machine becomes a node with, whichever machine it will be.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) name: NodeName,
    pub(crate) pool: Option<PoolName>,
    pub(crate) labels: Labels,
    pub(crate) taints: Vec<Taint>,
}

/// Puts a pod on a node, whether or not it may be there; wherever it stood before, it stands no more.
pub fn bind(world: &mut World, pod: &Arc<Pod>, node: &NodeName) -> Result<(), Violation> {
    if !world.nodes.contains_key(node) {
        return Err(Violation::UnknownNode { pod: pod.name.clone(), node: node.clone() });
    }
    world.lift(&pod.name);
    world.seat(pod, node);
    Ok(())
}

impl World {
    /// The cluster of a snapshot. A claim that has not launched becomes the cheapest machine that it may become; one for
    /// which there is none is left out.
    pub fn new(snapshot: &Snapshot) -> Self {
        let daemons: Vec<Arc<Daemon>> = snapshot.daemons.values().cloned().collect();
        let nodes = snapshot.nodes.values().filter_map(|node| standing(snapshot, node, &daemons));
        let nodes = nodes.map(|node| (node.name.clone(), node)).collect();
        let mut world = Self { nodes, claims: Vec::new(), daemons, places: BTreeMap::new(), crowd: Crowd::default() };
        // Terminal pods have left kube-scheduler's sight altogether; terminating ones have not.
        for pod in snapshot.pods.values().filter(|pod| pod.life != Life::Terminal) {
            if let Some(node) = &pod.node {
                world.seat(pod, node);
            }
        }
        world
    }

    /// The cluster in which a plan is carried out: its claims have become nodes, and its pods have no place yet.
    ///
    /// All nodes are there from the start, for the cloud is asked for all of them at once. A pod on a leaving node that
    /// the plan speaks of has been evicted: the plan is about its successor.
    pub fn with_plan(snapshot: &Snapshot, plan: &Plan) -> Self {
        Self::from_shelf(&Shelf::new(snapshot), snapshot, plan)
    }

    pub(crate) fn from_shelf(shelf: &Shelf<'_>, snapshot: &Snapshot, plan: &Plan) -> Self {
        let mut world = Self::new(snapshot);
        for name in plan.placements.iter().map(|(pod, _)| pod).chain(plan.unplaced.iter().map(|out| &out.pod)) {
            world.lift(name);
        }
        for (index, claim) in plan.claims.iter().enumerate() {
            let site = world.site_of(snapshot, index, claim);
            let node = site.and_then(|site| {
                let machine = shelf.machines(claim).into_iter().next()?;
                Some(Node::raised(&site, &machine, machine.labels.clone(), &world.daemons))
            });
            world.claims.push(node.as_ref().map(|node| node.name.clone()));
            world.nodes.extend(node.map(|node| (node.name.clone(), node)));
        }
        world
    }

    pub fn node(&self, name: &NodeName) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// In the order of their names.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// The node that a claim of the plan became.
    pub fn claim_node(&self, claim: usize) -> Option<&NodeName> {
        self.claims.get(claim)?.as_ref()
    }

    pub(crate) fn claim_count(&self) -> usize {
        self.claims.len()
    }

    /// Where a pod stands.
    pub fn place_of(&self, pod: &PodName) -> Option<&NodeName> {
        self.places.get(pod)
    }

    pub(crate) fn daemons(&self) -> &[Arc<Daemon>] {
        &self.daemons
    }

    pub(crate) fn crowd(&self) -> &Crowd {
        &self.crowd
    }

    /// Puts a pod that stands nowhere on a node, if there is such a node.
    fn seat(&mut self, pod: &Arc<Pod>, node: &NodeName) {
        let Some(found) = self.nodes.get_mut(node) else { return };
        found.add(pod.clone(), &self.daemons);
        self.places.insert(pod.name.clone(), node.clone());
        self.crowd.add(pod, node);
    }

    /// Takes a pod off its node.
    pub(crate) fn lift(&mut self, pod: &PodName) {
        let Some(place) = self.places.remove(pod) else { return };
        let gone = self.nodes.get_mut(&place).and_then(|node| node.remove(pod, &self.daemons));
        if let Some(gone) = gone {
            self.crowd.remove(&gone, &place);
        }
    }

    /// What a claim brings besides its machine; `None` when its pool is not there.
    pub(crate) fn site_of(&self, snapshot: &Snapshot, index: usize, claim: &PlannedClaim) -> Option<Site> {
        let pool = snapshot.pools.get(&claim.pool)?;
        let mut labels = pool.template.labels.clone();
        labels.extend(claim.labels.clone());
        let taken = |name: &NodeName| self.nodes.contains_key(name) || snapshot.nodes.contains_key(name);
        let plain = NodeName::from(format!("claim-{index}"));
        let others = (1_u32..).map(|again| NodeName::from(format!("claim-{index}-{again}")));
        let name = std::iter::once(plain).chain(others).find(|name| !taken(name))?;
        Some(Site { name, pool: Some(claim.pool.clone()), labels, taints: pool.template.taints.clone() })
    }
}

/// The node that an entry of the snapshot is, or becomes.
fn standing(snapshot: &Snapshot, node: &model::node::Node, daemons: &[Arc<Daemon>]) -> Option<Node> {
    if let Progress::Unlaunched { .. } = node.progress {
        let order = Order::of_unlaunched(snapshot, node)?;
        let machine = machines(&order).into_iter().next()?;
        let raised = Node::raised(&Site::of_unlaunched(node), &machine, machine.labels.clone(), daemons);
        return Some(Node { is_leaving: node.is_leaving, ..raised });
    }
    let mut labels = node.labels.clone();
    if !node.has_node() {
        // The kubelet will set it; the claim does not carry it.
        labels.entry(HOSTNAME.into()).or_insert_with(|| node.name.as_str().into());
    }
    let mut found = Node {
        name: node.name.clone(),
        pool: node.pool.clone(),
        labels,
        taints: node.taints.clone(),
        capacity: node.capacity.clone(),
        allocatable: node.allocatable.clone(),
        attach_limits: node.attach_limits.clone(),
        is_leaving: node.is_leaving,
        pods: BTreeMap::new(),
        used: Resources::default(),
        reserved: Resources::default(),
        daemon_ports: Vec::new(),
    };
    found.reserve(daemons);
    Some(found)
}

impl Site {
    pub(crate) fn of_unlaunched(node: &model::node::Node) -> Self {
        let (name, pool) = (node.name.clone(), node.pool.clone());
        Self { name, pool, labels: node.labels.clone(), taints: node.taints.clone() }
    }
}

impl Node {
    /// The node that a machine becomes. The machine's own labels win: the cloud knows best where it stands.
    pub(crate) fn raised(site: &Site, machine: &Machine, own: Labels, daemons: &[Arc<Daemon>]) -> Self {
        let mut labels = site.labels.clone();
        labels.extend(own);
        labels.insert(HOSTNAME.into(), site.name.as_str().into());
        let mut node = Self {
            name: site.name.clone(),
            pool: site.pool.clone(),
            labels,
            taints: site.taints.clone(),
            capacity: machine.capacity.clone(),
            allocatable: machine.allocatable.clone(),
            attach_limits: machine.attach_limits.clone(),
            is_leaving: false,
            pods: BTreeMap::new(),
            used: Resources::default(),
            reserved: Resources::default(),
            daemon_ports: Vec::new(),
        };
        node.reserve(daemons);
        node.daemon_ports =
            daemons::expected(daemons, &node.labels, &node.taints).flat_map(|daemon| daemon.ports.clone()).collect();
        node
    }

    /// In the order of their names.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values()
    }

    /// What its pods ask for together.
    pub fn used(&self) -> &Resources {
        &self.used
    }

    /// What daemons that have not come will take.
    pub fn reserved(&self) -> &Resources {
        &self.reserved
    }

    pub(crate) fn daemon_ports(&self) -> &[HostPort] {
        &self.daemon_ports
    }

    /// The taints that keep pods off. A leaving node is tainted so before it goes, whether or not we have seen it yet.
    pub(crate) fn hard_taints(&self) -> Vec<Taint> {
        let implied = self.is_leaving.then(|| Taint::new("karpenter.sh/disrupted", "", Effect::NoSchedule));
        let implied = implied.filter(|disrupted| !self.taints.iter().any(|taint| taint.is_same(disrupted)));
        let hard = self.taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule).cloned();
        hard.chain(implied).collect()
    }

    pub(crate) fn add(&mut self, pod: Arc<Pod>, daemons: &[Arc<Daemon>]) {
        self.used = self.used.plus(&daemons::with_place(&pod.requests));
        let is_daemon = pod.owner == Owner::DaemonSet;
        self.pods.insert(pod.name.clone(), pod);
        if is_daemon {
            self.reserve(daemons);
        }
    }

    fn remove(&mut self, pod: &PodName, daemons: &[Arc<Daemon>]) -> Option<Arc<Pod>> {
        let gone = self.pods.remove(pod)?;
        self.used = self.used.minus(&daemons::with_place(&gone.requests));
        if gone.owner == Owner::DaemonSet {
            self.reserve(daemons);
        }
        Some(gone)
    }

    fn reserve(&mut self, daemons: &[Arc<Daemon>]) {
        let expected = daemons::expected(daemons, &self.labels, &self.taints);
        let wanted =
            expected.fold(Resources::default(), |sum, daemon| sum.plus(&daemons::with_place(&daemon.requests)));
        let come = self.pods.values().filter(|pod| pod.owner == Owner::DaemonSet);
        let present = come.fold(Resources::default(), |sum, pod| sum.plus(&daemons::with_place(&pod.requests)));
        self.reserved = wanted.minus(&present).floored();
    }
}
