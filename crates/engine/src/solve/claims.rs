//! Machines that the plan asks for, and whether a pod can join one.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use model::ids::{DriverName, ReservationId, VolumeId};
use model::pod::HostPort;
use model::taints::first_untolerated;
use model::volume::Attachments;

use super::bits::Bits;
use super::classes::{Class, Place, Rung};
use super::lift::{Constraint, Lift};
use super::limits::Limits;
use super::listing::{listed, unmet};
use super::outlook::{Domain, OutlookId, Outlooks, Stock};
use super::reserve::{AllHeld, Reservations};
use super::topology::{Rule, Topology, Weighed};
use super::words::{ABSENT, Key};
use super::world::{Template, World};

/// With more domains than this, those that no machine with room has are left out before they are tried.
const MANY_DOMAINS: usize = 16;

/// A machine to ask for, as far as its pods have narrowed it.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) template: usize,
    /// What its labels can still be.
    pub(crate) outlook: OutlookId,
    /// The cheapest machine that holds its pods, as a step of the outlook's ladder.
    pub(crate) step: usize,
    /// The machine that it is filled for; it may well become another.
    pub(crate) goal: usize,
    pub(crate) pods: Vec<usize>,
    /// What its pods asked of labels, each manner, rung and place once.
    pub(crate) asked: BTreeSet<Asked>,
    pub(crate) requests: Vec<i64>,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) attached: Attachments,
    /// How many different values of a key must stay open.
    pub(crate) min_values: Vec<(Key, u32)>,
    /// What the pool's limits are charged with, resource by resource.
    pub(crate) charged: Option<Vec<i64>>,
    /// Reservations that it may use.
    pub(crate) held: BTreeSet<ReservationId>,
}

/// A class that speaks for its manner, one of its rungs, and one of the rung's places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asked {
    pub(crate) class: usize,
    pub(crate) rung: usize,
    pub(crate) place: usize,
}

/// How a claim changes when a pod joins it.
pub(crate) struct Narrowing {
    pub(crate) outlook: OutlookId,
    pub(crate) step: usize,
    asked: Asked,
    pub(crate) held: BTreeSet<ReservationId>,
}

/// Everything that a look at a claim needs.
pub(crate) struct View<'v, 'a> {
    pub(crate) world: &'v World<'a>,
    pub(crate) topology: &'v Topology,
    pub(crate) limits: &'v Limits,
    pub(crate) reservations: &'v Reservations,
    pub(crate) outlooks: &'v RefCell<Outlooks>,
    pub(crate) lift: &'v Lift,
}

/// A pod of one class, on one rung, asking for a place of this number.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'c, 'a> {
    pub(crate) class: &'c Class<'a>,
    pub(crate) rung: &'c Rung,
    /// The numbers of both.
    pub(crate) number: (usize, usize),
    pub(crate) place: usize,
    /// How far down the list of domains to begin; the best comes first.
    pub(crate) turn: usize,
    /// Its rules as things stand, if somebody has weighed them.
    pub(crate) rules: Option<&'c [Weighed<'c>]>,
}

/// A refusal, and whether it can ever change: claims only get narrower, but counts of other pods grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Whatever the size of the pod.
    Final,
    /// A pod of this size will never fit.
    TooSmall,
    ForNow,
    /// It would fit, but for reserved machines that others of this plan hold.
    Reserved,
}

impl Claim {
    /// An empty claim of a template; `None` when nothing is on sale.
    pub(crate) fn new(world: &World<'_>, outlooks: &RefCell<Outlooks>, number: usize, stock: Stock) -> Option<Self> {
        let template: &Template<'_> = &world.templates[number];
        Some(Self {
            template: number,
            outlook: outlooks.borrow_mut().start(world, number, stock)?,
            step: 0,
            goal: 0,
            pods: Vec::new(),
            asked: BTreeSet::new(),
            requests: vec![0; world.machines.axes().len()],
            ports: Vec::new(),
            attached: Attachments::new(),
            min_values: template.min_values.clone(),
            charged: None,
            held: BTreeSet::new(),
        })
    }

    /// Takes a pod in.
    pub(crate) fn admit(&mut self, pod: usize, class: &Class<'_>, narrowing: Narrowing) {
        let wants = &class.pod.wants;
        self.pods.push(pod);
        for (sum, request) in self.requests.iter_mut().zip(&class.requests) {
            *sum = sum.saturating_add(*request);
        }
        self.outlook = narrowing.outlook;
        self.step = narrowing.step;
        self.asked.insert(narrowing.asked);
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
        let taints = &self.world.templates[claim.template].pool.template.taints;
        let rung = candidate.rung;
        if !self.lift.has(Constraint::Taints) && first_untolerated(taints, &rung.tolerations).is_some() {
            return Err(Refusal::Final);
        }
        let ports = &candidate.class.pod.wants.ports;
        if !self.lift.has(Constraint::Ports) && conflict(ports, &claim.ports) {
            return Err(Refusal::Final);
        }
        let mut refusal = Refusal::Final;
        for (number, place) in rung.places.iter().enumerate() {
            match self.narrow_at(claim, candidate, place) {
                Ok((outlook, step)) => {
                    let held = self.holdings(claim, candidate, outlook).map_err(|AllHeld| Refusal::Reserved)?;
                    // What is held decides what is listed.
                    if !held.is_empty() && !claim.min_values.is_empty() {
                        let machines = self.machines_for(claim, Some(candidate), outlook);
                        if !self.lists_enough(claim, Some(&held), outlook, &machines) {
                            continue;
                        }
                    }
                    let asked = Asked { class: candidate.class.spokesman, rung: candidate.number.1, place: number };
                    return Ok(Narrowing { outlook, step, asked, held });
                }
                Err(Refusal::Final) => {}
                Err(Refusal::TooSmall) if refusal != Refusal::Final => {}
                Err(other) => refusal = other,
            }
        }
        Err(refusal)
    }

    fn narrow_at(
        &self,
        claim: &Claim,
        candidate: Candidate<'_, '_>,
        place: &Place,
    ) -> Result<(OutlookId, usize), Refusal> {
        let labelled = self.labelled(claim, candidate, place).ok_or(Refusal::Final)?;
        // What cannot hold the pod whatever its neighbours do need not be asked about them.
        // Limits can ease: another claim may settle for a smaller machine.
        let lasting = if self.limits.may_bind(claim.template) { Refusal::ForNow } else { Refusal::TooSmall };
        let step = self.step(claim, candidate, labelled).ok_or(lasting)?;
        if !self.holds_on_host(candidate) {
            return Err(Refusal::ForNow);
        }
        if candidate.rung.keys.is_empty() && !self.topology.has_reliance() {
            return Ok((labelled, step));
        }
        self.settle(claim, candidate, labelled).ok_or(Refusal::ForNow)
    }

    /// What the pod's own demands leave of a claim's labels.
    fn labelled(&self, claim: &Claim, candidate: Candidate<'_, '_>, place: &Place) -> Option<OutlookId> {
        let mut outlooks = self.outlooks.borrow_mut();
        if self.lift.is_empty() {
            return outlooks.masked(self.world, claim.outlook, place.set, &place.all_masks);
        }
        let labels = candidate.rung.masks.iter().filter(|mask| !self.lift.has(Constraint::Label(mask.key)));
        let places = place.masks.iter().filter(|_| !self.lift.has(Constraint::Places));
        let stock = self.stock();
        labels.chain(places).try_fold(claim.outlook, |outlook, mask| {
            outlooks.restricted(self.world, stock, outlook, mask.key, &mask.states)
        })
    }

    fn stock(&self) -> Stock {
        if self.lift.has(Constraint::Offerings) { Stock::Any } else { Stock::OnSale }
    }

    fn restricted(&self, outlook: OutlookId, key: Key, allowed: &Bits) -> Option<OutlookId> {
        self.outlooks.borrow_mut().restricted(self.world, self.stock(), outlook, key, allowed)
    }

    /// The rules that bind the pod: its own, and those of pods that want it far away.
    fn rules<'s>(&'s self, candidate: Candidate<'s, '_>) -> impl Iterator<Item = &'s Rule> {
        let own = candidate.rung.rules.iter().enumerate();
        let own = own.filter(|(i, _)| !self.lift.has(Constraint::Rule(*i))).map(|(_, rule)| rule);
        let unwanted = candidate.class.unwanted.iter();
        own.chain(unwanted.filter(|rule| !self.lift.has(Constraint::Unwanted(rule.group()))))
    }

    /// Whether the rules about hosts let the pod in.
    fn holds_on_host(&self, candidate: Candidate<'_, '_>) -> bool {
        let on_hosts = |rule: &&Rule| self.topology.groups[rule.group()].key.is_none();
        match candidate.rules {
            Some(rules) => rules.iter().all(|rule| rule.holds_on_host(self.topology, candidate.place)),
            None => {
                let mut rules = self.rules(candidate).filter(on_hosts);
                rules.all(|rule| self.topology.holds_on_host(rule, candidate.place))
            }
        }
    }

    /// What the rules about labels leave.
    fn within_rules(&self, candidate: Candidate<'_, '_>, outlook: OutlookId) -> Option<OutlookId> {
        let Some(rules) = candidate.rules else {
            let keyed = |rule| Some((self.topology.groups[Rule::group(rule)].key?, rule));
            let mut keyed = self.rules(candidate).filter_map(keyed);
            return keyed
                .try_fold(outlook, |outlook, (key, rule)| self.restricted(outlook, key, &self.topology.allowed(rule)));
        };
        rules.iter().try_fold(outlook, |outlook, rule| match rule {
            Weighed::Host { .. } => Some(outlook),
            Weighed::Label { key, allowed, .. } => self.restricted(outlook, *key, allowed),
        })
    }

    /// Applies the rules about other pods. A label that they count by must be settled, so the best domain is taken.
    fn settle(
        &self,
        claim: &Claim,
        candidate: Candidate<'_, '_>,
        mut outlook: OutlookId,
    ) -> Option<(OutlookId, usize)> {
        outlook = self.within_rules(candidate, outlook)?;
        if !self.lift.has(Constraint::Domains) {
            if claim.pods.is_empty() && self.topology.closes_hosts(claim.template) {
                return None;
            }
            for (key, domains) in self.topology.closed_domains(claim.template) {
                outlook = self.restricted(outlook, key, domains)?;
            }
        }
        let certain = self.certain(claim, candidate, outlook);
        if let Some(found) = certain.and_then(|certain| self.choose(claim, candidate, certain)) {
            return Some(found);
        }
        self.choose(claim, candidate, outlook)
    }

    /// Labels narrowed so that every spread that selects the pod knows whether it counts. While that is open, a count is a
    /// guess, and guesses keep others out. `None` when nothing is open.
    fn certain(&self, claim: &Claim, candidate: Candidate<'_, '_>, outlook: OutlookId) -> Option<OutlookId> {
        let mut certain = outlook;
        for group in candidate.class.choosy.iter().map(|group| &self.topology.groups[*group]) {
            let before = self.outlooks.borrow().get(certain).clone();
            let mut narrowed = group.open_terms(claim.template, |key| &before.states[key]).filter_map(|masks| {
                masks.iter().try_fold(certain, |outlook, mask| self.restricted(outlook, mask.key, &mask.states))
            });
            let sold = narrowed.find(|outlook| self.step(claim, candidate, *outlook).is_some());
            certain = sold.unwrap_or(certain);
        }
        (certain != outlook).then_some(certain)
    }

    /// Tries the domains of the open keys, best first, until some machine is left.
    fn choose(&self, claim: &Claim, candidate: Candidate<'_, '_>, outlook: OutlookId) -> Option<(OutlookId, usize)> {
        let step = self.step(claim, candidate, outlook)?;
        let open = {
            let states = &self.outlooks.borrow().get(outlook).clone().states;
            candidate.rung.keys.iter().copied().find(|key| states[*key].len() > 1)
        };
        let Some(key) = open else { return Some((outlook, step)) };
        let mut domains = self.domains(claim, candidate, key, outlook);
        let count = domains.len().max(1);
        domains.rotate_left(candidate.turn % count);
        let candidate = Candidate { turn: candidate.turn / count, ..candidate };
        domains.into_iter().find_map(|state| {
            let settled = self.restricted(outlook, key, &self.world.words.just(key, state))?;
            self.choose(claim, candidate, settled)
        })
    }

    /// The states that a label can still come to, the emptiest domain of the pod's own spread first. Among equals a pod that
    /// spreads takes the domain with the fewest ways to buy, and leaves the others to those who cannot use it; one that is
    /// only counted by others takes the one with the most, and keeps its machine open.
    fn domains(&self, claim: &Claim, candidate: Candidate<'_, '_>, key: Key, outlook: OutlookId) -> Vec<usize> {
        let known = self.outlooks.borrow_mut().domains(self.world, outlook, key);
        // Trying a domain that no machine with room has is cheap, as long as there are few.
        let reached = (known.len() > MANY_DOMAINS).then(|| {
            let machines = self.machines_for(claim, Some(candidate), outlook);
            self.world.machines.states_of(key, &machines)
        });
        let is_reached = |domain: &&Domain| reached.as_ref().is_none_or(|reached| reached.contains(domain.state));
        let spread = self
            .rules(candidate)
            .find(|rule| matches!(rule, Rule::Spread { .. }) && self.topology.groups[rule.group()].key == Some(key));
        let order = |domain: &Domain| {
            let count = spread.map_or(0, |rule| self.topology.count(rule.group(), domain.state));
            let ways = if spread.is_some() { domain.ways } else { -domain.ways };
            (domain.state == ABSENT, count, ways, domain.state)
        };
        let mut domains: Vec<_> = known.iter().filter(is_reached).map(order).collect();
        domains.sort_unstable();
        domains.into_iter().map(|(.., state)| state).collect()
    }

    /// The cheapest machine for a claim with these labels and one more pod, as a step of the ladder.
    fn step(&self, claim: &Claim, candidate: Candidate<'_, '_>, outlook: OutlookId) -> Option<usize> {
        if self.needs_sets(claim, candidate) {
            let machines = self.machines_for(claim, Some(candidate), outlook);
            let outlook = self.outlooks.borrow().get(outlook).clone();
            let step = outlook.ladder.iter().position(|step| machines.contains(step.machine));
            return step.or_else(|| (!machines.is_empty()).then_some(0));
        }
        // Claims only grow, so nothing below the step that they stand on can hold them.
        let from = if outlook == claim.outlook { claim.step } else { 0 };
        let template = &self.world.templates[claim.template];
        let outlooks = self.outlooks.borrow();
        let ladder = &outlooks.get(outlook).ladder;
        let fits = |machine: usize| {
            let room = template.room(machine, claim.requests.len());
            let wanted = claim.requests.iter().zip(&candidate.class.requests);
            wanted.zip(room).all(|((sum, pod), room)| {
                let wanted = sum.saturating_add(*pod);
                wanted <= 0 || wanted <= *room
            })
        };
        (from..ladder.len()).find(|step| fits(ladder[*step].machine))
    }

    /// Whether more than amounts decides which machines will do.
    fn needs_sets(&self, claim: &Claim, candidate: Candidate<'_, '_>) -> bool {
        let wants = &candidate.class.pod.wants;
        !self.lift.is_empty()
            || !claim.min_values.is_empty()
            || !wants.volumes.attached.is_empty()
            || !claim.attached.is_empty()
            || !wants.ports.is_empty()
            || !claim.ports.is_empty()
            || self.limits.may_bind(claim.template)
    }

    /// Machines that are left for a claim with these labels, and one more pod if there is one.
    pub(crate) fn machines_for(&self, claim: &Claim, candidate: Option<Candidate<'_, '_>>, outlook: OutlookId) -> Bits {
        let all = &self.world.machines.all;
        let mut machines = self.fitting(claim, candidate, &self.outlooks.borrow().get(outlook).machines);
        if !self.lift.has(Constraint::Attachments) {
            let limits = |machine: usize| &all[machine].instance_type.attach_limits;
            for (driver, volumes) in attached(claim, candidate) {
                machines
                    .retain(|machine| limits(machine).get(driver).is_none_or(|most| volumes.len() <= *most as usize));
            }
        }
        if !self.lift.has(Constraint::Limits) {
            self.limits.keep_affordable(self.world, claim.template, claim.charged.as_deref(), &mut machines);
        }
        if !self.lists_enough(claim, None, outlook, &machines) {
            return Bits::empty(all.len());
        }
        machines
    }

    /// Machines with room for the pods so far, one more, and the daemons that run there.
    fn fitting(&self, claim: &Claim, candidate: Option<Candidate<'_, '_>>, machines: &Bits) -> Bits {
        let template = &self.world.templates[claim.template];
        let mut wanted = claim.requests.clone();
        let mut ports = claim.ports.clone();
        if let Some(candidate) = candidate {
            let pod = candidate.class.requests.iter();
            wanted.iter_mut().zip(pod).for_each(|(sum, pod)| *sum = sum.saturating_add(*pod));
            ports.extend(candidate.class.pod.wants.ports.iter().cloned());
        }
        let is_asked = |(axis, wanted): &(usize, &i64)| **wanted > 0 && !self.lift.has(Constraint::Resource(*axis));
        let mut fitting = Bits::empty_like(machines);
        for group in &template.daemons {
            let mut of_group = machines.clone();
            of_group.keep(&group.machines);
            for (axis, wanted) in wanted.iter().enumerate().filter(is_asked) {
                match self.world.machines.sizes(axis) {
                    Some(sizes) => of_group.keep(sizes.holding(wanted.saturating_add(group.requests[axis]))),
                    None => of_group.keep_where_at_least(*wanted, template.column(axis)),
                }
            }
            fitting.add_all(&of_group);
        }
        if !ports.is_empty() && !self.lift.has(Constraint::Ports) {
            let taken = template.daemons.iter().filter(|group| conflict(&ports, &group.ports));
            taken.for_each(|group| fitting.retain(|machine| !group.machines.contains(machine)));
        }
        fitting
    }

    fn holdings(
        &self,
        claim: &Claim,
        candidate: Candidate<'_, '_>,
        outlook: OutlookId,
    ) -> Result<BTreeSet<ReservationId>, AllHeld> {
        if self.reservations.is_empty() {
            return Ok(BTreeSet::new());
        }
        let machines = self.machines_for(claim, Some(candidate), outlook);
        let outlook = self.outlooks.borrow().get(outlook).clone();
        self.reservations.holdings(&self.world.machines, &claim.held, &machines, &outlook.shapes)
    }

    /// Whether what a claim would list meets its minimum numbers of values. Where it is open what it holds of reservations,
    /// everything on sale counts.
    fn lists_enough(
        &self,
        claim: &Claim,
        held: Option<&BTreeSet<ReservationId>>,
        outlook: OutlookId,
        machines: &Bits,
    ) -> bool {
        claim.min_values.is_empty()
            || self.lift.has(Constraint::MinValues)
            || unmet(self.world, &claim.min_values, &self.listed(held, outlook, machines)).is_none()
    }

    /// What a claim would list of these machines.
    pub(crate) fn listed(&self, held: Option<&BTreeSet<ReservationId>>, outlook: OutlookId, machines: &Bits) -> Bits {
        // What is not on sale is listed nowhere; only reasons look at it.
        if self.lift.has(Constraint::Offerings) {
            return machines.clone();
        }
        let outlook = self.outlooks.borrow().get(outlook).clone();
        listed(self.world, held, &outlook.states, machines).into_iter().collect()
    }
}

/// The volumes that a claim attaches, with those of one more pod if there is one.
fn attached<'c>(
    claim: &'c Claim,
    candidate: Option<Candidate<'c, '_>>,
) -> BTreeMap<&'c DriverName, BTreeSet<&'c VolumeId>> {
    let mut attached: BTreeMap<&DriverName, BTreeSet<&VolumeId>> = BTreeMap::new();
    let more = candidate.map(|candidate| &candidate.class.pod.wants.volumes.attached);
    for (driver, volumes) in claim.attached.iter().chain(more.into_iter().flatten()) {
        attached.entry(driver).or_default().extend(volumes);
    }
    attached
}

pub(crate) fn conflict(wanted: &[HostPort], held: &[HostPort]) -> bool {
    wanted.iter().any(|port| held.iter().any(|other| port.conflicts_with(other)))
}
