//! What is there already: nodes, claims that were made before, and the pods that stand on them.

use std::sync::Arc;

use model::ids::NodeName;
use model::instance::InstanceType;
use model::labels::{INITIALIZED, REGISTERED};
use model::node::{Node, Progress};
use model::pod::{HostPort, Life, Owner, Pod};
use model::requirements::Requirements;
use model::resources::Resources;
use model::snapshot::Daemon;
use model::taints::{first_hard_untolerated, first_untolerated};
use model::volume::{AttachLimits, Attachments, first_overfull};

use super::bits::Bits;
use super::claims::conflict;
use super::classes::{Class, Rung};
use super::hash::Finder;
use super::rooms::has_room;
use super::words::{ABSENT, Key, Mask, Reading, hold_surely};
use super::world::World;

/// A node that is there, or a claim that was made before.
pub(crate) struct Site<'a> {
    pub(crate) node: &'a Arc<Node>,
    /// What each label is; more than one state while nobody knows which machine will come.
    pub(crate) states: Vec<Bits>,
    /// What is left for pods, daemons that are still to come taken off, and what those that stand there hold.
    pub(crate) start: Taken,
    /// Whether more is in use than there is; then nothing more goes there.
    pub(crate) is_overdrawn: bool,
    pub(crate) attach_limits: AttachLimits,
    pub(crate) takes_pods: bool,
}

/// What is left on a site, and what its pods hold.
#[derive(Clone)]
pub(crate) struct Taken {
    pub(crate) free: Vec<i64>,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) attached: Attachments,
}

impl Site<'_> {
    /// Whether a pod could run there beside what is held already, whatever it wants of other pods.
    pub(crate) fn suits(&self, class: &Class<'_>, rung: &Rung, taken: &Taken) -> bool {
        let wants = &class.pod.wants;
        self.takes_pods
            && !self.is_overdrawn
            && has_room(&taken.free, &class.requests)
            && first_untolerated(&self.node.taints, &rung.tolerations).is_none()
            && !conflict(&wants.ports, &taken.ports)
            && hold_surely(&rung.masks, &self.states)
            && rung.places.iter().any(|place| hold_surely(&place.masks, &self.states))
            && first_overfull(&taken.attached, &wants.volumes.attached, &self.attach_limits).is_none()
    }
}

/// A pod that is there already.
pub(crate) struct Standing<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) site: usize,
}

/// What a node has for pods before any came.
#[derive(Default)]
struct Promise {
    allocatable: Resources,
    /// What daemons are expected to take of it.
    daemons: Resources,
    ports: Vec<HostPort>,
    attach_limits: AttachLimits,
}

impl<'a> World<'a> {
    /// Nodes in the order in which they are tried, and the pods that stand on them. What the question leaves out is gone
    /// with everybody on it; pods of the question are on their way and stand nowhere.
    pub(super) fn sites_and_standing(&self, readings: &[Reading<'_>]) -> (Vec<Site<'a>>, Vec<Standing<'a>>) {
        let mut nodes: Vec<(&'a Arc<Node>, &Reading<'_>)> = self.nodes().zip(readings).collect();
        nodes.sort_by_key(|(node, _)| (!node.is_initialized(), &node.name));
        let by_name = Finder::new(nodes.iter().map(|(node, _)| &node.name));
        let mut standing = Vec::new();
        let mut on_site: Vec<Vec<&'a Pod>> = vec![Vec::new(); nodes.len()];
        for pod in self.snapshot.pods.values().filter(|pod| pod.life != Life::Terminal) {
            let place = |name: &NodeName| by_name.find(name, |place| nodes[place].0.name == *name);
            let site = pod.node.as_ref().and_then(place);
            if let Some(site) = site.filter(|_| !self.is_asked_for(pod)) {
                standing.push(Standing { pod, site });
                on_site[site].push(pod);
            }
        }
        let sites = nodes.iter().zip(&on_site).map(|((node, reading), pods)| self.site(node, reading, pods)).collect();
        (sites, standing)
    }

    fn site(&self, node: &'a Arc<Node>, reading: &Reading<'_>, pods: &[&'a Pod]) -> Site<'a> {
        let states = self.site_states(node, reading);
        let used = pods.iter().fold(Resources::default(), |sum, pod| sum.plus(&pod.requests));
        let running = pods.iter().filter(|pod| pod.owner == Owner::DaemonSet);
        let running = running.fold(Resources::default(), |sum, pod| sum.plus(&pod.requests));
        let promise = self.promise(node, &states);
        let left = promise.allocatable.minus(&used);
        let free = left.minus(&promise.daemons.minus(&running).floored());
        let mut attached = Attachments::new();
        for (driver, volumes) in pods.iter().flat_map(|pod| &pod.wants.volumes.attached) {
            attached.entry(driver.clone()).or_default().extend(volumes.iter().cloned());
        }
        let ports = pods.iter().flat_map(|pod| pod.wants.ports.iter().cloned()).chain(promise.ports);
        Site {
            node,
            states,
            start: Taken { free: self.amounts(&free), ports: ports.collect(), attached },
            is_overdrawn: left.amounts().any(|(_, amount)| amount.is_negative()),
            attach_limits: promise.attach_limits,
            takes_pods: !node.is_leaving && !self.closed.contains(&node.name),
        }
    }

    /// What pods can count on. A machine that is not chosen yet gives the least of all that it may be.
    fn promise(&self, node: &Node, states: &[Bits]) -> Promise {
        let Progress::Unlaunched { types, .. } = &node.progress else {
            let daemons = self.snapshot.daemons.values();
            let expected: Vec<_> = daemons.filter(|daemon| self.runs_on(daemon, node, states)).collect();
            return Promise {
                allocatable: node.allocatable.clone(),
                daemons: expected.iter().fold(Resources::default(), |sum, daemon| sum.plus(&daemon.requests)),
                ports: expected.iter().flat_map(|daemon| daemon.ports.iter().cloned()).collect(),
                attach_limits: node.attach_limits.clone(),
            };
        };
        let mut promise = Promise::default();
        let mut room: Option<Resources> = None;
        for instance_type in types {
            let possible: Vec<&Daemon> = self.possible_daemons(node, states, instance_type);
            let daemons = possible.iter().fold(Resources::default(), |sum, daemon| sum.plus(&daemon.requests));
            let mut lower = |amounts: &Resources| {
                let left = amounts.minus(&daemons);
                room = Some(room.take().map_or_else(|| left.clone(), |least| least.min(&left)));
            };
            let open = instance_type.offerings.iter().filter(|offering| offering.is_available);
            // Hardly any offering differs from its type.
            let (odd, usual): (Vec<_>, Vec<_>) = open.partition(|offering| offering.has_own_amounts());
            if !usual.is_empty() {
                match self.machines.of_type(instance_type) {
                    Some(machine) => lower(&machine.allocatable),
                    None => lower(&instance_type.allocatable()),
                }
            }
            odd.into_iter().for_each(|offering| lower(&instance_type.allocatable_of(offering)));
            promise.ports.extend(possible.iter().flat_map(|daemon| daemon.ports.iter().cloned()));
            for (driver, limit) in &instance_type.attach_limits {
                let tightest = promise.attach_limits.entry(driver.clone()).or_insert(*limit);
                *tightest = (*tightest).min(*limit);
            }
        }
        promise.allocatable = room.unwrap_or_default();
        promise
    }

    /// Daemons that would run on the node if it became this type, as far as its open labels let anybody say.
    fn possible_daemons(&self, node: &Node, states: &[Bits], instance_type: &InstanceType) -> Vec<&'a Daemon> {
        let may_be = |mask: &Mask| {
            let mut left = states[mask.key].clone();
            if let Some(requirement) = instance_type.requirements.get(self.words.key_name(mask.key)) {
                left.keep(&self.words.states(mask.key, requirement));
            }
            self.comes_with_time(mask).unwrap_or_else(|| left.intersects(&mask.states))
        };
        let suits = |requirements: &Requirements| self.words.masks(requirements).iter().all(may_be);
        let daemons = self.snapshot.daemons.values().map(|daemon| &**daemon);
        daemons.filter(|daemon| is_welcome(daemon, node) && terms(daemon).iter().any(suits)).collect()
    }

    /// Whether a node that is still on its way will at some time satisfy what is asked of a label that it gets in the end.
    /// `None` for every other label.
    pub(super) fn comes_with_time(&self, mask: &Mask) -> Option<bool> {
        let is_given = [REGISTERED, INITIALIZED].contains(&&**self.words.key_name(mask.key));
        let in_the_end = self.words.state(mask.key, "true");
        is_given.then(|| mask.states.contains(ABSENT) || mask.states.contains(in_the_end))
    }

    fn site_states(&self, node: &Node, reading: &Reading<'_>) -> Vec<Bits> {
        let Progress::Unlaunched { types, requirements } = &node.progress else {
            let states = self.words.states_of(reading).into_iter().enumerate();
            return states.map(|(key, state)| self.words.just(key, state)).collect();
        };
        let mut states = self.template_states(requirements);
        let machines = self.machines.of_types(types);
        for (key, states) in states.iter_mut().enumerate() {
            let name = self.words.key_name(key);
            if let Some(value) = node.labels.get(name) {
                *states = self.words.just(key, self.words.state(key, value));
                continue;
            }
            let possible = match &machines {
                Some(machines) => self.machines.states_asked(key, machines),
                None => self.states_asked(key, types),
            };
            if !possible.is_empty() {
                states.keep(&possible);
            }
        }
        states
    }

    /// Every state of a key that some of these types ask for, whether they are on sale or not.
    fn states_asked(&self, key: Key, types: &[Arc<InstanceType>]) -> Bits {
        let mut states = Bits::empty(self.words.state_count(key));
        for requirement in types.iter().filter_map(|offered| offered.requirements.get(self.words.key_name(key))) {
            states.add_all(&self.words.states(key, requirement));
        }
        states
    }

    fn runs_on(&self, daemon: &Daemon, node: &Node, states: &[Bits]) -> bool {
        let is_on_its_way = node.pool.is_some() && !node.is_initialized();
        let suits = |mask: &Mask| {
            let in_time = self.comes_with_time(mask).filter(|_| is_on_its_way);
            in_time.unwrap_or_else(|| mask.holds_surely(states))
        };
        let suits = |requirements: &Requirements| self.words.masks(requirements).iter().all(suits);
        is_welcome(daemon, node) && terms(daemon).iter().any(suits)
    }
}

/// What a daemon asks of a node's labels: any one of these.
pub(super) fn terms(daemon: &Daemon) -> Vec<Requirements> {
    daemon.selector.with_any_of(&daemon.terms)
}

/// Whether a node's taints let a daemon in, and somebody can say what it needs.
fn is_welcome(daemon: &Daemon, node: &Node) -> bool {
    !daemon.has_resource_claims && first_hard_untolerated(&node.taints, &daemon.tolerations).is_none()
}
