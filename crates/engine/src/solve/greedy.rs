//! The first complete plan: most important pods first, each on the first place that takes it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use model::price::Price;
use model::snapshot::MinValuesPolicy;
use model::taints::first_untolerated;
use model::volume::first_overfull;

use super::bits::Bits;
use super::claims::{Candidate, Claim, Narrowing, Refusal, View, conflict};
use super::classes::{Class, classify};
use super::lift::{Constraint, Lift};
use super::limits::Limits;
use super::outlook::{Outlooks, Step, Stock};
use super::reserve::Reservations;
use super::topology::{Ground, Rule, Spot, Topology};
use super::world::World;

/// A plan in the making.
pub(crate) struct Greedy<'w, 'a> {
    pub(crate) world: &'w World<'a>,
    pub(crate) classes: Vec<Class<'a>>,
    pub(crate) class_of: Vec<usize>,
    pub(crate) topology: Topology,
    pub(crate) limits: Limits,
    reservations: Reservations,
    pub(crate) outlooks: RefCell<Outlooks>,
    /// Classes that wait for reserved machines.
    pub(crate) deferred: Vec<bool>,
    pub(crate) claims: Vec<Claim>,
    /// What is left on each claim's goal, all axes of a claim in a row.
    slack: Vec<i64>,
    /// What pods without a seat ask for together.
    demand: Vec<i64>,
    /// What is left on each site, and what its new pods brought.
    sites: Vec<Taken>,
    /// Where each pod went.
    pub(crate) seats: Vec<Option<Seat>>,
    /// Pods in the order in which they were seated.
    pub(crate) order: Vec<usize>,
    pub(crate) steps: u64,
    /// Pods that were looked at, whatever came of it.
    pub(crate) reached: Vec<bool>,
    /// Pods that lost their claim in the end, because it could not list enough values.
    pub(crate) shortfalls: Vec<Option<model::why::Obstacle>>,
    effort: u64,
    pub(crate) habits: Habits,
    memory: Vec<Vec<Memory>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    Site(usize),
    Claim(usize),
}

pub(crate) struct Taken {
    pub(crate) free: Vec<i64>,
    pub(crate) ports: Vec<model::pod::HostPort>,
    pub(crate) attached: model::volume::Attachments,
}

/// What a rung has learned: places that will never take it.
#[derive(Clone, Default)]
struct Memory {
    closed_sites: Bits,
    closed_claims: Bits,
}

/// What an attempt does otherwise than the first plan, by pod.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    /// How far it has moved up among its equals.
    pub(crate) boosts: Vec<u32>,
    /// How many places that would take it are passed over, if there are others.
    pub(crate) skips: Vec<usize>,
}

/// A pod, its class, and the rung on which it looks for a place.
#[derive(Clone, Copy)]
struct Bid {
    pod: usize,
    class: usize,
    rung: usize,
}

/// How far a claim may be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Goal,
    /// Up to the largest machine that it may become.
    Anything,
}

/// What became of a look at the pools.
enum Outcome {
    Seated,
    Refused,
    Deferred,
}

/// Why the work ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfEffort;

impl<'w, 'a> Greedy<'w, 'a> {
    pub(crate) fn new(world: &'w World<'a>, effort: u64) -> Self {
        let mut topology = Topology::new();
        let limits = Limits::new(world);
        let (classes, class_of) = classify(world, &limits, &mut topology);
        topology.count_standing(world);
        let sites = world.sites.iter();
        let sites = sites.map(|s| Taken { free: s.free.clone(), ports: s.ports.clone(), attached: s.attached.clone() });
        let fresh = Memory { closed_sites: Bits::empty(world.sites.len()), closed_claims: Bits::default() };
        Self {
            world,
            limits,
            reservations: Reservations::new(world),
            outlooks: RefCell::default(),
            slack: Vec::new(),
            demand: total(&classes, &class_of, world.machines.axes().len()),
            deferred: vec![false; classes.len()],
            memory: classes.iter().map(|class| vec![fresh.clone(); class.rungs.len()]).collect(),
            classes,
            class_of,
            topology,
            claims: Vec::new(),
            sites: sites.collect(),
            seats: vec![None; world.pods.len()],
            order: Vec::new(),
            steps: 0,
            reached: vec![false; world.pods.len()],
            shortfalls: vec![None; world.pods.len()],
            effort,
            habits: Habits { boosts: vec![0; world.pods.len()], skips: vec![0; world.pods.len()] },
        }
    }

    /// The same world once more, with so much effort and other habits.
    pub(crate) fn again(&self, effort: u64, habits: Habits) -> Self {
        Self { habits, ..Self::new(self.world, effort) }
    }

    /// Whether some pod without a seat has none because of other pods of the plan, not because of what it asks.
    /// Pods that wait for reserved machines get them in the next pass; nobody makes room for them by going elsewhere.
    pub(crate) fn has_hope(&self) -> bool {
        if self.deferred.contains(&true) {
            return false;
        }
        let mut looked: Vec<bool> = vec![false; self.classes.len()];
        (0..self.seats.len()).filter(|pod| self.seats[*pod].is_none()).any(|pod| {
            let class = self.class_of[pod];
            !std::mem::replace(&mut looked[class], true) && self.would_fit_alone(class)
        })
    }

    /// Whether a pod of this class would fit on some machine if it were the only one, whatever it wants of others.
    fn would_fit_alone(&self, number: usize) -> bool {
        let class = &self.classes[number];
        let last = class.least_demanding();
        let mut aside = vec![Constraint::Domains];
        aside.extend(class.unwanted.iter().map(|rule| Constraint::Unwanted(rule.group())));
        aside.extend((0..class.rungs[last].rules.len()).map(Constraint::Rule));
        let lift = Lift::of(&aside);
        let (view, candidate) = (self.view(&lift), self.candidate(number, last, self.claims.len()));
        let fits = |template: usize| {
            let claim = Claim::new(self.world, &self.outlooks, template, Stock::OnSale);
            claim.is_some_and(|claim| view.narrow(&claim, candidate).is_ok())
        };
        (0..self.world.templates.len()).any(fits)
            || self.world.sites.iter().any(|site| site.takes_pods && has_room(&site.free, &class.requests))
    }

    /// How many pods are seated, by priority, most important first.
    pub(crate) fn seated(&self) -> Vec<usize> {
        let mut levels: BTreeMap<std::cmp::Reverse<i32>, usize> = BTreeMap::new();
        for (pod, seat) in self.world.pods.iter().zip(&self.seats) {
            *levels.entry(std::cmp::Reverse(pod.priority)).or_default() += usize::from(seat.is_some());
        }
        levels.into_values().collect()
    }

    /// Seats pods, one level of priority after the other. Whoever is left is asked again with the next level, because the
    /// company that it waits for may be less important; but nobody less important is seated before it had its chance.
    pub(crate) fn run(&mut self, cancel: &AtomicBool) {
        let mut waiting: Vec<usize> = Vec::new();
        for level in self.queue().chunk_by(|a, b| self.world.pods[*a].priority == self.world.pods[*b].priority) {
            waiting.extend(level);
            match self.seat_all(waiting, cancel) {
                Ok(left) => waiting = left,
                Err(OutOfEffort) => return,
            }
        }
    }

    /// Seats pods until a whole round seats nobody more, and returns who is left.
    fn seat_all(&mut self, mut waiting: Vec<usize>, cancel: &AtomicBool) -> Result<Vec<usize>, OutOfEffort> {
        loop {
            let before = self.order.len();
            let left = self.seat_round(&waiting, cancel)?;
            if left.is_empty() || self.order.len() == before {
                return Ok(left);
            }
            waiting = left;
        }
    }

    fn seat_round(&mut self, waiting: &[usize], cancel: &AtomicBool) -> Result<Vec<usize>, OutOfEffort> {
        let mut failed: Vec<bool> = vec![false; self.classes.len()];
        let mut left = Vec::new();
        for pod in waiting {
            // Nobody who is exactly like one that found no place will find one, as long as nobody was seated since.
            let class = self.class_of[*pod];
            if !failed[class] && self.seat(*pod, cancel)? {
                failed.fill(false);
                continue;
            }
            self.reached[*pod] = true;
            failed[class] = true;
            left.push(*pod);
        }
        Ok(left)
    }

    /// Most important first, then those who found no place before, then largest, then oldest.
    fn queue(&self) -> Vec<usize> {
        let pods = &self.world.pods;
        let mut queue: Vec<usize> = (0..pods.len()).collect();
        queue.sort_by(|a, b| {
            let boosts = (self.habits.boosts[*a], self.habits.boosts[*b]);
            let (a, b) = (pods[*a], pods[*b]);
            let size = |pod: &model::pod::Pod| (pod.requests.cpu_milli, pod.requests.memory_bytes);
            (b.priority, boosts.1, size(b))
                .cmp(&(a.priority, boosts.0, size(a)))
                .then((a.created, &a.uid, &a.name).cmp(&(b.created, &b.uid, &b.name)))
        });
        queue
    }

    fn seat(&mut self, pod: usize, cancel: &AtomicBool) -> Result<bool, OutOfEffort> {
        if self.classes[self.class_of[pod]].pod.wants.has_resource_claims {
            return Ok(false);
        }
        let mut skips = self.habits.skips[pod];
        let is_choosy = skips > 0;
        Ok(self.seat_choosing(pod, &mut skips, cancel)? || (is_choosy && self.seat_choosing(pod, &mut 0, cancel)?))
    }

    /// Goes down the rungs, and on each through the places that are there, then to the pools.
    fn seat_choosing(&mut self, pod: usize, skips: &mut usize, cancel: &AtomicBool) -> Result<bool, OutOfEffort> {
        let class = self.class_of[pod];
        for rung in 0..self.classes[class].rungs.len() {
            let bid = Bid { pod, class, rung };
            if self.seat_on_site(bid, skips, cancel)? || self.seat_on_claim(bid, Bound::Goal, skips, cancel)? {
                return Ok(true);
            }
            match self.seat_on_new_claim(bid, *skips, cancel)? {
                Outcome::Seated => return Ok(true),
                Outcome::Refused if self.seat_on_claim(bid, Bound::Anything, skips, cancel)? => return Ok(true),
                Outcome::Refused => {}
                // Giving up a wish, or going to another pool, would waste what is reserved.
                Outcome::Deferred => {
                    self.deferred[class] = true;
                    return Ok(false);
                }
            }
        }
        Ok(false)
    }

    fn step(&mut self, cancel: &AtomicBool) -> Result<(), OutOfEffort> {
        if self.steps >= self.effort || cancel.load(Ordering::Relaxed) {
            return Err(OutOfEffort);
        }
        self.steps += 1;
        Ok(())
    }

    fn seat_on_site(&mut self, bid: Bid, skips: &mut usize, cancel: &AtomicBool) -> Result<bool, OutOfEffort> {
        let Bid { pod, class, rung } = bid;
        for site in 0..self.world.sites.len() {
            if self.memory[class][rung].closed_sites.contains(site) {
                continue;
            }
            self.step(cancel)?;
            match self.site_verdict(class, rung, site) {
                Ok(()) if *skips > 0 => *skips -= 1,
                Ok(()) => {
                    self.topology.rely(&self.classes[class].rungs[rung].rules);
                    self.take_site(pod, class, site);
                    return Ok(true);
                }
                Err(Refusal::Final) => self.memory[class][rung].closed_sites.insert(site),
                Err(_) => {}
            }
        }
        Ok(false)
    }

    fn site_verdict(&self, class: usize, rung: usize, number: usize) -> Result<(), Refusal> {
        let (class, site, taken) = (&self.classes[class], &self.world.sites[number], &self.sites[number]);
        let (rung, wants) = (&class.rungs[rung], &class.pod.wants);
        let suits =
            |masks: &[super::words::Mask]| masks.iter().all(|mask| site.states[mask.key].is_subset(&mask.states));
        let is_open = site.takes_pods
            && !site.is_overdrawn
            && has_room(&taken.free, &class.requests)
            && first_untolerated(&site.node.taints, &rung.tolerations).is_none()
            && !conflict(&wants.ports, &taken.ports)
            && suits(&rung.masks)
            && rung.places.iter().any(|place| suits(&place.masks))
            && first_overfull(&taken.attached, &wants.volumes.attached, &site.attach_limits).is_none();
        if !is_open {
            return Err(Refusal::Final);
        }
        let spot = Spot { place: number, ground: Ground::Site(number), states: &site.states };
        let holds = |rule: &Rule| self.topology.holds(rule, &spot);
        let holds = rung.rules.iter().chain(&class.unwanted).all(holds);
        if holds { Ok(()) } else { Err(Refusal::ForNow) }
    }

    fn take_site(&mut self, pod: usize, number: usize, site: usize) {
        let (class, taken) = (&self.classes[number], &mut self.sites[site]);
        for (free, wanted) in taken.free.iter_mut().zip(&class.requests) {
            *free = free.saturating_sub(*wanted);
        }
        taken.ports.extend(class.pod.wants.ports.iter().cloned());
        for (driver, volumes) in &class.pod.wants.volumes.attached {
            taken.attached.entry(driver.clone()).or_default().extend(volumes.iter().cloned());
        }
        let spot = Spot { place: site, ground: Ground::Site(site), states: &self.world.sites[site].states };
        self.topology.add(&class.footprint, &spot);
        self.seated_at(pod, number, Seat::Site(site));
    }

    fn seat_on_claim(
        &mut self,
        bid: Bid,
        bound: Bound,
        skips: &mut usize,
        cancel: &AtomicBool,
    ) -> Result<bool, OutOfEffort> {
        let Bid { class, rung, .. } = bid;
        let axes = self.world.machines.axes().len();
        self.memory[class][rung].closed_claims.grow(self.claims.len());
        for number in 0..self.claims.len() {
            let slack = &self.slack[number * axes..(number + 1) * axes];
            if bound == Bound::Goal && !has_room(slack, &self.classes[class].requests) {
                continue;
            }
            if self.memory[class][rung].closed_claims.contains(number) {
                continue;
            }
            self.step(cancel)?;
            let narrowing =
                self.view(&Lift::default()).narrow(&self.claims[number], self.candidate(class, rung, number));
            match narrowing {
                Ok(narrowing) if bound == Bound::Goal && !self.keeps_goal(number, &narrowing) => {}
                Ok(_) if *skips > 0 => *skips -= 1,
                Ok(narrowing) => {
                    self.join(bid, number, narrowing);
                    return Ok(true);
                }
                Err(Refusal::Final) => self.memory[class][rung].closed_claims.insert(number),
                Err(_) => {}
            }
        }
        Ok(false)
    }

    /// Whether the machine that a claim is filled for would still do.
    fn keeps_goal(&self, claim: usize, narrowing: &Narrowing) -> bool {
        let claim = &self.claims[claim];
        narrowing.outlook == claim.outlook
            || self.outlooks.borrow().get(narrowing.outlook).machines.contains(claim.goal)
    }

    /// Puts a pod on a claim that takes it.
    fn join(&mut self, bid: Bid, number: usize, narrowing: Narrowing) {
        let claim = &mut self.claims[number];
        if narrowing.outlook != claim.outlook {
            let outlooks = self.outlooks.borrow();
            let (before, after) = (outlooks.get(claim.outlook), outlooks.get(narrowing.outlook));
            let place = self.world.sites.len() + number;
            self.topology.reshape(place, claim.template, Some(&before.states), &after.states);
        }
        let held = claim.held.clone();
        claim.admit(bid.pod, &self.classes[bid.class], narrowing);
        self.reservations.exchange(&held, &claim.held);
        self.topology.rely(&self.classes[bid.class].rungs[bid.rung].rules);
        self.take_claim(bid.pod, bid.class, number);
    }

    /// Opens a claim in the first pool that can. Pools of equal weight are compared by price.
    fn seat_on_new_claim(&mut self, bid: Bid, turn: usize, cancel: &AtomicBool) -> Result<Outcome, OutOfEffort> {
        let Bid { pod, class, rung } = bid;
        let mut best: Option<(Price, Claim)> = None;
        let mut weight = None;
        // One turn in two goes to another pool, the rest to other domains.
        let (mut passes, turn) = (turn % 2, turn / 2);
        for template in 0..self.world.templates.len() {
            let own_weight = self.world.templates[template].pool.weight;
            if best.is_some() && weight != Some(own_weight) {
                break;
            }
            self.step(cancel)?;
            let claim = match self.open_claim(bid, template, turn) {
                Ok(_) if passes > 0 => {
                    passes -= 1;
                    continue;
                }
                Ok(claim) => claim,
                Err(Refusal::Reserved) if best.is_none() => return Ok(Outcome::Deferred),
                Err(_) => continue,
            };
            weight = Some(own_weight);
            let price = self.cheapest(&claim).map_or(Price::MAX, |step| step.price);
            if best.as_ref().is_none_or(|(least, _)| price < *least) {
                best = Some((price, claim));
            }
        }
        let Some((_, mut claim)) = best else { return Ok(Outcome::Refused) };
        let place = self.world.sites.len() + self.claims.len();
        let outlook = self.outlooks.borrow().get(claim.outlook).clone();
        self.topology.reshape(place, claim.template, None, &outlook.states);
        self.reservations.exchange(&BTreeSet::new(), &claim.held);
        claim.goal = self.goal(&claim);
        let axes = self.world.machines.axes().len();
        self.slack.extend_from_slice(self.world.templates[claim.template].room(claim.goal, axes));
        self.claims.push(claim);
        self.topology.rely(&self.classes[class].rungs[rung].rules);
        self.take_claim(pod, class, self.claims.len() - 1);
        Ok(Outcome::Seated)
    }

    fn open_claim(&self, bid: Bid, template: usize, turn: usize) -> Result<Claim, Refusal> {
        let claim = Claim::new(self.world, &self.outlooks, template, Stock::OnSale);
        let mut claim = claim.ok_or(Refusal::Final)?;
        let candidate = Candidate { turn, ..self.candidate(bid.class, bid.rung, self.claims.len()) };
        let refusal = match self.view(&Lift::default()).narrow(&claim, candidate) {
            Ok(narrowing) => {
                claim.admit(bid.pod, candidate.class, narrowing);
                return Ok(claim);
            }
            Err(refusal) => refusal,
        };
        if self.world.snapshot.policy.min_values != MinValuesPolicy::BestEffort || claim.min_values.is_empty() {
            return Err(refusal);
        }
        let relaxed = Lift::of(&[Constraint::MinValues]);
        let view = self.view(&relaxed);
        let narrowing = view.narrow(&claim, candidate)?;
        let machines = view.machines_for(&claim, Some(candidate), narrowing.outlook);
        for (key, least) in &mut claim.min_values {
            *least = (*least).min(view.values_of(*key, &machines));
        }
        claim.is_min_values_relaxed = true;
        claim.admit(bid.pod, candidate.class, narrowing);
        Ok(claim)
    }

    fn take_claim(&mut self, pod: usize, class: usize, number: usize) {
        if let Some(step) = self.cheapest(&self.claims[number]) {
            self.limits.charge(self.world, &mut self.claims[number], step.machine);
        }
        let requests = &self.classes[class].requests;
        let slack = &mut self.slack[number * requests.len()..(number + 1) * requests.len()];
        slack.iter_mut().zip(requests).for_each(|(slack, wanted)| *slack = slack.saturating_sub(*wanted));
        let outlook = self.outlooks.borrow().get(self.claims[number].outlook).clone();
        let ground = Ground::Template(self.claims[number].template);
        let spot = Spot { place: self.world.sites.len() + number, ground, states: &outlook.states };
        self.topology.add(&self.classes[class].footprint, &spot);
        self.seated_at(pod, class, Seat::Claim(number));
    }

    fn seated_at(&mut self, pod: usize, class: usize, seat: Seat) {
        self.seats[pod] = Some(seat);
        self.order.push(pod);
        let requests = &self.classes[class].requests;
        self.demand.iter_mut().zip(requests).for_each(|(demand, wanted)| *demand = demand.saturating_sub(*wanted));
    }

    /// The cheapest machine that a claim may become.
    pub(crate) fn cheapest(&self, claim: &Claim) -> Option<Step> {
        self.outlooks.borrow().get(claim.outlook).ladder.get(claim.step).copied()
    }

    /// The machine that a new claim is filled for.
    fn goal(&self, claim: &Claim) -> usize {
        let outlook = self.outlooks.borrow().get(claim.outlook).clone();
        outlook.ladder.last().map_or(0, |step| step.machine)
    }

    pub(crate) fn candidate(&self, number: usize, rung: usize, claim: usize) -> Candidate<'_, 'a> {
        let class = &self.classes[number];
        Candidate {
            class,
            rung: &class.rungs[rung],
            number: (number, rung),
            place: self.world.sites.len() + claim,
            turn: 0,
        }
    }

    pub(crate) fn taken(&self, site: usize) -> &Taken {
        &self.sites[site]
    }

    pub(crate) fn view<'v>(&'v self, lift: &'v Lift) -> View<'v, 'a> {
        View {
            world: self.world,
            topology: &self.topology,
            limits: &self.limits,
            reservations: &self.reservations,
            outlooks: &self.outlooks,
            lift,
        }
    }
}

/// Whether so much fits into what is left. Who asks for nothing fits even where less than nothing is left.
fn has_room(left: &[i64], wanted: &[i64]) -> bool {
    left.iter().zip(wanted).all(|(left, wanted)| *wanted <= 0 || wanted <= left)
}

/// What all pods ask for together.
fn total(classes: &[Class<'_>], class_of: &[usize], axes: usize) -> Vec<i64> {
    let mut sum = vec![0_i64; axes];
    for class in class_of {
        sum.iter_mut().zip(&classes[*class].requests).for_each(|(sum, wanted)| *sum = sum.saturating_add(*wanted));
    }
    sum
}
