//! The snapshot in numbers: what the solver works on, made once per question.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::{NodeName, PodName};
use model::labels::HOSTNAME;
use model::node::{Node, Progress};
use model::pod::{HostPort, Pod};
use model::pool::{Pool, PoolKind, PoolState};
use model::requirements::Requirements;
use model::resources::{Resource, Resources};
use model::snapshot::{Daemon, Snapshot};
use model::taints::{Effect, Taint, first_hard_untolerated};

use super::Question;
use super::bits::Bits;
use super::catalogue::Catalogue;
use super::hash::Finder;
use super::kinds::Kinds;
use super::machines::Machines;
use super::reserve::Reservations;
use super::sites::{Site, Standing, terms};
use super::words::{ABSENT, Dictionary, Key, OTHER, Reading, Words};

/// Everything that does not change while a question is answered.
pub(crate) struct World<'a> {
    pub(crate) snapshot: &'a Snapshot,
    /// Nodes that the question leaves out.
    gone: &'a BTreeSet<NodeName>,
    /// Nodes that take none of the question's pods.
    pub(super) closed: &'a BTreeSet<NodeName>,
    /// Pods of the question and the sites that were promised to them, both by number.
    pub(crate) promised: Vec<(usize, usize)>,
    /// Whether the question says that more pods are to come.
    pub(crate) expects_more: bool,
    pub(crate) words: Words,
    pub(crate) machines: Machines<'a>,
    /// What is left of reservations as the question is asked.
    pub(crate) reservations: Reservations,
    /// Pools that may grow, in the order in which they are tried.
    pub(crate) pools: Vec<&'a Arc<Pool>>,
    /// Those of them that have something on sale.
    pub(crate) templates: Vec<Template<'a>>,
    /// Nodes that are there, in the order in which they are tried.
    pub(crate) sites: Vec<Site<'a>>,
    /// Pods on them, in the order of their names.
    pub(crate) standing: Vec<Standing<'a>>,
    /// What a node costs beyond its machine, in dollars per hour.
    pub(crate) node_fee: f64,
    /// Pods of the question, in the order of their names.
    pub(crate) pods: Vec<&'a Pod>,
    /// Which of them are alike.
    pub(crate) kinds: Kinds<'a>,
}

/// A pool that can launch machines.
pub(crate) struct Template<'a> {
    pub(crate) pool: &'a Arc<Pool>,
    /// What each label of a new node may be.
    pub(crate) states: Vec<Bits>,
    /// Machines that the pool can get.
    pub(crate) machines: Bits,
    pub(crate) daemons: Vec<DaemonGroup>,
    /// What each machine has for pods beside its daemons, all its axes in a row.
    room: Vec<i64>,
    /// The same by axis, all machines in a row.
    columns: Vec<Vec<i64>>,
    pub(crate) min_values: Vec<(Key, u32)>,
}

impl Template<'_> {
    /// What a machine has for pods, by axis.
    pub(crate) fn room(&self, machine: usize, axes: usize) -> &[i64] {
        &self.room[machine * axes..(machine + 1) * axes]
    }

    /// What all machines have of one axis.
    pub(crate) fn column(&self, axis: usize) -> &[i64] {
        &self.columns[axis]
    }
}

/// Machines on which the same daemons run.
pub(crate) struct DaemonGroup {
    pub(crate) machines: Bits,
    pub(crate) requests: Vec<i64>,
    pub(crate) ports: Vec<HostPort>,
}

impl<'a> World<'a> {
    /// Lowers a snapshot for placing these pods as if some nodes were gone, and everybody on them. The catalogue must be one
    /// that fits these pools and reservations.
    pub(crate) fn build(
        snapshot: &'a Snapshot,
        pods: Vec<&'a Pod>,
        question: &'a Question<'_>,
        pools: Vec<&'a Arc<Pool>>,
        (catalogue, reservations): (&'a Catalogue, Reservations),
    ) -> Self {
        let (kinds, gone, expects_more) = (Kinds::of(&pods), &question.without, question.expects_more);
        let closed = &question.closed;
        let (words, readings) = collect_words(snapshot, catalogue, &pools, &kinds.first_of_manner, gone);
        let machines = Machines::new(catalogue, collect_axes(snapshot, &kinds.first), &words);
        let (templates, sites, standing) = (Vec::new(), Vec::new(), Vec::new());
        let node_fee = snapshot.policy.node_fee.dollars();
        let mut world = Self {
            snapshot,
            gone,
            closed,
            promised: Vec::new(),
            expects_more,
            words,
            machines,
            reservations,
            pools,
            templates,
            sites,
            standing,
            node_fee,
            pods,
            kinds,
        };
        let templates = world.pools.iter().enumerate().filter_map(|(number, pool)| world.template(number, pool));
        world.templates = templates.collect();
        (world.sites, world.standing) = world.sites_and_standing(&readings);
        world.promised = world.kept_promises(&question.promised);
        world
    }

    fn kept_promises(&self, promised: &BTreeMap<PodName, NodeName>) -> Vec<(usize, usize)> {
        if promised.is_empty() {
            return Vec::new();
        }
        let by_name = Finder::new(self.sites.iter().map(|site| &site.node.name));
        let place = |name: &NodeName| by_name.find(name, |place| self.sites[place].node.name == *name);
        let pods = self.pods.iter().enumerate();
        pods.filter_map(|(number, pod)| Some((number, place(promised.get(&pod.name)?)?))).collect()
    }

    /// Nodes that are there as far as the question goes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &'a Arc<Node>> {
        present(self.snapshot, self.gone)
    }

    pub(crate) fn amounts(&self, resources: &Resources) -> Vec<i64> {
        self.machines.axes().iter().map(|axis| resources.get(axis)).collect()
    }

    /// Whether a pod is one of the question's; where those stand now does not count.
    pub(crate) fn is_asked_for(&self, pod: &Pod) -> bool {
        self.pods.binary_search_by(|other| other.name.cmp(&pod.name)).is_ok()
    }

    pub(crate) fn has_soft_taints(&self) -> bool {
        let is_soft = |taint: &Taint| taint.effect == Effect::PreferNoSchedule;
        self.templates.iter().any(|template| template.pool.template.taints.iter().any(is_soft))
            || self.sites.iter().any(|site| site.node.taints.iter().any(is_soft))
    }

    /// A pool as it starts; `None` when nothing that it may buy is on sale.
    fn template(&self, number: usize, pool: &'a Arc<Pool>) -> Option<Template<'a>> {
        let states = self.template_states(&pool.template.requirements);
        let mut machines = self.machines.offered_to(number).clone();
        for (key, states) in states.iter().enumerate() {
            machines.keep(&self.machines.with_states(key, states));
        }
        let shapes = self.machines.shapes_for(|key| &states[key]);
        machines.keep(&self.machines.on_sale_in(&shapes));
        let requirements = pool.template.requirements.iter();
        let min_values: Vec<(Key, u32)> = requirements
            .filter_map(|(key, requirement)| Some((self.words.key(key)?, requirement.min_values?)))
            .collect();
        let daemons = self.daemon_groups(pool, &states, &machines);
        let room = self.room(&daemons);
        let axes = self.machines.axes().len();
        // Where daemons alone ask for more than there is, they could never run, whatever pods leave them.
        machines.retain(|machine| room[machine * axes..(machine + 1) * axes].iter().all(|left| *left >= 0));
        let columns = (0..axes).map(|axis| room.iter().skip(axis).step_by(axes).copied().collect()).collect();
        (!machines.is_empty()).then_some(Template { pool, states, machines, daemons, room, columns, min_values })
    }

    fn room(&self, daemons: &[DaemonGroup]) -> Vec<i64> {
        let axes = self.machines.axes();
        let mut room: Vec<i64> = vec![0; axes.len() * self.machines.all.len()];
        for axis in 0..axes.len() {
            let column = self.machines.amounts(axis);
            for group in daemons {
                for machine in group.machines.iter() {
                    let left = column.map_or(0, |column| column[machine]);
                    room[machine * axes.len() + axis] = left.saturating_sub(group.requests[axis]);
                }
            }
        }
        room
    }

    /// On a node that does not exist yet a well-known label is open; any other that the pool does not name will not be there.
    /// Its name will be one that nobody knows: whoever asks for a host by name means one that is there.
    pub(super) fn template_states(&self, requirements: &Requirements) -> Vec<Bits> {
        let states = |key: Key| {
            let name = self.words.key_name(key);
            match requirements.get(name) {
                Some(requirement) => self.words.states(key, requirement),
                None if **name == *HOSTNAME => self.words.just(key, OTHER),
                None if self.snapshot.well_known.contains(name) => self.words.everything(key),
                None => self.words.just(key, ABSENT),
            }
        };
        (0..self.words.key_count()).map(states).collect()
    }

    fn daemon_groups(&self, pool: &Pool, states: &[Bits], machines: &Bits) -> Vec<DaemonGroup> {
        let daemons: Vec<(&'a Daemon, Bits)> = self
            .snapshot
            .daemons
            .values()
            .filter(|daemon| !daemon.has_resource_claims)
            .filter(|daemon| first_hard_untolerated(&pool.template.taints, &daemon.tolerations).is_none())
            .map(|daemon| (&**daemon, self.machines_of_daemon(daemon, states, machines)))
            .collect();
        let mut groups: Vec<(Bits, Vec<&Daemon>)> = vec![(machines.clone(), Vec::new())];
        for (daemon, suited) in daemons {
            let split = |(machines, running): (Bits, Vec<&'a Daemon>)| {
                let (mut with, mut without) = (machines.clone(), machines);
                with.keep(&suited);
                without.retain(|machine| !suited.contains(machine));
                let more = running.iter().copied().chain([daemon]).collect();
                [(without, running), (with, more)].into_iter().filter(|(machines, _)| !machines.is_empty())
            };
            groups = groups.into_iter().flat_map(split).collect();
        }
        let group = |(machines, running): (Bits, Vec<&Daemon>)| {
            let requests = running.iter().fold(Resources::default(), |sum, daemon| sum.plus(&daemon.requests));
            let ports = running.iter().flat_map(|daemon| daemon.ports.iter().cloned()).collect();
            DaemonGroup { machines, requests: self.amounts(&requests), ports }
        };
        groups.into_iter().map(group).collect()
    }

    /// Machines of a pool that a daemon would run on, by any one of its terms.
    fn machines_of_daemon(&self, daemon: &Daemon, states: &[Bits], machines: &Bits) -> Bits {
        let mut suited = Bits::empty(self.machines.all.len());
        for requirements in terms(daemon) {
            let mut of_term = machines.clone();
            for mask in self.words.masks(&requirements) {
                match self.comes_with_time(&mask) {
                    Some(true) => {}
                    Some(false) => of_term = Bits::empty(self.machines.all.len()),
                    None => {
                        let mut left = states[mask.key].clone();
                        left.keep(&mask.states);
                        of_term.keep(&self.machines.with_states(mask.key, &left));
                    }
                }
            }
            suited.add_all(&of_term);
        }
        suited
    }
}

/// Heaviest first. Equal weights go by name, backwards, as people know it from the reference.
pub(super) fn usable_pools(snapshot: &Snapshot) -> Vec<&Arc<Pool>> {
    let is_usable = |pool: &&Arc<Pool>| pool.kind == PoolKind::Dynamic && pool.state == PoolState::Ready;
    let mut pools: Vec<&Arc<Pool>> = snapshot.pools.values().filter(is_usable).collect();
    pools.sort_by(|a, b| (b.weight, &b.name).cmp(&(a.weight, &a.name)));
    pools
}

/// Nodes but for those that are gone.
pub(super) fn present<'a>(snapshot: &'a Snapshot, gone: &BTreeSet<NodeName>) -> impl Iterator<Item = &'a Arc<Node>> {
    snapshot.nodes.values().filter(|node| !gone.contains(&node.name))
}

/// Keys and values that can make a difference to some pod, and the labels of each node in them. A node's other labels cannot.
fn collect_words<'a>(
    snapshot: &'a Snapshot,
    catalogue: &Catalogue,
    pools: &[&Arc<Pool>],
    pods: &[&Pod],
    gone: &BTreeSet<NodeName>,
) -> (Words, Vec<Reading<'a>>) {
    let mut words = Dictionary::over(catalogue.lexicon.clone());
    pools.iter().for_each(|pool| words.add(&pool.template.requirements));
    for daemon in snapshot.daemons.values() {
        words.add(&daemon.selector);
        daemon.terms.iter().for_each(|term| words.add(term));
    }
    let mut topology: BTreeSet<&Arc<str>> = BTreeSet::new();
    for pod in pods {
        let wants = &pod.wants;
        words.add(&wants.selector);
        wants.terms.iter().for_each(|term| words.add(term));
        wants.preferred_nodes.iter().for_each(|preferred| words.add(&preferred.item));
        wants.volumes.alternatives.iter().for_each(|place| words.add(place));
        topology.extend(wants.spread.iter().map(|spread| &spread.key));
        topology.extend(wants.together.iter().chain(&wants.apart).map(|term| &term.key));
        let preferred = wants.preferred_together.iter().chain(&wants.preferred_apart);
        topology.extend(preferred.map(|preferred| &preferred.item.key));
    }
    topology.extend(snapshot.pods.values().flat_map(|pod| &pod.wants.apart).map(|term| &term.key));
    topology.iter().filter(|key| ****key != *HOSTNAME).for_each(|key| words.add_key(key));
    for node in present(snapshot, gone) {
        if let Progress::Unlaunched { requirements, types } = &node.progress {
            words.add(requirements);
            // The lexicon has all words of what is on sale.
            let others = types.iter().filter(|instance_type| catalogue.machine_of(instance_type).is_none());
            others.for_each(|instance_type| words.add(&instance_type.requirements));
        }
    }
    let readings = present(snapshot, gone).map(|node| words.read(&node.labels)).collect();
    (words.freeze(), readings)
}

/// Resources that some pod or daemon asks for; no other can decide anything.
fn collect_axes(snapshot: &Snapshot, pods: &[&Pod]) -> Vec<Resource> {
    let daemons = snapshot.daemons.values().map(|daemon| &daemon.requests);
    let requests = pods.iter().map(|pod| &pod.requests).chain(daemons);
    let axes: BTreeSet<Resource> = requests.flat_map(|r| r.amounts().map(|(axis, _)| axis)).collect();
    axes.into_iter().collect()
}
