//! Machines that the plan asks for, and whether a pod can join one.

use std::collections::{BTreeMap, BTreeSet};

use model::ids::ReservationId;
use model::pod::HostPort;
use model::requirements::{Requirement, Requirements};
use model::taints::first_untolerated;
use model::volume::{Attachments, first_overfull};

use super::bits::Bits;
use super::classes::{Class, Rung};
use super::lift::{Constraint, Lift};
use super::limits::Limits;
use super::reserve::{AllHeld, Reservations};
use super::topology::{Rule, Topology};
use super::words::{ABSENT, Key, OTHER};
use super::world::{Template, World};

/// A machine to ask for, as far as its pods have narrowed it.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) template: usize,
    pub(crate) states: Vec<Bits>,
    pub(crate) machines: Bits,
    pub(crate) requirements: Requirements,
    pub(crate) pods: Vec<usize>,
    pub(crate) requests: Vec<i64>,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) attached: Attachments,
    /// How many different values of a key must stay open.
    pub(crate) min_values: Vec<(Key, u32)>,
    pub(crate) is_min_values_relaxed: bool,
    /// The machine that the pool's limits are charged with.
    pub(crate) charged: Option<usize>,
    /// Reservations that it may use.
    pub(crate) held: BTreeSet<ReservationId>,
}

/// How a claim changes when a pod joins it.
pub(crate) struct Narrowing {
    pub(crate) states: BTreeMap<Key, Bits>,
    pub(crate) machines: Bits,
    pub(crate) requirements: Requirements,
    pub(crate) held: BTreeSet<ReservationId>,
}

/// Everything that a look at a claim needs.
pub(crate) struct View<'v, 'a> {
    pub(crate) world: &'v World<'a>,
    pub(crate) topology: &'v Topology,
    pub(crate) limits: &'v Limits,
    pub(crate) reservations: &'v Reservations,
    pub(crate) lift: &'v Lift,
}

/// A pod of one class, on one rung, asking for a place of this number.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'c, 'a> {
    pub(crate) class: &'c Class<'a>,
    pub(crate) rung: &'c Rung,
    pub(crate) place: usize,
    /// How far down the list of domains to begin; the best comes first.
    pub(crate) turn: usize,
}

/// A refusal, and whether it can ever change: claims only get narrower, but counts of other pods grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Final,
    ForNow,
    /// It would fit, but for reserved machines that others of this plan hold.
    Reserved,
}

impl Claim {
    pub(crate) fn new(world: &World<'_>, number: usize) -> Self {
        let template: &Template<'_> = &world.templates[number];
        Self {
            template: number,
            states: template.states.clone(),
            machines: template.machines.clone(),
            requirements: template.pool.template.requirements.clone(),
            pods: Vec::new(),
            requests: vec![0; world.machines.axes().len()],
            ports: Vec::new(),
            attached: Attachments::new(),
            min_values: template.min_values.clone(),
            is_min_values_relaxed: false,
            charged: None,
            held: BTreeSet::new(),
        }
    }

    /// Takes a pod in.
    pub(crate) fn admit(&mut self, pod: usize, candidate: Candidate<'_, '_>, narrowing: Narrowing) {
        let wants = &candidate.class.pod.wants;
        self.pods.push(pod);
        for (sum, request) in self.requests.iter_mut().zip(&candidate.class.requests) {
            *sum = sum.saturating_add(*request);
        }
        for (key, states) in narrowing.states {
            self.states[key] = states;
        }
        self.machines = narrowing.machines;
        self.requirements = narrowing.requirements;
        self.held = narrowing.held;
        self.ports.extend(wants.ports.iter().cloned());
        for (driver, volumes) in &wants.volumes.attached {
            self.attached.entry(driver.clone()).or_default().extend(volumes.iter().cloned());
        }
    }
}

impl View<'_, '_> {
    /// Whether a pod can join a claim, and what that makes of the claim.
    pub(crate) fn narrow(&self, claim: &Claim, candidate: Candidate<'_, '_>) -> Result<Narrowing, Refusal> {
        let template = &self.world.templates[claim.template];
        let taints = &template.pool.template.taints;
        let rung = candidate.rung;
        if !self.lift.has(Constraint::Taints) && first_untolerated(taints, &rung.tolerations).is_some() {
            return Err(Refusal::Final);
        }
        let ports = &candidate.class.pod.wants.ports;
        if !self.lift.has(Constraint::Ports) && conflict(ports, &claim.ports) {
            return Err(Refusal::Final);
        }
        let mut refusal = Refusal::Final;
        for (place, masks) in &rung.places {
            match self.narrow_at(claim, candidate, masks) {
                Ok((states, machines)) => {
                    let at = |key: Key| states.get(&key).unwrap_or(&claim.states[key]);
                    let held = self.reservations.holdings(&self.world.machines, claim, &machines, at);
                    let held = held.map_err(|AllHeld| Refusal::Reserved)?;
                    let requirements = self.narrowed_requirements(claim, rung, place, &states);
                    return Ok(Narrowing { states, machines, requirements, held });
                }
                Err(Refusal::Final) => {}
                Err(other) => refusal = other,
            }
        }
        Err(refusal)
    }

    fn narrow_at(
        &self,
        claim: &Claim,
        candidate: Candidate<'_, '_>,
        place: &[super::words::Mask],
    ) -> Result<(BTreeMap<Key, Bits>, Bits), Refusal> {
        let rung = candidate.rung;
        let mut states: BTreeMap<Key, Bits> = BTreeMap::new();
        let labels = rung.masks.iter().filter(|mask| !self.lift.has(Constraint::Label(mask.key)));
        let places = place.iter().filter(|_| !self.lift.has(Constraint::Places));
        for mask in labels.chain(places) {
            let left = states.entry(mask.key).or_insert_with(|| claim.states[mask.key].clone());
            left.keep(&mask.states);
            if left.is_empty() {
                return Err(Refusal::Final);
            }
        }
        // What cannot hold the pod whatever its neighbours do need not be asked about them.
        if self.machines_for(claim, candidate, &states).is_empty() {
            return Err(Refusal::Final);
        }
        self.settle(claim, candidate, states).ok_or(Refusal::ForNow)
    }

    /// Applies the rules about other pods. A label that they count by must be settled, so the best domain is taken.
    fn settle(
        &self,
        claim: &Claim,
        candidate: Candidate<'_, '_>,
        mut states: BTreeMap<Key, Bits>,
    ) -> Option<(BTreeMap<Key, Bits>, Bits)> {
        let rules = candidate.rung.rules.iter().enumerate();
        let rules: Vec<&Rule> =
            rules.filter(|(i, _)| !self.lift.has(Constraint::Rule(*i))).map(|(_, rule)| rule).collect();
        let mut unwanted = unwanted(self.topology, candidate.class);
        unwanted.retain(|rule| !self.lift.has(Constraint::Unwanted(rule.group())));
        for rule in rules.iter().copied().chain(&unwanted) {
            match self.topology.groups[rule.group()].key {
                None if !self.topology.holds_on_host(rule, candidate.place) => return None,
                None => {}
                Some(key) => {
                    let left = states.entry(key).or_insert_with(|| claim.states[key].clone());
                    left.keep(&self.topology.allowed(rule));
                    if left.is_empty() {
                        return None;
                    }
                }
            }
        }
        let is_new = claim.pods.is_empty() && !self.lift.has(Constraint::Domains);
        if is_new && self.topology.closes_hosts(claim.template) {
            return None;
        }
        let closed = self.topology.closed_domains(claim.template);
        for (key, domains) in closed.filter(|_| !self.lift.has(Constraint::Domains)) {
            let left = states.entry(key).or_insert_with(|| claim.states[key].clone());
            left.keep(domains);
            if left.is_empty() {
                return None;
            }
        }
        let certain = self.certain(claim, candidate, &states);
        [certain, Some(states)].into_iter().flatten().find_map(|states| {
            let open = self.keys_to_settle(claim, candidate, &rules, &states);
            self.choose(claim, candidate, &rules, &open, states)
        })
    }

    /// Labels narrowed so that every spread that selects the pod knows whether it counts. While that is open, a count is a
    /// guess, and guesses keep others out. `None` when nothing is open.
    fn certain(
        &self,
        claim: &Claim,
        candidate: Candidate<'_, '_>,
        states: &BTreeMap<Key, Bits>,
    ) -> Option<BTreeMap<Key, Bits>> {
        let mut certain = states.clone();
        for group in candidate.class.footprint.counted_in.iter().map(|group| &self.topology.groups[*group]) {
            let at = |key: Key| certain.get(&key).unwrap_or(&claim.states[key]);
            let narrowed = group.open_terms(claim.template, at).map(|masks| {
                let mut narrowed = certain.clone();
                for mask in masks {
                    narrowed.entry(mask.key).or_insert_with(|| claim.states[mask.key].clone()).keep(&mask.states);
                }
                narrowed
            });
            let sold = narrowed.into_iter().find(|states| !self.machines_for(claim, candidate, states).is_empty());
            certain = sold.unwrap_or(certain);
        }
        (certain != *states).then_some(certain)
    }

    /// Keys that some group counts this pod by and that are still open.
    fn keys_to_settle(
        &self,
        claim: &Claim,
        candidate: Candidate<'_, '_>,
        rules: &[&Rule],
        states: &BTreeMap<Key, Bits>,
    ) -> Vec<Key> {
        let footprint = &candidate.class.footprint;
        let groups =
            footprint.counted_in.iter().chain(&footprint.owns).copied().chain(rules.iter().map(|rule| rule.group()));
        let mut keys: Vec<Key> = groups.filter_map(|group| self.topology.groups[group].key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| states.get(key).unwrap_or(&claim.states[*key]).len() > 1);
        keys
    }

    /// Tries the domains of the open keys, best first, until some machine is left.
    fn choose(
        &self,
        claim: &Claim,
        candidate: Candidate<'_, '_>,
        rules: &[&Rule],
        open: &[Key],
        states: BTreeMap<Key, Bits>,
    ) -> Option<(BTreeMap<Key, Bits>, Bits)> {
        let machines = self.machines_for(claim, candidate, &states);
        if machines.is_empty() {
            return None;
        }
        let Some((key, rest)) = open.split_first() else { return Some((states, machines)) };
        let mut domains = self.domains(claim, *key, rules, &states, &machines);
        let count = domains.len().max(1);
        domains.rotate_left(candidate.turn % count);
        let candidate = Candidate { turn: candidate.turn / count, ..candidate };
        for state in domains {
            let mut settled = states.clone();
            settled.insert(*key, self.world.words.just(*key, state));
            if let Some(found) = self.choose(claim, candidate, rules, rest, settled) {
                return Some(found);
            }
        }
        None
    }

    /// The states that a label can still come to, the emptiest domain of the pod's own spread first. Among equals a pod that
    /// spreads takes the domain with the fewest ways to buy, and leaves the others to those who cannot use it; one that is
    /// only counted by others takes the one with the most, and keeps its machine open.
    fn domains(
        &self,
        claim: &Claim,
        key: Key,
        rules: &[&Rule],
        states: &BTreeMap<Key, Bits>,
        machines: &Bits,
    ) -> Vec<usize> {
        let at = |key: Key| states.get(&key).unwrap_or(&claim.states[key]);
        let shapes = self.world.machines.shapes_for(at);
        let mut left = at(key).clone();
        left.keep(&self.world.machines.states_of(key, machines));
        left.keep(&self.world.machines.states_on_sale(key, &shapes, &self.world.words));
        let spread = rules
            .iter()
            .find(|rule| matches!(rule, Rule::Spread { .. }) && self.topology.groups[rule.group()].key == Some(key));
        let count = |state: usize| spread.map_or(0, |rule| self.topology.count(rule.group(), state));
        // A value that nobody named cannot be asked for, and the label's absence only where nothing better is left.
        let mut domains: Vec<usize> = left.iter().filter(|state| *state != OTHER).collect();
        let ways = |state: usize| {
            let ways = i64::try_from(self.world.machines.ways_to_buy(key, state)).unwrap_or(i64::MAX);
            if spread.is_some() { ways } else { -ways }
        };
        domains.sort_by_key(|state| (*state == ABSENT, count(*state), ways(*state), *state));
        domains
    }

    /// Machines that are left for a claim with these labels and one more pod.
    fn machines_for(&self, claim: &Claim, candidate: Candidate<'_, '_>, states: &BTreeMap<Key, Bits>) -> Bits {
        let all = &self.world.machines;
        let at = |key: Key| states.get(&key).unwrap_or(&claim.states[key]);
        let mut machines = claim.machines.clone();
        for key in states.keys() {
            machines.keep(&all.with_states(*key, at(*key)));
        }
        if !self.lift.has(Constraint::Offerings) {
            machines.keep(&all.on_sale_in(&all.shapes_for(at)));
        }
        let mut machines = self.fitting(claim, candidate, &machines);
        let volumes = &candidate.class.pod.wants.volumes.attached;
        if !volumes.is_empty() && !self.lift.has(Constraint::Attachments) {
            let limits = |machine: usize| &all.all[machine].instance_type.attach_limits;
            machines.retain(|machine| first_overfull(&claim.attached, volumes, limits(machine)).is_none());
        }
        if !self.lift.has(Constraint::Limits) {
            self.limits.keep_affordable(self.world, claim, &mut machines);
        }
        if !self.lift.has(Constraint::MinValues) && !self.has_min_values(&claim.min_values, &machines) {
            return Bits::empty(all.all.len());
        }
        machines
    }

    /// Machines with room for the pods so far, one more, and the daemons that run there.
    fn fitting(&self, claim: &Claim, candidate: Candidate<'_, '_>, machines: &Bits) -> Bits {
        let mut result = Bits::empty(self.world.machines.all.len());
        for group in &self.world.templates[claim.template].daemons {
            if !self.lift.has(Constraint::Ports) && conflict(&candidate.class.pod.wants.ports, &group.ports) {
                continue;
            }
            let mut of_group = machines.clone();
            of_group.keep(&group.machines);
            let sums = claim.requests.iter().zip(&candidate.class.requests).zip(&group.requests).enumerate();
            let wanted: Vec<i64> = sums
                .map(|(axis, ((sum, pod), daemons))| match self.lift.has(Constraint::Resource(axis)) {
                    true => 0,
                    false => sum.saturating_add(*pod).saturating_add(*daemons),
                })
                .collect();
            self.world.machines.keep_fitting(&mut of_group, &wanted);
            result.add_all(&of_group);
        }
        result
    }

    pub(crate) fn has_min_values(&self, min_values: &[(Key, u32)], machines: &Bits) -> bool {
        min_values.iter().all(|(key, least)| self.values_of(*key, machines) >= *least)
    }

    /// How many different values of a key these machines have among them.
    pub(crate) fn values_of(&self, key: Key, machines: &Bits) -> u32 {
        let mut states = self.world.machines.states_of(key, machines);
        states.keep(&self.world.words.named(key));
        u32::try_from(states.len()).unwrap_or(u32::MAX)
    }

    fn narrowed_requirements(
        &self,
        claim: &Claim,
        rung: &Rung,
        place: &Requirements,
        states: &BTreeMap<Key, Bits>,
    ) -> Requirements {
        let mut requirements = claim.requirements.intersection(&rung.labels);
        requirements.add_all(place);
        for (key, states) in states.iter().filter(|(_, states)| states.len() == 1) {
            let value = states.iter().next().and_then(|state| self.world.words.value(*key, state));
            if let Some(value) = value {
                requirements.add(self.world.words.key_name(*key).clone(), Requirement::value(value.clone()));
            }
        }
        requirements
    }
}

/// Groups of distance whose owners do not want a pod of this class near.
pub(crate) fn unwanted(topology: &Topology, class: &Class<'_>) -> Vec<Rule> {
    let counted = class.footprint.counted_in.iter();
    counted.filter(|id| topology.groups[**id].is_far()).map(|id| Rule::Unwanted { group: *id }).collect()
}

pub(crate) fn conflict(wanted: &[HostPort], held: &[HostPort]) -> bool {
    wanted.iter().any(|port| held.iter().any(|other| port.conflicts_with(other)))
}
